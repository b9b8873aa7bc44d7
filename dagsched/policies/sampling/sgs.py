"""Compiled schedule generation for one pooled node: serial, parallel, forward-backward improvement, best of N.

Serial and parallel generation: Kolisch, "Serial and parallel resource-constrained project scheduling methods
revisited", EJOR 90, 1996. Forward-backward improvement: Tormos and Lova, Annals of Operations Research 102,
2001, and Valls, Ballestin and Quintanilla ("double justification"), EJOR 165, 2005.

Everything here holds a task with all its instances at once; times are float64, so that integers stay exact.
``problem`` is ``(duration[T], demand[T, R], need[T, R], capacity[R], parent_ptr, parent_idx, child_ptr,
child_idx)`` with ``need`` = demand less the fit tolerance; exchanging parents and children gives the reversed
problem. ``work`` is scratch memory from :func:`new_work`. All kernels live in this module.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dagsched.simulator import kernel
from dagsched.simulator.compilation import PartCompiler
from dagsched.simulator.kernel import uniform
from dagsched.simulator.kernel_cache import drop_stale

SERIAL, PARALLEL, MIXED = 0, 1, 2
MAKESPAN, FLOW_TIME = 0, 1

# Only entries get a wrapper for calls from Python, which takes long to compile; calling an `inner` crashes.
entry = njit(cache=True, nogil=True, no_cfunc_wrapper=True)
inner = njit(pipeline_class=PartCompiler, cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@entry
def new_work(tasks, resources):  # type: ignore[no-untyped-def]
    """Scratch memory for one problem size."""
    return (
        np.empty(tasks, np.int64),  # parents still to be scheduled
        np.empty(tasks + 1),  # heap keys
        np.empty(tasks + 1, np.int64),  # heap values
        np.empty(tasks + 1),  # moment of an event
        np.empty(tasks + 1, np.int64),  # next event, -1 = none
        np.empty((tasks + 1, resources)),  # free from the event on
        np.empty(tasks, np.int64),  # event at which a task finishes; eligible tasks in parallel generation
    )


@inner
def _push(keys, values, length, key, value):  # type: ignore[no-untyped-def]
    """Add to a binary heap, largest key first, least value on ties; returns the new length."""
    k = length
    while k > 0:
        above = (k - 1) >> 1
        if keys[above] > key or (keys[above] == key and values[above] < value):
            break
        keys[k], values[k] = keys[above], values[above]
        k = above
    keys[k], values[k] = key, value
    return length + 1


@inner
def _pop(keys, values, length):  # type: ignore[no-untyped-def]
    """Remove the first value (it must be read before at ``values[0]``); returns the new length."""
    length -= 1
    key, value = keys[length], values[length]
    k = 0
    while 2 * k + 1 < length:
        below = 2 * k + 1
        other = below + 1
        if other < length and (
            keys[other] > keys[below] or (keys[other] == keys[below] and values[other] < values[below])
        ):
            below = other
        if keys[below] < key or (keys[below] == key and values[below] > value):
            break
        keys[k], values[k] = keys[below], values[below]
        k = below
    keys[k], values[k] = key, value
    return length


@entry
def serial(key, problem, work, origin, start, finish):  # type: ignore[no-untyped-def]
    """Each task in turn (largest ``key`` among those whose parents are placed) at its earliest feasible start.

    The profile is a linked list of events in order of time. A start always falls on an existing event, so
    that one task adds at most one event, and the search begins at the event that ends the last parent.
    Fills ``start`` and ``finish`` ``[T]``; returns the last finish.
    """
    duration, demand, need, capacity, parent_ptr, parent_idx, child_ptr, child_idx = problem
    waiting, keys, values, moment, after, free, event_of = work
    resources = len(capacity)
    moment[0], after[0] = origin, -1
    for r in range(resources):
        free[0, r] = capacity[r]
    events, queued, last_finish = 1, 0, origin
    for task in range(len(key)):
        waiting[task] = parent_ptr[task + 1] - parent_ptr[task]
        if waiting[task] == 0:
            queued = _push(keys, values, queued, key[task], task)
    while queued:
        task = values[0]
        queued = _pop(keys, values, queued)
        begin = 0
        for k in range(parent_ptr[task], parent_ptr[task + 1]):
            if moment[event_of[parent_idx[k]]] > moment[begin]:
                begin = event_of[parent_idx[k]]
        end = moment[begin] + duration[task]
        k = begin
        while True:  # invariant: the task fits from `begin` up to event k (exclusive)
            fits = True
            for r in range(resources):
                if need[task, r] > free[k, r]:
                    fits = False
                    break
            last = k
            k = after[k]
            if not fits:
                begin, end = k, moment[k] + duration[task]
            elif k < 0 or moment[k] >= end:
                break
        start[task], finish[task] = moment[begin], end
        last_finish = max(last_finish, end)
        if end == moment[begin]:
            event_of[task] = begin
            takes_room = False
            for r in range(resources):
                takes_room = takes_room or demand[task, r] > 0
            if takes_room:  # an event of its own at this moment keeps it against what is to run across
                moment[events], after[events], after[begin] = end, after[begin], events
                for r in range(resources):
                    free[events, r] = free[begin, r]
                    free[begin, r] -= demand[task, r]
                events += 1
        else:
            if k >= 0 and moment[k] == end:
                event_of[task] = k
            else:
                moment[events], after[events], after[last] = end, k, events
                for r in range(resources):
                    free[events, r] = free[last, r]
                event_of[task] = events
                events += 1
            stop = event_of[task]
            k = begin
            while k != stop:
                for r in range(resources):
                    free[k, r] -= demand[task, r]
                k = after[k]
        for k in range(child_ptr[task], child_ptr[task + 1]):
            child = child_idx[k]
            waiting[child] -= 1
            if waiting[child] == 0:
                queued = _push(keys, values, queued, key[child], child)
    return last_finish


@entry
def parallel(key, problem, work, origin, start, finish):  # type: ignore[no-untyped-def]
    """At every finish, start all eligible tasks that fit, largest ``key`` first (least index on ties).

    Fills ``start`` and ``finish`` ``[T]``; returns the last finish. Equals the simulator's replay of a fixed
    priority on one node.
    """
    duration, demand, need, capacity, parent_ptr, _, child_ptr, child_idx = problem
    waiting, keys, values, _, _, free_rows, eligible = work
    resources = len(capacity)
    free, least = free_rows[0], np.empty(resources)
    for r in range(resources):
        free[r], least[r] = capacity[r], np.inf
    count, running, now = 0, 0, origin
    for task in range(len(key)):
        waiting[task] = parent_ptr[task + 1] - parent_ptr[task]
        if waiting[task] == 0:
            count = _insert(eligible, count, key, task)
        for r in range(resources):
            least[r] = min(least[r], need[task, r])
    while True:
        kept, room = 0, True
        for k in range(count):
            task = eligible[k]
            fits = room
            if fits:
                for r in range(resources):
                    if need[task, r] > free[r]:
                        fits = False
                        break
            if not fits:
                eligible[kept] = task
                kept += 1
                continue
            start[task], finish[task] = now, now + duration[task]
            running = _push(keys, values, running, -finish[task], task)
            for r in range(resources):
                free[r] -= demand[task, r]
                room = room and least[r] <= free[r]
        count = kept
        if running == 0:
            return now
        now = -keys[0]
        while running and -keys[0] == now:
            task = values[0]
            running = _pop(keys, values, running)
            for r in range(resources):
                free[r] += demand[task, r]
            for k in range(child_ptr[task], child_ptr[task + 1]):
                child = child_idx[k]
                waiting[child] -= 1
                if waiting[child] == 0:
                    count = _insert(eligible, count, key, child)


@inner
def _insert(ordered, count, key, task):  # type: ignore[no-untyped-def]
    """Put a task into a list ordered by (key descending, index); returns the new length."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        other = ordered[middle]
        if key[other] > key[task] or (key[other] == key[task] and other < task):
            low = middle + 1
        else:
            high = middle
    for k in range(count, low, -1):
        ordered[k] = ordered[k - 1]
    ordered[low] = task
    return count + 1


