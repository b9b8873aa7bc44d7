"""Builds the kernel's two tuples of arrays from a replay."""

from __future__ import annotations

from typing import Any

import numpy as np

from dagsched import graph
from dagsched.replay import FIT_TOLERANCE, PLACEMENTS, Replay
from dagsched.simulator import kernel
from dagsched.simulator.kernel import Problem, State
from dagsched.workflow import FloatArray, IntArray

_DESCENDANT_LIMIT = 20_000


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
    if int(np.diff(replay.workflow_ptr).max()) > _DESCENDANT_LIMIT:
        return area
    return area + graph.descendants(replay, area)[0]


def build_problem(replay: Replay, *, placement_seed: int = 0) -> Problem:
    """The observable constants of a replay; :func:`with_area_below` fills ``below``, which costs a search."""
    cluster = replay.cluster
    nodes = np.array([group.nodes for group in cluster.groups], np.int64)
    klass, class_task = demand_classes(replay.demand)
    fastest = graph.fastest(replay)
    share = demand_share(replay)
    bottom = graph.bottom_level(replay)
    below = np.zeros(len(replay))
    options = replay.options
    with np.errstate(divide="ignore"):
        per_byte = 1.0 / cluster.bandwidth
    np.fill_diagonal(per_byte, 0.0)
    switch = np.array([PLACEMENTS.index(options.placement), options.instances_per_decision, replay.has_transfers, 0])
    switch[kernel.PLACEMENT_SEED] = placement_seed
    first = replay.workflow_ptr[:-1]
    return Problem(
        estimate=replay.estimate,
        fastest=fastest,
        mean=graph.mean_estimate(replay),
        bottom=bottom,
        share=share,
        area=share * fastest,
        below=below,
        prefix_bottom=np.maximum.accumulate(np.maximum.reduceat(bottom, first)),
        prefix_below=np.maximum.accumulate(np.maximum.reduceat(below, first)),
        tie=tie_order(replay),
        demand=replay.demand,
        instances=replay.instances,
        milestone=replay.milestone,
        klass=klass,
        class_task=class_task,
        group_order=_group_order(replay),
        parent_count=np.diff(replay.parent_ptr),
        parent_ptr=replay.parent_ptr,
        parent_idx=replay.parent_idx,
        parent_bytes=replay.parent_bytes,
        child_ptr=replay.child_ptr,
        child_idx=replay.child_idx,
        workflow_of=replay.workflow_of,
        workflow_ptr=replay.workflow_ptr,
        workflow_work=np.add.reduceat(fastest * np.where(replay.milestone, 0, replay.instances), first),
        arrival=replay.arrival,
        weight=replay.weight,
        node_group=cluster.node_group,
        group_ptr=np.concatenate([[0], np.cumsum(nodes)]),
        capacity=cluster.capacity,
        slack=cluster.capacity * FIT_TOLERANCE,
        latency=cluster.latency,
        per_byte=per_byte,
        setting=np.array([options.decision_interval, options.max_wait]),
        switch=switch.astype(np.int64),
    )


def with_area_below(problem: Problem, replay: Replay) -> Problem:
    """The problem with ``below`` and ``prefix_below`` filled."""
    below = area_below(replay)
    most = np.maximum.accumulate(np.maximum.reduceat(below, replay.workflow_ptr[:-1]))
    return problem._replace(below=below, prefix_below=most)


def new_state(problem: Problem, allocations: int, decisions: int) -> State:
    """A blank state with room for the given number of allocations and decisions."""
    tasks, groups = problem.estimate.shape
    nodes, workflows = len(problem.node_group), len(problem.arrival)
    resources = problem.capacity.shape[1]
    rows = tasks if problem.switch[kernel.TRANSFERS] else 1
    float_shapes: dict[str, tuple[int, ...]] = {
        "clock": (2,),
        "free": (nodes, resources),
        "group_free": (groups, resources),
        "ready_time": (tasks,),
        "task_start": (tasks,),
        "task_finish": (tasks,),
        "data_ready": (rows, groups),
        "workflow_left": (workflows,),
        "workflow_service": (workflows,),
        "alloc_start": (allocations,),
        "alloc_exec": (allocations,),
        "alloc_finish": (allocations,),
        "event_time": (allocations,),
        "decision_time": (decisions,),
    }
    int_shapes: dict[str, tuple[int, ...]] = {"counter": (16,)}
    for name in ("pending", "unstarted", "unfinished", "ready", "ready_slot", "last_alloc", "stack", "fresh"):
        int_shapes[name] = (tasks,)
    for name in ("freed", "is_freed", "node_running"):
        int_shapes[name] = (nodes,)
    int_shapes["workflow_turn"] = (workflows,)
    int_shapes["class_blocked"] = (len(problem.class_task),)
    for name in ("alloc_task", "alloc_node", "alloc_count", "alloc_older", "event"):
        int_shapes[name] = (allocations,)
    int_shapes["decision_task"] = (decisions,)
    arrays: dict[str, Any] = {}
    kinds: tuple[tuple[str, Any, dict[str, tuple[int, ...]]], ...]
    kinds = ("floats", np.float64, float_shapes), ("ints", np.int64, int_shapes)
    for kind, dtype, shapes in kinds:
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        buffer = np.zeros(sum(sizes), dtype)
        arrays[kind] = buffer
        at = 0
        for (name, shape), size in zip(shapes.items(), sizes, strict=True):
            arrays[name] = buffer[at : at + size].reshape(shape)
            at += size
    return State(**arrays)


def copy_into(state: State, larger: State) -> State:
    """Copy a state into one with room for more allocations and decisions."""
    for name in State._fields[2:]:
        old, new = getattr(state, name), getattr(larger, name)
        new[tuple(slice(size) for size in old.shape)] = old
    return larger
