"""Compiled insertion scheduling: the free resources of every node over time, and tasks put into the first gap.

One kernel plans whole workflows in a given priority order (HEFT, CPoP and PEFT differ only in that order, in
the nodes a task may use and in a bias per group). All kernels live in this module; none sees real durations.

The profile of a node is a step function kept in a pool shared by all nodes: segment ``k`` of node ``n`` lies
at ``begin[n] + k``, starts at ``time[...]`` seconds, ends where the next one starts (the last never ends) and
has ``free[..., R]`` units left. A task of zero duration leaves a segment of zero length before the one that starts
at its time: what runs across that moment must leave room for it, what starts or ends then need not.
``block_free`` holds the largest free
amount of each run of ``BLOCK`` pool positions, so that a search jumps over runs in which nothing can fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dagsched.replay import FIT_TOLERANCE
from dagsched.simulator.compilation import PartCompiler
from dagsched.workflow import FloatArray, IntArray

Profiles = tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray, IntArray]

BLOCK = 32
MANY = 2**62

# Only entries get a wrapper for calls from Python, which takes long to compile; calling an `inner` crashes.
entry = njit(cache=True, nogil=True, no_cfunc_wrapper=True)
inner = njit(pipeline_class=PartCompiler, cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def empty_profiles(capacity: FloatArray, node_group: IntArray, origin: float) -> Profiles:
    """Profiles of idle nodes from ``origin`` seconds on: ``(time, free, block_free, begin, room, size)``."""
    nodes = len(node_group)
    time = np.full(nodes * BLOCK, np.inf)
    free = np.zeros((nodes * BLOCK, capacity.shape[1]))
    time[::BLOCK] = origin
    free[::BLOCK] = capacity[node_group]
    block_free = np.ascontiguousarray(capacity[node_group])
    return time, free, block_free, np.arange(nodes) * BLOCK, np.full(nodes, BLOCK), np.ones(nodes, np.int64)


@inner
def _refresh_blocks(free, block_free, first, last):  # type: ignore[no-untyped-def]
    """Recompute the block maxima that cover pool positions ``first..last`` (``last`` exclusive, end of node)."""
    for b in range(first // BLOCK, (last - 1) // BLOCK + 1):
        stop = min(last, (b + 1) * BLOCK)
        for r in range(free.shape[1]):
            most = free[b * BLOCK, r]
            for k in range(b * BLOCK + 1, stop):
                most = max(most, free[k, r])
            block_free[b, r] = most


@inner
def _segment_at(time, first, size, moment):  # type: ignore[no-untyped-def]
    """Pool position of the last segment that starts by ``moment`` (the first one for anything earlier)."""
    low, high = first, first + size
    while high - low > 1:
        middle = (low + high) >> 1
        if time[middle] <= moment:
            low = middle
        else:
            high = middle
    return low


@inner
def _earliest_start(time, free, block_free, first, size, slack, demand, ready, seconds, bias, limit):  # type: ignore[no-untyped-def]
    """First start >= ``ready`` of a gap for ``demand``; ``inf`` once start + seconds + bias >= limit."""
    end, k = first + size, first + size - 1
    if size > 1 and ready < time[k]:
        k = _segment_at(time, first, size, ready)
    start = max(ready, time[first])
    while start + seconds + bias < limit:
        fits = True
        for r in range(len(demand)):
            if demand[r] > free[k, r] + slack[r]:
                fits = False
                break
        if fits:
            if k + 1 == end or (time[k + 1] >= start + seconds and time[k + 1] > start):
                return start
            k += 1
            continue
        k += 1
        while k < end and k % BLOCK == 0:  # a run in which one resource is always too scarce holds no start
            hopeless = False
            for r in range(len(demand)):
                if demand[r] > block_free[k // BLOCK, r] + slack[r]:
                    hopeless = True
                    break
            if not hopeless:
                break
            k += BLOCK
        if k >= end:  # never for a task that the empty node can hold: the last segment is all free
            return np.inf
        start = time[k]
    return np.inf


@inner
def _instances_that_fit(time, free, first, size, slack, demand, start, seconds, most):  # type: ignore[no-untyped-def]
    """How many of at most ``most`` identical instances fit together over ``[start, start + seconds)``."""
    k = _segment_at(time, first, size, start)
    while k < first + size:
        for r in range(len(demand)):
            if demand[r] > 0:
                most = min(most, max(1, np.int64((free[k, r] + slack[r]) / demand[r])))
        k += 1
        if k < first + size and time[k] >= start + seconds:
            break
    return most


@inner
def _insert_segment(time, free, first, size, k, moment):  # type: ignore[no-untyped-def]
    """Insert a segment at pool position ``k + 1``, with the free amounts of segment ``k``."""
    for j in range(first + size, k, -1):
        time[j] = time[j - 1]
        for r in range(free.shape[1]):
            free[j, r] = free[j - 1, r]
    time[k + 1] = moment


@inner
def _split(time, free, first, size, moment):  # type: ignore[no-untyped-def]
    """Make ``moment`` a border; returns (pool position of the last segment that starts then, new size)."""
    k = _segment_at(time, first, size, moment)
    if time[k] == moment:
        return k, size
    _insert_segment(time, free, first, size, k, moment)
    return k + 1, size + 1


@inner
def _join(time, free, first, size, k):  # type: ignore[no-untyped-def]
    """Remove the border at pool position ``k`` if both sides have the same free amounts; returns the new size."""
    if k <= first or k >= first + size:
        return size
    for r in range(free.shape[1]):
        if free[k, r] != free[k - 1, r]:
            return size
    for j in range(k, first + size - 1):
        time[j] = time[j + 1]
        for r in range(free.shape[1]):
            free[j, r] = free[j + 1, r]
    return size - 1


@inner
def _book(time, free, block_free, first, size, demand, count, start, finish):  # type: ignore[no-untyped-def]
    """Take ``count * demand`` over ``[start, finish)``; needs room for two more segments; returns the new size."""
    left, size = _split(time, free, first, size, start)
    if start == finish:
        _insert_segment(time, free, first, size, left, start)
        for r in range(len(demand)):
            free[left, r] -= count * demand[r]
        _refresh_blocks(free, block_free, left, first + size + 1)
        return size + 1
    right, size = _split(time, free, first, size, finish)
    while time[right - 1] == finish:
        right -= 1
    for k in range(left, right):
        for r in range(len(demand)):
            free[k, r] -= count * demand[r]
    size = _join(time, free, first, size, right)
    size = _join(time, free, first, size, left)
    _refresh_blocks(free, block_free, max(first, left - 1), first + size)
    return size


@inner
def _grow(time, free, block_free, begin, room, node):  # type: ignore[no-untyped-def]
    """Move a node to the end of the pool with twice the room; returns the (possibly new) pool arrays."""
    resources = free.shape[1]
    used = 0
    for n in range(len(begin)):
        used = max(used, begin[n] + room[n])
    if used + 2 * room[node] > len(time):
        pool = 2 * (used + 2 * room[node])
        wider_time = np.empty(pool)
        wider_free = np.empty((pool, resources))
        wider_block = np.empty((pool // BLOCK, resources))
        for k in range(used):  # loops: assigning slices takes seconds to compile
            wider_time[k] = time[k]
            for r in range(resources):
                wider_free[k, r] = free[k, r]
                wider_block[k // BLOCK, r] = block_free[k // BLOCK, r]
        time, free, block_free = wider_time, wider_free, wider_block
    old, length = begin[node], room[node]
    for k in range(length):
        time[used + k] = time[old + k]
        for r in range(resources):
            free[used + k, r] = free[old + k, r]
            block_free[(used + k) // BLOCK, r] = block_free[(old + k) // BLOCK, r]
    begin[node], room[node] = used, 2 * length
    return time, free, block_free


@entry
def forget_past(time, free, block_free, begin, size, now):  # type: ignore[no-untyped-def]
    """Drop the segments that end at or before ``now``."""
    for n in range(len(begin)):
        gone = _segment_at(time, begin[n], size[n], now) - begin[n]
        if gone > 0:
            size[n] -= gone
            for k in range(begin[n], begin[n] + size[n]):
                time[k] = time[k + gone]
                for r in range(free.shape[1]):
                    free[k, r] = free[k + gone, r]
            _refresh_blocks(free, block_free, begin[n], begin[n] + size[n])


@inner
def _push(heap, length, value):  # type: ignore[no-untyped-def]
    """Add to a binary min-heap of integers; returns the new length."""
    k = length
    while k > 0:
        above = (k - 1) >> 1
        if heap[above] <= value:
            break
        heap[k] = heap[above]
        k = above
    heap[k] = value
    return length + 1


@inner
def _pop(heap, length):  # type: ignore[no-untyped-def]
    """Remove the least value; returns (value, new length)."""
    least = heap[0]
    length -= 1
    value = heap[length]
    k = 0
    while 2 * k + 1 < length:
        below = 2 * k + 1
        if below + 1 < length and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= value:
            break
        heap[k] = heap[below]
        k = below
    heap[k] = value
    return least, length


@inner
def _data_ready(task, ready, problem, finish, entry_ptr, placed, when):  # type: ignore[no-untyped-def]
    """Fill ``ready[G]`` (already at the release time) with the time the parents' data is in each group."""
    parent_ptr, parent_idx, parent_bytes = problem[5:8]
    instances, milestone, node_group, latency, bandwidth, transfers = problem[8:14]
    for edge in range(parent_ptr[task], parent_ptr[task + 1]):
        parent = parent_idx[edge]
        if not transfers or milestone[parent] or milestone[task]:
            for g in range(len(ready)):
                ready[g] = max(ready[g], finish[parent])
            continue
        for a in range(entry_ptr[parent, 0], entry_ptr[parent, 1]):
            origin = node_group[placed[a, 1]]
            sent = parent_bytes[edge] * placed[a, 2] / instances[parent]
            for g in range(len(ready)):
                moment = when[a, 1]
                if g != origin:
                    moment += latency[origin, g] + sent / bandwidth[origin, g]
                ready[g] = max(ready[g], moment)


