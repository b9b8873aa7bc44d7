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
ON_THE_WAY = 7
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
        ("place", "i8"),  # place in the order of submission, for the rules that go by it: fcfs, round-robin, PACKER
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
    def place(self) -> IntArray:
        """``[T]``."""
        return np.ascontiguousarray(self.task["place"])

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
    tie: IntArray  # [T] among equal keys smaller first: Problem.tie, or Problem.place for first come, first served
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
        task, node, forced = NOT_LATE, NONE, False
        if P.setting[MAX_WAIT] < np.inf:
            task, node = _overdue(P, S)
            forced = task == -1
        if task == -2:
            task, node = choose_by_priority(P, S, B)
        if task >= 0:
            _start(P, S, truth, task, node, ZERO)
            most -= 1
            continue
        status = _wait_forced(P, S) if forced else _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


@entry
def run_by_priority(P, S, truth, B, most):
    """The same, to be called from Python."""
    return go_by_priority(P, S, truth, B, most)


# --------------------------------------------------------------------------- choosing by a score that changes


@inner
def _alignment(P, S, task):
    """Tetris: largest sum over resources of demand x free / capacity^2 over the nodes that fit now."""
    best = -np.inf
    for node in range(len(P.node_group)):
        if _node_fits(P, S, task, node):
            group = P.node_group[node]
            dot = 0.0
            for r in range(P.capacity.shape[1]):
                if P.capacity[group, r] > 0:
                    dot += (P.demand[task, r] / P.capacity[group, r]) * (S.free[node, r] / P.capacity[group, r])
            best = max(best, dot)
    return best


@inner
def _score(P, S, rule, shortness, task, mean_alignment, mean_left):
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
        return _alignment(P, S, task)
    if rule == PACKER:
        aligned = _alignment(P, S, task)
        if shortness > 0:
            seconds = P.task[task].fastest
            aligned += shortness / seconds if seconds > 0 else np.inf
        return aligned
    if rule == TETRIS_SRW:
        return _alignment(P, S, task) / mean_alignment - S.workflow[w].left / mean_left
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
def choose_by_score(P, S, rule, shortness):
    """(task, node): the eligible task of largest score, ties by Problem.tie; (-1, -1) if nothing is eligible.

    Ties of round-robin and of the published Tetris go by Problem.place.
    """
    by_place = rule in (ROUND_ROBIN, PACKER)
    S.counter[FRESH] = 0
    mean_alignment, mean_left = 1.0, 1.0
    if rule == TETRIS_SRW:
        count, alignment, left = 0, 0.0, 0.0
        for k in range(S.counter[READY]):
            task = S.ready[k]
            if _fits_somewhere(P, S, task):
                count += 1
                alignment += _alignment(P, S, task)
                left += S.workflow[P.task[task].workflow].left
        if count > 0 and alignment > 0:
            mean_alignment = alignment / count
        if count > 0 and left > 0:
            mean_left = left / count
    best, best_score = NONE, -np.inf
    for k in range(S.counter[READY]):
        task = S.ready[k]
        if S.class_blocked[P.task[task].klass] == S.counter[RELEASES]:
            continue
        score = _score(P, S, rule, shortness, task, mean_alignment, mean_left)
        if best >= 0 and score <= best_score:
            behind = P.task[task].place > P.task[best].place if by_place else P.task[task].tie > P.task[best].tie
            if score < best_score or behind:
                continue
        if _fits_somewhere(P, S, task):
            best, best_score = task, score
    if best < 0:
        return NONE, NONE
    return best, _place(P, S, best)


@entry
def run_by_score(P, S, truth, rule, shortness, most):
    """Run to the end (or for `most` decisions) with a score computed at each decision.

    `shortness` is what PACKER adds for 1 / estimate, in seconds.
    """
    while most > 0:
        if not _has_room(P, S):
            return GROW
        task, node, forced = NOT_LATE, NONE, False
        if P.setting[MAX_WAIT] < np.inf:
            task, node = _overdue(P, S)
            forced = task == -1
        if task == -2:
            task, node = choose_by_score(P, S, rule, shortness)
        if task >= 0:
            _start(P, S, truth, task, node, ZERO)
            most -= 1
            continue
        status = _wait_forced(P, S) if forced else _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


# --------------------------------------------------------------------------- choosing by virtual bookings


