"""The compiled simulator: events, placement, starting work, and every rule's choice, over flat arrays.

Kernels that call each other must share one module, because numba's on-disk cache does not notice a changed
callee in another file. The parts, top to bottom: the two tuples of arrays, events, placement, starting work,
time, and the four ways to choose (priority buckets, scored scan, virtual booking, plan following).

Only ``truth`` (realised seconds ``[T, G]``) and the finish times of running allocations know the future. No
function that chooses reads either; the leak test guards that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dagsched.workflow import FloatArray, IntArray

# Slots of State.clock and State.counter.
NOW, LAST_TICK = 0, 1
ALLOCS, EVENTS, READY, ARRIVED, LEFT, DECISIONS, RELEASES, EPOCH, CURSOR, WAITS, FRESH, FREED, DRAWS = range(13)
# What `advance` and the runners return.
DECIDE, DONE, GROW, STUCK, ARRIVAL = range(5)
ON_THE_WAY, FREE, BEGUN = 7, 8, 9
"""What `outlast` returns while the WAIT that it is part of goes on."""
# Slots of Problem.setting (float) and Problem.switch (int).
INTERVAL, MAX_WAIT = 0, 1
PLACEMENT, PER_DECISION, TRANSFERS, PLACEMENT_SEED = range(4)
# Typed, since a literal -1 would compile every callee a second time.
NONE: Any = np.int64(-1)
NOT_LATE: Any = np.int64(-2)
ZERO: Any = np.int64(0)
# `x & INDEX` tells the compiler that x is not negative, which spares the wrap-around of negative indices at every use:
# a quarter of the run time.
INDEX: Any = np.int64(2**63 - 1)
EARLIEST_FINISH, BEST_FIT, LEAST_LOADED, ROUND_ROBIN_NODES, RANDOM_NODE = range(5)
# Scored rules.
HRRN, SRW, SRW_CP, ROUND_ROBIN, WEIGHTED_FAIR, TETRIS, TETRIS_SRW, CP_DEMAND, CP_DEMAND_WORK, PACKER = range(10)
MIN_MIN, MAX_MIN, SUFFERAGE = range(3)


# Only entries get the wrapper that unpacks Python arguments: for 60 arrays it takes a second to compile; calling an
# `inner` function from Python crashes. Nothing here allocates, so reference counting of arrays is off (`_nrt`);
# together 64 s of compilation became 17 s.
entry = njit(cache=True, nogil=True, no_cfunc_wrapper=True, _nrt=False)
inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)
cold = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


# One record a task, allocation, workflow and node keeps what is used together on one cache line, and the argument lists
# of the kernels short: 66 separate arrays took 25% longer to run and twice as long to compile.
TASK_CONSTANTS = np.dtype(
    [
        ("fastest", "f8"),  # s, least estimate over the groups that can hold the task
        ("mean", "f8"),  # s, mean estimate over the nodes that can hold it
        ("bottom", "f8"),  # s, bottom level
        ("share", "f8"),  # largest demand / capacity of the largest node
        ("area", "f8"),  # share x fastest, of one instance
        ("below", "f8"),  # area of the task and its distinct descendants, all instances
        ("tie", "i8"),  # place in the common tie order; smaller runs first
        ("instances", "i8"),
        ("milestone", "i8"),  # 1 = runs on no node
        ("klass", "i8"),  # demand class
        ("workflow", "i8"),
        ("parent_count", "i8"),
    ]
)
WORKFLOW_CONSTANTS = np.dtype(
    [
        ("arrival", "f8"),  # s
        ("weight", "f8"),
        ("work", "f8"),  # s of all instances on the fastest group
        ("prefix_bottom", "f8"),  # s, largest bottom level over workflows up to this one
        ("prefix_below", "f8"),
    ]
)
TASK_STATE = np.dtype(
    [
        ("ready_time", "f8"),  # s, NaN before
        ("start", "f8"),  # s of the first allocation, NaN before
        ("finish", "f8"),  # s, NaN before
        ("pending", "i8"),  # unfinished parents
        ("unstarted", "i8"),  # instances
        ("unfinished", "i8"),  # instances
        ("ready_slot", "i8"),  # place in State.ready
        ("last_alloc", "i8"),  # newest allocation, -1 before
    ]
)
WORKFLOW_STATE = np.dtype(
    [
        ("left", "f8"),  # s of instances not started, on the fastest group
        ("service", "f8"),  # share-seconds started
        ("turn", "i8"),  # decision number of the latest start, -1 before
    ]
)
ALLOCATION = np.dtype(
    [
        ("start", "f8"),  # s
        ("execution", "f8"),  # s
        ("finish", "f8"),  # s: the future while the allocation runs
        ("task", "i8"),
        ("node", "i8"),
        ("count", "i8"),
        ("older", "i8"),  # previous allocation of the same task
    ]
)
DECISION = np.dtype([("time", "f8"), ("task", "i8")])
NODE_STATE = np.dtype([("running", "i8"), ("is_freed", "i8")])  # allocations; released since the buckets looked

Records = NDArray[Any]


class Problem(NamedTuple):
    """What may be known about a replay: constants, estimates, the cluster. ``T`` tasks, ``C`` demand classes."""

    estimate: FloatArray  # [T, G] s
    task: Records  # [T] TASK_CONSTANTS
    demand: FloatArray  # [T, R]
    class_task: IntArray  # [C] one task of each class
    group_order: IntArray  # [T, G] groups that can hold the task by estimate, -1 after the last
    parent_ptr: IntArray
    parent_idx: IntArray
    parent_bytes: FloatArray
    child_ptr: IntArray
    child_idx: IntArray
    workflow: Records  # [W] WORKFLOW_CONSTANTS
    workflow_ptr: IntArray  # [W + 1]
    node_group: IntArray  # [N]
    group_ptr: IntArray  # [G + 1] nodes of group g are group_ptr[g]..group_ptr[g + 1] - 1
    capacity: FloatArray  # [G, R]
    slack: FloatArray  # [G, R] rounding allowed when testing a fit
    latency: FloatArray  # [G, G] s
    per_byte: FloatArray  # [G, G] s
    setting: FloatArray
    switch: IntArray

    @property
    def fastest(self) -> FloatArray:
        """``[T]`` seconds."""
        return np.ascontiguousarray(self.task["fastest"])

    @property
    def mean(self) -> FloatArray:
        """``[T]`` seconds."""
        return np.ascontiguousarray(self.task["mean"])

    @property
    def bottom(self) -> FloatArray:
        """``[T]`` seconds."""
        return np.ascontiguousarray(self.task["bottom"])

    @property
    def share(self) -> FloatArray:
        """``[T]``."""
        return np.ascontiguousarray(self.task["share"])

    @property
    def tie(self) -> IntArray:
        """``[T]``."""
        return np.ascontiguousarray(self.task["tie"])

    @property
    def workflow_of(self) -> IntArray:
        """``[T]``."""
        return np.ascontiguousarray(self.task["workflow"])


class State(NamedTuple):
    """Everything that changes."""

    clock: FloatArray  # [2] s
    counter: IntArray  # [16]
    free: FloatArray  # [N, R]
    group_free: FloatArray  # [G, R] at least the largest free amount in the group
    task: Records  # [T] TASK_STATE
    data_ready: FloatArray  # [T, G] s with transfers, else [1, G]
    workflow: Records  # [W] WORKFLOW_STATE
    node: Records  # [N] NODE_STATE
    alloc: Records  # [A] ALLOCATION
    event: IntArray  # [A] heap of running allocations by (finish, task)
    event_time: FloatArray  # [A] s, finish times in heap order
    decision: Records  # [D] DECISION
    ready: IntArray  # [T] ready tasks with unstarted instances, in no order
    stack: IntArray  # [T]
    fresh: IntArray  # [T] ready tasks the buckets have not seen
    freed: IntArray  # [N] nodes the buckets have not seen released
    class_blocked: IntArray  # [C] value of RELEASES at which the class was found to fit nowhere


# --------------------------------------------------------------------------- events


@inner
def _push_event(S, alloc):
    time, task = S.alloc[alloc].finish, S.alloc[alloc].task
    hole = S.counter[EVENTS] & INDEX
    S.counter[EVENTS] = hole + 1
    while hole > 0:
        above = ((hole - 1) >> 1) & INDEX
        other = S.event_time[above]
        if other < time or (other == time and S.alloc[S.event[above]].task <= task):
            break
        S.event[hole] = S.event[above]
        S.event_time[hole] = other
        hole = above
    S.event[hole] = alloc
    S.event_time[hole] = time


@inner
def _pop_event(S):
    top = S.event[0] & INDEX
    size = (S.counter[EVENTS] - 1) & INDEX
    S.counter[EVENTS] = size
    last = S.event[size] & INDEX
    time, task = S.event_time[size], S.alloc[last].task
    hole = 0
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= size:
            break
        early = S.event_time[child]
        if child + 1 < size:
            other = S.event_time[child + 1]
            if other < early or (other == early and S.alloc[S.event[child + 1]].task < S.alloc[S.event[child]].task):
                child += 1
                early = other
        if early > time or (early == time and S.alloc[S.event[child]].task >= task):
            break
        S.event[hole] = S.event[child]
        S.event_time[hole] = early
        hole = child
    S.event[hole] = last
    S.event_time[hole] = time
    return top


@cold
def _set_data_ready(P, S, task):
    """Seconds at which the parents' output is complete in each group; fixed once all parents have finished."""
    now = S.clock[NOW]
    groups = P.capacity.shape[0]
    for g in range(groups):
        S.data_ready[task, g] = now
    for edge in range(P.parent_ptr[task], P.parent_ptr[task + 1]):
        parent = P.parent_idx[edge]
        alloc = S.task[parent].last_alloc
        while alloc >= 0:
            source = P.node_group[S.alloc[alloc].node]
            size = P.parent_bytes[edge] * S.alloc[alloc].count / P.task[parent].instances
            for g in range(groups):
                if g != source:
                    there = S.alloc[alloc].finish + P.latency[source, g] + size * P.per_byte[source, g]
                    S.data_ready[task, g] = max(S.data_ready[task, g], there)
            alloc = S.alloc[alloc].older


