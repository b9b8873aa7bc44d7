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
from dagsched.simulator.compilation import entry, inner
from dagsched.simulator.kernel import ARRIVED, DECISIONS, EVENTS, INDEX, NOW, READY, Problem, can_start, is_running
from dagsched.simulator.kernel_cache import drop_stale
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
def reset_tracker(tracker):
    """Back before the first arrival."""
    for k in range(len(tracker.counter)):
        tracker.counter[k] = 0
    for w in range(len(tracker.started)):
        tracker.started[w] = 0
        tracker.stamp[w] = 0
        for r in range(tracker.unstarted.shape[1]):
            tracker.unstarted[w, r] = 0.0
    for task in range(len(tracker.end)):
        tracker.end[task] = np.nan
    for k in range(tracker.resource.shape[0]):
        for r in range(tracker.resource.shape[1]):
            tracker.resource[k, r] = 0.0


@inner
def _expected_end(P, S, task):
    """Seconds at which the first of a task's running allocations is expected to end; inf with none running."""
    end = np.inf
    alloc = S.task[task].last_alloc
    running = S.task[task].unfinished - S.task[task].unstarted
    while running > 0 and alloc >= 0:
        if is_running(S, alloc):
            running -= S.alloc[alloc].count
            end = min(end, S.alloc[alloc].execution + P.estimate[task, P.node_group[S.alloc[alloc].node]])
        alloc = S.alloc[alloc].older
    return end


@inner
def _next_completion(P, S, tracker):
    """Expected seconds to the end of the running allocation that is to end first; inf with nothing running.

    A key in the heap is at most the true one, which is computed when the task comes to the top.
    """
    while tracker.counter[RUNNING] > 0:
        task = tracker.running[0]
        end = _expected_end(P, S, task)
        if end == tracker.end[task]:
            return max(end - S.clock[NOW], 0.0)
        tracker.end[task] = end
        size, last = tracker.counter[RUNNING], task
        if end == np.inf:  # it has ended, or waits for room for further instances
            tracker.end[task] = np.nan
            size -= 1
            tracker.counter[RUNNING] = size
            last = tracker.running[size]
        hole = 0
        while True:
            child = 2 * hole + 1
            if child >= size:
                break
            if child + 1 < size and tracker.end[tracker.running[child + 1]] < tracker.end[tracker.running[child]]:
                child += 1
            if tracker.end[tracker.running[child]] >= tracker.end[last]:
                break
            tracker.running[hole] = tracker.running[child]
            hole = child
        tracker.running[hole] = last
    return np.inf


@inner
def _push_running(P, S, tracker, task):
    """Remember when a task of which something has just started is expected to have its next end."""
    end = _expected_end(P, S, task)
    if end == np.inf or tracker.end[task] <= end:
        return
    hole = tracker.counter[RUNNING]
    if np.isnan(tracker.end[task]):
        tracker.counter[RUNNING] = hole + 1
    else:
        hole = 0
        while tracker.running[hole] != task:
            hole += 1
    tracker.end[task] = end
    while hole > 0:
        above = (hole - 1) >> 1
        if tracker.end[tracker.running[above]] <= end:
            break
        tracker.running[hole] = tracker.running[above]
        hole = above
    tracker.running[hole] = task


@inner
def read_news(P, S, constants, tracker):
    """Read the arrivals and decisions since the last look."""
    while tracker.counter[SEEN_ARRIVED] < S.counter[ARRIVED]:
        w = tracker.counter[SEEN_ARRIVED]
        tracker.counter[SEEN_ARRIVED] = w + 1
        for task in range(P.workflow_ptr[w], P.workflow_ptr[w + 1]):
            tracker.seen[task] = P.task[task].instances
            if P.task[task].milestone:
                continue
            for r in range(constants.work.shape[1]):
                seconds = constants.work[task, r] * P.task[task].instances
                tracker.resource[UNSTARTED, r] += seconds
                tracker.unstarted[w, r] += seconds
                tracker.resource[ARRIVED_WORK, r] += seconds
    while tracker.counter[SEEN_DECISIONS] < S.counter[DECISIONS]:
        task = S.decision[tracker.counter[SEEN_DECISIONS]].task
        tracker.counter[SEEN_DECISIONS] += 1
        if task < 0:
            continue
        begun = tracker.seen[task] - S.task[task].unstarted
        if begun == 0:
            continue  # a later decision on the same task has been counted already
        _push_running(P, S, tracker, task)
        tracker.seen[task] -= begun
        w = P.task[task].workflow & INDEX
        for r in range(constants.work.shape[1]):
            tracker.unstarted[w, r] -= constants.work[task, r] * begun
            left = tracker.resource[UNSTARTED, r] - constants.work[task, r] * begun
            tracker.resource[UNSTARTED, r] = left if left > ROUNDING * tracker.resource[ARRIVED_WORK, r] else 0.0
        if tracker.seen[task] == 0:
            tracker.order[tracker.counter[STARTED]] = task
            tracker.counter[STARTED] += 1
            tracker.started[w] += 1


