"""Compiled features: what changes with the state, for one task, the whole cluster and its node groups.

A :class:`Tracker` follows a replay through the simulator's own logs, so that whoever takes the decisions (a rule,
a person, the environment) leaves it right: each decision and arrival is read once. The order of a decision:
:func:`look` (what all candidates share), then :func:`fill` for each candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dagsched.features import schema
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, TASK_NAMES
from dagsched.simulator import kernel
from dagsched.simulator.kernel import (
    ARRIVED,
    DECISIONS,
    EVENTS,
    INDEX,
    NOW,
    READY,
    Problem,
    _fits_somewhere,
    _is_running,
    entry,
    inner,
)
from dagsched.simulator.stale import drop_stale
from dagsched.workflow import FloatArray, IntArray

_AT = {name: k for k, name in enumerate(TASK_NAMES)}
TASK_COUNT = len(TASK_NAMES)
FIRST_DYNAMIC = _AT["bottom_level"]
AFTER_DYNAMIC = _AT["demand_1"]
MOST_CHILDREN = 32
MOST_PARENTS = 255
ROUNDING = 1e-12  # shares of work below this are what subtraction left over
# Tables instead of logarithms and divisions, which were a third of the time of a decision.
LOG1P = np.log1p(np.arange(MOST_CHILDREN + 1.0))
INVERSE = np.concatenate([[0.0], 1.0 / np.arange(1.0, MOST_PARENTS + 1), [0.0]])
# Slots of Tracker.counter.
SEEN_DECISIONS, SEEN_ARRIVED, STARTED, LOOKS, RUNNING = range(5)
# Slots of Tracker.signal: what all candidates share. Times in seconds.
(
    SCALE,
    LEVEL,
    BOUND,
    PROGRESS,
    NEXT,
    BLOCKED,
    LONGEST,
    ELIGIBLE,
    AGES,
    QUEUE,
    ACTIVE,
    LATE,
    PER_SCALE,
    PER_BOUND,
    PER_LEVEL,
    PER_BELOW,
) = range(16)
# Rows of Tracker.resource.
UNSTARTED, ARRIVED_WORK, LOAD, STARVE, FREE, QUEUED, QUEUED_WORK = range(7)


class Tracker(NamedTuple):
    """What the features remember of a replay in progress."""

    counter: IntArray  # [5]
    seen: IntArray  # [T] unstarted instances
    started: IntArray  # [W] tasks fully started
    order: IntArray  # [T] tasks in the order in which they were fully started
    signal: FloatArray  # [16]
    resource: FloatArray  # [7, R] s of work (see Constants) or shares
    unstarted: FloatArray  # [W, R] s of work of each workflow
    longest: FloatArray  # [W] s, largest bottom level of a ready task; of the look in `stamp`
    stamp: IntArray  # [W]
    running: IntArray  # [T] heap of running tasks by `end`
    end: FloatArray  # [T] s, at most the next expected end of its allocations; NaN while not in the heap


def new_tracker(problem: Problem) -> Tracker:
    """A tracker for a replay that stands before its first arrival."""
    tasks, workflows = len(problem.task), len(problem.workflow)
    return Tracker(
        counter=np.zeros(5, np.int64),
        seen=np.zeros(tasks, np.int64),
        started=np.zeros(workflows, np.int64),
        order=np.zeros(tasks, np.int64),
        signal=np.zeros(16),
        resource=np.zeros((7, problem.capacity.shape[1])),
        unstarted=np.zeros((workflows, problem.capacity.shape[1])),
        longest=np.zeros(workflows),
        stamp=np.zeros(workflows, np.int64),
        running=np.zeros(tasks, np.int64),
        end=np.full(tasks, np.nan),
    )


@entry
def reset_tracker(X):
    """Back before the first arrival."""
    for k in range(len(X.counter)):
        X.counter[k] = 0
    for w in range(len(X.started)):
        X.started[w] = 0
        X.stamp[w] = 0
        for r in range(X.unstarted.shape[1]):
            X.unstarted[w, r] = 0.0
    for task in range(len(X.end)):
        X.end[task] = np.nan
    for k in range(X.resource.shape[0]):
        for r in range(X.resource.shape[1]):
            X.resource[k, r] = 0.0


@inner
def _expected_end(P, S, task):
    """Seconds at which the first of a task's running allocations is expected to end; inf with none running."""
    end = np.inf
    alloc = S.task[task].last_alloc
    running = S.task[task].unfinished - S.task[task].unstarted
    while running > 0 and alloc >= 0:
        if _is_running(S, alloc):
            running -= S.alloc[alloc].count
            end = min(end, S.alloc[alloc].execution + P.estimate[task, P.node_group[S.alloc[alloc].node]])
        alloc = S.alloc[alloc].older
    return end