class Bookings(NamedTuple):
    """Scratch of Min-Min, Max-Min and Sufferage: what each node will have free, by estimates and bookings.

    A node's future is a linked list of segments in time order; the last one lasts for ever.
    """

    seg_time: FloatArray  # [M] s
    seg_free: FloatArray  # [M, R]
    seg_next: IntArray  # [M], -1 after the last
    head: IntArray  # [N]
    rising: IntArray  # [N] 1 while the free amounts never fall, so that the earliest fit needs no look ahead
    fit: FloatArray  # [C, N] s, earliest fit on a rising node; NaN = not computed
    witness: IntArray  # [C] a node the class fits now; -1 not looked for, -2 none
    running: IntArray  # [A]
    unit: IntArray  # [T] tasks with instances not booked
    left: IntArray  # [T] instances not booked
    best: FloatArray  # [T] s, least completion
    best_node: IntArray  # [T]
    second: FloatArray  # [T] s, least completion on another node
    second_node: IntArray  # [T]
    due_task: IntArray  # [M] bookings that start now
    due_node: IntArray  # [M]
    due_count: IntArray  # [M]
    counter: IntArray  # [4] segments used, bookings due, next due booking, epoch they belong to


@inner
def _segment_fits(P, K, task, group, seg):
    for r in range(P.capacity.shape[1]):
        if K.seg_free[seg, r] - P.demand[task, r] < -P.slack[group, r]:
            return False
    return True


@inner
def _cut(K, node, time):
    """The segment of the node that begins exactly at `time` (>= now), split off if need be."""
    seg = K.head[node]
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
        seg = _cut(K, node, finish)
        while seg >= 0:
            for r in range(P.capacity.shape[1]):
                K.seg_free[seg, r] += P.demand[task, r] * S.alloc[alloc].count
            seg = K.seg_next[seg]
    for klass in range(K.fit.shape[0]):
        K.witness[klass] = -1
        for node in range(K.fit.shape[1]):
            K.fit[klass, node] = np.nan


@inner
def _earliest_fit(P, S, K, task, node):
    """(start, completion) of one instance on the node around running work and bookings; start holds the node."""
    group = P.node_group[node]
    klass = P.task[task].klass
    ready = S.clock[NOW]
    if P.switch[TRANSFERS]:
        ready = max(ready, S.data_ready[task, group])
    seconds = P.estimate[task, group]
    if K.rising[node]:
        begin = K.fit[klass, node]
        if np.isnan(begin):
            seg = K.head[node]
            while not _segment_fits(P, K, task, group, seg) and K.seg_next[seg] >= 0:
                seg = K.seg_next[seg]
            begin = K.seg_time[seg]
            K.fit[klass, node] = begin
        return begin, max(begin, ready) + seconds
    seg = K.head[node]
    while True:
        begin = K.seg_time[seg]
        end = max(begin, ready) + seconds
        blocked = NONE
        look = seg
        while look >= 0 and (look == seg or K.seg_time[look] < end):
            if not _segment_fits(P, K, task, group, look):
                blocked = look
                break
            look = K.seg_next[look]
        if blocked < 0 or K.seg_next[blocked] < 0:
            return begin, end
        seg = K.seg_next[blocked]


@inner
def _find_best(P, S, K, task):
    """Least and second least completion of a task over the nodes that can ever hold it."""
    K.best[task], K.second[task] = np.inf, np.inf
    K.best_node[task], K.second_node[task] = -1, -1
    for k in range(P.group_order.shape[1]):
        group = P.group_order[task, k]
        if group < 0:
            break
        for node in range(P.group_ptr[group], P.group_ptr[group + 1]):
            completion = _earliest_fit(P, S, K, task, node)[1]
            if completion < K.best[task] or (completion == K.best[task] and node < K.best_node[task]):
                K.second[task], K.second_node[task] = K.best[task], K.best_node[task]
                K.best[task], K.best_node[task] = completion, node
            elif completion < K.second[task]:
                K.second[task], K.second_node[task] = completion, node


@inner
def _can_start_now(P, K, task):
    """Whether one instance fits some node's first segment; bookings only shrink it, so "no" is remembered."""
    klass = P.task[task].klass
    node = K.witness[klass]
    if node == -2:
        return False
    if node >= 0 and _segment_fits(P, K, task, P.node_group[node], K.head[node]):
        return True
    for node in range(len(P.node_group)):
        if _segment_fits(P, K, task, P.node_group[node], K.head[node]):
            K.witness[klass] = node
            return True
    K.witness[klass] = -2
    return False


