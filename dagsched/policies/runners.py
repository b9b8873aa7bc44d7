"""The ways a policy drives a simulator: fixed priority, changing score, booking, plan, and a user's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dagsched.errors import PolicyError
from dagsched.policies.base import PlainRun, Plan, Run
from dagsched.policies.rules.alike import alike_by_estimate, alike_by_score, new_bookings
from dagsched.replay import Replay
from dagsched.simulator import kernel
from dagsched.simulator.kernel import Buckets, Follow, Problem
from dagsched.simulator.state import with_area_below
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray, IntArray

KeyFunction = Callable[[Replay, Problem], FloatArray]
_RANDOM_DOMAIN = 0x52414E44


def drive(
    simulator: Simulator, most: int, compiled: Callable[[int], int], answers: Mapping[int, Callable[[], None]]
) -> None:
    """Call a compiled runner until `most` tasks are started or the replay ends.

    ``answers`` says what to do before going on when the runner stops early, for example for lack of room.
    """
    begun = simulator.started
    status = compiled(most)
    while status in answers:
        answers[status]()
        status = compiled(most - (simulator.started - begun))
    if status == kernel.STUCK:
        raise AssertionError("the replay cannot go on; please report this as a bug of dagsched")


@dataclass(frozen=True, slots=True)
class PriorityPolicy:
    """Run the eligible task of largest key, where a task's key never changes once it is ready.

    Near-linear in the number of tasks: ready tasks wait in heaps by demand vector.
    """

    name: str
    key: KeyFunction | None
    """``[T]`` larger runs first; ``None`` = earliest ready time first."""
    reproducible: bool = True

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        problem = simulator.problem
        key = np.zeros(len(simulator.replay)) if self.key is None else self.key(simulator.replay, problem)
        buckets = new_buckets(problem, key, place=simulator.replay.place if self.key is None else None)

        def run(most: int) -> None:
            drive(
                simulator,
                most,
                lambda n: kernel.run_by_priority(problem, simulator.state, simulator.truth, buckets, n),
                {kernel.GROW: simulator.grow},
            )

        return PlainRun(run)


@dataclass(frozen=True, slots=True)
class RandomPolicy:
    """A random order of all tasks, from the policy's own stream: another one for every replay and seed."""

    name: str
    seed: int = 0
    reproducible: bool = True

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        # Drawn in flat order, which is order of arrival: what arrives later cannot change earlier draws.
        stream = np.random.SeedSequence([self.seed, simulator.policy_seed], spawn_key=(_RANDOM_DOMAIN,))
        key = np.random.default_rng(stream).random(len(simulator.replay))
        return PriorityPolicy(self.name, lambda _replay, _problem: key).begin(simulator)


def new_buckets(problem: Problem, key: FloatArray, *, place: IntArray | None = None) -> Buckets:
    """Empty buckets for the given keys ``[T]``.

    ``place`` ``[T]``: first come, first served, whatever the keys; of those that came together the smallest place.
    """
    classes = len(problem.class_task)
    sizes = np.bincount(problem.task["klass"], minlength=classes)
    return Buckets(
        key=np.array(key, np.float64),
        tie=np.array(problem.tie if place is None else place, np.int64),
        class_ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        heap=np.zeros(len(key), np.int64),
        size=np.zeros(classes, np.int64),
        order=np.zeros(classes, np.int64),
        order_key=np.zeros(classes),
        slot=np.full(classes, -1, np.int64),
        blocked=np.zeros(classes, np.int64),
        only=np.full(classes, -1, np.int64),
        counter=np.array([0, 0, place is not None, -1], np.int64),
    )


@dataclass(frozen=True, slots=True)
class ScorePolicy:
    """Run the eligible task of largest score, where scores change with time, free capacity or progress.

    ``batch_key`` is the same score where everything is known at the start and it cannot change; ``shortness`` is what
    the published Tetris adds for 1 / estimate, in seconds.
    """

    name: str
    rule: int
    needs_below: bool = False
    batch_key: KeyFunction | None = None
    shortness: float = 0.0
    reproducible: bool = True

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        if self.batch_key is not None and simulator.replay.is_batch:
            return PriorityPolicy(self.name, self.batch_key).begin(simulator)
        problem = simulator.problem
        if self.needs_below:
            problem = with_area_below(problem, simulator.replay)

        alike = alike_by_score(problem, self.rule, simulator.replay.place)

        def run(most: int) -> None:
            drive(
                simulator,
                most,
                lambda n: kernel.run_by_score(
                    problem, simulator.state, simulator.truth, alike, self.rule, self.shortness, n
                ),
                {kernel.GROW: simulator.grow},
            )

        return PlainRun(run)