@entry
def catch_up(P, S, constants, tracker):
    """Bring the tracker up to the present decision."""
    read_news(P, S, constants, tracker)


@inner
def _look_at_ready(P, S, constants, tracker):
    """Queue, longest paths and what does not fit, over all ready tasks."""
    look = tracker.counter[LOOKS]
    longest, blocked, ages, eligible, active, late = 0.0, -1.0, 0.0, 0, 0, 0
    for k in range(S.counter[READY]):
        task = S.ready[k] & INDEX
        bottom = P.task[task].bottom
        w = P.task[task].workflow & INDEX
        if tracker.stamp[w] != look:
            tracker.stamp[w] = look
            tracker.longest[w] = bottom
            active += 1
            late += constants.deadline[w] < S.clock[NOW]
        elif bottom > tracker.longest[w]:
            tracker.longest[w] = bottom
        longest = max(longest, bottom)
        ages += S.clock[NOW] - S.task[task].ready_time
        count = S.task[task].unstarted
        for r in range(constants.work.shape[1]):
            tracker.resource[QUEUED_WORK, r] += constants.work[task, r] * count
            if constants.total[r] > 0:
                tracker.resource[QUEUED, r] += P.demand[task, r] * count / constants.total[r]
        if can_start(P, S, task):
            eligible += 1
        else:
            blocked = max(blocked, bottom)
    tracker.signal[LONGEST] = longest
    tracker.signal[BLOCKED] = blocked
    tracker.signal[AGES] = ages
    tracker.signal[ELIGIBLE] = eligible
    tracker.signal[ACTIVE] = active
    tracker.signal[LATE] = late


@inner
def look(P, S, constants, tracker):
    """Everything the candidates of this decision share."""
    read_news(P, S, constants, tracker)
    tracker.counter[LOOKS] += 1
    resources = constants.work.shape[1]
    for r in range(resources):
        tracker.resource[QUEUED, r] = 0.0
        tracker.resource[QUEUED_WORK, r] = 0.0
        free = 0.0  # in a register: adding in memory waits for each write
        for node in range(len(P.node_group)):
            free += S.free[node, r]
        tracker.resource[FREE, r] = free
    _look_at_ready(P, S, constants, tracker)
    last = S.counter[ARRIVED] - 1
    tracker.signal[SCALE] = constants.scale[last]
    tracker.signal[LEVEL] = max(P.workflow[last].prefix_bottom, 1e-12)
    tracker.signal[NEXT] = _next_completion(P, S, tracker)
    bound, left, arrived, queue = tracker.signal[LONGEST], 0.0, 0.0, 0.0
    for r in range(resources):
        bound = max(bound, tracker.resource[UNSTARTED, r])
        left += tracker.resource[UNSTARTED, r]
        arrived += tracker.resource[ARRIVED_WORK, r]
        queue = max(queue, tracker.resource[QUEUED_WORK, r])
        tracker.resource[FREE, r] = tracker.resource[FREE, r] / constants.total[r] if constants.total[r] > 0 else 0.0
    bound = max(bound, 1e-12)
    for r in range(resources):
        load = tracker.resource[UNSTARTED, r] / bound
        tracker.resource[LOAD, r] = load
        tracker.resource[STARVE, r] = load / (1.0 + tracker.resource[QUEUED, r])
    tracker.signal[BOUND] = bound
    tracker.signal[PER_SCALE] = 1.0 / tracker.signal[SCALE]
    tracker.signal[PER_BOUND] = 1.0 / bound
    tracker.signal[PER_LEVEL] = 1.0 / tracker.signal[LEVEL]
    most = P.workflow[last].prefix_below
    tracker.signal[PER_BELOW] = 1.0 / most if most > 0 else 0.0
    tracker.signal[PROGRESS] = left / arrived if arrived > 0 else 0.0
    tracker.signal[QUEUE] = queue


@inner
def _fill_children(P, S, tracker, task, out):
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
    out[_UNLOCKS + 1] = longest * tracker.signal[PER_BOUND]
    out[_UNLOCKS + 2] = INVERSE[least]
    out[_UNLOCKS + 3] = total


