"""Builds the kernel's two tuples of arrays from a replay."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from dagsched import graph
from dagsched.replay import FIT_TOLERANCE, PLACEMENTS, Replay
from dagsched.simulator import kernel
from dagsched.simulator.kernel import Problem, State
from dagsched.workflow import FloatArray, IntArray

DESCENDANT_LIMIT = 20_000


def demand_classes(demand: FloatArray) -> tuple[IntArray, IntArray]:
    """(``[T]`` class of each row, ``[C]`` one row of each class): equal demand vectors share a class."""
    order = np.lexsort(demand.T[::-1])
    ranked = demand[order]
    new = np.concatenate([[True], (ranked[1:] != ranked[:-1]).any(axis=1)])
    klass = np.empty(len(demand), np.int64)
    klass[order] = np.cumsum(new) - 1
    return klass, order[new].astype(np.int64)


def tie_order(replay: Replay) -> IntArray:
    """``[T]`` place of each task in the tie order common to all rules: upward rank, arrival, name, id."""
    place = np.empty(len(replay), np.int64)
    place[np.lexsort((np.arange(len(replay)), -graph.upward_rank(replay)))] = np.arange(len(replay))
    return place


def _group_order(replay: Replay) -> IntArray:
    seconds = np.where(replay.can_hold, replay.estimate, np.inf)
    order = np.argsort(seconds, axis=1, kind="stable").astype(np.int64)
    order[~np.take_along_axis(replay.can_hold, order, axis=1)] = -1
    return order


def demand_share(replay: Replay) -> FloatArray:
    """``[T]`` largest demand over capacity of the largest node, over resources."""
    largest = replay.cluster.capacity.max(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(largest > 0, replay.demand / largest, 0.0)
    return np.asarray(share.max(axis=1))


def area_below(replay: Replay) -> FloatArray:
    """``[T]`` share-seconds of each task and its distinct descendants, all instances.

    In workflows of more than 20,000 tasks the search for distinct descendants would be too slow; there a
    task's own area alone counts.
    """
    area = demand_share(replay) * graph.fastest(replay) * replay.instances
    return area + graph.descendants(replay, area, most=DESCENDANT_LIMIT)[0]


def build_problem(replay: Replay, *, placement_seed: int = 0) -> Problem:
    """The observable constants of a replay; :func:`with_area_below` fills ``below``, which costs a search."""
    cluster = replay.cluster
    nodes = np.array([group.nodes for group in cluster.groups], np.int64)
    klass, class_task = demand_classes(replay.demand)
    fastest = graph.fastest(replay)
    share = demand_share(replay)
    bottom = graph.bottom_level(replay)
    options = replay.options
    with np.errstate(divide="ignore"):
        per_byte = 1.0 / cluster.bandwidth
    np.fill_diagonal(per_byte, 0.0)
    switch = np.array([PLACEMENTS.index(options.placement), options.instances_per_decision, replay.has_transfers, 0])
    switch[kernel.PLACEMENT_SEED] = placement_seed
    first = replay.workflow_ptr[:-1]
    tasks = np.zeros(len(replay), kernel.TASK_CONSTANTS)
    tasks["fastest"] = fastest
    tasks["mean"] = graph.mean_estimate(replay)
    tasks["bottom"] = bottom
    tasks["share"] = share
    tasks["area"] = share * fastest
    tasks["tie"] = tie_order(replay)
    tasks["instances"] = replay.instances
    tasks["milestone"] = replay.milestone
    tasks["klass"] = klass
    tasks["workflow"] = replay.workflow_of
    tasks["parent_count"] = np.diff(replay.parent_ptr)
    tasks["below"] = np.nan  # not known here: whoever reads it by mistake shall notice
    workflows = np.zeros(len(replay.arrival), kernel.WORKFLOW_CONSTANTS)
    workflows["arrival"] = replay.arrival
    workflows["weight"] = replay.weight
    workflows["work"] = np.add.reduceat(fastest * np.where(replay.milestone, 0, replay.instances), first)
    workflows["prefix_below"] = np.nan
    workflows["prefix_bottom"] = np.maximum.accumulate(np.maximum.reduceat(bottom, first))
    problem = Problem(
        estimate=replay.estimate,
        task=tasks,
        demand=replay.demand,
        class_task=class_task,
        group_order=_group_order(replay),
        parent_ptr=replay.parent_ptr,
        parent_idx=replay.parent_idx,
        parent_bytes=replay.parent_bytes,
        child_ptr=replay.child_ptr,
        child_idx=replay.child_idx,
        workflow=workflows,
        workflow_ptr=replay.workflow_ptr,
        node_group=cluster.node_group,
        group_ptr=np.concatenate([[0], np.cumsum(nodes)]),
        capacity=cluster.capacity,
        slack=cluster.capacity * FIT_TOLERANCE,
        latency=cluster.latency,
        per_byte=per_byte,
        setting=np.array([options.decision_interval, options.max_wait]),
        switch=switch.astype(np.int64),
    )
    return Problem(*map(read_only, problem))


def read_only(array: Any) -> Any:
    """A contiguous read-only view: numba compiles anew for an array that may be written, and one form is enough."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def with_area_below(problem: Problem, replay: Replay) -> Problem:
    """The problem with ``below`` and ``prefix_below`` filled."""
    below = area_below(replay)
    tasks, workflows = problem.task.copy(), problem.workflow.copy()
    tasks["below"] = below
    workflows["prefix_below"] = np.maximum.accumulate(np.maximum.reduceat(below, replay.workflow_ptr[:-1]))
    return problem._replace(task=read_only(tasks), workflow=read_only(workflows))


def new_state(problem: Problem, allocations: int, decisions: int) -> State:
    """A blank state with room for the given number of allocations and decisions."""
    tasks, groups = problem.estimate.shape
    nodes, classes = len(problem.node_group), len(problem.class_task)
    resources = problem.capacity.shape[1]
    return State(
        clock=np.zeros(2),
        counter=np.zeros(16, np.int64),
        free=np.zeros((nodes, resources)),
        group_free=np.zeros((groups, resources)),
        task=np.zeros(tasks, kernel.TASK_STATE),
        data_ready=np.zeros((tasks if problem.switch[kernel.TRANSFERS] else 1, groups)),
        workflow=np.zeros(len(problem.workflow), kernel.WORKFLOW_STATE),
        node=np.zeros(nodes, kernel.NODE_STATE),
        alloc=np.zeros(allocations, kernel.ALLOCATION),
        event=np.zeros(allocations, np.int64),
        event_time=np.zeros(allocations),
        decision=np.zeros(decisions, kernel.DECISION),
        ready=np.zeros(tasks, np.int64),
        stack=np.zeros(tasks, np.int64),
        fresh=np.zeros(tasks, np.int64),
        freed=np.zeros(nodes, np.int64),
        class_blocked=np.zeros(classes, np.int64),
    )


Arrays = TypeVar("Arrays", bound=tuple[Any, ...])


def copy_into(source: Arrays, other: Arrays) -> Arrays:
    """Copy a record of arrays, such as a state, into another with room for at least as much in each."""
    for old, new in zip(source, other, strict=True):
        new[tuple(slice(size) for size in old.shape)] = old
    return other