@inner
def _next_completion(P, S, X):
    """Expected seconds to the end of the running allocation that is to end first; inf with nothing running.

    A key in the heap is at most the true one, which is computed when the task comes to the top.
    """
    while X.counter[RUNNING] > 0:
        task = X.running[0]
        end = _expected_end(P, S, task)
        if end == X.end[task]:
            return max(end - S.clock[NOW], 0.0)
        X.end[task] = end
        size, last = X.counter[RUNNING], task
        if end == np.inf:  # it has ended, or waits for room for further instances
            X.end[task] = np.nan
            size -= 1
            X.counter[RUNNING] = size
            last = X.running[size]
        hole = 0
        while True:
            child = 2 * hole + 1
            if child >= size:
                break
            if child + 1 < size and X.end[X.running[child + 1]] < X.end[X.running[child]]:
                child += 1
            if X.end[X.running[child]] >= X.end[last]:
                break
            X.running[hole] = X.running[child]
            hole = child
        X.running[hole] = last
    return np.inf


@inner
def _push_running(P, S, X, task):
    """Remember when a task of which something has just started is expected to have its next end."""
    end = _expected_end(P, S, task)
    if end == np.inf or X.end[task] <= end:
        return
    hole = X.counter[RUNNING]
    if np.isnan(X.end[task]):
        X.counter[RUNNING] = hole + 1
    else:
        hole = 0
        while X.running[hole] != task:
            hole += 1
    X.end[task] = end
    while hole > 0:
        above = (hole - 1) >> 1
        if X.end[X.running[above]] <= end:
            break
        X.running[hole] = X.running[above]
        hole = above
    X.running[hole] = task


@inner
def _catch_up(P, S, K, X):
    """Read the arrivals and decisions since the last look."""
    while X.counter[SEEN_ARRIVED] < S.counter[ARRIVED]:
        w = X.counter[SEEN_ARRIVED]
        X.counter[SEEN_ARRIVED] = w + 1
        for task in range(P.workflow_ptr[w], P.workflow_ptr[w + 1]):
            X.seen[task] = P.task[task].instances
            if P.task[task].milestone:
                continue
            for r in range(K.work.shape[1]):
                seconds = K.work[task, r] * P.task[task].instances
                X.resource[UNSTARTED, r] += seconds
                X.unstarted[w, r] += seconds
                X.resource[ARRIVED_WORK, r] += seconds
    while X.counter[SEEN_DECISIONS] < S.counter[DECISIONS]:
        task = S.decision[X.counter[SEEN_DECISIONS]].task
        X.counter[SEEN_DECISIONS] += 1
        if task < 0:
            continue
        begun = X.seen[task] - S.task[task].unstarted
        if begun == 0:
            continue  # a later decision on the same task has been counted already
        _push_running(P, S, X, task)
        X.seen[task] -= begun
        w = P.task[task].workflow & INDEX
        for r in range(K.work.shape[1]):
            X.unstarted[w, r] -= K.work[task, r] * begun
            left = X.resource[UNSTARTED, r] - K.work[task, r] * begun
            X.resource[UNSTARTED, r] = left if left > ROUNDING * X.resource[ARRIVED_WORK, r] else 0.0
        if X.seen[task] == 0:
            X.order[X.counter[STARTED]] = task
            X.counter[STARTED] += 1
            X.started[w] += 1