@inner
def reversed_problem(problem):  # type: ignore[no-untyped-def]
    """The same project with its arrows turned round."""
    duration, demand, need, capacity, parent_ptr, parent_idx, child_ptr, child_idx = problem
    return duration, demand, need, capacity, child_ptr, child_idx, parent_ptr, parent_idx


@entry
def perturb(score, scale, state, key):  # type: ignore[no-untyped-def]
    """``key`` = ``score`` + ``scale`` x standard Gumbel noise, one draw per task."""
    for task in range(len(score)):
        key[task] = score[task]
        if scale > 0:
            key[task] -= scale * np.log(-np.log(uniform(state)))


@inner
def objective_of_times(objective, last_finish, origin, finish, workflow_of, share, latest):  # type: ignore[no-untyped-def]
    """Makespan, or the mean over workflows by weight (``share``) of their last finish, in seconds after the origin."""
    if objective == MAKESPAN:
        return last_finish - origin
    for w in range(len(latest)):
        latest[w] = origin
    for task in range(len(finish)):
        latest[workflow_of[task]] = max(latest[workflow_of[task]], finish[task])
    total = 0.0
    for w in range(len(latest)):
        total += share[w] * (latest[w] - origin)
    return total


@inner
def copy_values(source, target):  # type: ignore[no-untyped-def]
    """``target[:] = source`` without numba's allocator."""
    for k in range(len(source)):
        target[k] = source[k]


