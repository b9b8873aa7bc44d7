"""What a learner is: it collects decisions with the network as it is, and updates the network from them.

A stage of training repeats ``update(collect(step), step)``. The two halves are those of Tianshou (Weng et al., JMLR 23,
2022): :class:`OnPolicy` learns from what the present network has just done, once; :class:`OffPolicy` puts it into a
replay buffer and learns from samples of that. A new learner is one class in one file, and an entry in
:data:`dagsched.learn.stages.ALGORITHMS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch

from dagsched.learn.buffer import ReplayBuffer
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.learner import Learner
from dagsched.learn.training_instances import TrainingInstances

Collected = TypeVar("Collected")
"""What an algorithm hands from ``collect`` to ``update``: its own affair."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingStep:
    """What one step of a stage is given. It holds all the randomness that the step may use.

    Attributes:
        first: number of the first of its training instances within the stage; ``runners[k]`` has ``first + k``.
        runners: its training instances; no other step of the stage has any of them.
        rng: a generator of this step alone, from which first ``collect`` draws and then ``update``. So a run that is
            resumed draws what one that never stopped would have drawn.
        progress: share of the stage's steps that lie behind, in [0, 1]; schedules run over it.
    """

    first: int
    runners: Sequence[EpisodeRunner]
    rng: np.random.Generator
    progress: float


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a step did.

    Attributes:
        scalars: TensorBoard tags and values.
        decisions: simulated decisions.
    """

    scalars: dict[str, float]
    decisions: int


class Algorithm(Protocol[Collected]):
    """How the steps of a stage improve a network."""

    def collect(self, step: TrainingStep) -> Collected:
        """Simulate the step's instances with the network as it is, and keep what :meth:`update` needs of it.

        The network is not changed.
        """
        ...

    def update(self, collected: Collected, step: TrainingStep) -> StepReport:
        """Change the network by gradient steps, and say what happened in the whole step."""
        ...

    def temperature(self, progress: float) -> float:
        """By which logits are divided where validation shows the sampled policy beside the greedy one."""
        ...

    def state(self) -> dict[str, Any]:
        """What has to be saved between two steps so that :meth:`load_state` can go on; the weights are saved apart.

        Numbers, texts, tensors, and lists and mappings of them: the file is read without running anything.
        """
        ...

    def load_state(self, state: Mapping[str, Any], instances: TrainingInstances) -> None:
        """Go on from a saved state.

        Args:
            state: what :meth:`state` gave.
            instances: of the stage, to draw again those that the state names by number.
        """
        ...


class GradientAlgorithm(ABC, Generic[Collected]):
    """What algorithms share that change the network by Adam.

    Args:
        learner: the network.
        learning_rate: of Adam at the first step.
    """

    def __init__(self, learner: Learner, learning_rate: float) -> None:
        self.learner, self.optimiser = learner, adam(learner, learning_rate)

    @abstractmethod
    def collect(self, step: TrainingStep) -> Collected:
        """See :class:`Algorithm`."""

    @abstractmethod
    def update(self, collected: Collected, step: TrainingStep) -> StepReport:
        """See :class:`Algorithm`."""

    def temperature(self, progress: float) -> float:  # noqa: ARG002
        """See :class:`Algorithm`."""
        return 1.0


class OnPolicy(GradientAlgorithm[Collected]):
    """An algorithm that keeps nothing of a step: its state is that of its optimiser."""

    def state(self) -> dict[str, Any]:
        """See :class:`Algorithm`."""
        return self.optimiser.state_dict()

    def load_state(self, state: Mapping[str, Any], instances: TrainingInstances) -> None:  # noqa: ARG002
        """See :class:`Algorithm`."""
        self.optimiser.load_state_dict(dict(state))


class OffPolicy(GradientAlgorithm[Collected]):
    """An algorithm that learns from decisions of earlier steps, too: its state is its optimiser's and its buffer's.

    Args:
        learner: the network.
        learning_rate: of Adam at the first step.
        buffer: where :meth:`collect` adds runs and from which :meth:`update` samples decisions.
    """

    def __init__(self, learner: Learner, learning_rate: float, buffer: ReplayBuffer) -> None:
        super().__init__(learner, learning_rate)
        self.buffer = buffer

    def state(self) -> dict[str, Any]:
        """See :class:`Algorithm`."""
        return {"optimiser": self.optimiser.state_dict(), "buffer": self.buffer.state()}

    def load_state(self, state: Mapping[str, Any], instances: TrainingInstances) -> None:
        """See :class:`Algorithm`."""
        self.optimiser.load_state_dict(dict(state["optimiser"]))
        self.buffer.load_state(state["buffer"], instances.replay)


def take_step(algorithm: Algorithm[Any], step: TrainingStep) -> StepReport:
    """Collect, then update."""
    return algorithm.update(algorithm.collect(step), step)


def adam(learner: Learner, learning_rate: float) -> torch.optim.Adam:
    """The optimiser of every stage."""
    return torch.optim.Adam(learner.model.parameters(), learning_rate, eps=1e-5)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of all groups."""
    for group in optimiser.param_groups:
        group["lr"] = rate
