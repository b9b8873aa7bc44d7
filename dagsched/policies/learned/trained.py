"""``evolved`` and ``ppo``: trained priorities and networks as policies; their samplers of whole schedules.

A checkpoint is chosen when a replay begins, by what can be observed of it (``docs/learning.md``). Deciding is
compiled; graphs are embedded once, as a replay begins, without torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dagsched.cost import cost_function
from dagsched.errors import CheckpointError, ConfigError, PolicyError
from dagsched.features import kernel as features
from dagsched.features.builder import Constants, build_constants
from dagsched.objective import OBJECTIVES
from dagsched.policies.base import PlainRun, Plan, Run
from dagsched.policies.info import PolicyInfo
from dagsched.policies.learned import learned_kernel
from dagsched.policies.learned.learned_kernel import Head, new_linear
from dagsched.policies.runners import PlanPolicy, drive
from dagsched.policies.sampling.sampler import (
    RULES,
    SamplingOptions,
    SerialSampler,
    check_plannable,
    is_pooled,
    objective_value,
    plan_from_starts,
    read_scales,
)
from dagsched.policies.spec_options import option_int
from dagsched.replay import Replay
from dagsched.shipped import shipped
from dagsched.simulator import kernel
from dagsched.simulator.kernel import Problem
from dagsched.simulator.state import with_area_below
from dagsched.simulator.stepper import MANY, Simulator
from dagsched.workflow import FloatArray, IntArray

if TYPE_CHECKING:
    from dagsched.models.checkpoint import Checkpoint

DEFAULT = "checkpoints/default"
OPTIONS: Mapping[str, str] = {
    "checkpoint": "folder of a trained policy or an index of several (auto: the shipped ones)",
    "objective": "makespan, flow_time or slo (auto: makespan for a batch, slo with deadlines, else flow_time)",
}
SAMPLE_OPTIONS: Mapping[str, str] = {
    **OPTIONS,
    "n": "whole schedules; the first is the greedy one (256)",
    "sgs": "parallel: the policy under noise; mixed: every other schedule by serial generation from the rule that "
    "learning started from, one pooled node only (parallel)",
    "scales": "ladder of noise scales as shares of the priority's spread, taken in turn (0.01,0.02,0.05,0.1)",
    "seed": "random seed (0)",
}
_LOGIT_SPREAD = 4.0
_SEED_DOMAIN = 0x4C534D50


class LinearRunner:
    """Drives one simulator with a linear priority; everything is allocated once and reset for each run."""

    def __init__(
        self,
        simulator: Simulator,
        weights: FloatArray | None = None,
        *,
        noise: bool = False,
        problem: Problem | None = None,
        constants: Constants | None = None,
    ) -> None:
        self.simulator = simulator
        self.problem = with_area_below(simulator.problem, simulator.replay) if problem is None else problem
        self.constants = build_constants(simulator.replay, self.problem) if constants is None else constants
        self.tracker = features.new_tracker(self.problem)
        self.linear = new_linear(self.constants, noise=noise)
        if weights is not None:
            self.set_weights(weights)

    def set_weights(self, weights: FloatArray) -> None:
        """Use the priority of raw weights ``[F]``."""
        self.linear.weights[:] = weights
        learned_kernel.project(self.constants, self.linear)

    def reset(self) -> None:
        """Back before the first arrival."""
        self.simulator.reset()
        features.reset_tracker(self.tracker)

    def step(self, most: int) -> int:
        """Take at most so many decisions; returns the kernel's status."""
        sim = self.simulator
        return int(
            learned_kernel.run_by_linear(
                self.problem, sim.state, sim.truth, self.constants, self.tracker, self.linear, most
            )
        )

    def run(self, most: int = MANY) -> None:
        """Go on until the end or for so many decisions."""
        drive(self.simulator, most, self.step, {kernel.GROW: self.simulator.grow})

    def run_each(self, weights: FloatArray) -> FloatArray:
        """``[P, T]`` finish times (s) of a whole run with each of the raw weights ``[P, F]``."""
        sim = self.simulator
        finish = np.full((len(weights), len(sim.replay)), np.nan)
        done = 0
        while done < len(weights):
            done = learned_kernel.run_each_linear(
                self.problem, sim.state, sim.truth, self.constants, self.tracker, self.linear, weights, finish, done
            )
            if done < len(weights):
                sim.grow()
        if np.isnan(finish).any():
            raise AssertionError("the replay cannot go on; please report this as a bug of dagsched")
        return finish