@inner
def _make_ready(P, S, task):
    """Record that a task is ready; True for a milestone, which the caller completes at once."""
    S.task[task].ready_time = S.clock[NOW]
    if P.task[task].milestone:
        return True
    slot = S.counter[READY] & INDEX
    S.ready[slot] = task
    S.task[task].ready_slot = slot
    S.counter[READY] = slot + 1
    S.fresh[S.counter[FRESH] & INDEX] = task
    S.counter[FRESH] += 1
    if P.switch[TRANSFERS]:
        _set_data_ready(P, S, task)
    return False


@inner
def _complete(P, S, task):
    """Finish a task and every milestone that follows at once."""
    now = S.clock[NOW]
    S.stack[0] = task
    top = 1
    while top:
        top = (top - 1) & INDEX
        task = S.stack[top] & INDEX
        if P.task[task].milestone:
            S.task[task].start = now
        S.task[task].finish = now
        S.counter[LEFT] -= 1
        for at in range(P.child_ptr[task], P.child_ptr[task + 1]):
            child = P.child_idx[at & INDEX] & INDEX
            S.task[child].pending -= 1
            if S.task[child].pending == 0 and _make_ready(P, S, child):
                S.stack[top] = child
                top += 1


@inner
def _finish_alloc(P, S, alloc):
    task, node = S.alloc[alloc].task & INDEX, S.alloc[alloc].node & INDEX
    group = P.node_group[node] & INDEX
    S.node[node].running -= 1
    for r in range(P.capacity.shape[1]):
        if S.node[node].running == 0:
            S.free[node, r] = P.capacity[group, r]  # exact again: no rounding is carried over an idle node
        else:
            S.free[node, r] += P.demand[task, r] * S.alloc[alloc].count
        if S.free[node, r] > S.group_free[group, r]:
            S.group_free[group, r] = S.free[node, r]
    S.counter[RELEASES] += 1
    if not S.node[node].is_freed:
        S.node[node].is_freed = 1
        S.freed[S.counter[FREED]] = node
        S.counter[FREED] += 1
    S.task[task].unfinished -= S.alloc[alloc].count
    if S.task[task].unfinished == 0:
        _complete(P, S, task)


@inner
def _settle(P, S):
    """Everything due now: finishes in task order, arrivals, milestones."""
    now = S.clock[NOW]
    while S.counter[EVENTS] > 0 and S.event_time[0] <= now:
        _finish_alloc(P, S, _pop_event(S))
    while S.counter[ARRIVED] < len(P.workflow) and P.workflow[S.counter[ARRIVED]].arrival <= now:
        w = S.counter[ARRIVED]
        S.counter[ARRIVED] += 1
        for task in range(P.workflow_ptr[w], P.workflow_ptr[w + 1]):
            if S.task[task].pending == 0 and np.isnan(S.task[task].ready_time) and _make_ready(P, S, task):
                _complete(P, S, task)
    S.counter[EPOCH] += 1


@entry
def reset(P, S):
    """Put the state before the first arrival."""
    for k in range(len(S.counter)):
        S.counter[k] = 0
    S.clock[NOW] = 0.0
    S.clock[LAST_TICK] = -1.0
    S.counter[LEFT] = len(P.task)
    S.counter[RELEASES] = 1
    for w in range(len(P.workflow)):
        S.workflow[w].turn = -1
        S.workflow[w].left = P.workflow[w].work
        S.workflow[w].service = 0.0
    for klass in range(len(P.class_task)):
        S.class_blocked[klass] = 0
    for k in range(len(P.task)):
        task = S.task[k]
        task.ready_time = np.nan
        task.start = np.nan
        task.finish = np.nan
        task.last_alloc = -1
        task.unstarted = P.task[k].instances
        task.unfinished = P.task[k].instances
        task.pending = P.task[k].parent_count
    for g in range(P.capacity.shape[0]):
        for r in range(P.capacity.shape[1]):
            S.group_free[g, r] = P.capacity[g, r]
            for node in range(P.group_ptr[g], P.group_ptr[g + 1]):
                S.free[node, r] = P.capacity[g, r]
    for node in range(len(P.node_group)):
        S.node[node].running = 0
        S.node[node].is_freed = 0


# --------------------------------------------------------------------------- placement


@inner
def _node_fits(P, S, task, node):
    group = P.node_group[node] & INDEX
    for r in range(P.capacity.shape[1]):
        if S.free[node, r] - P.demand[task, r] < -P.slack[group, r]:
            return False
    return True


@inner
def _group_may_fit(P, S, task, group):
    for r in range(P.capacity.shape[1]):
        if S.group_free[group, r] - P.demand[task, r] < -P.slack[group, r]:
            return False
    return True


@cold
def _tighten(P, S, group):
    for r in range(P.capacity.shape[1]):
        most = 0.0
        for node in range(P.group_ptr[group], P.group_ptr[group + 1]):
            most = max(most, S.free[node, r])
        S.group_free[group, r] = most


@inner
def _fits_somewhere(P, S, task):
    """Whether one instance fits some node now; remembers per demand class that nothing does."""
    klass = P.task[task].klass
    if S.class_blocked[klass] == S.counter[RELEASES]:
        return False
    for group in range(P.capacity.shape[0]):
        if not _group_may_fit(P, S, task, group):
            continue
        for node in range(P.group_ptr[group], P.group_ptr[group + 1]):
            if _node_fits(P, S, task, node):
                return True
        _tighten(P, S, group)
    S.class_blocked[klass] = S.counter[RELEASES]
    return False


@inner
def _leftover(P, S, task, node):
    """Sum over resources of (free - demand) / capacity."""
    group = P.node_group[node]
    left = 0.0
    for r in range(P.capacity.shape[1]):
        if P.capacity[group, r] > 0:
            left += (S.free[node, r] - P.demand[task, r]) / P.capacity[group, r]
    return left


@inner
def _finish_in(P, S, task, group):
    """Estimated finish in a group if started now."""
    begin = S.clock[NOW]
    if P.switch[TRANSFERS]:
        begin = max(begin, S.data_ready[task, group])
    return begin + P.estimate[task, group]


@inner
def _tightest_node(P, S, task, group):
    """(node of least leftover in the group or -1, leftover, NaN if nothing else fits); lowest index among equals."""
    best, best_left = NONE, np.nan
    for at in range(P.group_ptr[group], P.group_ptr[group + 1]):
        node = at & INDEX
        if _node_fits(P, S, task, node):
            if best < 0:
                best = node
                continue
            if np.isnan(best_left):
                best_left = _leftover(P, S, task, best)
            left = _leftover(P, S, task, node)
            if left < best_left:
                best, best_left = node, left
    if best < 0:
        _tighten(P, S, group)
    return best, best_left


@inner
def _place_earliest_finish(P, S, task):
    best, best_finish, best_left = NONE, np.inf, np.inf
    for k in range(P.group_order.shape[1]):
        group = P.group_order[task, k]
        if group < 0:
            break
        group &= INDEX
        finish = _finish_in(P, S, task, group)
        if finish > best_finish:
            if not P.switch[TRANSFERS]:
                break  # groups come in order of estimate
            continue
        if not _group_may_fit(P, S, task, group):
            continue
        node, left = P.group_ptr[group] & INDEX, np.nan  # a node alone in its group: the group's bound is exact
        if P.group_ptr[group + 1] - node > 1:
            node, left = _tightest_node(P, S, task, group)
            if node < 0:
                continue
        if finish == best_finish:
            if np.isnan(left):
                left = _leftover(P, S, task, node)
            if np.isnan(best_left):
                best_left = _leftover(P, S, task, best)
        if finish < best_finish or left < best_left or (left == best_left and node < best):
            best, best_finish, best_left = node, finish, left
    return best