@entry
def catch_up(P, S, K, X):
    """Bring the tracker up to the present decision."""
    _catch_up(P, S, K, X)


@inner
def _look_at_ready(P, S, K, X):
    """Queue, longest paths and what does not fit, over all ready tasks."""
    look = X.counter[LOOKS]
    longest, blocked, ages, eligible, active, late = 0.0, -1.0, 0.0, 0, 0, 0
    for k in range(S.counter[READY]):
        task = S.ready[k] & INDEX
        bottom = P.task[task].bottom
        w = P.task[task].workflow & INDEX
        if X.stamp[w] != look:
            X.stamp[w] = look
            X.longest[w] = bottom
            active += 1
            late += K.deadline[w] < S.clock[NOW]
        elif bottom > X.longest[w]:
            X.longest[w] = bottom
        longest = max(longest, bottom)
        ages += S.clock[NOW] - S.task[task].ready_time
        count = S.task[task].unstarted
        for r in range(K.work.shape[1]):
            X.resource[QUEUED_WORK, r] += K.work[task, r] * count
            if K.total[r] > 0:
                X.resource[QUEUED, r] += P.demand[task, r] * count / K.total[r]
        if _fits_somewhere(P, S, task):
            eligible += 1
        else:
            blocked = max(blocked, bottom)
    X.signal[LONGEST] = longest
    X.signal[BLOCKED] = blocked
    X.signal[AGES] = ages
    X.signal[ELIGIBLE] = eligible
    X.signal[ACTIVE] = active
    X.signal[LATE] = late


@inner
def look(P, S, K, X):
    """Everything the candidates of this decision share."""
    _catch_up(P, S, K, X)
    X.counter[LOOKS] += 1
    resources = K.work.shape[1]
    for r in range(resources):
        X.resource[QUEUED, r] = 0.0
        X.resource[QUEUED_WORK, r] = 0.0
        free = 0.0  # in a register: adding in memory waits for each write
        for node in range(len(P.node_group)):
            free += S.free[node, r]
        X.resource[FREE, r] = free
    _look_at_ready(P, S, K, X)
    last = S.counter[ARRIVED] - 1
    X.signal[SCALE] = K.scale[last]
    X.signal[LEVEL] = max(P.workflow[last].prefix_bottom, 1e-12)
    X.signal[NEXT] = _next_completion(P, S, X)
    bound, left, arrived, queue = X.signal[LONGEST], 0.0, 0.0, 0.0
    for r in range(resources):
        bound = max(bound, X.resource[UNSTARTED, r])
        left += X.resource[UNSTARTED, r]
        arrived += X.resource[ARRIVED_WORK, r]
        queue = max(queue, X.resource[QUEUED_WORK, r])
        X.resource[FREE, r] = X.resource[FREE, r] / K.total[r] if K.total[r] > 0 else 0.0
    bound = max(bound, 1e-12)
    for r in range(resources):
        load = X.resource[UNSTARTED, r] / bound
        X.resource[LOAD, r] = load
        X.resource[STARVE, r] = load / (1.0 + X.resource[QUEUED, r])
    X.signal[BOUND] = bound
    X.signal[PER_SCALE] = 1.0 / X.signal[SCALE]
    X.signal[PER_BOUND] = 1.0 / bound
    X.signal[PER_LEVEL] = 1.0 / X.signal[LEVEL]
    most = P.workflow[last].prefix_below
    X.signal[PER_BELOW] = 1.0 / most if most > 0 else 0.0
    X.signal[PROGRESS] = left / arrived if arrived > 0 else 0.0
    X.signal[QUEUE] = queue


