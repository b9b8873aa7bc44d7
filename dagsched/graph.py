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
def _sum_descendants(order, child_ptr, child_idx, weight, first, last, total, count):  # type: ignore[no-untyped-def]
    """Add up ``weight`` ``[T, R]`` over the distinct descendants of tasks ``first..last``, and count them.

    ``order`` is the workflow's part of the topological order. Each task's descendants are a row of bits, the union
    of its children's rows: much faster than a search from every task.
    """
    size = last - first
    words = (size + 63) // 64
    below = np.zeros((size, words), np.uint64)
    for k in range(len(order) - 1, -1, -1):
        task = order[k]
        mine = below[task - first]
        for at in range(child_ptr[task], child_ptr[task + 1]):
            child = child_idx[at] - first
            theirs = below[child]
            for word in range(words):
                mine[word] |= theirs[word]
            mine[child >> 6] |= np.uint64(1) << np.uint64(child & 63)
        for word in range(words):
            bits = mine[word]
            place = first + 64 * word
            while bits:
                if bits & np.uint64(255) == 0:  # descendants are few, or lie together
                    bits >>= np.uint64(8)
                    place += 8
                    continue
                if bits & np.uint64(1):
                    count[task] += 1
                    for r in range(weight.shape[1]):
                        total[task, r] += weight[place, r]
                bits >>= np.uint64(1)
                place += 1


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
    latency = _mean(cluster.latency[off], pairs[off])
    per_byte = _mean(1.0 / cluster.bandwidth[off], pairs[off])
    seconds = latency + replay.parent_bytes * per_byte
    children = np.repeat(np.arange(len(replay)), np.diff(replay.parent_ptr))
    untimed = replay.milestone[replay.parent_idx] | replay.milestone[children]
    return np.where(untimed, 0.0, seconds)


def _mean(value: FloatArray, weight: FloatArray) -> float:
    """Weighted mean; of equal values that value itself, so that rounding breaks no tie between paths."""
    return float(value[0]) if (value == value[0]).all() else float((value * weight).sum() / weight.sum())


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
    """(sums of ``weight`` ``[T]`` or ``[T, R]``, in its shape; ``[T]`` count) over each task's distinct descendants.

    Quadratic in the size of a workflow in the worst case; workflows of more than ``most`` tasks are left at zero.
    """
    columns = np.ascontiguousarray(weight if weight.ndim == 2 else weight[:, None])
    total = np.zeros(columns.shape)
    count = np.zeros(len(replay), np.int64)
    for first, last in zip(replay.workflow_ptr[:-1], replay.workflow_ptr[1:], strict=True):
        if most is None or last - first <= most:
            order = replay.topological_order[first:last]
            _sum_descendants(order, replay.child_ptr, replay.child_idx, columns, first, last, total, count)
    return total.reshape(weight.shape), count


def lower_bound(replay: Replay, *, realised: bool = True, workflows: int | None = None) -> float:
    """Seconds no schedule's makespan can beat: the longest path, or work over capacity of one resource.

    ``realised=False`` counts with estimates, which is all that a policy may read. ``workflows``: of the first so many.
    """
    first = slice(0, len(replay.arrival) if workflows is None else workflows)
    tasks = slice(0, int(replay.workflow_ptr[first.stop]))
    path = float((replay.arrival - replay.first_arrival + critical_path(replay, realised=realised))[first].max())
    least = fastest(replay, realised=realised)
    work = (replay.demand * (replay.instances * least)[:, None])[tasks].sum(axis=0)
    nodes = np.array([group.nodes for group in replay.cluster.groups], np.float64)
    capacity = (replay.cluster.capacity * nodes[:, None]).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        area = np.where(capacity > 0, work / capacity, 0.0)
    return max(path, float(area.max()))