@inner
def _mix(x):
    """SplitMix64: the own random stream of the `random` placement."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inner
def uniform(state):
    """A number in (0, 1) by SplitMix64 (Steele, Lea and Flood, 2014); ``state`` is ``[1]`` uint64."""
    z = _mix(state[0])
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return (np.float64(z >> np.uint64(11)) + 0.5) * 2.0**-53


@cold
def _place_by_scan(P, S, task):
    """best-fit, least-loaded, round-robin and random: one pass over all nodes."""
    rule = P.switch[PLACEMENT]
    nodes = len(P.node_group)
    best, first, second = NONE, np.inf, np.inf
    seen = 0
    for node in range(nodes):
        group = P.node_group[node]
        if not _node_fits(P, S, task, node):
            continue
        seen += 1
        if rule == BEST_FIT:
            key, other = _leftover(P, S, task, node), _finish_in(P, S, task, group)
        elif rule == LEAST_LOADED:
            used = 0.0
            for r in range(P.capacity.shape[1]):
                if P.capacity[group, r] > 0:
                    used += 1.0 - S.free[node, r] / P.capacity[group, r]
            key, other = used, _finish_in(P, S, task, group)
        elif rule == ROUND_ROBIN_NODES:
            key, other = float((node - S.counter[CURSOR]) % nodes), 0.0
        else:  # reservoir sampling: each fitting node is kept with probability 1 / seen
            word = _mix(_mix(np.uint64(P.switch[PLACEMENT_SEED])) + np.uint64(S.counter[DRAWS] * nodes + node))
            key, other = (-float(seen) if word % np.uint64(seen) == 0 else 0.0), 0.0
        if key < first or (key == first and other < second):
            best, first, second = node, key, other
    return best


@inner
def _place(P, S, task):
    """Node the placement rule picks for one instance now, or -1."""
    if P.switch[PLACEMENT] == EARLIEST_FINISH:
        return _place_earliest_finish(P, S, task)
    return _place_by_scan(P, S, task)


# --------------------------------------------------------------------------- starting work


@inner
def _is_running(S, alloc):
    """Whether an allocation has not been finished; only zero-duration work needs the search."""
    if S.alloc[alloc].finish > S.clock[NOW]:
        return True
    for k in range(S.counter[EVENTS]):
        if S.event[k] == alloc:
            return True
    return False


@inner
def _allocate(P, S, truth, task, node, count):
    """Start `count` instances on a node; joins a running allocation of the task begun there at this very time."""
    now = S.clock[NOW]
    group = P.node_group[node] & INDEX
    alone = P.group_ptr[group + 1] - P.group_ptr[group] == 1
    for r in range(P.capacity.shape[1]):
        S.free[node, r] -= P.demand[task, r] * count
        if alone:
            S.group_free[group, r] = S.free[node, r]
    S.task[task].unstarted -= count
    S.counter[CURSOR] = node + 1
    S.counter[DRAWS] += 1
    alloc = S.task[task].last_alloc
    while alloc >= 0 and S.alloc[alloc].start == now:
        if S.alloc[alloc].node == node and _is_running(S, alloc):
            S.alloc[alloc].count += count
            return
        alloc = S.alloc[alloc].older
    alloc = S.counter[ALLOCS] & INDEX
    S.counter[ALLOCS] = alloc + 1
    begin = now
    if P.switch[TRANSFERS]:
        begin = max(now, S.data_ready[task, group])
    S.alloc[alloc].task = task
    S.alloc[alloc].node = node
    S.alloc[alloc].count = count
    S.alloc[alloc].start = now
    S.alloc[alloc].execution = begin
    S.alloc[alloc].finish = begin + truth[task, group]
    S.alloc[alloc].older = S.task[task].last_alloc
    S.task[task].last_alloc = alloc
    S.node[node].running += 1
    _push_event(S, alloc)


@inner
def _fill(P, S, task, node, limit):
    """How many instances (at most `limit`) fit on the node together with each other."""
    if limit == 1:
        return 1
    count = limit
    group = P.node_group[node]
    for r in range(P.capacity.shape[1]):
        if P.demand[task, r] > 0:
            room = np.floor((S.free[node, r] + P.slack[group, r]) / P.demand[task, r])
            count = min(count, np.int64(min(room, 1e18)))
    return max(count, 1)


@inner
def _has_room(P, S):
    """Whether the logs can take one more decision, which starts at most one allocation on each node."""
    return S.counter[ALLOCS] + len(P.node_group) <= len(S.alloc) and S.counter[DECISIONS] < len(S.decision)


@inner
def _log_decision(S, task):
    """Append to the decision log; -1 is WAIT."""
    S.decision[S.counter[DECISIONS]].time = S.clock[NOW]
    S.decision[S.counter[DECISIONS]].task = task
    S.counter[DECISIONS] += 1
    if task < 0:
        S.counter[WAITS] += 1


@inner
def _start(P, S, truth, task, node, count):
    """Start a ready task: on `node` alone if `count` > 0, else there first and then wherever it fits.

    Instances are placed one by one with the placement rule until none is left or none fits. The two rules
    that fill a node (its leftover only shrinks, so it stays first choice) do so in one step.
    """
    limit = S.task[task].unstarted
    if P.switch[PER_DECISION] > 0:
        limit = min(limit, P.switch[PER_DECISION])
    if np.isnan(S.task[task].start):
        S.task[task].start = S.clock[NOW]
    left = min(limit, count) if count > 0 else limit
    begun = left
    fills = P.switch[PLACEMENT] <= BEST_FIT or count > 0
    while left > 0 and node >= 0:
        several = _fill(P, S, task, node, left) if fills else 1
        _allocate(P, S, truth, task, node, several)
        left -= several
        if left > 0:
            node = NONE if count > 0 else _place(P, S, task)
    begun -= left
    w = P.task[task].workflow & INDEX
    S.workflow[w].left -= begun * P.task[task].fastest
    S.workflow[w].service += begun * P.task[task].area
    S.workflow[w].turn = S.counter[DECISIONS]
    _log_decision(S, task)
    if S.task[task].unstarted == 0:
        slot = S.task[task].ready_slot & INDEX
        last = (S.counter[READY] - 1) & INDEX
        S.counter[READY] = last
        moved = S.ready[last] & INDEX
        S.ready[slot] = moved
        S.task[moved].ready_slot = slot


# --------------------------------------------------------------------------- time


@inner
def _sift(values, hole, size):
    value = values[hole]
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= size:
            break
        if child + 1 < size and values[child + 1] > values[child]:
            child += 1
        if values[child] <= value:
            break
        values[hole] = values[child]
        hole = child
    values[hole] = value


@inner
def _sort(values, size):
    """Heapsort of the first `size` values, ascending (`ndarray.sort` would need numba's allocator)."""
    for hole in range(size // 2 - 1, -1, -1):
        _sift(values, hole, size)
    for last in range(size - 1, 0, -1):
        value = values[last]
        values[last] = values[0]
        values[0] = value
        _sift(values, 0, last)


@inner
def _any_eligible(P, S):
    """Whether some ready task fits some node now."""
    for k in range(S.counter[READY]):
        if _fits_somewhere(P, S, S.ready[k]):
            return True
    return False


@entry
def eligible(P, S, out):
    """Write the eligible tasks, ascending, into `out`; returns how many."""
    count = 0
    for k in range(S.counter[READY]):
        if _fits_somewhere(P, S, S.ready[k]):
            out[count] = S.ready[k]
            count += 1
    _sort(out, count)
    return count


@inner
def _next_event(P, S):
    time = np.inf
    if S.counter[EVENTS] > 0:
        time = S.event_time[0]
    if S.counter[ARRIVED] < len(P.workflow):
        time = min(time, P.workflow[S.counter[ARRIVED]].arrival)
    return time


@inner
def _next_tick(P, S):
    """First tick k x interval that is not past and not the tick last decided at."""
    k = np.floor(max(S.clock[NOW], S.clock[LAST_TICK], 0.0) / P.setting[INTERVAL])
    for _ in range(4):
        tick = k * P.setting[INTERVAL]
        if tick >= S.clock[NOW] and tick > S.clock[LAST_TICK]:
            return tick
        k += 1.0
    return np.nextafter(max(S.clock[NOW], S.clock[LAST_TICK]), np.inf)


@cold
def _advance_to_tick(P, S):
    """To the next tick at which something is eligible."""
    if S.counter[EVENTS] > 0 and S.event_time[0] <= S.clock[NOW]:
        _settle(P, S)  # zero-duration work of this very tick: decide again at the same tick
        if _any_eligible(P, S):
            return DECIDE
    while S.counter[LEFT] > 0:
        time = _next_event(P, S)
        if _any_eligible(P, S):
            tick = _next_tick(P, S)
            if tick < time:
                S.clock[NOW] = tick
                S.clock[LAST_TICK] = tick
                S.counter[EPOCH] += 1
                return DECIDE
            if tick == time:
                S.clock[NOW] = tick
                S.clock[LAST_TICK] = tick
                _settle(P, S)
                return DECIDE
        if time == np.inf:
            return STUCK
        S.clock[NOW] = time
        _settle(P, S)
    return DONE


@inner
def _advance(P, S):
    """Let time pass to the next decision point (event-driven: the next event, eligible tasks or not)."""
    if S.counter[LEFT] == 0:
        return DONE
    if P.setting[INTERVAL] > 0:
        return _advance_to_tick(P, S)
    time = _next_event(P, S)
    if time == np.inf:
        return STUCK
    S.clock[NOW] = time
    _settle(P, S)
    return DONE if S.counter[LEFT] == 0 else DECIDE


@cold
def _overdue(P, S):
    """Starvation guard: (task, node) that must start; (-1, -1): only WAIT is legal; (-2, -1): nothing is overdue."""
    any_late = False
    best = NONE
    for k in range(S.counter[READY]):
        task = S.ready[k]
        if S.clock[NOW] - S.task[task].ready_time > P.setting[MAX_WAIT]:
            any_late = True
            if best >= 0:
                older = S.task[best].ready_time - S.task[task].ready_time
                if older < 0 or (older == 0 and P.task[best].tie < P.task[task].tie):
                    continue
            if _fits_somewhere(P, S, task):
                best = task
    if best >= 0:
        return best, _place(P, S, best)
    return (NONE if any_late else NOT_LATE), NONE


@inner
def _may_wait(P, S):
    """WAIT is legal while work runs, and at ticks under a guard: the next tick always comes and reveals nothing."""
    return S.counter[EVENTS] > 0 or (P.setting[INTERVAL] > 0 and P.setting[MAX_WAIT] < np.inf)


@inner
def _release_tick(P, S):
    """The next tick at which some task that fits now is overdue, as long as nothing else happens; inf if none fits."""
    oldest = np.inf
    for k in range(S.counter[READY]):
        task = S.ready[k]
        if S.task[task].ready_time < oldest and _fits_somewhere(P, S, task):
            oldest = S.task[task].ready_time
    if oldest == np.inf:
        return np.inf
    tick = _next_tick(P, S)
    k = np.floor((oldest + P.setting[MAX_WAIT]) / P.setting[INTERVAL]) - 1.0
    for _ in range(4):
        if tick - oldest > P.setting[MAX_WAIT]:
            break
        tick = max(tick, k * P.setting[INTERVAL])
        k += 1.0
    return tick


@cold
def _outlast(P, S):
    """One event of the WAIT that the guard forces: DECIDE once overdue work may start, ON_THE_WAY before.

    Ticks at which nothing may start are passed over in one step, however many there are.
    """
    if P.setting[INTERVAL] <= 0:
        status = _advance(P, S)
        return ON_THE_WAY if status == DECIDE and _overdue(P, S)[0] == -1 else status
    if S.counter[LEFT] == 0:
        return DONE
    if S.counter[EVENTS] > 0 and S.event_time[0] <= S.clock[NOW]:
        _settle(P, S)  # zero-duration work of this very tick: decide again at the same tick
        if S.counter[LEFT] == 0:
            return DONE
        return DECIDE if _overdue(P, S)[0] >= 0 else ON_THE_WAY
    time, tick = _next_event(P, S), _release_tick(P, S)
    if tick < time:
        S.clock[NOW] = tick
        S.clock[LAST_TICK] = tick
        S.counter[EPOCH] += 1
        return DECIDE if _overdue(P, S)[0] >= 0 else ON_THE_WAY
    if time == np.inf:
        return STUCK
    S.clock[NOW] = time
    _settle(P, S)
    return DONE if S.counter[LEFT] == 0 else ON_THE_WAY


@cold
def _wait_forced(P, S):
    """The WAIT that the guard forces, in one step and logged once: to the next moment at which overdue work may start.

    While nothing fits there is no decision, and nothing is logged.
    """
    while not _any_eligible(P, S):
        status = _advance(P, S)
        if status != DECIDE or _overdue(P, S)[0] != -1:
            return status
    _log_decision(S, NONE)
    status = ON_THE_WAY
    while status == ON_THE_WAY:
        status = _outlast(P, S)
    return status


@cold
def _heed_guard(P, S, truth):
    """What the starvation guard forces: FREE if nothing, BEGUN after overdue work, else a status of its WAIT."""
    task, node = _overdue(P, S)
    if task == -2:
        return FREE
    if task == -1:
        return _wait_forced(P, S)
    _start(P, S, truth, task, node, ZERO)
    return BEGUN


# --------------------------------------------------------------------------- choosing by fixed priority


FEW_CLASSES = 64


class Buckets(NamedTuple):
    """Ready tasks by demand class: a heap of tasks for each class and a heap of the classes that may fit.

    A class that fits nowhere is set aside and looked at again only for nodes released since, so blocked
    tasks cost nothing. After the release of a single node, the usual case, a scan over the few blocked classes
    is cheaper than moving them through the heap. ``counter`` holds the number of classes in ``order`` and in
    ``blocked``, whether the key is minus the ready time (first come, first served), and the node to try
    blocked classes on (-1: none).
    """

    key: FloatArray  # [T] larger first
    tie: IntArray  # [T] among equal keys smaller first: Problem.tie, or Replay.place for first come, first served
    class_ptr: IntArray  # [C + 1]
    heap: IntArray  # [T] task heaps, one segment a class
    size: IntArray  # [C]
    order: IntArray  # [C] heap of classes by their first task
    order_key: FloatArray  # [C] key of the first task, in heap order
    slot: IntArray  # [C] place in `order`; -1 empty, -2 blocked
    blocked: IntArray  # [C]
    only: IntArray  # [C] the one node that can hold the class now, -1 = any
    counter: IntArray  # [4]


@entry
def reset_buckets(B):
    """Forget every task."""
    for klass in range(len(B.size)):
        B.size[klass] = 0
        B.slot[klass] = -1
    B.counter[0] = 0
    B.counter[1] = 0
    B.counter[3] = -1


@inner
def _first(B, a, b):
    """Whether task a runs before task b."""
    if B.key[a] != B.key[b]:
        return B.key[a] > B.key[b]
    return B.tie[a] < B.tie[b]


@inner
def _push_task(P, B, task):
    klass = P.task[task].klass & INDEX
    base = B.class_ptr[klass] & INDEX
    hole = B.size[klass] & INDEX
    B.size[klass] = hole + 1
    while hole > 0:
        above = ((hole - 1) >> 1) & INDEX
        other = B.heap[base + above] & INDEX
        if _first(B, other, task):
            break
        B.heap[base + hole] = other
        hole = above
    B.heap[base + hole] = task


@inner
def _pop_task(B, klass):
    base = B.class_ptr[klass] & INDEX
    size = (B.size[klass] - 1) & INDEX
    B.size[klass] = size
    last = B.heap[base + size] & INDEX
    hole = 0
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= size:
            break
        if child + 1 < size and _first(B, B.heap[base + child + 1], B.heap[base + child]):
            child += 1
        if _first(B, last, B.heap[base + child]):
            break
        B.heap[base + hole] = B.heap[base + child]
        hole = child
    B.heap[base + hole] = last


@inner
def _head_first(B, a, key_a, b, key_b):
    """Whether class a's first task, of key `key_a`, runs before class b's."""
    if key_a != key_b:
        return key_a > key_b
    return B.tie[B.heap[B.class_ptr[a]]] < B.tie[B.heap[B.class_ptr[b]]]


@inner
def _class_up(B, hole):
    klass = B.order[hole] & INDEX
    key = B.key[B.heap[B.class_ptr[klass]]]
    while hole > 0:
        above = ((hole - 1) >> 1) & INDEX
        if _head_first(B, B.order[above], B.order_key[above], klass, key):
            break
        B.order[hole] = B.order[above]
        B.order_key[hole] = B.order_key[above]
        B.slot[B.order[hole]] = hole
        hole = above
    B.order[hole] = klass
    B.order_key[hole] = key
    B.slot[klass] = hole


@inner
def _class_down(B, hole):
    klass = B.order[hole] & INDEX
    key = B.key[B.heap[B.class_ptr[klass]]]
    size = B.counter[0] & INDEX
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= size:
            break
        if child + 1 < size and _head_first(
            B, B.order[child + 1], B.order_key[child + 1], B.order[child], B.order_key[child]
        ):
            child += 1
        if _head_first(B, klass, key, B.order[child], B.order_key[child]):
            break
        B.order[hole] = B.order[child]
        B.order_key[hole] = B.order_key[child]
        B.slot[B.order[hole]] = hole
        hole = child
    B.order[hole] = klass
    B.order_key[hole] = key
    B.slot[klass] = hole


@inner
def _insert_class(B, klass):
    B.order[B.counter[0]] = klass
    B.counter[0] += 1
    _class_up(B, B.counter[0] - 1)


@inner
def _drop_first_class(B, slot):
    B.slot[B.order[0]] = slot
    B.counter[0] -= 1
    if B.counter[0] > 0:
        B.order[0] = B.order[B.counter[0]]
        _class_down(B, 0)


@inner
def _take_news(P, S, B):
    """Move fresh tasks into the buckets, and classes that fit a released node out of the blocked list."""
    for k in range(S.counter[FRESH]):
        task = S.fresh[k] & INDEX
        klass = P.task[task].klass & INDEX
        if B.counter[2]:
            B.key[task] = -S.task[task].ready_time
        _push_task(P, B, task)
        if B.slot[klass] == -1:
            B.only[klass] = -1
            _insert_class(B, klass)
        elif B.slot[klass] >= 0 and B.heap[B.class_ptr[klass]] == task:
            _class_up(B, B.slot[klass])
    S.counter[FRESH] = 0
    freed = S.counter[FREED]
    if freed == 0:
        return
    if freed == 1 and B.counter[3] < 0 and B.counter[0] == 0 and B.counter[1] <= FEW_CLASSES:
        B.counter[3] = S.freed[0]
        S.node[S.freed[0]].is_freed = 0
        S.counter[FREED] = 0
        return
    for k in range(B.counter[0]):  # only after a forced WAIT: otherwise every class is blocked or empty by now
        B.only[B.order[k]] = -1
    if B.counter[3] >= 0:
        _unblock(P, S, B, B.counter[3], NONE)
        B.counter[3] = -1
    for k in range(freed):
        node = S.freed[k] & INDEX
        S.node[node].is_freed = 0
        _unblock(P, S, B, node, node if freed == 1 else NONE)
    S.counter[FREED] = 0


@inner
def _unblock(P, S, B, node, only):
    """Give the blocked classes that fit the node another chance."""
    kept = 0
    for j in range(B.counter[1]):
        klass = B.blocked[j] & INDEX
        if _node_fits(P, S, P.class_task[klass], node):
            B.only[klass] = only
            _insert_class(B, klass)
        else:
            B.blocked[kept] = klass
            kept += 1
    B.counter[1] = kept


@inner
def _best_blocked(P, S, B, node):
    """First task, in order of priority, of the blocked classes that fit the node; -1 if none does."""
    best = NONE
    kept = 0
    for j in range(B.counter[1]):
        klass = B.blocked[j] & INDEX
        base = B.class_ptr[klass] & INDEX
        while B.size[klass] > 0 and S.task[B.heap[base]].unstarted == 0:
            _pop_task(B, klass)
        if B.size[klass] == 0:
            B.slot[klass] = -1
            continue
        B.blocked[kept] = klass
        kept += 1
        head = B.heap[base] & INDEX
        if (best < 0 or _first(B, head, best)) and _node_fits(P, S, head, node):
            best = head
    B.counter[1] = kept
    return best


@inner
def choose_by_priority(P, S, B):
    """(task, node): the eligible task of largest key, or (-1, -1) if nothing is eligible."""
    _take_news(P, S, B)
    first, where = NONE, NONE
    while B.counter[0] > 0:
        klass = B.order[0] & INDEX
        task = B.heap[B.class_ptr[klass] & INDEX] & INDEX
        if S.task[task].unstarted == 0:
            _pop_task(B, klass)
            if B.size[klass] == 0:
                _drop_first_class(B, -1)
            else:
                _class_down(B, 0)
            continue
        where = B.only[klass]
        if where < 0:
            where = _place(P, S, task)
        elif not _node_fits(P, S, task, where):
            where = NONE
        if where >= 0:
            first = task
            break
        B.blocked[B.counter[1]] = klass
        B.counter[1] += 1
        _drop_first_class(B, -2)
    if B.counter[3] >= 0:
        node = B.counter[3] & INDEX
        task = _best_blocked(P, S, B, node)
        if task >= 0 and (first < 0 or _first(B, task, first)):
            return task, node
        if first < 0:
            B.counter[3] = -1
    return first, where


@inner
def go_by_priority(P, S, truth, B, most):
    """Run to the end (or for `most` decisions) with a fixed priority. Inlined into its callers: a tenth faster."""
    while most > 0:
        if not _has_room(P, S):
            return GROW
        if P.setting[MAX_WAIT] < np.inf:
            status = _heed_guard(P, S, truth)
            if status == BEGUN:
                most -= 1
                continue
            if status == DECIDE:
                continue
            if status != FREE:
                return status
        task, node = choose_by_priority(P, S, B)
        if task >= 0:
            _start(P, S, truth, task, node, ZERO)
            most -= 1
            continue
        status = _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


@entry
def run_by_priority(P, S, truth, B, most):
    """The same, to be called from Python."""
    return go_by_priority(P, S, truth, B, most)


# --------------------------------------------------------------------------- tasks that are alike


class Alike(NamedTuple):
    """Ready tasks in sets that a rule can tell apart by ties only, so that a decision looks at sets, not at tasks.

    Tasks of one kind have equal constants wherever the rule looks; which of them share a set may depend on when they
    became ready. A set is a skew heap (Sleator and Tarjan, 1986) with the task of smallest tie on top.
    """

    kind: IntArray  # [T]
    tie: IntArray  # [T] smaller first
    left: IntArray  # [T] children in the heap, -1 = none
    right: IntArray  # [T]
    set_of: IntArray  # [T] set of a ready task
    newest: IntArray  # [T] newest set of each kind, -1 = none
    spare: IntArray  # [T] numbers of sets not in use, a stack
    open: IntArray  # [T] sets in use, in no order
    slot: IntArray  # [T] place of each set in `open`
    top: IntArray  # [T] first task of each set
    size: IntArray  # [T] tasks of each set
    alignment: FloatArray  # [C] of each demand class, valid where its stamp is that of the decision
    stamp: IntArray  # [C]
    counter: IntArray  # [3] sets in use, sets not in use, decisions


@inner
def _meld(A, a, b):
    """Join two heaps (-1 = empty); returns the root."""
    if a < 0 or b < 0:
        return max(a, b)
    if A.tie[b] < A.tie[a]:
        a, b = b, a
    root = a
    while True:
        right = A.right[a]
        A.right[a] = A.left[a]
        if right < 0:
            A.left[a] = b
            return root
        if A.tie[b] < A.tie[right]:
            right, b = b, right
        A.left[a] = right
        a = right


@inner
def _open_set(A, task):
    """A new set of one task."""
    A.counter[1] -= 1
    group = A.spare[A.counter[1]]
    A.slot[group] = A.counter[0]
    A.open[A.counter[0]] = group
    A.counter[0] += 1
    A.left[task], A.right[task] = NONE, NONE
    A.top[group], A.size[group], A.set_of[task] = task, 1, group
    return group


@inner
def _close_set(A, group, kind):
    A.counter[0] -= 1
    last, slot = A.open[A.counter[0]], A.slot[group]
    A.open[slot] = last
    A.slot[last] = slot
    A.spare[A.counter[1]] = group
    A.counter[1] += 1
    if A.newest[kind] == group:
        A.newest[kind] = -1


@inner
def _join(A, task, group):
    A.left[task], A.right[task] = NONE, NONE
    A.top[group] = _meld(A, A.top[group], task)
    A.size[group] += 1
    A.set_of[task] = group


@inner
def _take_alike(S, A, rule):
    """Put fresh tasks into sets: with all of their kind, under HRRN with those that became ready together."""
    for k in range(S.counter[FRESH]):
        task = S.fresh[k] & INDEX
        kind = A.kind[task] & INDEX
        group = A.newest[kind]
        if group >= 0 and (rule != HRRN or S.task[A.top[group]].ready_time == S.task[task].ready_time):
            _join(A, task, group)
        else:
            A.newest[kind] = _open_set(A, task)
    S.counter[FRESH] = 0


@inner
def _leave(S, A, task):
    """Take a task out that has fully started."""
    group = A.set_of[task]
    A.size[group] -= 1
    if A.size[group] == 0:
        _close_set(A, group, A.kind[task])
        return
    top = A.top[group]
    while S.task[top].unstarted == 0:
        top = _meld(A, A.left[top], A.right[top])
    A.top[group] = top


@entry
def regroup(S, A):
    """Forget every set; all ready tasks count as fresh again."""
    for k in range(A.counter[0]):
        group = A.open[k]
        A.newest[A.kind[A.top[group]]] = -1
        A.spare[A.counter[1]] = group
        A.counter[1] += 1
    A.counter[0] = 0
    for k in range(S.counter[READY]):
        S.fresh[k] = S.ready[k]
    S.counter[FRESH] = S.counter[READY]


# --------------------------------------------------------------------------- choosing by a score that changes


@inner
def _alignment(P, S, A, task):
    """Tetris: largest sum over resources of demand x free / capacity^2 over the nodes that fit now."""
    klass = P.task[task].klass
    if A.stamp[klass] == A.counter[2]:
        return A.alignment[klass]
    best = -np.inf
    for group in range(P.capacity.shape[0]):
        if not _group_may_fit(P, S, task, group):
            continue
        for node in range(P.group_ptr[group], P.group_ptr[group + 1]):
            if _node_fits(P, S, task, node):
                dot = 0.0
                for r in range(P.capacity.shape[1]):
                    if P.capacity[group, r] > 0:
                        dot += (P.demand[task, r] / P.capacity[group, r]) * (S.free[node, r] / P.capacity[group, r])
                best = max(best, dot)
    A.stamp[klass] = A.counter[2]
    A.alignment[klass] = best
    return best


@inner
def _score(P, S, A, rule, shortness, task, mean_alignment, mean_left):
    now = S.clock[NOW]
    w = P.task[task].workflow
    if rule == HRRN:
        if P.task[task].mean <= 0:
            return np.inf
        return (now - S.task[task].ready_time + P.task[task].mean) / P.task[task].mean
    if rule == SRW:
        return -S.workflow[w].left
    if rule == SRW_CP:
        return -S.workflow[w].left + 0.02 * P.task[task].bottom
    if rule == ROUND_ROBIN:
        return -float(S.workflow[w].turn)
    if rule == WEIGHTED_FAIR:
        return -S.workflow[w].service / P.workflow[w].weight
    if rule == TETRIS:
        return _alignment(P, S, A, task)
    if rule == PACKER:
        aligned = _alignment(P, S, A, task)
        if shortness > 0:
            seconds = P.task[task].fastest
            aligned += shortness / seconds if seconds > 0 else np.inf
        return aligned
    if rule == TETRIS_SRW:
        return _alignment(P, S, A, task) / mean_alignment - S.workflow[w].left / mean_left
    level = P.workflow[S.counter[ARRIVED] - 1].prefix_bottom
    key = P.task[task].share * (1.0 if rule == CP_DEMAND else 0.5)
    if level > 0:
        key += P.task[task].bottom / level
    if rule == CP_DEMAND_WORK:
        most = P.workflow[S.counter[ARRIVED] - 1].prefix_below
        if most > 0:
            key += 0.3 * P.task[task].below / most
    return key


@inner
def choose_by_score(P, S, A, rule, shortness):
    """(task, node): the eligible task of largest score, ties by ``A.tie``; (-1, -1) if nothing is eligible."""
    A.counter[2] += 1
    mean_alignment, mean_left = 1.0, 1.0
    if rule == TETRIS_SRW:
        count, alignment, left = 0, 0.0, 0.0
        for k in range(A.counter[0]):
            size, task = A.size[A.open[k]], A.top[A.open[k]]
            if _fits_somewhere(P, S, task):
                count += size
                alignment += size * _alignment(P, S, A, task)
                left += size * S.workflow[P.task[task].workflow].left
        if count > 0 and alignment > 0:
            mean_alignment = alignment / count
        if count > 0 and left > 0:
            mean_left = left / count
    best, best_score = NONE, -np.inf
    for k in range(A.counter[0]):
        task = A.top[A.open[k]]
        if S.class_blocked[P.task[task].klass] == S.counter[RELEASES]:
            continue
        score = _score(P, S, A, rule, shortness, task, mean_alignment, mean_left)
        if best >= 0 and (score < best_score or (score == best_score and A.tie[task] > A.tie[best])):
            continue
        if _fits_somewhere(P, S, task):
            best, best_score = task, score
    if best < 0:
        return NONE, NONE
    return best, _place(P, S, best)


@entry
def run_by_score(P, S, truth, A, rule, shortness, most):
    """Run to the end (or for `most` decisions) with a score computed at each decision.

    `shortness` is what PACKER adds for 1 / estimate, in seconds.
    """
    while most > 0:
        if not _has_room(P, S):
            return GROW
        _take_alike(S, A, rule)
        task, node, forced = NOT_LATE, NONE, False
        if P.setting[MAX_WAIT] < np.inf:
            task, node = _overdue(P, S)
            forced = task == -1
        if task == -2:
            task, node = choose_by_score(P, S, A, rule, shortness)
        if task >= 0:
            _start(P, S, truth, task, node, ZERO)
            if S.task[task].unstarted == 0:
                _leave(S, A, task)
            most -= 1
            continue
        status = _wait_forced(P, S) if forced else _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


# --------------------------------------------------------------------------- choosing by virtual bookings


class Bookings(NamedTuple):
    """Scratch of Min-Min, Max-Min and Sufferage: what each node will have free, by estimates and bookings.

    A node's future is a linked list of segments in time order; the last one lasts for ever. Ready tasks of equal
    demand and estimates, whose data has arrived, share a set of :class:`Alike`, of which the first is booked first.
    For Max-Min and Sufferage each set stands in the list of the node that would complete it first; for Min-Min in a
    heap, by what is known of its completion. ``M`` segments, ``U`` sets.
    """

    seg_time: FloatArray  # [M] s
    seg_free: FloatArray  # [M, R]
    seg_next: IntArray  # [M], -1 after the last
    head: IntArray  # [N]
    rising: IntArray  # [N] 1 if the free amounts never fall, so that the earliest fit needs no look ahead
    version: IntArray  # [N] changes with every booking
    fit: IntArray  # [C, N] first segment of the earliest fit on a rising node, or [0, 0] where that takes much room
    fit_version: IntArray  # [C, N] of the node when `fit` was found
    resume: IntArray  # [U, N] segment before which a set cannot start, or [0, 0]
    witness: IntArray  # [U] first node that may still start the set now; -1 none
    clear: IntArray  # [U] version of that node when it could
    running: IntArray  # [A]
    unit: IntArray  # [T] sets when booking began
    heap: IntArray  # [T] Min-Min's sets not booked in full
    size: IntArray  # [U] tasks of each set not booked
    left: IntArray  # [U] instances not booked, of each set's first task
    taken: IntArray  # [T] tasks booked in full: put back into their sets in the end
    best: FloatArray  # [U] s, least completion of each set
    best_node: IntArray  # [U], -1 where only a lower bound is known
    best_seg: IntArray  # [U] segment in which it starts there
    found: IntArray  # [U] version of the best node when `best` was found
    second: FloatArray  # [U] s, least completion on another node; a lower bound but for Sufferage
    second_node: IntArray  # [U]
    next: IntArray  # [U] list of the sets of one best node
    previous: IntArray  # [U]
    first: IntArray  # [N] first set of the list
    pick: IntArray  # [N] set to book first of those in the list
    due_task: IntArray  # [M] bookings that start now
    due_node: IntArray  # [M]
    due_count: IntArray  # [M]
    counter: IntArray  # [6] segments used, bookings due, next due booking, epoch they belong to, versions, heap size


@inner
def _segment_fits(P, K, task, group, seg):
    for r in range(P.capacity.shape[1]):
        if K.seg_free[seg, r] - P.demand[task, r] < -P.slack[group, r]:
            return False
    return True


@inner
def _cut(K, seg, time):
    """The segment that begins exactly at `time`, split off if need be; `seg` begins no later."""
    while K.seg_next[seg] >= 0 and K.seg_time[K.seg_next[seg]] <= time:
        seg = K.seg_next[seg]
    if K.seg_time[seg] == time:
        return seg
    new = K.counter[0]
    K.counter[0] += 1
    K.seg_time[new] = time
    for r in range(K.seg_free.shape[1]):
        K.seg_free[new, r] = K.seg_free[seg, r]
    K.seg_next[new] = K.seg_next[seg]
    K.seg_next[seg] = new
    return new


@inner
def _build_profiles(P, S, K):
    now = S.clock[NOW]
    for node in range(len(P.node_group)):
        K.head[node] = node
        K.seg_time[node] = now
        for r in range(P.capacity.shape[1]):
            K.seg_free[node, r] = S.free[node, r]
        K.seg_next[node] = -1
        K.rising[node] = 1
        K.counter[4] += 1
        K.version[node] = K.counter[4]
        K.first[node] = -1
        K.pick[node] = -1
    K.counter[0] = len(P.node_group)
    running = S.counter[EVENTS]
    for k in range(running):
        K.running[k] = S.event[k]
    _sort(K.running, running)  # by allocation number: the heap's order would tell true finish times
    for k in range(running):
        alloc = K.running[k]
        task, node = S.alloc[alloc].task, S.alloc[alloc].node
        finish = S.alloc[alloc].execution + P.estimate[task, P.node_group[node]]
        if finish <= now:  # overran its estimate: it may end at any moment, but not yet
            finish = np.nextafter(now, np.inf)
        seg = _cut(K, K.head[node], finish)
        while seg >= 0:
            for r in range(P.capacity.shape[1]):
                K.seg_free[seg, r] += P.demand[task, r] * S.alloc[alloc].count
            seg = K.seg_next[seg]


@inner
def _data_time(P, S, task, group):
    """Seconds before which no instance can execute."""
    if P.switch[TRANSFERS]:
        return max(S.clock[NOW], S.data_ready[task, group])
    return S.clock[NOW]


@inner
def _earliest_fit(P, S, K, task, node, seg):
    """(segment, completion) of one instance on the node around running work and bookings, in `seg` or later."""
    group = P.node_group[node]
    ready, seconds = _data_time(P, S, task, group), P.estimate[task, group]
    if K.rising[node]:
        while not _segment_fits(P, K, task, group, seg) and K.seg_next[seg] >= 0:
            seg = K.seg_next[seg]
        return seg, max(K.seg_time[seg], ready) + seconds
    while True:
        end = max(K.seg_time[seg], ready) + seconds
        blocked = NONE
        look = seg
        while look >= 0 and (look == seg or K.seg_time[look] < end):
            if not _segment_fits(P, K, task, group, look):
                blocked = look
                break
            look = K.seg_next[look]
        if blocked < 0 or K.seg_next[blocked] < 0:
            return seg, end
        seg = K.seg_next[blocked]


@inner
def _completion_on(P, S, K, task, unit, node):
    """:func:`_earliest_fit` of a set: bookings only delay, so it goes on from where the set was last."""
    klass = P.task[task].klass
    cached = K.rising[node] == 1 and len(K.fit) > 0
    if cached and K.fit_version[klass, node] == K.version[node]:
        seg = K.fit[klass, node]
        group = P.node_group[node]
        return seg, max(K.seg_time[seg], _data_time(P, S, task, group)) + P.estimate[task, group]
    begin = K.resume[unit, node] if len(K.resume) > 0 else K.head[node]
    seg, completion = _earliest_fit(P, S, K, task, node, begin)
    if len(K.resume) > 0:
        K.resume[unit, node] = seg
    if cached:
        K.fit[klass, node], K.fit_version[klass, node] = seg, K.version[node]
    return seg, completion


@inner
def _find_best(P, S, K, rule, task, unit):
    """Least and second least completion of a set over the nodes that can ever hold it.

    Bookings only delay: a node where the set could not complete earlier when last asked is not asked again.
    """
    best, best_node, best_seg = K.best[unit], K.best_node[unit], K.best_seg[unit]
    if best_node < 0:
        best = np.inf
    asked, second, second_node = best_node, np.inf, NONE
    for k in range(P.group_order.shape[1]):
        group = P.group_order[task, k]
        if group < 0:
            break
        ready, seconds = _data_time(P, S, task, group), P.estimate[task, group]
        for node in range(P.group_ptr[group], P.group_ptr[group + 1]):
            if node == asked:
                continue
            begin = K.resume[unit, node] if len(K.resume) > 0 else K.head[node]
            seg, completion = begin, max(K.seg_time[begin], ready) + seconds
            if completion < (second if rule == SUFFERAGE else best) or (completion == best and node < best_node):
                seg, completion = _completion_on(P, S, K, task, unit, node)
            if completion < best or (completion == best and node < best_node):
                second, second_node = best, best_node
                best, best_node, best_seg = completion, node, seg
            elif completion < second:
                second, second_node = completion, node
    K.best[unit], K.best_node[unit], K.best_seg[unit] = best, best_node, best_seg
    K.second[unit], K.second_node[unit] = second, second_node


@inner
def _fits_from_now(P, S, K, task, node):
    """Whether one instance could start on a node now and stay until its estimated end."""
    group, seg = P.node_group[node], K.head[node]
    if not _segment_fits(P, K, task, group, seg):
        return False
    if K.rising[node] == 0:
        end = _data_time(P, S, task, group) + P.estimate[task, group]
        seg = K.seg_next[seg]
        while seg >= 0 and K.seg_time[seg] < end:
            if not _segment_fits(P, K, task, group, seg):
                return False
            seg = K.seg_next[seg]
    return True


@inner
def _can_start_now(P, S, K, A, unit):
    """Whether some node could start a set's first task now; bookings only delay, so a "no" is remembered."""
    task = A.top[unit]
    while 0 <= K.witness[unit] < len(P.node_group):
        version = K.version[K.witness[unit]]
        if K.clear[unit] == version:
            return True
        if _fits_from_now(P, S, K, task, K.witness[unit]):
            K.clear[unit] = version
            return True
        K.witness[unit] += 1
    K.witness[unit] = NONE
    return False


@inner
def _book(P, K, task, unit):
    """Reserve as many instances of the set's first task as fit where it completes first; returns how many."""
    node, first, end = K.best_node[unit], K.best_seg[unit], K.best[unit]
    group = P.node_group[node]
    _cut(K, first, end)
    several = K.left[unit]
    seg = first
    while seg >= 0 and (seg == first or K.seg_time[seg] < end):
        for r in range(P.capacity.shape[1]):
            if P.demand[task, r] > 0:
                room = np.floor((K.seg_free[seg, r] + P.slack[group, r]) / P.demand[task, r])
                several = min(several, np.int64(min(room, 1e18)))
        seg = K.seg_next[seg]
    several = max(several, 1)
    if end > K.seg_time[first]:
        seg = first
        while seg >= 0 and K.seg_time[seg] < end:
            for r in range(P.capacity.shape[1]):
                K.seg_free[seg, r] -= P.demand[task, r] * several
            seg = K.seg_next[seg]
        if first != K.head[node]:
            K.rising[node] = 0
    K.counter[4] += 1
    K.version[node] = K.counter[4]
    return several


@inner
def _key(K, rule, unit):
    if rule == MIN_MIN:
        return -K.best[unit]
    if rule == MAX_MIN:
        return K.best[unit]
    return K.second[unit] - K.best[unit]


@inner
def _books_first(K, A, rule, unit, other):
    """Whether a set is booked before another (-1 = none): the larger key, the smaller tie of the first task."""
    if other < 0:
        return True
    key, than = _key(K, rule, unit), _key(K, rule, other)
    return key > than or (key == than and A.tie[A.top[unit]] < A.tie[A.top[other]])


@inner
def _enter(K, A, rule, unit):
    """Put a set into the list of its best node."""
    node = K.best_node[unit]
    after = K.first[node]
    K.next[unit], K.previous[unit] = after, NONE
    if after >= 0:
        K.previous[after] = unit
    K.first[node] = unit
    if _books_first(K, A, rule, unit, K.pick[node]):
        K.pick[node] = unit


@inner
def _take_from(K, unit, node):
    """Take a set out of a node's list, whose pick the caller finds again."""
    before, after = K.previous[unit], K.next[unit]
    if before >= 0:
        K.next[before] = after
    else:
        K.first[node] = after
    if after >= 0:
        K.previous[after] = before


@inner
def _find_again(P, S, K, rule, task, unit):
    """What a set's best completion is after bookings on its best node."""
    node = K.best_node[unit]
    K.best_seg[unit], K.best[unit] = _earliest_fit(P, S, K, task, node, K.best_seg[unit])
    if len(K.resume) > 0:
        K.resume[unit, node] = K.best_seg[unit]
    if K.best[unit] >= K.second[unit]:  # `second` may be out of date, but is never too late
        _find_best(P, S, K, rule, task, unit)


@inner
def _sink(K, A, hole):
    """Restore the heap of Min-Min below a place whose set was replaced or delayed."""
    unit = K.heap[hole]
    while True:
        child = 2 * hole + 1
        if child >= K.counter[5]:
            break
        if child + 1 < K.counter[5] and _books_first(K, A, MIN_MIN, K.heap[child + 1], K.heap[child]):
            child += 1
        if _books_first(K, A, MIN_MIN, unit, K.heap[child]):
            break
        K.heap[hole] = K.heap[child]
        hole = child
    K.heap[hole] = unit


@inner
def _least(P, S, K, A):
    """Min-Min's next set. What was found earlier is a lower bound: only the first of the heap has to be exact."""
    while True:
        unit = K.heap[0]
        if K.best_node[unit] < 0:
            _find_best(P, S, K, MIN_MIN, A.top[unit], unit)
        elif K.found[unit] != K.version[K.best_node[unit]]:
            _find_again(P, S, K, MIN_MIN, A.top[unit], unit)
        else:
            return unit
        K.found[unit] = K.version[K.best_node[unit]]
        _sink(K, A, 0)


@inner
def _pick(P, K, A, rule):
    """The next set of Max-Min and Sufferage."""
    unit = NONE
    for node in range(len(P.node_group)):
        if K.pick[node] >= 0 and _books_first(K, A, rule, K.pick[node], unit):
            unit = K.pick[node]
    return unit


@inner
def _is_delayed(P, K, task, unit, first, end):
    """Whether a booking from a segment to `end` on its best node takes from a set what it needs."""
    node, seg = K.best_node[unit], K.best_seg[unit]
    if K.seg_time[seg] < K.seg_time[first]:
        seg = first
    until = min(end, K.best[unit])
    while seg >= 0 and (K.seg_time[seg] < until or (seg == K.best_seg[unit] and K.seg_time[seg] < end)):
        if not _segment_fits(P, K, task, P.node_group[node], seg):
            return True
        seg = K.seg_next[seg]
    return False


@inner
def _delay(P, S, K, A, rule, node, first, end):
    """Find out what a booking from a segment to `end` on a node delays; bookings elsewhere change nothing there."""
    unit = K.first[node]
    pick = NONE
    while unit >= 0:
        after = K.next[unit]
        if _is_delayed(P, K, A.top[unit], unit, first, end):
            _find_again(P, S, K, rule, A.top[unit], unit)
        if K.best_node[unit] != node:
            _take_from(K, unit, node)
            _enter(K, A, rule, unit)
        elif _books_first(K, A, rule, unit, pick):
            pick = unit
        unit = after
    K.pick[node] = pick


@inner
def _delay_second(P, S, K, A, rule, node, units):
    """Sufferage also asks what the second best completion is."""
    for k in range(units):
        unit = K.unit[k]
        if K.second_node[unit] != node or K.size[unit] == 0 or K.best_node[unit] == node:
            continue
        task = A.top[unit]
        if _completion_on(P, S, K, task, unit, node)[1] > K.second[unit]:
            _find_best(P, S, K, rule, task, unit)
            if _books_first(K, A, rule, unit, K.pick[K.best_node[unit]]):
                K.pick[K.best_node[unit]] = unit


@inner
def _begin_bookings(P, S, K, A, rule):
    """What is known of every set in the present state; returns the number of sets."""
    _build_profiles(P, S, K)
    units = A.counter[0]
    for k in range(units):
        unit = A.open[k]
        task = A.top[unit]
        K.unit[k], K.heap[k] = unit, unit
        K.size[unit] = A.size[unit]
        K.left[unit] = S.task[task].unstarted
        K.witness[unit], K.clear[unit] = 0, NONE
        if len(K.resume) > 0:
            for node in range(len(P.node_group)):
                K.resume[unit, node] = K.head[node]
        K.best[unit], K.best_node[unit] = S.clock[NOW] + P.task[task].fastest, NONE
        if rule != MIN_MIN:
            _find_best(P, S, K, rule, task, unit)
            _enter(K, A, rule, unit)
    K.counter[5] = units
    if rule == MIN_MIN:
        for hole in range(units // 2 - 1, -1, -1):
            _sink(K, A, hole)
    K.counter[1], K.counter[2], K.counter[3] = 0, 0, S.counter[EPOCH]
    return units


@inner
def _next_of_set(S, K, A, unit):
    """The first task of a set is booked in full: go on with the next one that is not."""
    K.size[unit] -= 1
    top = A.top[unit]
    top = _meld(A, A.left[top], A.right[top])
    while top >= 0 and S.task[top].unstarted == 0:
        top = _meld(A, A.left[top], A.right[top])
    A.top[unit] = top
    if top >= 0:
        K.left[unit] = S.task[top].unstarted


@inner
def _book_all(P, S, K, A, rule):
    """Book ready tasks until none could start now (later bookings cannot be due); False if the scratch is too small."""
    units = _begin_bookings(P, S, K, A, rule)
    hopeless, taken, roomy = 0, 0, True
    while True:
        while hopeless < units and (K.size[K.unit[hopeless]] == 0 or not _can_start_now(P, S, K, A, K.unit[hopeless])):
            hopeless += 1
        if hopeless == units:
            break
        roomy = K.counter[0] + 2 <= len(K.seg_time) and K.counter[1] < len(K.due_task)
        if not roomy:
            break
        unit = _least(P, S, K, A) if rule == MIN_MIN else _pick(P, K, A, rule)
        task, node = A.top[unit], K.best_node[unit]
        first, end = K.best_seg[unit], K.best[unit]
        several = _book(P, K, task, unit)
        if K.seg_time[first] == S.clock[NOW]:
            due = K.counter[1]
            K.due_task[due], K.due_node[due], K.due_count[due] = task, node, several
            K.counter[1] = due + 1
        K.left[unit] -= several
        if K.left[unit] == 0:
            K.taken[taken] = task
            taken += 1
            _next_of_set(S, K, A, unit)
            if K.size[unit] == 0:
                if rule == MIN_MIN:
                    K.counter[5] -= 1
                    K.heap[0] = K.heap[K.counter[5]]
                else:
                    _take_from(K, unit, node)
        if rule == MIN_MIN:
            _sink(K, A, 0)
        else:
            _delay(P, S, K, A, rule, node, first, end)
        if rule == SUFFERAGE:
            _delay_second(P, S, K, A, rule, node, units)
    for k in range(taken):
        task = K.taken[k]
        A.left[task], A.right[task] = NONE, NONE
        A.top[A.set_of[task]] = _meld(A, A.top[A.set_of[task]], task)
    return roomy


@inner
def _is_waiting_for_data(P, S, task):
    for group in range(P.capacity.shape[0]):
        if S.data_ready[task, group] > S.clock[NOW]:
            return True
    return False


@inner
def _take_units(P, S, A):
    """Put fresh tasks into sets: by kind once their data is everywhere, until then alone."""
    if P.switch[TRANSFERS]:
        for k in range(A.counter[0] - 1, -1, -1):
            unit = A.open[k]
            task = A.top[unit]
            known = A.newest[A.kind[task]]
            if known == unit or _is_waiting_for_data(P, S, task):
                continue
            if known < 0:
                A.newest[A.kind[task]] = unit
            else:
                _close_set(A, unit, A.kind[task])
                _join(A, task, known)
    for k in range(S.counter[FRESH]):
        task = S.fresh[k]
        kind = A.kind[task]
        if P.switch[TRANSFERS] and _is_waiting_for_data(P, S, task):
            _open_set(A, task)
        elif A.newest[kind] >= 0:
            _join(A, task, A.newest[kind])
        else:
            A.newest[kind] = _open_set(A, task)
    S.counter[FRESH] = 0


@inner
def choose_by_booking(P, S, K, A, rule):
    """(task, node, count) of the next booking due now; (-1, -1, 0): WAIT; (-3, -1, 0): the scratch is too small."""
    if K.counter[3] != S.counter[EPOCH]:
        _take_units(P, S, A)
        if S.counter[EVENTS] > len(K.running) or not _book_all(P, S, K, A, rule):
            K.counter[3] = -1
            return NONE - 2, NONE, ZERO
    while K.counter[2] < K.counter[1]:
        due = K.counter[2]
        task, node = K.due_task[due], K.due_node[due]
        several = min(K.due_count[due], S.task[task].unstarted)
        if P.switch[PER_DECISION] > 0:
            several = min(several, P.switch[PER_DECISION])
        if several > 0 and _node_fits(P, S, task, node):
            K.due_count[due] -= several
            return task, node, several
        K.counter[2] = due + 1
    return NONE, NONE, ZERO


@entry
def run_by_booking(P, S, truth, K, A, rule, most):
    """Run to the end (or for `most` decisions) with Min-Min, Max-Min or Sufferage."""
    while most > 0:
        if not _has_room(P, S):
            return GROW
        task, node, several, forced = NOT_LATE, NONE, ZERO, False
        if P.setting[MAX_WAIT] < np.inf:
            _take_units(P, S, A)
            task, node = _overdue(P, S)
            forced = task == -1
        if task == -2:
            task, node, several = choose_by_booking(P, S, K, A, rule)
        if task == -3:
            return GROW
        if task >= 0:
            _start(P, S, truth, task, node, several)
            if S.task[task].unstarted == 0:
                _leave(S, A, task)
            most -= 1
            continue
        if not forced and _may_wait(P, S) and _any_eligible(P, S):
            _log_decision(S, NONE)
        status = _wait_forced(P, S) if forced else _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


# --------------------------------------------------------------------------- following a plan


class Follow(NamedTuple):
    """A static schedule: on each node the entries start in the planned order, each as soon as it can."""

    task: IntArray  # [P]
    left: IntArray  # [P] instances not started
    start: FloatArray  # [P] planned s
    queue: IntArray  # [P] entries by node, then planned start
    head: IntArray  # [N] next place in `queue`
    last: IntArray  # [N] end of the node's part of `queue`
    counter: IntArray  # [2] workflows planned so far, 1 during a WAIT that the guard forces


@inner
def choose_by_plan(P, S, F):
    """(task, node, count): the entry of earliest planned start that can start now, or (-1, -1, 0)."""
    S.counter[FRESH] = 0
    best = NONE
    for node in range(len(P.node_group)):
        while F.head[node] < F.last[node]:
            entry = F.queue[F.head[node]]
            if F.left[entry] > 0 and S.task[F.task[entry]].unstarted > 0:
                break
            F.head[node] += 1
        if F.head[node] == F.last[node]:
            continue
        entry = F.queue[F.head[node]]
        task = F.task[entry]
        if np.isnan(S.task[task].ready_time) or not _node_fits(P, S, task, node):
            continue
        if best < 0 or F.start[entry] < F.start[F.queue[F.head[best]]]:
            best = node
    if best < 0:
        return NONE, NONE, ZERO
    entry = F.queue[F.head[best]]
    task = F.task[entry]
    limit = min(F.left[entry], S.task[task].unstarted)
    if P.switch[PER_DECISION] > 0:
        limit = min(limit, P.switch[PER_DECISION])
    several = _fill(P, S, task, best, limit)
    F.left[entry] -= several
    return task, best, several


@entry
def run_by_plan(P, S, truth, F, most):
    """Run to the end, for `most` decisions, or until workflows arrive that are not planned yet (ARRIVAL)."""
    while most > 0:
        if S.counter[ARRIVED] > F.counter[0]:
            return ARRIVAL
        if F.counter[1]:  # within a WAIT that the guard forces: what arrives meanwhile is planned at once
            status = _outlast(P, S)
            if status == DECIDE:
                F.counter[1] = 0
            elif status != ON_THE_WAY:
                return status
            continue
        if not _has_room(P, S):
            return GROW
        task, node, several, forced = NOT_LATE, NONE, ZERO, False
        if P.setting[MAX_WAIT] < np.inf:
            task, node = _overdue(P, S)
            forced = task == -1
        if task == -2:
            task, node, several = choose_by_plan(P, S, F)
        if task >= 0:
            _start(P, S, truth, task, node, several)
            most -= 1
            continue
        if (forced or _may_wait(P, S)) and _any_eligible(P, S):
            _log_decision(S, NONE)
            if forced:
                F.counter[1] = 1
                continue
        status = _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


# --------------------------------------------------------------------------- helpers for Python callers


@entry
def place_in_group(P, S, task, group):
    """Node of least leftover in one group, or -1: for policies that also name the group."""
    return _tightest_node(P, S, task, group)[0]


@entry
def node_fits(P, S, task, node):
    """Whether one instance of the task fits the node now."""
    return _node_fits(P, S, task, node)


@entry
def fits_somewhere(P, S, task):
    """Whether one instance of the task fits some node now."""
    return _fits_somewhere(P, S, task)


@entry
def place(P, S, task):
    """Node the placement rule picks for one instance now, or -1."""
    return _place(P, S, task)


@entry
def has_room(P, S):
    """Whether the logs can take one more decision."""
    return _has_room(P, S)


@entry
def log_decision(S, task):
    """Append to the decision log; -1 is WAIT."""
    _log_decision(S, task)


@entry
def start(P, S, truth, task, node, count):
    """Start a ready task: on `node` alone if `count` > 0, else there first and then wherever it fits."""
    _start(P, S, truth, task, node, count)


@entry
def any_eligible(P, S):
    """Whether some ready task fits some node now."""
    return _any_eligible(P, S)


@entry
def may_wait(P, S):
    """Whether WAIT is legal, unless the starvation guard forces a task."""
    return _may_wait(P, S)


@entry
def outlast(P, S):
    """One event of a WAIT that the starvation guard forces: ON_THE_WAY until overdue work may start."""
    return _outlast(P, S)


@entry
def advance(P, S):
    """Let time pass to the next decision point (event-driven: the next event, eligible tasks or not)."""
    return _advance(P, S)


@entry
def overdue(P, S):
    """Starvation guard: (task, node) that must start; (-1, -1): only WAIT is legal; (-2, -1): nothing is overdue."""
    return _overdue(P, S)