_UNLOCKS = _AT["unlocks"]
_DEMAND_FREE = _AT["demand_free"]
_LOAD_DEMAND = _AT["load_demand"]
LEFT_WORK = _AT["left_work"]


@inner
def _fill_node(P, S, constants, task, node, out):
    """How the task would sit on its node."""
    group = P.node_group[node] & INDEX
    tightest, leftover, alignment = 0.0, 0.0, 0.0
    for r in range(constants.work.shape[1]):
        demand, free = P.demand[task, r], S.free[node, r]
        if demand > 0:
            tightest = max(tightest, demand / max(free, demand))
        per = constants.per_capacity[group, r]
        leftover += (free - demand) * per
        alignment += demand * free * per * per
    out[_DEMAND_FREE] = tightest
    out[_DEMAND_FREE + 1] = leftover * constants.per_resource[0]
    out[_DEMAND_FREE + 2] = alignment


@inner
def _fill_resources(constants, tracker, task, inverse, out):
    """Sums over resources of what the cluster lacks and what the task brings."""
    load_demand, load_tail, free_demand = 0.0, 0.0, 0.0
    starve_demand, starve_tail, starve_near, starve_child = 0.0, 0.0, 0.0, 0.0
    for r in range(constants.work.shape[1]):
        load, starve, share = tracker.resource[LOAD, r], tracker.resource[STARVE, r], constants.share[task, r]
        load_demand += load * share
        load_tail += load * constants.tail[task, r]
        free_demand += tracker.resource[FREE, r] * share
        starve_demand += starve * share
        starve_tail += starve * constants.tail[task, r]
        starve_near += starve * constants.near[task, r]
        starve_child += starve * constants.child_share[task, r]
    out[_LOAD_DEMAND] = load_demand
    out[_LOAD_DEMAND + 1] = load_tail * inverse
    out[_LOAD_DEMAND + 2] = free_demand
    out[_LOAD_DEMAND + 3] = starve_demand
    out[_LOAD_DEMAND + 4] = starve_tail * inverse
    out[_LOAD_DEMAND + 5] = starve_near
    out[_LOAD_DEMAND + 6] = starve_child


@inner
def fill_dynamic(P, S, constants, tracker, task, node, out):
    """Write the columns that change with the state, but for those of :func:`fill_left`.

    ``node`` is where the placement rule would put the task.
    """
    now, inverse = S.clock[NOW], tracker.signal[PER_SCALE]
    w = P.task[task].workflow & INDEX
    estimate, bottom, share = P.task[task].fastest, P.task[task].bottom, P.task[task].share
    level = bottom * tracker.signal[PER_LEVEL]
    progress = tracker.signal[PROGRESS]
    relative = bottom * tracker.signal[PER_BOUND]
    out[FIRST_DYNAMIC] = level
    out[FIRST_DYNAMIC + 1] = constants.below[task] * tracker.signal[PER_BELOW]
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
    out[FIRST_DYNAMIC + 12] = bottom / tracker.longest[w] if tracker.longest[w] > 0 else 1.0
    out[FIRST_DYNAMIC + 13] = (now - S.task[task].ready_time) * inverse
    out[FIRST_DYNAMIC + 14] = (now - P.workflow[w].arrival) * inverse
    out[FIRST_DYNAMIC + 15] = constants.log_weight[w]
    laxity, due = 5.0, 50.0
    if constants.deadline[w] < np.inf:
        due = min(max((constants.deadline[w] - now) * inverse, -50.0), 50.0)
        laxity = min(max((constants.deadline[w] - now - bottom) * inverse, -5.0), 5.0)
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
    _fill_node(P, S, constants, task, node, out)
    out[FIRST_DYNAMIC + 24] = (finish - tracker.signal[NEXT]) * inverse if tracker.signal[NEXT] < np.inf else 0.0
    hinders = tracker.signal[BLOCKED] > bottom
    out[FIRST_DYNAMIC + 25] = share if hinders else 0.0
    out[FIRST_DYNAMIC + 26] = estimate * inverse if hinders else 0.0
    _fill_children(P, S, tracker, task, out)
    _fill_resources(constants, tracker, task, inverse, out)


@inner
def fill_left(P, tracker, task, out):
    """Write the columns of what is left of the task's workflow, which few priorities read."""
    inverse, w = tracker.signal[PER_SCALE], P.task[task].workflow & INDEX
    left = 0.0
    for r in range(tracker.unstarted.shape[1]):
        left += tracker.resource[UNSTARTED, r] * tracker.unstarted[w, r]
    left = max(left, 0.0) * tracker.signal[PER_BOUND]
    out[LEFT_WORK] = left * inverse
    out[LEFT_WORK + 1] = left * inverse / (1.0 + left * inverse)
    out[LEFT_WORK + 2] = left * tracker.signal[PER_BOUND]
    out[LEFT_WORK + 3] = tracker.longest[w] * inverse
    out[LEFT_WORK + 4] = tracker.started[w] / (P.workflow_ptr[w + 1] - P.workflow_ptr[w])


