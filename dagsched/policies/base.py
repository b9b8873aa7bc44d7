"""What a scheduling policy is, and what it may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from dagsched.workflow import FloatArray, IntArray

if TYPE_CHECKING:
    from dagsched.simulator.simulator import Simulator


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Where and when a static scheduler wants each task: the simulator keeps the order on every node.

    Entries may come in any order; the order on a node is that of ``start``, ties in entry order, which must
    be a topological order.

    Attributes:
        task, node, count: ``[P]`` flat task, node and number of instances.
        start: ``[P]`` planned seconds.
    """

    task: IntArray
    node: IntArray
    count: IntArray
    start: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ObservedState:
    """Everything a policy may know at a decision: estimates, what runs, what has arrived.

    Tasks are numbered over the workflows that have arrived so far, ``0..T-1``; the numbers stay the same
    during a replay. Arrays are read-only copies; no true duration and no future arrival is reachable.

    Attributes:
        now: seconds.
        eligible: ``[E]`` tasks that may be started now, ascending.
        estimate: ``[T, G]`` seconds of one instance on each node group.
        fastest: ``[T]`` least estimate over the groups that can hold the task, seconds.
        demand: ``[T, R]`` per instance.
        instances, unstarted, running: ``[T]`` instances in all, not yet started, running.
        ready_time: ``[T]`` seconds, NaN while a parent is unfinished.
        started: ``[T]`` seconds of the first allocation, NaN before.
        finished: ``[T]`` seconds, NaN before.
        arrival, deadline: ``[T]`` of the task's workflow, seconds (``inf`` = no deadline).
        weight: ``[T]`` of the task's workflow.
        workflow: ``[T]`` number of the workflow, in order of arrival.
        upward_rank, bottom_level: ``[T]`` seconds.
        parent_ptr, parent_idx: CSR rows of parents.
        running_task, running_node, running_count: ``[A]`` running allocations: task, node, instances.
        running_start, running_execution: ``[A]`` seconds at which each took its node and at which it executes
            (later than the start while data is on its way); elapsed execution is ``now - running_execution``.
        free: ``[N, R]`` free amount on each node.
        capacity: ``[N, R]``.
        node_group: ``[N]`` group of each node.
        noise: ``exact``, ``lognormal`` or ``unknown``; ``sigma`` is its spread.
    """

    now: float
    eligible: IntArray
    estimate: FloatArray
    fastest: FloatArray
    demand: FloatArray
    instances: IntArray
    unstarted: IntArray
    running: IntArray
    ready_time: FloatArray
    started: FloatArray
    finished: FloatArray
    arrival: FloatArray
    deadline: FloatArray
    weight: FloatArray
    workflow: IntArray
    upward_rank: FloatArray
    bottom_level: FloatArray
    parent_ptr: IntArray
    parent_idx: IntArray
    running_task: IntArray
    running_node: IntArray
    running_count: IntArray
    running_start: FloatArray
    running_execution: FloatArray
    free: FloatArray
    capacity: FloatArray
    node_group: IntArray
    noise: str
    sigma: float


class ScoreFunction(Protocol):
    """A user's own rule: ``f(state)`` returns one score per eligible task (``[E]``); the largest runs next.

    A task with score NaN does not run now; NaN for every task means WAIT (legal while something runs, and at ticks
    under a finite ``max_wait``).
    """

    def __call__(self, state: ObservedState) -> NDArray[np.float64]:
        """Scores ``[len(state.eligible)]``."""
        ...


class Policy(Protocol):
    """Anything that can schedule a replay.

    Attributes:
        name: the spec it was made from.
        reproducible: False for policies with a wall-clock budget.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def reproducible(self) -> bool: ...  # noqa: D102

    def begin(self, simulator: Simulator) -> Callable[[int], None]:
        """Prepare for a replay that stands before its first arrival.

        The returned function takes at most the given number of decisions (tasks started, not waits) and
        stops when the replay is done. One by one or all at once, the schedule is the same.

        Raises:
            PolicyError: if the policy cannot handle this replay.
        """
        ...
