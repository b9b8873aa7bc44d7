"""Base policies of the planner: what simulations start from, and what the planner must beat.

A base runs the scratch of a :class:`Desk` from the root to the end, as the policy itself would go on from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from dagsched.cost import TARDINESS
from dagsched.errors import PolicyError
from dagsched.features import kernel as features
from dagsched.policies import learned_kernel
from dagsched.policies.alike import alike_by_score
from dagsched.policies.learned import LearnedOptions, LinearRunner, NetworkRunner, make_runner
from dagsched.policies.runners import PriorityPolicy, ScorePolicy, new_buckets
from dagsched.search import rollout
from dagsched.search.options import FALLBACK
from dagsched.search.rollout import Log, Noise, View, new_view
from dagsched.simulator import kernel
from dagsched.simulator.kernel import Problem, State
from dagsched.simulator.simulator import MANY, Simulator
from dagsched.simulator.state import new_state, read_only, with_area_below
from dagsched.workflow import FloatArray, IntArray

LADDER = ((0.02, 0.0), (0.1, 0.0), (0.0, 0.2), (0.05, 0.1), (0.3, 0.0), (0.0, 0.5))
"""Noise for tasks and for whole workflows, as shares of the range of keys."""
REACH = ((2.0, 0.0), (3.0, 0.0), (0.0, 2.0), (2.0, 1.0), (6.0, 0.0), (0.0, 4.0))
"""Places in the order that the same noise spans at least, where the keys are so few that a share of them is none."""
RACED = ("lft", "critical-path", "lst", "cp+demand+work", "srw*cp")
"""Rules that may be the base of a race for the makespan."""
UNKNOWN_SIGMA = 0.3
KINDS = {"makespan": rollout.MAKESPAN, "flow_time": rollout.FLOW_TIME, "slo": rollout.SLO}


class Desk:
    """Everything that simulations of one replay work on: the observable problem, root, scratch, keys and logs."""

    def __init__(self, simulator: Simulator, objective: str) -> None:
        self.simulator, self.objective = simulator, objective
        self.whole = with_area_below(simulator.problem, simulator.replay)
        self.problem = self.whole
        tasks, workflows = len(self.whole.task), len(self.whole.workflow)
        self.view: View = new_view(self.whole, len(simulator.state.alloc))
        self.view.kind[0] = KINDS[objective]
        self.root, self.scratch = self._blank(), self._blank()
        self.buckets = new_buckets(self.whole, np.zeros(tasks))
        self.noise = Noise(
            key=np.zeros(tasks),
            shift=np.zeros(workflows),
            random=np.zeros(1, np.uint64),
            ladder=np.array(LADDER),
            reach=np.array(REACH),
            spacing=np.zeros(1),
        )
        self.log = self._new_log()
        self.truth = read_only(simulator.replay.estimate)
        self.arrived = 0
        paths = np.maximum.reduceat(self.whole.task["bottom"], self.whole.workflow_ptr[:-1])
        self._path = np.cumsum(paths) / np.arange(1, workflows + 1)  # mean critical path of what has arrived, s

    def _blank(self) -> State:
        state = self.simulator.state
        blank = new_state(self.whole, len(state.alloc), len(state.decision))
        kernel.reset(self.whole, blank)
        return blank

    def _new_log(self) -> Log:
        room = len(self.scratch.decision)
        return Log(np.zeros(room), np.zeros(room, np.int64))

    def take_root(self) -> bool:
        """Copy the present state; returns whether workflows have arrived since the last time."""
        state = self.simulator.state
        arrived = int(state.counter[kernel.ARRIVED])
        new = arrived != self.arrived
        if new:
            self._admit(arrived)
        if len(self.view.live) < len(state.alloc):
            self.grow()
        while rollout.take_root(self.problem, state, self.root, self.scratch, self.view) == kernel.GROW:
            self.grow()
        return new

    def _admit(self, arrived: int) -> None:
        replay = self.simulator.replay
        self.problem = self.whole._replace(workflow=self.whole.workflow[:arrived])
        first = self.arrived
        self.view.weight[first:arrived] = replay.weight[first:arrived]
        self.view.deadline[first:arrived] = replay.deadline[first:arrived]
        self.view.amount[rollout.PER_LATE] = 1.0
        self.view.amount[rollout.PER_TARDY] = TARDINESS / max(self.mean_path(arrived), 1e-9)
        self.arrived = arrived

    def mean_path(self, arrived: int) -> float:
        """Mean critical path of the first so many workflows, by estimates, s."""
        return float(self._path[arrived - 1])

    def grow(self) -> None:
        """Double the room of every log, which keep what they hold; the root must be taken again."""
        room = 2 * max(len(self.scratch.alloc), len(self.simulator.state.alloc))
        decisions = max(2 * room, len(self.scratch.decision))
        self.root, self.scratch = (new_state(self.whole, room, decisions) for _ in range(2))
        for state in (self.root, self.scratch):
            kernel.reset(self.whole, state)
        self.view = self.view._replace(live=np.zeros(room, np.int64))
        old, self.log = self.log, self._new_log()
        self.log.time[: len(old.time)], self.log.task[: len(old.task)] = old.time, old.task

    def regrow(self) -> None:
        """More room for logs, and the root again."""
        self.grow()
        self.take_root()

    def restart(self) -> None:
        """Put the scratch back to the root."""
        rollout.restore_scratch(self.problem, self.root, self.scratch, self.view)

    def open(self) -> IntArray:
        """Unfinished tasks of arrived workflows."""
        return np.asarray(self.view.open[: self.view.counter[rollout.OPEN]])

    def taken(self) -> tuple[FloatArray, IntArray]:
        """(seconds, tasks) of the decisions logged last, copied."""
        count = int(self.view.counter[rollout.LOGGED])
        return self.log.time[:count].copy(), self.log.task[:count].copy()


class Base(Protocol):
    """A policy that can go on from where the scratch is."""

    name: str

    def roll(self, desk: Desk, most: int = MANY) -> int:
        """Run the scratch to its end, or for so many decisions; returns the kernel's status."""
        ...

    def pick(self, desk: Desk, legal: IntArray) -> int:
        """What the policy does now, with these tasks eligible: one of them, or WAIT."""
        ...