@inner
def fill_fixed(constants, tracker, task, out):
    """Write the columns that are fixed up to the scale."""
    inverse = tracker.signal[PER_SCALE]
    for k in range(constants.fixed.shape[1]):
        at = k if k < FIRST_DYNAMIC else k + AFTER_DYNAMIC - FIRST_DYNAMIC
        out[at] = constants.fixed[task, k] * inverse if constants.is_time[k] else constants.fixed[task, k]


@inner
def fill_task(P, S, constants, tracker, task, node, out):
    """Write all columns of a task, ``[F]``, that would start on ``node``."""
    fill_dynamic(P, S, constants, tracker, task, node, out)
    fill_left(P, tracker, task, out)
    fill_fixed(constants, tracker, task, out)


@inner
def fill_global(P, S, tracker, out):
    """Write the features of the whole state, ``[G]``."""
    inverse = tracker.signal[PER_SCALE]
    resources = tracker.resource.shape[1]
    free, least_free, low, high = 0.0, 1.0, np.inf, 0.0
    for r in range(resources):
        free += tracker.resource[FREE, r] / resources
        least_free = min(least_free, tracker.resource[FREE, r])
        low = min(low, tracker.resource[LOAD, r])
        high = max(high, tracker.resource[LOAD, r])
    ready = S.counter[READY]
    arrived = S.counter[ARRIVED]
    out[0] = tracker.signal[PROGRESS]
    out[1] = np.log(1.0 + tracker.signal[BOUND] * inverse)
    out[2] = tracker.signal[LONGEST] / tracker.signal[BOUND]
    out[3] = free
    out[4] = least_free
    out[5] = low / high if high > 0 else 1.0
    out[6] = np.log(1.0 + ready)
    out[7] = np.log(1.0 + tracker.signal[ELIGIBLE])
    out[8] = np.log(1.0 + S.counter[EVENTS])
    out[9] = np.log(1.0 + tracker.signal[QUEUE] * inverse)
    out[10] = tracker.signal[NEXT] * inverse if tracker.signal[NEXT] < np.inf else 0.0
    out[11] = max(tracker.signal[BLOCKED], 0.0) / tracker.signal[BOUND]
    out[12] = np.log(1.0 + tracker.signal[ACTIVE])
    out[13] = tracker.signal[LATE] / tracker.signal[ACTIVE] if tracker.signal[ACTIVE] > 0 else 0.0
    out[14] = tracker.signal[AGES] * inverse / ready if ready > 0 else 0.0
    out[15] = 0.0
    if arrived > 1:
        out[15] = (P.workflow[arrived - 1].arrival - P.workflow[0].arrival) / (arrived - 1) * inverse


@inner
def fill_groups(P, S, constants, out):
    """Write the features of every node group, ``[groups, Q]``."""
    resources = constants.work.shape[1]
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
            largest = min(largest, most / constants.largest[r])
        out[g, 0] = constants.group_share[g, 0]
        out[g, 1] = constants.group_share[g, 1]
        out[g, 2] = mean / resources
        out[g, 3] = least
        out[g, 4] = largest
        out[g, 5] = constants.group_share[g, 2]
        out[g, 6] = idle / nodes


# --------------------------------------------------------------------------- for Python callers


@inner
def _eligible(P, S, out):
    """Write the first ``len(out)`` eligible tasks, ascending; returns how many there are."""
    count = 0
    for k in range(S.counter[READY]):
        task = S.ready[k]
        if not can_start(P, S, task):
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
def observe(P, S, constants, tracker, candidates, tasks, general, groups):
    """Write the features of up to ``len(candidates)`` eligible tasks, ascending; returns how many are eligible.

    ``candidates`` ``[M]``, ``tasks`` ``[M, F]``, ``general`` ``[G]``, ``groups`` ``[groups, Q]``.
    """
    look(P, S, constants, tracker)
    count = _eligible(P, S, candidates)
    for k in range(min(count, len(candidates))):
        fill_task(P, S, constants, tracker, candidates[k], kernel.choose_node(P, S, candidates[k]), tasks[k])
    fill_global(P, S, tracker, general)
    fill_groups(P, S, constants, groups)
    return count


drop_stale(observe, kernel.__file__, schema.__file__)
assert len(GLOBAL_NAMES) == 16
assert len(GROUP_NAMES) == 7