class NetworkRunner(LinearRunner):
    """Drives one simulator with the residual network on a linear priority, greedily."""

    def __init__(
        self,
        simulator: Simulator,
        weights: FloatArray,
        head: Head,
        embed: Any,
        *,
        noise: bool = False,
        problem: Problem | None = None,
        constants: Constants | None = None,
    ) -> None:
        super().__init__(simulator, weights, problem=problem, constants=constants)
        self.head = head
        embedding = None if embed is None else embed(simulator.replay, self.constants)
        self.scratch = learned_kernel.new_scratch(
            self.problem, head, embedding, noise=len(simulator.replay) if noise else 0
        )
        self.record = learned_kernel.new_record(head, len(simulator.replay.cluster.groups), 1, 1)

    def reset(self) -> None:
        """Back before the first arrival."""
        super().reset()
        learned_kernel.reset_scratch(self.scratch)

    def step(self, most: int) -> int:
        """Take at most so many decisions; returns the kernel's status."""
        sim = self.simulator
        status = learned_kernel.run_by_network(
            self.problem, sim.state, sim.truth, self.constants, self.tracker, self.linear, self.head, self.scratch,
            self.record, most,
        )  # fmt: skip
        sim.truncated = int(self.scratch.counter[learned_kernel.CUT])
        return int(status)

    def logits(self) -> tuple[IntArray, FloatArray]:
        """(candidates, their logits) at the present decision."""
        sim, scratch = self.simulator, self.scratch
        count = learned_kernel.evaluate_logits(
            self.problem, sim.state, self.constants, self.tracker, self.linear, self.head, scratch
        )
        return scratch.eligible[scratch.candidate[:count]].copy(), scratch.logit[:count].copy()


@dataclass(frozen=True, slots=True)
class LearnedOptions:
    """Which checkpoint: ``kind`` is ``evolved`` or ``ppo``."""

    spec: str
    kind: str
    checkpoint: str = "auto"
    objective: str = "auto"

    @classmethod
    def parse(cls, spec: str, kind: str, options: Mapping[str, str]) -> LearnedOptions:
        """Read the options of a spec.

        Raises:
            PolicyError: for an objective that does not exist.
        """
        objective = options.get("objective", "auto")
        if objective not in ("auto", *OBJECTIVES):
            raise PolicyError(f"policy {spec!r}: objective is {objective!r}, expected auto, {', '.join(OBJECTIVES)}")
        return cls(spec, kind, options.get("checkpoint", "auto"), objective)

    @property
    def folder(self) -> Path:
        """Where the checkpoint or the index lies."""
        return checkpoint_folder(self.checkpoint)

    def objective_of(self, replay: Replay) -> str:
        """The one asked for, or the replay's."""
        return replay.objective if self.objective == "auto" else self.objective

    def check_named(self, replay: Replay) -> None:
        """Whoever names a checkpoint wants it used; only the shipped ones may fit nothing.

        Raises:
            PolicyError: see :meth:`load`.
        """
        if self.checkpoint != "auto":
            self.load(replay)

    def load(self, replay: Replay) -> Checkpoint:
        """The checkpoint for this replay.

        Raises:
            PolicyError: if there is none for it, or it cannot be read.
        """
        try:
            checkpoint = resolve(self.folder, replay, self.objective_of(replay), self.kind)
        except CheckpointError as error:
            raise PolicyError(f"policy {self.spec!r}: {error}") from None
        if self.kind == "ppo" and checkpoint.network is None:
            raise PolicyError(f"policy {self.spec!r}: the checkpoint holds an evolved priority alone; use evolved")
        return checkpoint


def checkpoint_folder(checkpoint: str) -> Path:
    """The folder that an option ``checkpoint`` means; ``auto`` = the shipped index."""
    if checkpoint != "auto":
        return Path(checkpoint)
    try:
        return shipped(DEFAULT)
    except ConfigError:  # none ships: reading it says so
        return Path(DEFAULT)


def fingerprint(checkpoint: str) -> str:
    """SHA-256 over the files of a checkpoint, or of an index and all it names; of nothing if there is none."""
    from dagsched.models.index import INDEX, read_index

    folder = checkpoint_folder(checkpoint)
    paths = ["."]
    if (folder / INDEX).is_file():
        with contextlib.suppress(CheckpointError):  # reading it for use says what is wrong with it
            paths += [entry.path for entry in read_index(folder).checkpoints]
    return _digest([folder / INDEX, *(folder / path / name for path in paths for name in _files())])


