"""Compiled insertion scheduling: the free resources of every node over time, and tasks put into the first gap.

One kernel plans whole workflows in a given priority order (HEFT, CPoP and PEFT differ only in that order, in
the nodes a task may use and in a bias per group). All kernels live in this module; none sees real durations.

The profile of a node is a step function kept in a pool shared by all nodes: segment ``k`` of node ``n`` lies
at ``begin[n] + k``, starts at ``time[...]`` seconds, ends where the next one starts (the last never ends) and
has ``free[..., R]`` units left. Neighbouring segments always differ. ``block_free`` holds the largest free
amount of each run of ``BLOCK`` pool positions, so that a search jumps over runs in which nothing can fit.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dagsched.replay import FIT_TOLERANCE

BLOCK = 32


@njit(cache=True, nogil=True)
def empty_profiles(capacity, node_group, origin):  # type: ignore[no-untyped-def]
    """Profiles of idle nodes from ``origin`` seconds on: ``(time, free, block_free, begin, room, size)``."""
    nodes, resources = len(node_group), capacity.shape[1]
    pool = nodes * BLOCK
    time = np.full(pool, np.inf)
    free = np.zeros((pool, resources))
    block_free = np.zeros((nodes, resources))
    begin = np.arange(nodes) * BLOCK
    for n in range(nodes):
        time[begin[n]] = origin
        for r in range(resources):
            free[begin[n], r] = capacity[node_group[n], r]
            block_free[n, r] = capacity[node_group[n], r]
    return time, free, block_free, begin, np.full(nodes, BLOCK), np.ones(nodes, np.int64)


@njit(cache=True, nogil=True)
def _refresh_blocks(free, block_free, first, last):  # type: ignore[no-untyped-def]
    """Recompute the block maxima that cover pool positions ``first..last`` (``last`` exclusive, end of node)."""
    for b in range(first // BLOCK, (last - 1) // BLOCK + 1):
        stop = min(last, (b + 1) * BLOCK)
        for r in range(free.shape[1]):
            most = free[b * BLOCK, r]
            for k in range(b * BLOCK + 1, stop):
                most = max(most, free[k, r])
            block_free[b, r] = most


@njit(cache=True, nogil=True)
def _segment_at(time, first, size, moment):  # type: ignore[no-untyped-def]
    """Pool position of the segment that contains ``moment`` (the first one for anything earlier)."""
    low, high = first, first + size
    while high - low > 1:
        middle = (low + high) >> 1
        if time[middle] <= moment:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _earliest_start(time, free, block_free, first, size, slack, demand, ready, seconds, bias, limit):  # type: ignore[no-untyped-def]
    """First start >= ``ready`` of a gap for ``demand``; ``inf`` once start + seconds + bias >= limit."""
    resources = len(demand)
    end = first + size
    k = end - 1
    if size > 1 and ready < time[k]:
        k = _segment_at(time, first, size, ready)
    start = max(ready, time[first])
    while start + seconds + bias < limit:
        fits = True
        for r in range(resources):
            if demand[r] > free[k, r] + slack[r]:
                fits = False
        if fits:
            if k + 1 == end or time[k + 1] >= start + seconds:
                return start
            k += 1
            continue
        k += 1
        while k < end and k % BLOCK == 0:  # a run in which one resource is always too scarce holds no start
            hopeless = False
            for r in range(resources):
                if demand[r] > block_free[k // BLOCK, r] + slack[r]:
                    hopeless = True
            if not hopeless:
                break
            k += BLOCK
        if k >= end:  # cannot happen for a task that the empty node can hold: the last segment is all free
            return np.inf
        start = time[k]
    return np.inf


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _split(time, free, first, size, moment):  # type: ignore[no-untyped-def]
    """Make ``moment`` a border between segments; returns (its pool position, new size)."""
    k = _segment_at(time, first, size, moment)
    if time[k] == moment:
        return k, size
    resources = free.shape[1]
    for j in range(first + size, k + 1, -1):
        time[j] = time[j - 1]
        for r in range(resources):
            free[j, r] = free[j - 1, r]
    time[k + 1] = moment
    for r in range(resources):
        free[k + 1, r] = free[k, r]
    return k + 1, size + 1


@njit(cache=True, nogil=True)
def _join(time, free, first, size, k):  # type: ignore[no-untyped-def]
    """Remove the border at pool position ``k`` if both sides have the same free amounts; returns the new size."""
    if k <= first or k >= first + size:
        return size
    resources = free.shape[1]
    for r in range(resources):
        if free[k, r] != free[k - 1, r]:
            return size
    for j in range(k, first + size - 1):
        time[j] = time[j + 1]
        for r in range(resources):
            free[j, r] = free[j + 1, r]
    return size - 1


@njit(cache=True, nogil=True)
def _book(time, free, block_free, first, size, demand, count, start, finish):  # type: ignore[no-untyped-def]
    """Take ``count * demand`` over ``[start, finish)``; needs room for two more segments; returns the new size."""
    left, size = _split(time, free, first, size, start)
    right, size = _split(time, free, first, size, finish)
    for k in range(left, right):
        for r in range(len(demand)):
            free[k, r] -= count * demand[r]
    size = _join(time, free, first, size, right)
    size = _join(time, free, first, size, left)
    _refresh_blocks(free, block_free, max(first, left - 1), first + size)
    return size


@njit(cache=True, nogil=True)
def _grow(time, free, block_free, begin, room, node):  # type: ignore[no-untyped-def]
    """Move a node to the end of the pool with twice the room; returns the (possibly new) pool arrays."""
    resources = free.shape[1]
    used = 0
    for n in range(len(begin)):
        used = max(used, begin[n] + room[n])
    if used + 2 * room[node] > len(time):
        pool = 2 * (used + 2 * room[node])
        wider_time = np.full(pool, np.inf)
        wider_free = np.zeros((pool, resources))
        wider_block = np.zeros((pool // BLOCK, resources))
        wider_time[: len(time)] = time
        wider_free[: len(time)] = free
        wider_block[: len(block_free)] = block_free
        time, free, block_free = wider_time, wider_free, wider_block
    old, length = begin[node], room[node]
    for k in range(length):
        time[used + k] = time[old + k]
        for r in range(resources):
            free[used + k, r] = free[old + k, r]
    for b in range(length // BLOCK):
        for r in range(resources):
            block_free[used // BLOCK + b, r] = block_free[old // BLOCK + b, r]
    begin[node], room[node] = used, 2 * length
    return time, free, block_free


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _data_ready(task, ready, problem, finish, entry_ptr, entry_node, entry_count, entry_finish):  # type: ignore[no-untyped-def]
    """Fill ``ready[G]`` (already at the release time) with the time the parents' data is in each group."""
    parent_ptr, parent_idx, parent_bytes = problem[5:8]
    instances, milestone, node_group, latency, bandwidth, transfers = problem[8:14]
    groups = len(ready)
    for edge in range(parent_ptr[task], parent_ptr[task + 1]):
        parent = parent_idx[edge]
        if not transfers or milestone[parent] or milestone[task]:
            for g in range(groups):
                ready[g] = max(ready[g], finish[parent])
            continue
        for a in range(entry_ptr[parent, 0], entry_ptr[parent, 1]):
            origin = node_group[entry_node[a]]
            sent = parent_bytes[edge] * entry_count[a] / instances[parent]
            for g in range(groups):
                moment = entry_finish[a]
                if g != origin:
                    moment += latency[origin, g] + sent / bandwidth[origin, g]
                ready[g] = max(ready[g], moment)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _longer(array, length):  # type: ignore[no-untyped-def]
    """The array with at least double the room."""
    wider = np.empty(2 * length, array.dtype)
    wider[:length] = array[:length]
    return wider