@inner
def _first_choice(task, ready, problem, slack, choice, profiles, soonest):  # type: ignore[no-untyped-def]
    """Node of least finish + bias for one instance, lowest index on ties: (node, start).

    ``soonest[N]`` receives the earliest start on each node the task may use; for a task of one instance only
    a bound, since the search of a node stops as soon as it cannot win.
    """
    estimate, demand, can_hold = problem[:3]
    instances, node_group = problem[8], problem[10]
    node_from, node_to, bias = choice
    time, free, block_free, begin, _, size = profiles
    single = instances[task] == 1
    best, idle_seen, node, start = np.inf, -1, -1, 0.0
    for n in range(node_from[task], node_to[task]):
        g = node_group[n]
        soonest[n] = np.inf
        if not can_hold[task, g]:
            continue
        if size[n] == 1:  # idle nodes of a group are alike: the first one stands for all
            if idle_seen == g and single:
                continue
            idle_seen = g
        seconds, extra = estimate[task, g], bias[task, g] if len(bias) else 0.0
        limit = best if single else np.inf
        soonest[n] = _earliest_start(
            time, free, block_free, begin[n], size[n], slack[g], demand[task], ready[g], seconds, extra, limit
        )
        if soonest[n] + seconds + extra < best:
            best, node, start = soonest[n] + seconds + extra, n, soonest[n]
    return node, start