@inner
def _fill_children(P, S, X, task, out):
    """Joins that wait for the task, among its first children."""
    alone, longest, least, total = 0, 0.0, MOST_PARENTS + 1, 0.0
    first = P.child_ptr[task]
    for at in range(first, min(P.child_ptr[task + 1], first + MOST_CHILDREN)):
        child = P.child_idx[at & INDEX] & INDEX
        pending = min(S.task[child].pending, MOST_PARENTS) & INDEX
        least = min(least, pending)
        total += INVERSE[pending]
        if pending == 1:
            alone += 1
            longest = max(longest, P.task[child].bottom)
    out[_UNLOCKS] = LOG1P[alone]
    out[_UNLOCKS + 1] = longest * X.signal[PER_BOUND]
    out[_UNLOCKS + 2] = INVERSE[least]
    out[_UNLOCKS + 3] = total


_UNLOCKS = _AT["unlocks"]
_DEMAND_FREE = _AT["demand_free"]
_LOAD_DEMAND = _AT["load_demand"]
LEFT_WORK = _AT["left_work"]


@inner
def _fill_node(P, S, K, task, node, out):
    """How the task would sit on its node."""
    group = P.node_group[node] & INDEX
    tightest, leftover, alignment = 0.0, 0.0, 0.0
    for r in range(K.work.shape[1]):
        demand, free = P.demand[task, r], S.free[node, r]
        if demand > 0:
            tightest = max(tightest, demand / max(free, demand))
        per = K.per_capacity[group, r]
        leftover += (free - demand) * per
        alignment += demand * free * per * per
    out[_DEMAND_FREE] = tightest
    out[_DEMAND_FREE + 1] = leftover * K.per_resource[0]
    out[_DEMAND_FREE + 2] = alignment


@inner
def _fill_resources(K, X, task, inverse, out):
    """Sums over resources of what the cluster lacks and what the task brings."""
    load_demand, load_tail, free_demand = 0.0, 0.0, 0.0
    starve_demand, starve_tail, starve_near, starve_child = 0.0, 0.0, 0.0, 0.0
    for r in range(K.work.shape[1]):
        load, starve, share = X.resource[LOAD, r], X.resource[STARVE, r], K.share[task, r]
        load_demand += load * share
        load_tail += load * K.tail[task, r]
        free_demand += X.resource[FREE, r] * share
        starve_demand += starve * share
        starve_tail += starve * K.tail[task, r]
        starve_near += starve * K.near[task, r]
        starve_child += starve * K.child_share[task, r]
    out[_LOAD_DEMAND] = load_demand
    out[_LOAD_DEMAND + 1] = load_tail * inverse
    out[_LOAD_DEMAND + 2] = free_demand
    out[_LOAD_DEMAND + 3] = starve_demand
    out[_LOAD_DEMAND + 4] = starve_tail * inverse
    out[_LOAD_DEMAND + 5] = starve_near
    out[_LOAD_DEMAND + 6] = starve_child


