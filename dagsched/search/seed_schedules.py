"""Rolls out the policies that a plan contains, once and on the estimates: search starts there and is never worse.

A rolled-out schedule is kept as a plan and *followed* once more, since that is how a plan is used. Following keeps the
order on every node and starts nothing later, as a rule; but a starvation guard, or instances that start one by one
between tasks of no duration, can upset it. Such a plan is marked: the policy itself must then be run instead.

Under a time limit cheap policies come first. The first one always completes; the others are cut, or left out, when the
time is over or they are bound to take longer than what is left of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dagsched.errors import PolicyError
from dagsched.policies.base import Plan, Policy, Run
from dagsched.policies.info import parse_spec
from dagsched.policies.registry import list_policies, make_policy
from dagsched.policies.runners import (
    BookingPolicy,
    Planner,
    PlanPolicy,
    PriorityPolicy,
    RandomPolicy,
    ScorePolicy,
)
from dagsched.policies.sampling.sampler import check_plannable, objective_value
from dagsched.policies.static.listing import ListPlanner
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.search.allowance import Allowance, OutOfTimeError
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray, IntArray

MOST_UNITS, MOST_PAIRS = 600, 20_000
"""Task instances, and instances x nodes, up to which Min-Min, Max-Min and Sufferage are rolled out by default: booking
every ready task again and again takes seconds on wide batches, and no part of it can be cut."""
BOOKING = ("min-min", "max-min", "sufferage")
LEARNED = ("evolved", "ppo")
LISTS = ("heft", "cpop", "peft")
MANY_CLASSES, MANY_INSTANCES = 500, 5
"""Different demands, and instances a task, from which on a list scheduler is cheaper than a priority rule."""
DESCENDANT_SECONDS = 2e-9
"""About what counting distinct descendants takes, for each squared task of a workflow."""
COUNTS_DESCENDANTS = ("mts", "cp+demand+work", *LEARNED)


@dataclass(frozen=True, slots=True, eq=False)
class SeedSchedule:
    """A schedule known before search.

    Attributes:
        value: objective in seconds on the estimates, of the policy's own run or of following its plan if that is less.
        plan: one entry for each allocation.
        source: the spec it came from.
        order: ``[T]`` tasks in order of start, parents before children; milestones included.
        start: ``[T]`` seconds of the first allocation, of a milestone its finish.
        group: ``[T]`` node group of each task's first allocation, -1 for milestones.
        followable: whether following the plan gives this value; if not, only running ``source`` does.
    """

    value: float
    plan: Plan
    source: str
    start: FloatArray
    order: IntArray
    group: IntArray
    followable: bool = True


def contained_specs(replay: Replay, *, learning: bool = True) -> list[str]:
    """The rules and list schedulers rolled out by default, and with ``learning`` the trained ones (some may not fit).

    ``random`` is none of them; the booking rules only up to ``MOST_UNITS`` task instances and ``MOST_PAIRS`` instances
    x nodes.
    """
    units = int(replay.instances[~replay.milestone].sum())
    small = units <= MOST_UNITS and units * replay.cluster.node_count <= MOST_PAIRS
    fixed = [info.name for info in list_policies() if info.kind in ("rule", "list") and info.name != "random"]
    rules = [name for name in fixed if small or name not in BOOKING]
    return [*rules, *(LEARNED if learning else ())]


@dataclass(frozen=True, slots=True, eq=False)
class Rolled:
    """What came of rolling out policies.

    Attributes:
        incumbents: in the order of the specs.
        left_out: specs for which the time did not suffice.
        ended: simulators at the end, by spec, of the incumbents of least value: of following the plan or, where it
            is not followable, of the policy itself.
        insertion_seconds: what planning all tasks by insertion took; infinite if that was not done.
        following_seconds: what following a plan takes, at most.
    """

    incumbents: tuple[SeedSchedule, ...]
    left_out: tuple[str, ...]
    ended: Mapping[str, Simulator]
    insertion_seconds: float
    following_seconds: float

    def with_more(self, other: Rolled, specs: Sequence[str]) -> Rolled:
        """With those that were left out here and rolled out later; in the order of ``specs``."""
        found = {incumbent.source: incumbent for incumbent in (*self.incumbents, *other.incumbents)}
        incumbents = tuple(found[spec] for spec in specs if spec in found)
        least = best_of(incumbents).value
        ended = {spec: end for spec, end in {**self.ended, **other.ended}.items() if found[spec].value == least}
        seconds = min(self.insertion_seconds, other.insertion_seconds)
        following = max(self.following_seconds, other.following_seconds)
        return Rolled(incumbents, other.left_out, ended, seconds, following)


def roll_out(
    replay: Replay,
    specs: Sequence[str] | None = None,
    *,
    objective: str = "makespan",
    policy_seed: int = 0,
    learned_options: Mapping[str, str] = MappingProxyType({}),
    learning: bool = True,
) -> list[SeedSchedule]:
    """Every policy's schedule of a batch, in the order of ``specs``.

    Args:
        replay: a batch with exact estimates.
        specs: by default :func:`contained_specs`; learned policies that nothing fits are then left out.
        objective: ``makespan`` or ``flow_time``.
        policy_seed: as in a run of the policies themselves.
        learned_options: ``objective`` and ``checkpoint`` of learned policies that name none.
        learning: whether trained policies are among the default ones.

    Raises:
        PolicyError: for a replay that cannot be planned, or a named policy that cannot handle it.
    """
    check_plannable("plan", replay)
    chosen = contained_specs(replay, learning=learning) if specs is None else list(dict.fromkeys(specs))
    optional = LEARNED if specs is None else ()
    roller = Roller(replay, objective, policy_seed, learned_options)
    return list(roller.roll_all(chosen, Allowance(), optional).incumbents)


class Roller:
    """Rolls out policies on one replay, within an allowance.

    Args:
        replay: a batch with exact estimates.
        objective: ``makespan`` or ``flow_time``.
        policy_seed: as in a run of the policies themselves.
        learned_options: ``objective`` and ``checkpoint`` of learned policies that name none.
    """

    def __init__(self, replay: Replay, objective: str, policy_seed: int, learned_options: Mapping[str, str]) -> None:
        self._replay, self._objective, self._policy_seed = replay, objective, policy_seed
        self._learned_options = learned_options
        self._insertion, self._following = np.inf, 0.0
        self._planned: list[Plan] = []

    def roll_all(
        self, specs: Sequence[str], allowance: Allowance, optional: Sequence[str] = (), *, first: bool = True
    ) -> Rolled:
        """Roll out all of these as long as the allowance lasts, the ``first`` one whatever it takes.

        Args:
            specs: at least one.
            allowance: a Ctrl-C before the first policy has run ends everything by ``KeyboardInterrupt``.
            optional: names of policies that may refuse the replay.
            first: False where another one has run before.

        Raises:
            PolicyError: for a policy that refuses the replay and is not optional.
        """
        found: dict[str, SeedSchedule] = {}
        ended: dict[str, Simulator] = {}
        left_out = []
        for spec in self._cheap_first(specs):
            is_first = first and not found
            if not is_first and not allowance.affords(self._least_seconds(spec)):
                left_out.append(spec)
                continue
            try:
                incumbent, simulator = self._roll(spec, allowance, first=is_first)
            except OutOfTimeError:
                left_out.append(spec)
                continue
            except PolicyError:
                if parse_spec(spec)[0] not in optional:
                    raise
                continue
            least = min((other.value for other in found.values()), default=np.inf)
            if incumbent.value < least:
                ended.clear()
            if incumbent.value <= least:
                ended[spec] = simulator
            found[spec] = incumbent
        return Rolled(
            incumbents=tuple(found[spec] for spec in specs if spec in found),
            left_out=tuple(spec for spec in specs if spec in left_out),
            ended=ended,
            insertion_seconds=self._insertion,
            following_seconds=self._following,
        )

    def _cheap_first(self, specs: Sequence[str]) -> list[str]:
        replay = self._replay
        classes = len(np.unique(replay.demand, axis=0))
        single = int(replay.instances.sum()) < MANY_INSTANCES * len(replay)
        lists_first = classes >= MANY_CLASSES or not single

        def cost(spec: str) -> int:
            name = parse_spec(spec)[0]
            if name in LISTS:
                return 0 if lists_first else 2
            return _cost(name, make_policy(spec, learned_options=self._learned_options))

        return sorted(specs, key=cost)  # stable

    def _least_seconds(self, spec: str) -> float:
        """What a policy needs before its first decision, of what cannot be cut."""
        if parse_spec(spec)[0] not in COUNTS_DESCENDANTS or not len(self._replay.parent_idx):
            return 0.0
        return DESCENDANT_SECONDS * float((np.diff(self._replay.workflow_ptr).astype(np.float64) ** 2).sum())

    def _roll(self, spec: str, allowance: Allowance, *, first: bool) -> tuple[SeedSchedule, Simulator]:
        """One policy's schedule; of it and what following its plan gives the better one.

        The first may take as long as it needs, but is not followed after that.
        """
        replay, objective = self._replay, self._objective
        simulator = _simulator(replay, self._policy_seed)
        running = Allowance(pressed=allowance.pressed) if first else allowance
        try:
            _run(self._begin(spec, simulator, running), simulator, running)
        except OutOfTimeError:
            if first:
                raise KeyboardInterrupt from None
            raise
        plan = plan_of(simulator.schedule(spec))
        start, finish = simulator.state.task["start"], simulator.state.task["finish"]
        value, followable = objective_value(replay, finish, objective), False
        try:
            began = time.monotonic()
            if not first or not allowance.is_over():
                again = followed(replay, plan, policy_seed=self._policy_seed, allowance=allowance)
                self._following = max(self._following, time.monotonic() - began)
                found = objective_value(replay, again.state.task["finish"], objective)
                followable = found <= value
                if followable:
                    simulator = again
                if found < value:
                    value, plan = found, plan_of(again.schedule("plan"))
                    finish = again.state.task["finish"]
                    start = first_starts(again.schedule("plan"), finish)
        except OutOfTimeError:
            self._following = max(self._following, time.monotonic() - began)
        if not followable and spec in LISTS:
            plan, followable = self._planned[-1], True  # following that is what a list scheduler does
        start = np.where(replay.milestone, finish, start)
        incumbent = SeedSchedule(value, plan, spec, start, *placed(replay, plan, start), followable=followable)
        return incumbent, simulator

    def _begin(self, spec: str, simulator: Simulator, allowance: Allowance) -> Run:
        if spec not in LISTS:
            return make_policy(spec, learned_options=self._learned_options).begin(simulator)

        def pieces(go_on: Callable[[int], bool]) -> None:
            began = time.monotonic()
            allowance.pieces(go_on)
            self._insertion = min(self._insertion, time.monotonic() - began)

        planner = ListPlanner(spec, self._replay, pieces)
        return PlanPolicy(spec, lambda _replay, _seed: _Noted(planner, self._planned)).begin(simulator)


def _cost(name: str, policy: Policy) -> int:
    """Rank by what a policy may take: fixed keys, lists (2), scores that change, bookings, what is trained."""
    if name in LEARNED:
        return 6
    if isinstance(policy, BookingPolicy):
        return 5
    if isinstance(policy, ScorePolicy) and policy.batch_key is None:
        return 4
    if name in COUNTS_DESCENDANTS:
        return 3
    return 1 if isinstance(policy, PriorityPolicy | ScorePolicy | RandomPolicy) else 2


def _run(run: Run, simulator: Simulator, allowance: Allowance) -> None:
    """To the end, in pieces."""

    def go_on(most: int) -> bool:
        run.advance(most)
        return not simulator.done

    allowance.pieces(go_on)


def best_of(incumbents: Sequence[SeedSchedule]) -> SeedSchedule:
    """The one of least value; of several the first."""
    return min(incumbents, key=lambda incumbent: incumbent.value)


def follow(replay: Replay, plan: Plan, *, policy_seed: int = 0) -> tuple[Schedule, FloatArray]:
    """(the schedule of following a plan on the estimates, ``[T]`` finishes in seconds)."""
    simulator = followed(replay, plan, policy_seed=policy_seed, allowance=Allowance())
    return simulator.schedule("plan"), simulator.state.task["finish"].copy()


def followed(replay: Replay, plan: Plan, *, policy_seed: int, allowance: Allowance) -> Simulator:
    """A simulator at the end of a plan.

    Raises:
        OutOfTimeError: if the allowance does not last.
    """
    simulator = _simulator(replay, policy_seed)
    _run(PlanPolicy("plan", lambda _replay, _seed: FixedPlan(plan)).begin(simulator), simulator, allowance)
    return simulator


@dataclass(frozen=True, slots=True)
class _Noted:
    """A planner whose plans are kept, newest last."""

    planner: Planner
    plans: list[Plan]

    def plan_arrivals(self, workflows: IntArray, now: float) -> Plan:
        """See :class:`dagsched.policies.runners.Planner`."""
        self.plans[:] = [self.planner.plan_arrivals(workflows, now)]
        return self.plans[0]


@dataclass(frozen=True, slots=True)
class FixedPlan:
    """A planner that gives the whole batch's plan at the first call."""

    plan: Plan

    def plan_arrivals(self, workflows: IntArray, now: float) -> Plan:  # noqa: ARG002
        """See :class:`dagsched.policies.runners.Planner`."""
        return self.plan


def plan_of(schedule: Schedule) -> Plan:
    """A schedule's allocations as a plan."""
    return Plan(schedule.task, schedule.node, schedule.count, schedule.start)


def placed(replay: Replay, plan: Plan, start: FloatArray) -> tuple[IntArray, IntArray]:
    """(``order``, ``group``) of :class:`SeedSchedule`; ``start`` ``[T]`` seconds, a milestone's being its finish."""
    position = np.empty(len(replay), np.int64)
    position[replay.topological_order] = np.arange(len(replay))
    group = np.full(len(replay), -1, np.int64)
    group[plan.task[::-1]] = replay.cluster.node_group[plan.node[::-1]]
    return np.lexsort((position, start)), group


def _simulator(replay: Replay, policy_seed: int) -> Simulator:
    simulator = Simulator(replay, policy_seed=policy_seed)
    simulator.truth = replay.estimate
    return simulator


def first_starts(schedule: Schedule, finish: FloatArray) -> FloatArray:
    """``[T]`` seconds of each task's first allocation; of a milestone its finish, from ``finish`` ``[T]``."""
    start = np.where(schedule.replay.milestone, finish, np.inf)
    np.minimum.at(start, schedule.task, schedule.start)
    return start
