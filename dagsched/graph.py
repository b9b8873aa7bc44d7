"""Longest-path quantities of a replay's workflows (``semantics.md``, "Graph quantities").

Ranks follow Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, equations 5-8.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dagsched.replay import Replay
from dagsched.workflow import FloatArray


@njit(cache=True, nogil=True)
def _longest_to_exit(topological_order, parent_ptr, parent_idx, weight, edge_weight):  # type: ignore[no-untyped-def]
    """``[T]`` longest path from each task to an exit, own weight included."""
    length = weight.copy()
    below = np.zeros(len(weight))
    for k in range(len(topological_order) - 1, -1, -1):
        task = topological_order[k]
        length[task] = weight[task] + below[task]
        for edge in range(parent_ptr[task], parent_ptr[task + 1]):
            parent = parent_idx[edge]
            below[parent] = max(below[parent], edge_weight[edge] + length[task])
    return length


@njit(cache=True, nogil=True)
def _longest_from_entry(topological_order, parent_ptr, parent_idx, weight, edge_weight):  # type: ignore[no-untyped-def]
    """``[T]`` longest path from an entry to each task, own weight excluded."""
    length = np.zeros(len(weight))
    for task in topological_order:
        for edge in range(parent_ptr[task], parent_ptr[task + 1]):
            parent = parent_idx[edge]
            length[task] = max(length[task], length[parent] + weight[parent] + edge_weight[edge])
    return length


@njit(cache=True, nogil=True)
def _count_descendants(child_ptr, child_idx, weight, first, last):  # type: ignore[no-untyped-def]
    """(weight sum, count) over distinct descendants of tasks ``first..last``, by one search per task."""
    total = np.zeros(last - first)
    count = np.zeros(last - first, np.int64)
    seen = np.full(last - first, -1, np.int64)
    stack = np.empty(last - first, np.int64)
    for root in range(first, last):
        top = 1
        stack[0] = root
        seen[root - first] = root
        while top:
            top -= 1
            task = stack[top]
            for k in range(child_ptr[task], child_ptr[task + 1]):
                child = child_idx[k]
                if seen[child - first] != root:
                    seen[child - first] = root
                    total[root - first] += weight[child]
                    count[root - first] += 1
                    stack[top] = child
                    top += 1
    return total, count


@njit(cache=True, nogil=True)
def _max_to_exit(topological_order, parent_ptr, parent_idx, value):  # type: ignore[no-untyped-def]
    """``[T]`` largest value over each task and its descendants."""
    most = value.copy()
    for k in range(len(topological_order) - 1, -1, -1):
        task = topological_order[k]
        for edge in range(parent_ptr[task], parent_ptr[task + 1]):
            parent = parent_idx[edge]
            most[parent] = max(most[parent], most[task])
    return most


def max_over_descendants(replay: Replay, value: FloatArray) -> FloatArray:
    """``[T]`` largest ``value`` over each task and its descendants."""
    return np.asarray(_max_to_exit(replay.topological_order, replay.parent_ptr, replay.parent_idx, value))


def fastest(replay: Replay, *, realised: bool = False) -> FloatArray:
    """``[T]`` least seconds of each task over the groups that can hold it."""
    seconds = replay.duration if realised else replay.estimate
    return np.asarray(np.where(replay.can_hold, seconds, np.inf).min(axis=1))


def mean_estimate(replay: Replay) -> FloatArray:
    """``[T]`` mean estimate in seconds over the nodes that can hold each task."""
    nodes = np.array([group.nodes for group in replay.cluster.groups], np.float64)
    weight = np.where(replay.can_hold, nodes, 0.0)
    return np.asarray((replay.estimate * weight).sum(axis=1) / weight.sum(axis=1))


def mean_transfer(replay: Replay) -> FloatArray:
    """``[E]`` mean seconds of each edge over ordered pairs of nodes in different groups; 0 with one group."""
    cluster = replay.cluster
    nodes = np.array([group.nodes for group in cluster.groups], np.float64)
    pairs = np.outer(nodes, nodes)
    np.fill_diagonal(pairs, 0.0)
    if len(nodes) == 1 or not replay.has_transfers:
        return np.zeros(len(replay.parent_idx))
    off = pairs > 0
    pairs = pairs[off] / pairs[off].sum()
    latency = float((pairs * cluster.latency[off]).sum())
    per_byte = float((pairs / cluster.bandwidth[off]).sum())
    seconds = latency + replay.parent_bytes * per_byte
    children = np.repeat(np.arange(len(replay)), np.diff(replay.parent_ptr))
    untimed = replay.milestone[replay.parent_idx] | replay.milestone[children]
    return np.where(untimed, 0.0, seconds)


def _cached(replay: Replay, key: str, value: FloatArray) -> FloatArray:
    value.setflags(write=False)
    replay._cache[key] = value
    return value


def upward_rank(replay: Replay) -> FloatArray:
    """``[T]`` mean estimate plus the largest (mean transfer + upward rank) over children, in seconds."""
    known = replay._cache.get("upward_rank")
    if isinstance(known, np.ndarray):
        return known
    weights = mean_estimate(replay), mean_transfer(replay)
    rank = _longest_to_exit(replay.topological_order, replay.parent_ptr, replay.parent_idx, *weights)
    return _cached(replay, "upward_rank", rank)


def mean_level(replay: Replay) -> FloatArray:
    """``[T]`` upward rank with all transfers taken as zero, in seconds."""
    weights = mean_estimate(replay), np.zeros(len(replay.parent_idx))
    return np.asarray(_longest_to_exit(replay.topological_order, replay.parent_ptr, replay.parent_idx, *weights))


def downward_rank(replay: Replay) -> FloatArray:
    """``[T]`` largest (downward rank + mean estimate + mean transfer) over parents, in seconds."""
    weights = mean_estimate(replay), mean_transfer(replay)
    return np.asarray(_longest_from_entry(replay.topological_order, replay.parent_ptr, replay.parent_idx, *weights))


def bottom_level(replay: Replay, *, realised: bool = False) -> FloatArray:
    """``[T]`` longest path to an exit on the fastest groups, no transfers, own time included, in seconds."""
    key = f"bottom_level_{realised}"
    known = replay._cache.get(key)
    if isinstance(known, np.ndarray):
        return known
    weights = fastest(replay, realised=realised), np.zeros(len(replay.parent_idx))
    level = _longest_to_exit(replay.topological_order, replay.parent_ptr, replay.parent_idx, *weights)
    return _cached(replay, key, level)


def top_level(replay: Replay) -> FloatArray:
    """``[T]`` longest path from an entry on the fastest groups, no transfers, own time excluded, in seconds."""
    weights = fastest(replay), np.zeros(len(replay.parent_idx))
    return np.asarray(_longest_from_entry(replay.topological_order, replay.parent_ptr, replay.parent_idx, *weights))


def critical_path(replay: Replay, *, realised: bool = True) -> FloatArray:
    """``[W]`` critical path in seconds: realised durations for metrics, estimates for features and deadlines."""
    level = bottom_level(replay, realised=realised)
    return np.asarray(np.maximum.reduceat(level, replay.workflow_ptr[:-1]))


def descendants(replay: Replay, weight: FloatArray, *, most: int | None = None) -> tuple[FloatArray, NDArray[np.int64]]:
    """(``[T]`` sum of ``weight``, ``[T]`` count) over the distinct descendants of each task.

    Quadratic in the size of a workflow in the worst case; workflows of more than ``most`` tasks are left at zero.
    """
    total = np.zeros(len(replay))
    count = np.zeros(len(replay), np.int64)
    for first, last in zip(replay.workflow_ptr[:-1], replay.workflow_ptr[1:], strict=True):
        if most is not None and last - first > most:
            continue
        total[first:last], count[first:last] = _count_descendants(
            replay.child_ptr, replay.child_idx, weight, first, last
        )
    return total, count


def lower_bound(replay: Replay, *, realised: bool = True) -> float:
    """Seconds no schedule's makespan can beat: the longest path, or work over capacity of one resource.

    ``realised=False`` counts with estimates, which is all that a policy may read.
    """
    path = float((replay.arrival - replay.first_arrival + critical_path(replay, realised=realised)).max())
    least = fastest(replay, realised=realised)
    work = (replay.demand * (replay.instances * least)[:, None]).sum(axis=0)
    nodes = np.array([group.nodes for group in replay.cluster.groups], np.float64)
    capacity = (replay.cluster.capacity * nodes[:, None]).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        area = np.where(capacity > 0, work / capacity, 0.0)
    return max(path, float(area.max()))