def _digest(files: Sequence[Path]) -> str:
    """SHA-256 over the content of those of the files that exist."""
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(str(len(data := file.read_bytes())).encode() + b"\0" + data)
        digest.update(b"\0")
    return digest.hexdigest()


def _files() -> tuple[str, ...]:
    from dagsched.models.checkpoint import FILES

    return FILES


def resolve(folder: Path, replay: Replay, objective: str, policy: str) -> Checkpoint:
    """The checkpoint in a folder, or the one its index names for this replay, objective and policy.

    Raises:
        CheckpointError: see :mod:`dagsched.models.checkpoint`.
    """
    from dagsched.models.index import choose

    path = choose(folder, replay, objective, policy)
    return _load(str(path), _digest([path / name for name in _files()]))


@lru_cache(maxsize=16)
def _load(path: str, digest: str) -> Checkpoint:  # noqa: ARG001 - one that changed is read again
    from dagsched.models.checkpoint import load_checkpoint

    return load_checkpoint(path)


def make_runner(
    simulator: Simulator, checkpoint: Checkpoint, kind: str, *, noise: bool = False, problem: Problem | None = None
) -> LinearRunner:
    """What drives a simulator with a checkpoint: its priority alone (``evolved``) or its network (``ppo``).

    ``problem``: the simulator's with the area below filled, if the caller has it already.
    """
    if kind == "evolved" or checkpoint.network is None:
        return LinearRunner(simulator, checkpoint.base, noise=noise, problem=problem)
    head, embed = compiled(checkpoint)
    return NetworkRunner(simulator, checkpoint.base, head, embed, noise=noise, problem=problem)


@lru_cache(maxsize=8)
def compiled(checkpoint: Checkpoint) -> tuple[Head, Any]:
    """(head, embedding function or None) of a network; neither needs torch."""
    from dagsched.nn.export import head_arrays
    from dagsched.nn.inference import embedder

    assert checkpoint.network is not None
    head = Head(**head_arrays(checkpoint.tensors, checkpoint.network, checkpoint.normaliser))
    if checkpoint.network.encoder == "none":
        return head, None
    return head, embedder(checkpoint.tensors, checkpoint.network, checkpoint.normaliser)


@dataclass(frozen=True, slots=True)
class LearnedPolicy:
    """The eligible task of largest learned priority (``evolved``) or logit (``ppo``)."""

    name: str
    options: LearnedOptions
    reproducible: bool = True

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        checkpoint = self.options.load(simulator.replay)
        return PlainRun(make_runner(simulator, checkpoint, self.options.kind).run)


def make_learned(kind: str) -> Any:
    """The factory of ``evolved`` or ``ppo`` for the registry."""

    def make(spec: str, options: Mapping[str, str]) -> LearnedPolicy:
        return LearnedPolicy(spec, LearnedOptions.parse(spec, kind, options))

    return make


def make_sampler(kind: str) -> Any:
    """The factory of ``evolved-sample`` or ``ppo-sample`` for the registry."""

    def make(spec: str, options: Mapping[str, str]) -> PlanPolicy:
        chosen = LearnedOptions.parse(spec, kind, options)
        n, seed = option_int(spec, options, "n", 256, 1), option_int(spec, options, "seed", 0)
        scales = read_scales(spec, options.get("scales"))
        sgs = options.get("sgs", "parallel")
        if sgs not in ("parallel", "mixed"):
            raise PolicyError(f"policy {spec!r}: sgs is {sgs!r}, expected parallel or mixed")
        return PlanPolicy(spec, partial(_sample_planner, chosen, n, scales, seed, sgs == "mixed"))

    return make


def _sample_planner(
    options: LearnedOptions,
    n: int,
    scales: tuple[float, ...],
    seed: int,
    mixed: bool,
    replay: Replay,
    policy_seed: int,
) -> SamplePlanner:
    return SamplePlanner(options, n, scales, (seed, policy_seed), replay, mixed=mixed)


