"""Rolls out the policies that a plan contains, once and on the estimates: search starts there and is never worse.

A rolled-out schedule is kept as a plan and *followed* once more, since that is how a plan is used. Following keeps the
order on every node and starts nothing later, as a rule; but a starvation guard, or instances that start one by one
between tasks of no duration, can upset it. Such a plan is marked: the policy itself must then be run instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dagsched.errors import PolicyError
from dagsched.policies.base import Plan
from dagsched.policies.registry import list_policies, make_policy, parse_spec
from dagsched.policies.runners import PlanPolicy
from dagsched.policies.sampling import check_plannable, objective_value
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.simulator.simulator import MANY, Simulator
from dagsched.workflow import FloatArray, IntArray

MOST_TASKS, MOST_PAIRS = 600, 20_000
"""Tasks, and tasks x nodes, up to which Min-Min, Max-Min and Sufferage are rolled out by default: booking every ready
task again and again takes seconds on wide batches."""
BOOKING = ("min-min", "max-min", "sufferage")
LEARNED = ("evolved", "ppo")


@dataclass(frozen=True, slots=True, eq=False)
class Incumbent:
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

    ``random`` is none of them; the booking rules only up to ``MOST_TASKS`` tasks and ``MOST_PAIRS`` tasks x nodes.
    """
    small = len(replay) <= MOST_TASKS and len(replay) * replay.cluster.node_count <= MOST_PAIRS
    fixed = [info.name for info in list_policies() if info.kind in ("rule", "list") and info.name != "random"]
    rules = [name for name in fixed if small or name not in BOOKING]
    return [*rules, *(LEARNED if learning else ())]


def roll_out(
    replay: Replay,
    specs: Sequence[str] | None = None,
    *,
    objective: str = "makespan",
    policy_seed: int = 0,
    learned_options: Mapping[str, str] = MappingProxyType({}),
    learning: bool = True,
) -> list[Incumbent]:
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
    found = []
    for spec in chosen:
        try:
            found.append(_roll(replay, spec, objective, policy_seed, learned_options))
        except PolicyError:
            if specs is not None or parse_spec(spec)[0] not in LEARNED:
                raise
    return found


def best_of(incumbents: Sequence[Incumbent]) -> Incumbent:
    """The one of least value; of several the first."""
    return min(incumbents, key=lambda incumbent: incumbent.value)


def follow(replay: Replay, plan: Plan, *, policy_seed: int = 0) -> tuple[Schedule, FloatArray]:
    """(the schedule of following a plan on the estimates, ``[T]`` finishes in seconds)."""
    simulator = _simulator(replay, policy_seed)
    PlanPolicy("plan", lambda _replay, _seed: FixedPlan(plan)).begin(simulator)(MANY)
    return simulator.schedule("plan"), simulator.state.task["finish"].copy()


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
    """(``order``, ``group``) of :class:`Incumbent`; ``start`` ``[T]`` seconds, a milestone's being its finish."""
    position = np.empty(len(replay), np.int64)
    position[replay.topological_order] = np.arange(len(replay))
    group = np.full(len(replay), -1, np.int64)
    group[plan.task[::-1]] = replay.cluster.node_group[plan.node[::-1]]
    return np.lexsort((position, start)), group


def _simulator(replay: Replay, policy_seed: int) -> Simulator:
    simulator = Simulator(replay, policy_seed=policy_seed)
    simulator.truth = replay.estimate
    return simulator


def _roll(replay: Replay, spec: str, objective: str, policy_seed: int, learned_options: Mapping[str, str]) -> Incumbent:
    simulator = _simulator(replay, policy_seed)
    make_policy(spec, learned_options=learned_options).begin(simulator)(MANY)
    plan = plan_of(simulator.schedule(spec))
    start, finish = simulator.state.task["start"], simulator.state.task["finish"]
    value = objective_value(replay, finish, objective)
    schedule, again = follow(replay, plan, policy_seed=policy_seed)
    found = objective_value(replay, again, objective)
    if found < value:
        value, plan, start, finish = found, plan_of(schedule), first_starts(schedule, again), again
    start = np.where(replay.milestone, finish, start)
    return Incumbent(value, plan, spec, start, *placed(replay, plan, start), followable=found <= value)


def first_starts(schedule: Schedule, finish: FloatArray) -> FloatArray:
    """``[T]`` seconds of each task's first allocation; of a milestone its finish, from ``finish`` ``[T]``."""
    start = np.where(schedule.replay.milestone, finish, np.inf)
    np.minimum.at(start, schedule.task, schedule.start)
    return start