@entry
def best_of(passes, score, noise, generation, improve, problem, origin, objective, owners, bound):  # type: ignore[no-untyped-def]
    """The best of ``passes`` schedules from perturbed priorities; ``noise`` is ``(scales, seed)``,
    ``owners`` ``(workflow_of[T], share[W])``.

    Sample ``k`` adds Gumbel noise of ``scales[k % len(scales)]``; sample 0 is unperturbed. Mixed generation
    takes turns, parallel first. With ``improve`` each sample is followed by rounds of a backward and a forward
    serial pass, as long as a round shortens the schedule; each pass counts. Stops at ``bound``.

    Returns:
        (best value, ``start[T]``, passes used).
    """
    tasks = len(score)
    scales, seed = noise
    workflow_of, share = owners
    work = new_work(tasks, problem[1].shape[1])
    backward = reversed_problem(problem)
    state = np.array([seed], np.uint64)
    key, start, finish = np.empty(tasks), np.empty(tasks), np.empty(tasks)
    back_start, back_finish = np.empty(tasks), np.empty(tasks)
    best, best_start = np.inf, np.empty(tasks)
    used, sample, latest = 0, 0, np.empty(len(share))
    while used < passes and best > bound:
        perturb(score, scales[sample % len(scales)] if sample else 0.0, state, key)
        if generation == PARALLEL or (generation == MIXED and sample % 2 == 0):
            length = parallel(key, problem, work, origin, start, finish)
        else:
            length = serial(key, problem, work, origin, start, finish)
        used, sample = used + 1, sample + 1
        value = objective_of_times(objective, length, origin, finish, workflow_of, share, latest)
        if value < best:
            best = value
            copy_values(start, best_start)
        while improve and used + 2 <= passes:
            serial(finish, backward, work, 0.0, back_start, back_finish)
            shorter = serial(back_finish, problem, work, origin, start, finish)
            used += 2
            value = objective_of_times(objective, shorter, origin, finish, workflow_of, share, latest)
            if value < best:
                best = value
                copy_values(start, best_start)
            if shorter >= length:
                break
            length = shorter
    return best, best_start, used


drop_stale(best_of, kernel.__file__)