@inner
def fill_dynamic(P, S, K, X, task, node, out):
    """Write the columns that change with the state, but for those of :func:`fill_left`.

    ``node`` is where the placement rule would put the task.
    """
    now, inverse = S.clock[NOW], X.signal[PER_SCALE]
    w = P.task[task].workflow & INDEX
    estimate, bottom, share = P.task[task].fastest, P.task[task].bottom, P.task[task].share
    level = bottom * X.signal[PER_LEVEL]
    progress = X.signal[PROGRESS]
    relative = bottom * X.signal[PER_BOUND]
    out[FIRST_DYNAMIC] = level
    out[FIRST_DYNAMIC + 1] = K.below[task] * X.signal[PER_BELOW]
    out[FIRST_DYNAMIC + 2] = share * level
    out[FIRST_DYNAMIC + 3] = relative
    out[FIRST_DYNAMIC + 4] = max(0.0, relative - 0.25)
    out[FIRST_DYNAMIC + 5] = max(0.0, relative - 0.5)
    out[FIRST_DYNAMIC + 6] = max(0.0, relative - 0.75)
    out[FIRST_DYNAMIC + 7] = share * progress
    out[FIRST_DYNAMIC + 8] = level * progress
    out[FIRST_DYNAMIC + 9] = estimate * inverse * progress
    left = max(S.workflow[w].left, 0.0) * inverse
    out[FIRST_DYNAMIC + 10] = left
    out[FIRST_DYNAMIC + 11] = left / (1.0 + left)
    out[FIRST_DYNAMIC + 12] = bottom / X.longest[w] if X.longest[w] > 0 else 1.0
    out[FIRST_DYNAMIC + 13] = (now - S.task[task].ready_time) * inverse
    out[FIRST_DYNAMIC + 14] = (now - P.workflow[w].arrival) * inverse
    out[FIRST_DYNAMIC + 15] = K.log_weight[w]
    laxity, due = 5.0, 50.0
    if K.deadline[w] < np.inf:
        due = min(max((K.deadline[w] - now) * inverse, -50.0), 50.0)
        laxity = min(max((K.deadline[w] - now - bottom) * inverse, -5.0), 5.0)
    out[FIRST_DYNAMIC + 16] = laxity
    out[FIRST_DYNAMIC + 17] = max(0.0, 1.0 - laxity)
    out[FIRST_DYNAMIC + 18] = 1.0 if laxity < 0 else 0.0
    out[FIRST_DYNAMIC + 19] = due
    group = P.node_group[node] & INDEX
    begin = now
    if P.switch[kernel.TRANSFERS]:
        begin = max(begin, S.data_ready[task, group])
    finish = begin + P.estimate[task, group] - now
    out[FIRST_DYNAMIC + 20] = (finish - estimate) * inverse
    _fill_node(P, S, K, task, node, out)
    out[FIRST_DYNAMIC + 24] = (finish - X.signal[NEXT]) * inverse if X.signal[NEXT] < np.inf else 0.0
    hinders = X.signal[BLOCKED] > bottom
    out[FIRST_DYNAMIC + 25] = share if hinders else 0.0
    out[FIRST_DYNAMIC + 26] = estimate * inverse if hinders else 0.0
    _fill_children(P, S, X, task, out)
    _fill_resources(K, X, task, inverse, out)


@inner
def fill_left(P, X, task, out):
    """Write the columns of what is left of the task's workflow, which few priorities read."""
    inverse, w = X.signal[PER_SCALE], P.task[task].workflow & INDEX
    left = 0.0
    for r in range(X.unstarted.shape[1]):
        left += X.resource[UNSTARTED, r] * X.unstarted[w, r]
    left = max(left, 0.0) * X.signal[PER_BOUND]
    out[LEFT_WORK] = left * inverse
    out[LEFT_WORK + 1] = left * inverse / (1.0 + left * inverse)
    out[LEFT_WORK + 2] = left * X.signal[PER_BOUND]
    out[LEFT_WORK + 3] = X.longest[w] * inverse
    out[LEFT_WORK + 4] = X.started[w] / (P.workflow_ptr[w + 1] - P.workflow_ptr[w])


@inner
def fill_fixed(K, X, task, out):
    """Write the columns that are fixed up to the scale."""
    inverse = X.signal[PER_SCALE]
    for k in range(K.fixed.shape[1]):
        at = k if k < FIRST_DYNAMIC else k + AFTER_DYNAMIC - FIRST_DYNAMIC
        out[at] = K.fixed[task, k] * inverse if K.is_time[k] else K.fixed[task, k]


@inner
def fill_task(P, S, K, X, task, node, out):
    """Write all columns of a task, ``[F]``, that would start on ``node``."""
    fill_dynamic(P, S, K, X, task, node, out)
    fill_left(P, X, task, out)
    fill_fixed(K, X, task, out)