@dataclass(frozen=True, slots=True)
class BookingPolicy:
    """Min-Min, Max-Min and Sufferage over ready tasks and all nodes that could hold them."""

    name: str
    rule: int
    reproducible: bool = True

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        problem = simulator.problem
        room = 1
        alike = alike_by_estimate(problem)
        bookings = new_bookings(problem, alike, len(simulator.state.alloc), room)

        def more_room() -> None:
            nonlocal bookings, room
            if not kernel.has_room(problem, simulator.state):
                simulator.grow()
            else:
                room *= 2
            bookings = new_bookings(problem, alike, len(simulator.state.alloc), room, bookings)

        def run(most: int) -> None:
            drive(
                simulator,
                most,
                lambda n: kernel.run_by_booking(
                    problem, simulator.state, simulator.truth, bookings, alike, self.rule, n
                ),
                {kernel.GROW: more_room},
            )

        return PlainRun(run)


class Planner(Protocol):
    """A static list scheduler: plans workflows as they arrive, around what it planned before."""

    def plan_arrivals(self, workflows: IntArray, now: float) -> Plan:
        """Plan all tasks of the given workflows (flat indices) at time ``now``, in seconds."""
        ...


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """Follow a static schedule; the planned order on every node is kept, also under noise.

    ``make_planner(replay, policy_seed)`` may raise ``PolicyError`` for replays it cannot plan.
    """

    name: str
    make_planner: Callable[[Replay, int], Planner]
    reproducible: bool = True

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        planner = self.make_planner(simulator.replay, simulator.policy_seed)
        problem = simulator.problem
        follow = _new_follow(problem, [], 0)
        plans: list[Plan] = []

        def plan_new() -> None:
            nonlocal follow
            planned, arrived = int(follow.counter[0]), int(simulator.state.counter[kernel.ARRIVED])
            plan = planner.plan_arrivals(np.arange(planned, arrived), simulator.now)
            _check_plan(self.name, simulator, plan)
            rest = [_rest_of(follow, plans)] if plans else []
            plans[:] = [*rest, plan]
            follow = _new_follow(problem, plans, arrived, waiting=int(follow.counter[1]))

        def run(most: int) -> None:
            drive(
                simulator,
                most,
                lambda n: kernel.run_by_plan(problem, simulator.state, simulator.truth, follow, n),
                {kernel.GROW: simulator.grow, kernel.ARRIVAL: plan_new},
            )

        return PlainRun(run)


def _check_plan(name: str, simulator: Simulator, plan: Plan) -> None:
    """Every arrived instance exactly once: a planner's bug must not turn into a hang."""
    replay = simulator.replay
    if len(plan.task) and (plan.node.min() < 0 or plan.node.max() >= replay.cluster.node_count):
        raise PolicyError(f"policy {name}: its plan names a node the cluster does not have")
    planned = np.bincount(plan.task, weights=plan.count, minlength=len(replay))
    known = planned > 0
    if not np.array_equal(planned[known], replay.instances[known].astype(np.float64)):
        raise PolicyError(f"policy {name}: its plan does not place every instance exactly once")


def _rest_of(follow: Follow, plans: list[Plan]) -> Plan:
    """What is still to start of the plans followed so far."""
    nodes = np.concatenate([plan.node for plan in plans])
    keep = follow.left > 0
    return Plan(follow.task[keep], nodes[keep], follow.left[keep], follow.start[keep])


def _new_follow(problem: Problem, plans: list[Plan], workflows: int, *, waiting: int = 0) -> Follow:
    nodes = len(problem.node_group)
    none = np.zeros(0, np.int64)
    task = np.concatenate([none, *(plan.task for plan in plans)]).astype(np.int64)
    node = np.concatenate([none, *(plan.node for plan in plans)]).astype(np.int64)
    start = np.concatenate([np.zeros(0), *(plan.start for plan in plans)]).astype(np.float64)
    queue = np.lexsort((np.arange(len(task)), start, node)).astype(np.int64)
    last = np.searchsorted(node[queue], np.arange(nodes), side="right").astype(np.int64)
    return Follow(
        task=task,
        left=np.concatenate([none, *(plan.count for plan in plans)]).astype(np.int64),
        start=start,
        queue=queue,
        head=np.concatenate([[0], last[:-1]]).astype(np.int64),
        last=last,
        counter=np.array([workflows, waiting], np.int64),
    )