@inner
def _next_choice(task, problem, choice, soonest):  # type: ignore[no-untyped-def]
    """As :func:`_first_choice`, from the known ``soonest`` starts."""
    estimate, node_group = problem[0], problem[10]
    node_from, node_to, bias = choice
    best, node, start = np.inf, -1, 0.0
    for n in range(node_from[task], node_to[task]):
        g = node_group[n]
        end = soonest[n] + estimate[task, g] + (bias[task, g] if len(bias) else 0.0)
        if end < best:
            best, node, start = end, n, soonest[n]
    return node, start


@inner
def _longer(rows):  # type: ignore[no-untyped-def]
    """The rows with double the room."""
    wider = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    for k in range(len(rows)):
        for column in range(rows.shape[1]):
            wider[k, column] = rows[k, column]
    return wider


class Planning(NamedTuple):
    """Where a planning of ``K`` tasks stands between pieces.

    Attributes:
        heap: ``[K]`` places in the order of the ready tasks.
        counter: ready tasks, entries made.
        placed: ``[P, 3]`` task, node and count of the entries so far, in planning order.
        when: ``[P, 2]`` their start and finish in seconds.
    """

    heap: IntArray
    counter: IntArray
    placed: IntArray
    when: FloatArray


@entry
def begin_planning(order, parent_ptr, waiting):  # type: ignore[no-untyped-def]
    """A planning in which nothing is planned yet; see :func:`plan_some`."""
    at_position, position = order
    heap, queued = np.empty(len(at_position), np.int64), 0
    for task in at_position:
        waiting[task] = parent_ptr[task + 1] - parent_ptr[task]
        if waiting[task] == 0:
            queued = _push(heap, queued, position[task])
    counter = np.zeros(2, np.int64)
    counter[0] = queued
    room = len(at_position) + 1
    return Planning(heap, counter, np.empty((room, 3), np.int64), np.empty((room, 2)))