@inner
def _book(P, S, K, task, node):
    """Reserve as many instances as fit from the earliest fit on; returns (start, instances)."""
    group = P.node_group[node]
    begin, end = _earliest_fit(P, S, K, task, node)
    first = _cut(K, node, begin)
    _cut(K, node, end)
    several = K.left[task]
    seg = first
    while seg >= 0 and (seg == first or K.seg_time[seg] < end):
        for r in range(P.capacity.shape[1]):
            if P.demand[task, r] > 0:
                room = np.floor((K.seg_free[seg, r] + P.slack[group, r]) / P.demand[task, r])
                several = min(several, np.int64(min(room, 1e18)))
        seg = K.seg_next[seg]
    several = max(several, 1)
    if end > begin:
        seg = first
        while seg >= 0 and K.seg_time[seg] < end:
            for r in range(P.capacity.shape[1]):
                K.seg_free[seg, r] -= P.demand[task, r] * several
            seg = K.seg_next[seg]
    K.left[task] -= several
    K.rising[node] = 1
    seg = K.head[node]
    while K.seg_next[seg] >= 0:
        later = K.seg_next[seg]
        for r in range(P.capacity.shape[1]):
            if K.seg_free[later, r] < K.seg_free[seg, r]:
                K.rising[node] = 0
        seg = later
    for klass in range(K.fit.shape[0]):
        K.fit[klass, node] = np.nan
    return begin, several


@inner
def _pick_unit(P, K, rule, units):
    """Place in `unit` of the task to book next; Problem.tie among equals."""
    pick, pick_key = NONE, -np.inf
    for k in range(units):
        task = K.unit[k]
        if rule == MIN_MIN:
            key = -K.best[task]
        elif rule == MAX_MIN:
            key = K.best[task]
        else:
            key = K.second[task] - K.best[task]
        if pick < 0 or key > pick_key or (key == pick_key and P.task[task].tie < P.task[K.unit[pick]].tie):
            pick, pick_key = k, key
    return pick


@inner
def _book_all(P, S, K, rule):
    """Book ready tasks until none could start now (later bookings cannot be due); False if the scratch is too small."""
    _build_profiles(P, S, K)
    units = S.counter[READY]
    for k in range(units):
        task = S.ready[k]
        K.unit[k] = task
        K.left[task] = S.task[task].unstarted
        _find_best(P, S, K, task)
    K.counter[1], K.counter[2], K.counter[3] = 0, 0, S.counter[EPOCH]
    while units > 0:
        startable = False
        for k in range(units):
            if _can_start_now(P, K, K.unit[k]):
                startable = True
                break
        if not startable:
            break
        if K.counter[0] + 2 > len(K.seg_time) or K.counter[1] >= len(K.due_task):
            return False
        pick = _pick_unit(P, K, rule, units)
        task = K.unit[pick]
        node = K.best_node[task]
        begin, several = _book(P, S, K, task, node)
        if begin == S.clock[NOW]:
            due = K.counter[1]
            K.due_task[due], K.due_node[due], K.due_count[due] = task, node, several
            K.counter[1] = due + 1
        if K.left[task] == 0:
            units -= 1
            K.unit[pick] = K.unit[units]
        for k in range(units):
            other = K.unit[k]
            if K.best_node[other] == node:
                # Bookings only delay, so `second` stays a lower bound for every other node.
                K.best[other] = _earliest_fit(P, S, K, other, node)[1]
                if K.best[other] >= K.second[other]:
                    _find_best(P, S, K, other)
            elif rule == SUFFERAGE and K.second_node[other] == node:
                _find_best(P, S, K, other)
    return True


@inner
def choose_by_booking(P, S, K, rule):
    """(task, node, count) of the next booking due now; (-1, -1, 0): WAIT; (-3, -1, 0): the scratch is too small."""
    S.counter[FRESH] = 0
    if K.counter[3] != S.counter[EPOCH] and (S.counter[EVENTS] > len(K.running) or not _book_all(P, S, K, rule)):
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
def run_by_booking(P, S, truth, K, rule, most):
    """Run to the end (or for `most` decisions) with Min-Min, Max-Min or Sufferage."""
    while most > 0:
        if not _has_room(P, S):
            return GROW
        task, node, several, forced = NOT_LATE, NONE, ZERO, False
        if P.setting[MAX_WAIT] < np.inf:
            task, node = _overdue(P, S)
            forced = task == -1
        if task == -2:
            task, node, several = choose_by_booking(P, S, K, rule)
        if task == -3:
            return GROW
        if task >= 0:
            _start(P, S, truth, task, node, several)
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