class SamplePlanner:
    """Best of many whole schedules of a learned policy under Gumbel noise on its scores, one draw a task.

    Sample 0 is the greedy schedule; with ``mixed`` every other sample is a serial generation from the keys of the rule
    that learning started from, as in the untrained sampler. Noise has the scales in turn, each kind of sample by
    itself, times the spread of the scores met in sample 0 (of a network: 4 factors of its standardised priority).
    Everything runs on estimates.
    The plan is followed without the idle time of any WAIT, which can only help; ``max_wait`` may overrule it.
    """

    def __init__(
        self,
        options: LearnedOptions,
        n: int,
        scales: tuple[float, ...],
        seeds: tuple[int, int],
        replay: Replay,
        *,
        mixed: bool = False,
    ) -> None:
        check_plannable(options.spec, replay)
        if mixed and not is_pooled(replay):
            raise PolicyError(
                f"policy {options.spec!r}: sgs=mixed needs one pooled node, tasks of one instance each and decisions "
                f"at any time; use sgs=parallel here"
            )
        self._mixed = mixed
        self._options, self._n, self._scales, self._seeds, self._replay = options, n, scales, seeds, replay

    def plan_arrivals(self, workflows: IntArray, now: float) -> Plan:  # noqa: ARG002
        """The plan of the whole batch; everything arrives at the first call."""
        return self.best()[1]

    def best(self) -> tuple[float, Plan]:
        """(cost on the estimates, plan) of the best schedule; seconds, or the SLO cost that training uses."""
        replay = self._replay
        checkpoint = self._options.load(replay)
        simulator = Simulator(replay, policy_seed=self._seeds[1])
        simulator.truth = replay.estimate
        runner = make_runner(simulator, checkpoint, self._options.kind, noise=True)
        noise = runner.scratch.noise if isinstance(runner, NetworkRunner) else runner.linear.noise
        stream = np.random.default_rng(np.random.SeedSequence(self._seeds, spawn_key=(_SEED_DOMAIN,)))
        objective = "makespan" if self._options.objective == "auto" else self._options.objective
        best, plan = math.inf, None
        spread = 0.0
        serial = None
        if self._mixed:
            rule = str(checkpoint.card.get("start"))
            serial = SerialSampler(replay, rule if rule in RULES else SamplingOptions().rule, self._seeds)
        for k in range(self._n):
            scale = self._scales[(k // 2 if self._mixed else k) % len(self._scales)]
            if serial is not None and k % 2:
                start, finish = serial.draw(scale)
                value = _value(replay, finish, objective)
                if value < best:
                    best, plan = value, plan_from_starts(replay, start)
                continue
            if k:
                noise[:] = scale * spread * stream.gumbel(size=len(replay))
            runner.reset()
            runner.run()
            if k == 0:
                spread = _spread(runner)
            value = _value(replay, simulator.state.task["finish"], objective)
            if value < best:
                schedule = simulator.schedule("sample")
                best, plan = value, Plan(schedule.task, schedule.node, schedule.count, schedule.start)
        assert plan is not None
        return best, plan


def _spread(runner: LinearRunner) -> float:
    """Of the scores of a finished run; a network without a base priority counts as one of factor 1."""
    if isinstance(runner, NetworkRunner):
        return _LOGIT_SPREAD * (float(runner.head.setting[learned_kernel.SHARPNESS]) or 1.0)
    low, high = runner.linear.spread
    return max(float(high - low), 0.0)  # minus infinity where there never was a choice


def _value(replay: Replay, finish: FloatArray, objective: str) -> float:
    if objective == "slo":
        return cost_function(replay, "slo")(finish)
    return objective_value(replay, finish, objective)


POLICIES = (
    PolicyInfo(
        "evolved",
        "linear priority tuned by an evolution strategy, from a checkpoint",
        "learned",
        make_learned("evolved"),
        OPTIONS,
        placed=True,
    ),
    PolicyInfo(
        "ppo",
        "the evolved priority plus a network trained by PPO, from a checkpoint",
        "learned",
        make_learned("ppo"),
        OPTIONS,
        placed=True,
    ),
    PolicyInfo(
        "evolved-sample",
        "best of n whole schedules of `evolved` with Gumbel noise (batch, no noise)",
        "learned",
        make_sampler("evolved"),
        SAMPLE_OPTIONS,
    ),
    PolicyInfo(
        "ppo-sample",
        "best of n whole schedules of `ppo` with Gumbel noise (batch, no noise)",
        "learned",
        make_sampler("ppo"),
        SAMPLE_OPTIONS,
    ),
)
