"""A network with what it needs to act: base priority, normaliser, graphs; and its greedy and sampled runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dagsched.features.builder import Normaliser
from dagsched.learn.rollout import NetworkEpisodeRunner, Trajectory, collect, evaluate, head_of
from dagsched.models.checkpoint import Checkpoint, Kind
from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import Batch, make_batch
from dagsched.nn.config import NetworkConfig
from dagsched.nn.encoder import Graph, graph_of
from dagsched.nn.export import tensors_of, to_head
from dagsched.policies.learned.learned_kernel import Head
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.workflow import FloatArray

KEPT_GRAPHS = 1024
"""Encoder inputs kept ready."""


class Learner:
    """One network in training.

    Args:
        config: its shape.
        base: ``[F]`` raw weights of the base priority.
        normaliser: of its inputs.
        seed: of the initial weights.
        device: where torch computes; simulations always run on the CPU.
        threads: compiled simulations at a time.
    """

    def __init__(
        self,
        config: NetworkConfig,
        base: FloatArray,
        normaliser: Normaliser,
        *,
        seed: int = 0,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        torch.manual_seed(seed)
        self.config, self.base, self.normaliser = config, base, normaliser
        self.device, self.threads = device, threads
        self.model = ActorCritic(config).to(device)
        self._graphs: OrderedDict[int, tuple[Replay, Graph]] = OrderedDict()

    @staticmethod
    def seeds(rng: np.random.Generator, runners: int, rollouts: int) -> list[list[int]]:
        """Seeds ``[runners][rollouts]`` for :meth:`sample`."""
        drawn: list[list[int]] = rng.integers(1, 2**62, (runners, rollouts)).tolist()
        return drawn

    def greedy(self, runners: Sequence[NetworkEpisodeRunner]) -> FloatArray:
        """``[runners]`` cost of the most probable actions."""
        self._remember(runners)
        return evaluate(runners, self.base, self._head(), self._embed, threads=self.threads)

    def sample(
        self,
        runners: Sequence[NetworkEpisodeRunner],
        seeds: Sequence[Sequence[int]],
        *,
        temperature: float,
        record: bool = True,
    ) -> list[list[Trajectory]]:
        """For each runner one sampled run per seed; the same seed gives the same run."""
        self._remember(runners)
        return collect(
            runners, self.base, self._head(), self._embed, seeds=seeds, temperature=temperature, record=record,
            threads=self.threads,
        )  # fmt: skip

    def values(self, g: Any, q: Any) -> FloatArray:
        """``[D]`` what the critic says; it reads the state's features ``[D, G]`` and ``[D, groups, Q]`` alone."""
        with torch.no_grad():
            found = self.model.value(torch.from_numpy(g).to(self.device), torch.from_numpy(q).to(self.device))
        return np.asarray(found.cpu().numpy(), np.float64)

    def schedule(self, runner: NetworkEpisodeRunner, name: str = "ppo") -> Schedule:
        """The greedy schedule of one runner."""
        self.prepare([runner])
        runner.run()
        return runner.inner.simulator.schedule(name)

    def batch(self, trajectories: Sequence[Any]) -> Batch:
        """Demonstration decisions as tensors on the device."""
        return make_batch(trajectories, self.graph if self.model.encoder is not None else None).to(self.device)

    def graph(self, replay: Replay) -> Graph:
        """The encoder's input of a replay, kept for the next time."""
        found = self._graphs.get(id(replay))
        if found is None:
            found = self._keep(replay, graph_of(replay, self.normaliser))
        return found[1]

    def tensors(self) -> dict[str, Any]:
        """Copies of the weights as NumPy arrays."""
        return tensors_of(self.model)

    def load(self, tensors: Mapping[str, Any]) -> None:
        """Take over saved weights."""
        self.model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in tensors.items()})

    def checkpoint(self, objective: str, card: Mapping[str, Any], kind: Kind = "ppo") -> Checkpoint:
        """The present weights as a checkpoint."""
        return Checkpoint(kind, objective, self.base.copy(), self.normaliser, self.config, self.tensors(), dict(card))

    def _head(self) -> Head:
        return head_of(to_head(self.model, self.normaliser))

    @property
    def _embed(self) -> Any:
        return None if self.model.encoder is None else self._embedding

    def _embedding(self, replay: Replay) -> Any:
        graph = self.graph(replay).to(self.device)
        with torch.no_grad():
            fixed, pooled = self.model.embed(graph.x, graph.edges)
        return fixed.cpu().numpy(), pooled.cpu().numpy()

    def prepare(self, runners: Sequence[NetworkEpisodeRunner]) -> None:
        """Hand the present weights to runners."""
        self._remember(runners)
        head = self._head()
        for runner in runners:
            runner.set_policy(self.base, head, self._embed)

    def _remember(self, runners: Sequence[NetworkEpisodeRunner]) -> None:
        """Graphs of runners are built from the constants these already hold."""
        if self.model.encoder is None:
            return
        for runner in runners:
            replay = runner.inner.replay
            if id(replay) not in self._graphs:
                self._keep(replay, graph_of(replay, self.normaliser, runner.inner.constants))

    def _keep(self, replay: Replay, graph: Graph) -> tuple[Replay, Graph]:
        self._graphs[id(replay)] = replay, graph
        while len(self._graphs) > KEPT_GRAPHS:
            self._graphs.popitem(last=False)
        return replay, graph