@entry
def plan_some(planning, order, release, problem, choice, scratch, profiles, most):  # type: ignore[no-untyped-def]
    """Go on until about ``most`` more entries are made, or every task is planned (``counter[0]`` is then 0).

    A task of many instances is never cut. Pieces of any size give the same plan. The other arguments are those of
    :func:`plan_workflows`. Returns the planning and the profiles, since both may have moved.
    """
    at_position, position = order
    estimate, demand, _, child_ptr, child_idx = problem[:5]
    instances, milestone, node_group, capacity = problem[8], problem[9], problem[10], problem[14]
    waiting, finish, entry_ptr = scratch
    time, free, block_free, begin, room, size = profiles
    heap, counter, placed, when = planning
    slack = capacity * FIT_TOLERANCE
    ready, soonest = np.empty(estimate.shape[1]), np.empty(len(node_group))
    queued, entries = counter[0], counter[1]
    spent = 0
    while queued and spent < most:
        place, queued = _pop(heap, queued)
        task = at_position[place]
        spent += 1
        for g in range(len(ready)):
            ready[g] = release
        _data_ready(task, ready, problem, finish, entry_ptr, placed, when)
        finish[task] = ready[0] if milestone[task] else release
        entry_ptr[task, 0] = entries
        left, node, start = 0, -1, 0.0
        if not milestone[task]:
            left = instances[task]
            profiles = time, free, block_free, begin, room, size
            node, start = _first_choice(task, ready, problem, slack, choice, profiles, soonest)
        busy = False
        for r in range(demand.shape[1]):
            busy = busy or demand[task, r] > 0
        while left > 0:
            g = node_group[node]
            first, seconds, count = begin[node], estimate[task, g], left
            if instances[task] > 1:
                count = _instances_that_fit(time, free, first, size[node], slack[g], demand[task], start, seconds, left)
            if busy:
                if size[node] + 2 > room[node]:
                    time, free, block_free = _grow(time, free, block_free, begin, room, node)
                    first = begin[node]
                end = start + seconds
                size[node] = _book(time, free, block_free, first, size[node], demand[task], count, start, end)
            if entries == len(placed):
                placed, when = _longer(placed), _longer(when)
            placed[entries, 0], placed[entries, 1], placed[entries, 2] = task, node, count
            when[entries, 0], when[entries, 1] = start, start + seconds
            finish[task] = max(finish[task], start + seconds)
            entries += 1
            spent += 1
            left -= count
            if left > 0:
                soonest[node] = _earliest_start(
                    time, free, block_free, first, size[node], slack[g], demand[task], start, seconds, 0.0, np.inf
                )
                node, start = _next_choice(task, problem, choice, soonest)
        entry_ptr[task, 1] = entries
        for k in range(child_ptr[task], child_ptr[task + 1]):
            waiting[child_idx[k]] -= 1
            if waiting[child_idx[k]] == 0:
                queued = _push(heap, queued, position[child_idx[k]])
    counter[0], counter[1] = queued, entries
    return Planning(heap, counter, placed, when), (time, free, block_free, begin, room, size)


@inner
def plan_workflows(order, release, problem, choice, scratch, profiles):  # type: ignore[no-untyped-def]
    """Plan every task of whole workflows into the profiles, highest priority among the ready ones first.

    Each instance goes where finish + bias is least (lowest node on ties). Instances of one task that end up
    in the same gap are booked together: after one is placed, no node can beat that gap, so the next one takes
    it too if it fits; the result equals placing them one by one (an entry of no duration keeps room for all).

    ``order`` is ``(at_position[K], position[T])``: the tasks, closed under parents and children, in order of
    priority, and its inverse. Nothing starts before ``release`` seconds. ``problem`` is ``(estimate[T, G],
    demand[T, R], can_hold[T, G], child_ptr, child_idx, parent_ptr, parent_idx, parent_bytes, instances[T],
    milestone[T], node_group[N], latency[G, G], bandwidth[G, G], transfers, capacity[G, R])``. ``choice`` is
    ``(node_from[T], node_to[T], bias[T, G] or [0, G])``: the range of nodes a task may use and the seconds
    added to a finish when nodes are compared. ``scratch`` is ``(waiting[T], finish[T], entry_ptr[T, 2])``,
    overwritten for the tasks planned. ``profiles`` is as from :func:`empty_profiles`; it is changed in place
    and returned, since the pool may move.

    Returns rows (task, node, count) and rows (start, finish) of the entries in planning order, and the profiles.
    """
    planning = begin_planning(order, problem[5], scratch[0])
    planning, profiles = plan_some(planning, order, release, problem, choice, scratch, profiles, MANY)
    entries = planning.counter[1]
    return planning.placed[:entries], planning.when[:entries], profiles