class KeyBase:
    """A rule with a fixed priority."""

    def __init__(self, name: str, key: FloatArray) -> None:
        self.name, self.key = name, key

    def roll(self, desk: Desk, most: int = MANY) -> int:
        """See :class:`Base`."""
        desk.buckets.key[:] = self.key
        return int(rollout.run_keys(desk.problem, desk.scratch, desk.buckets, desk.truth, most))

    def pick(self, desk: Desk, legal: IntArray) -> int:
        """See :class:`Base`."""
        return int(legal[np.lexsort((desk.whole.task["tie"][legal], -self.key[legal]))[0]])


class ScoreBase:
    """A rule whose scores change."""

    def __init__(self, name: str, policy: ScorePolicy, problem: Problem, place: IntArray) -> None:
        self.name, self.rule, self.shortness = name, policy.rule, policy.shortness
        self._alike = alike_by_score(problem, policy.rule, place)

    def roll(self, desk: Desk, most: int = MANY) -> int:
        """See :class:`Base`."""
        kernel.regroup(desk.scratch, self._alike)
        return int(
            kernel.run_by_score(desk.problem, desk.scratch, desk.truth, self._alike, self.rule, self.shortness, most)
        )

    def pick(self, desk: Desk, legal: IntArray) -> int:  # noqa: ARG002
        """See :class:`Base`."""
        return first_rolled(self, desk)