@inner
def fill_global(P, S, X, out):
    """Write the features of the whole state, ``[G]``."""
    inverse = X.signal[PER_SCALE]
    resources = X.resource.shape[1]
    free, least_free, low, high = 0.0, 1.0, np.inf, 0.0
    for r in range(resources):
        free += X.resource[FREE, r] / resources
        least_free = min(least_free, X.resource[FREE, r])
        low = min(low, X.resource[LOAD, r])
        high = max(high, X.resource[LOAD, r])
    ready = S.counter[READY]
    arrived = S.counter[ARRIVED]
    out[0] = X.signal[PROGRESS]
    out[1] = np.log(1.0 + X.signal[BOUND] * inverse)
    out[2] = X.signal[LONGEST] / X.signal[BOUND]
    out[3] = free
    out[4] = least_free
    out[5] = low / high if high > 0 else 1.0
    out[6] = np.log(1.0 + ready)
    out[7] = np.log(1.0 + X.signal[ELIGIBLE])
    out[8] = np.log(1.0 + S.counter[EVENTS])
    out[9] = np.log(1.0 + X.signal[QUEUE] * inverse)
    out[10] = X.signal[NEXT] * inverse if X.signal[NEXT] < np.inf else 0.0
    out[11] = max(X.signal[BLOCKED], 0.0) / X.signal[BOUND]
    out[12] = np.log(1.0 + X.signal[ACTIVE])
    out[13] = X.signal[LATE] / X.signal[ACTIVE] if X.signal[ACTIVE] > 0 else 0.0
    out[14] = X.signal[AGES] * inverse / ready if ready > 0 else 0.0
    out[15] = 0.0
    if arrived > 1:
        out[15] = (P.workflow[arrived - 1].arrival - P.workflow[0].arrival) / (arrived - 1) * inverse


@inner
def fill_groups(P, S, K, out):
    """Write the features of every node group, ``[groups, Q]``."""
    resources = K.work.shape[1]
    for g in range(P.capacity.shape[0]):
        nodes = P.group_ptr[g + 1] - P.group_ptr[g]
        mean, least, largest, idle = 0.0, 1.0, 1.0, 0
        for node in range(P.group_ptr[g], P.group_ptr[g + 1]):
            idle += S.node[node].running == 0
        for r in range(resources):
            if P.capacity[g, r] <= 0:
                mean += 1.0
                continue
            free, most = 0.0, 0.0
            for node in range(P.group_ptr[g], P.group_ptr[g + 1]):
                free += S.free[node, r]
                most = max(most, S.free[node, r])
            free /= P.capacity[g, r] * nodes
            mean += free
            least = min(least, free)
            largest = min(largest, most / K.largest[r])
        out[g, 0] = K.group_share[g, 0]
        out[g, 1] = K.group_share[g, 1]
        out[g, 2] = mean / resources
        out[g, 3] = least
        out[g, 4] = largest
        out[g, 5] = K.group_share[g, 2]
        out[g, 6] = idle / nodes


# --------------------------------------------------------------------------- for Python callers


@inner
def _eligible(P, S, out):
    """Write the first ``len(out)`` eligible tasks, ascending; returns how many there are."""
    count = 0
    for k in range(S.counter[READY]):
        task = S.ready[k]
        if not _fits_somewhere(P, S, task):
            continue
        if count < len(out):
            out[count] = task
        elif task < out[len(out) - 1]:
            out[len(out) - 1] = task
        else:
            count += 1
            continue
        at = min(count, len(out) - 1)
        while at > 0 and out[at - 1] > out[at]:
            out[at - 1], out[at] = out[at], out[at - 1]
            at -= 1
        count += 1
    return count


@entry
def observe(P, S, K, X, candidates, tasks, general, groups):
    """Write the features of up to ``len(candidates)`` eligible tasks, ascending; returns how many are eligible.

    ``candidates`` ``[M]``, ``tasks`` ``[M, F]``, ``general`` ``[G]``, ``groups`` ``[groups, Q]``.
    """
    look(P, S, K, X)
    count = _eligible(P, S, candidates)
    for k in range(min(count, len(candidates))):
        fill_task(P, S, K, X, candidates[k], kernel._place(P, S, candidates[k]), tasks[k])
    fill_global(P, S, X, general)
    fill_groups(P, S, K, groups)
    return count


drop_stale(observe, kernel.__file__, schema.__file__)
assert len(GLOBAL_NAMES) == 16
assert len(GROUP_NAMES) == 7
