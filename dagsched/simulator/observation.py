"""What a policy may see of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dagsched.replay import FIT_TOLERANCE
from dagsched.workflow import FloatArray, IntArray


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

    @property
    def group_free(self) -> FloatArray:
        """``[G, R]`` free amount on all nodes of each group together."""
        free = np.zeros((self.estimate.shape[1], self.free.shape[1]))
        np.add.at(free, self.node_group, self.free)
        return free

    def nodes_for(self, task: int) -> IntArray:
        """Nodes on which an instance of the task fits now, ascending."""
        room = self.free - self.demand[task] >= -FIT_TOLERANCE * self.capacity
        return np.flatnonzero(room.all(axis=1))