class LearnedBase:
    """A trained priority, or a network on it."""

    def __init__(self, name: str, runner: LinearRunner) -> None:
        self.name, self.runner = name, runner
        self._copy = features.new_tracker(runner.problem)

    def roll(self, desk: Desk, most: int = MANY) -> int:
        """See :class:`Base`."""
        problem, runner, tracker = desk.problem, self.runner, self._copy
        features.catch_up(problem, desk.simulator.state, runner.constants, runner.tracker)
        for old, new in zip(runner.tracker, tracker, strict=True):
            np.copyto(new, old)
        tracker.counter[features.SEEN_DECISIONS] = 0
        if not isinstance(runner, NetworkRunner):
            return int(
                learned_kernel.run_by_linear(
                    problem, desk.scratch, desk.truth, runner.constants, tracker, runner.linear, most
                )
            )
        learned_kernel.reset_scratch(runner.scratch)
        return int(
            learned_kernel.run_by_network(
                problem, desk.scratch, desk.truth, runner.constants, tracker, runner.linear, runner.head,
                runner.scratch, runner.record, most,
            )
        )  # fmt: skip

    def pick(self, desk: Desk, legal: IntArray) -> int:  # noqa: ARG002
        """See :class:`Base`."""
        runner = self.runner
        if isinstance(runner, NetworkRunner):
            return first_rolled(self, desk)
        state = desk.simulator.state
        return int(learned_kernel.pick_linear(desk.problem, state, runner.constants, runner.tracker, runner.linear))


def roll_whole(base: Base, desk: Desk, most: int = MANY) -> None:
    """Run a base policy from the root in the scratch, with as much room for logs as it takes."""
    desk.restart()
    while base.roll(desk, most) == kernel.GROW:
        desk.regrow()
        desk.restart()


def first_rolled(base: Base, desk: Desk) -> int:
    """The first decision of a base policy that is run from the root."""
    roll_whole(base, desk, 1)
    return int(desk.scratch.decision["task"][0])


def make_base(desk: Desk, spec: str, prior: str, learned_options: Mapping[str, str], *, learning: bool) -> Base:
    """The base policy that ``prior`` names.

    ``auto`` = ``evolved`` where a checkpoint fits, else a rule.

    Raises:
        PolicyError: if the named one does not exist or does not fit.
    """
    if prior == "auto" and not learning:
        prior = FALLBACK[desk.objective]
    if prior in ("auto", "evolved", "ppo"):
        if not learning:
            raise PolicyError(f"policy {spec!r}: mcts-rules uses no trained policy; choose a rule as prior")
        try:
            return _learned(desk, spec, "evolved" if prior == "auto" else prior, learned_options)
        except PolicyError:
            if prior != "auto":
                raise
            prior = FALLBACK[desk.objective]
    return rule_base(desk, spec, prior)


def rival_bases(desk: Desk, spec: str, learned_options: Mapping[str, str], *, learning: bool) -> list[Base]:
    """What may be the base of a race for the makespan if none is named: ``evolved`` if a checkpoint fits, and rules."""
    rivals: list[Base] = []
    if learning:
        with contextlib.suppress(PolicyError):  # no checkpoint fits
            rivals.append(_learned(desk, spec, "evolved", learned_options))
    return [*rivals, *(rule_base(desk, spec, rule) for rule in RACED)]


def _learned(desk: Desk, spec: str, kind: str, learned_options: Mapping[str, str]) -> LearnedBase:
    options = LearnedOptions.parse(spec, kind, {**learned_options, "objective": desk.objective})
    checkpoint = options.load(desk.simulator.replay)
    return LearnedBase(kind, make_runner(desk.simulator, checkpoint, kind, problem=desk.whole))


def rule_base(desk: Desk, spec: str, rule: str) -> Base:
    """A rule as a base: one with a fixed priority or a changing score.

    Raises:
        PolicyError: for anything else.
    """
    from dagsched.policies.registry import make_policy

    try:
        policy = make_policy(rule)
    except PolicyError as error:
        raise PolicyError(f"policy {spec!r}: prior is {rule!r}: {error}") from None
    replay, problem = desk.simulator.replay, desk.whole
    if isinstance(policy, PriorityPolicy) and policy.key is not None:
        return KeyBase(rule, policy.key(replay, problem))
    if isinstance(policy, ScorePolicy):
        return ScoreBase(rule, policy, problem, replay.place)
    raise PolicyError(f"policy {spec!r}: prior is {rule!r}, expected ppo, evolved or a rule with a priority or a score")