@njit(cache=True, nogil=True)
def plan_workflows(order, release, problem, choice, scratch, profiles):  # type: ignore[no-untyped-def]
    """Plan every task of whole workflows into the profiles, highest priority among the ready ones first.

    Each instance goes where finish + bias is least (lowest node on ties). Instances of one task that end up
    in the same gap are booked together: after one is placed, no node can beat that gap, so the next one takes
    it too if it fits; the result equals placing them one by one.

    ``order`` is ``(at_position[K], position[T])``: the tasks, closed under parents and children, in order of
    priority, and its inverse. Nothing starts before ``release`` seconds. ``problem`` is ``(estimate[T, G],
    demand[T, R], can_hold[T, G], child_ptr, child_idx, parent_ptr, parent_idx, parent_bytes, instances[T],
    milestone[T], node_group[N], latency[G, G], bandwidth[G, G], transfers, capacity[G, R])``. ``choice`` is
    ``(node_from[T], node_to[T], bias[T, G] or [0, G])``: the range of nodes a task may use and the seconds
    added to a finish when nodes are compared. ``scratch`` is ``(waiting[T], finish[T], entry_ptr[T, 2])``,
    overwritten for the tasks planned. ``profiles`` is as from :func:`empty_profiles`; it is changed in place
    and returned, since the pool may move.

    Returns ``(task, node, count, start)`` of the entries in planning order, and the profiles.
    """
    at_position, position = order
    estimate, demand, _, child_ptr, child_idx, parent_ptr = problem[:6]
    instances, milestone, node_group, capacity = problem[8], problem[9], problem[10], problem[14]
    waiting, finish, entry_ptr = scratch
    time, free, block_free, begin, room, size = profiles
    room_for = len(at_position) + 1
    entry_task, entry_node = np.empty(room_for, np.int64), np.empty(room_for, np.int64)
    entry_count = np.empty(room_for, np.int64)
    entry_start, entry_finish = np.empty(room_for), np.empty(room_for)
    slack = capacity * FIT_TOLERANCE
    ready, soonest = np.empty(estimate.shape[1]), np.empty(len(node_group))
    heap, queued, entries = np.empty(len(at_position), np.int64), 0, 0
    for task in at_position:
        waiting[task] = parent_ptr[task + 1] - parent_ptr[task]
        if waiting[task] == 0:
            queued = _push(heap, queued, position[task])
    while queued:
        place, queued = _pop(heap, queued)
        task = at_position[place]
        ready[:] = release
        _data_ready(task, ready, problem, finish, entry_ptr, entry_node, entry_count, entry_finish)
        finish[task] = ready[0] if milestone[task] else release
        entry_ptr[task, 0] = entries
        left, node, start = 0, -1, 0.0
        if not milestone[task]:
            left = instances[task]
            profiles = time, free, block_free, begin, room, size
            node, start = _first_choice(task, ready, problem, slack, choice, profiles, soonest)
        busy = demand[task].any()
        while left > 0:
            g = node_group[node]
            first, seconds, count = begin[node], estimate[task, g], left
            if instances[task] > 1:
                count = _instances_that_fit(time, free, first, size[node], slack[g], demand[task], start, seconds, left)
            if busy and start + seconds > start:
                if size[node] + 2 > room[node]:
                    time, free, block_free = _grow(time, free, block_free, begin, room, node)
                    first = begin[node]
                end = start + seconds
                size[node] = _book(time, free, block_free, first, size[node], demand[task], count, start, end)
            if entries == len(entry_task):
                entry_task, entry_node = _longer(entry_task, entries), _longer(entry_node, entries)
                entry_count = _longer(entry_count, entries)
                entry_start, entry_finish = _longer(entry_start, entries), _longer(entry_finish, entries)
            entry_task[entries], entry_node[entries], entry_count[entries] = task, node, count
            entry_start[entries], entry_finish[entries] = start, start + seconds
            finish[task] = max(finish[task], start + seconds)
            entries += 1
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
    found = entry_task[:entries], entry_node[:entries], entry_count[:entries], entry_start[:entries]
    return found, (time, free, block_free, begin, room, size)
