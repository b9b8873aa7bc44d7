"""The compiled simulator: events, placement, starting work, and every rule's choice, over flat arrays.

Kernels that call each other must share one module, because numba's on-disk cache does not notice a changed
callee in another file. The parts, top to bottom: the two tuples of arrays, events, placement, starting work,
time, and the four ways to choose (priority buckets, scored scan, virtual booking, plan following).

In every compiled file ``P`` is the :class:`Problem` and ``S`` a :class:`State`; all other records have their names.
Functions without an underscore are for compiled callers; the *entries* at the end are the same for Python.

Only ``truth`` (realised seconds ``[T, G]``) and the finish times of running allocations know the future. No
function that chooses reads either; the leak test guards that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dagsched.simulator.compilation import cold, entry, inner
from dagsched.workflow import FloatArray, IntArray

# Slots of State.clock and State.counter.
NOW, LAST_TICK = 0, 1
ALLOCS, EVENTS, READY, ARRIVED, LEFT, DECISIONS, RELEASES, EPOCH, CURSOR, WAITS, FRESH, FREED, DRAWS = range(13)
# What `advance` and the runners return; FULL: a record of decisions; ILLEGAL: an action; ON_THE_WAY: within a WAIT.
DECIDE, DONE, GROW, STUCK, ARRIVAL, FULL, ILLEGAL, ON_THE_WAY = range(8)
# A decision is (status, task, node, count). START: so many instances on that node alone; count 0: as many as fit, first
# on that node, then wherever the placement rule says. HOLD: nothing, which is logged as a WAIT. NOTHING: no task may
# start, so that nothing is decided. FREE: the starvation guard leaves it to the policy. BEGUN: the guard started one.
START, HOLD, NOTHING, FREE, BEGUN = range(10, 15)
# Slots of Buckets.counter: classes in `order`; classes in `blocked`; 1 = the key is minus the ready time; node to try
# blocked classes on, -1 = none.
IN_ORDER, IN_BLOCKED, BY_READY_TIME, RETRY_NODE = range(4)
# Slots of Alike.counter: sets in use; sets not in use; number of the decision.
OPEN_SETS, SPARE_SETS, LOOK = range(3)
# Slots of Bookings.counter: segments used; bookings due; the next one; their epoch; versions so far; sets in `heap`.
SEGMENTS, DUE, NEXT_DUE, BOOKED_AT, VERSION, IN_HEAP = range(6)
# Slots of Follow.counter: workflows planned so far; 1 = within a WAIT that the guard forces.
PLANNED, WAITING = range(2)
# Slots of Problem.setting (float) and Problem.switch (int).
INTERVAL, MAX_WAIT = 0, 1
PLACEMENT, PER_DECISION, TRANSFERS, PLACEMENT_SEED = range(4)
# Typed, since a literal -1 would compile every callee a second time.
NONE: Any = np.int64(-1)
ZERO: Any = np.int64(0)
# `x & INDEX` tells the compiler that x is not negative, which spares the wrap-around of negative indices at every use:
# a quarter of the run time.
INDEX: Any = np.int64(2**63 - 1)
EARLIEST_FINISH, BEST_FIT, LEAST_LOADED, ROUND_ROBIN_NODES, RANDOM_NODE = range(5)
# Scored rules.
HRRN, SRW, SRW_CP, ROUND_ROBIN, WEIGHTED_FAIR, TETRIS, TETRIS_SRW, CP_DEMAND, CP_DEMAND_WORK, PACKER = range(10)
MIN_MIN, MAX_MIN, SUFFERAGE = range(3)


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
DECISION = np.dtype(
    [
        ("time", "f8"),  # s
        ("task", "i8"),  # -1 = WAIT
        ("node", "i8"),  # that the policy chose; -1 = the placement rule did
        ("count", "i8"),  # instances started
    ]
)
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
def push_event(S, alloc):
    """Put a running allocation into the heap of finishes."""
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
def can_start(P, S, task):
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
def mix_bits(x):
    """SplitMix64: the own random stream of the `random` placement."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inner
def uniform(state):
    """A number in (0, 1) by SplitMix64 (Steele, Lea and Flood, 2014); ``state`` is ``[1]`` uint64."""
    z = mix_bits(state[0])
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
            word = mix_bits(mix_bits(np.uint64(P.switch[PLACEMENT_SEED])) + np.uint64(S.counter[DRAWS] * nodes + node))
            key, other = (-float(seen) if word % np.uint64(seen) == 0 else 0.0), 0.0
        if key < first or (key == first and other < second):
            best, first, second = node, key, other
    return best


@inner
def choose_node(P, S, task):
    """Node the placement rule picks for one instance now, or -1."""
    if P.switch[PLACEMENT] == EARLIEST_FINISH:
        return _place_earliest_finish(P, S, task)
    return _place_by_scan(P, S, task)


# --------------------------------------------------------------------------- starting work


@inner
def is_running(S, alloc):
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
        if S.alloc[alloc].node == node and is_running(S, alloc):
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
    push_event(S, alloc)


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
def logs_have_room(P, S):
    """Whether the logs can take one more decision, which starts at most one allocation on each node."""
    return S.counter[ALLOCS] + len(P.node_group) <= len(S.alloc) and S.counter[DECISIONS] < len(S.decision)


@inner
def append_decision(S, task, node, count):
    """Append to the decision log; task -1 is WAIT, node -1 one that the placement rule chose."""
    at = S.counter[DECISIONS] & INDEX
    S.counter[DECISIONS] = at + 1
    S.decision[at].time = S.clock[NOW]
    S.decision[at].task = task
    S.decision[at].node = node
    S.decision[at].count = count
    if task < 0:
        S.counter[WAITS] += 1


@inner
def start_task(P, S, truth, task, node, count):
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
    named = node if count > 0 else NONE
    fills = P.switch[PLACEMENT] <= BEST_FIT or count > 0
    while left > 0 and node >= 0:
        several = _fill(P, S, task, node, left) if fills else 1
        _allocate(P, S, truth, task, node, several)
        left -= several
        if left > 0:
            node = NONE if count > 0 else choose_node(P, S, task)
    begun -= left
    w = P.task[task].workflow & INDEX
    S.workflow[w].left -= begun * P.task[task].fastest
    S.workflow[w].service += begun * P.task[task].area
    S.workflow[w].turn = S.counter[DECISIONS]
    append_decision(S, task, named, begun)
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
def sort_ascending(values, size):
    """Heapsort of the first `size` values, ascending (`ndarray.sort` would need numba's allocator)."""
    for hole in range(size // 2 - 1, -1, -1):
        _sift(values, hole, size)
    for last in range(size - 1, 0, -1):
        value = values[last]
        values[last] = values[0]
        values[0] = value
        _sift(values, 0, last)


@inner
def has_eligible(P, S):
    """Whether some ready task fits some node now."""
    for k in range(S.counter[READY]):
        if can_start(P, S, S.ready[k]):
            return True
    return False


@entry
def eligible(P, S, out):
    """Write the eligible tasks, ascending, into `out`; returns how many."""
    count = 0
    for k in range(S.counter[READY]):
        if can_start(P, S, S.ready[k]):
            out[count] = S.ready[k]
            count += 1
    sort_ascending(out, count)
    return count


@inner
def next_event(P, S):
    """Seconds of the next finish or arrival; inf without any."""
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
        if has_eligible(P, S):
            return DECIDE
    while S.counter[LEFT] > 0:
        time = next_event(P, S)
        if has_eligible(P, S):
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
def advance_clock(P, S):
    """Let time pass to the next decision point (event-driven: the next event, eligible tasks or not)."""
    if S.counter[LEFT] == 0:
        return DONE
    if P.setting[INTERVAL] > 0:
        return _advance_to_tick(P, S)
    time = next_event(P, S)
    if time == np.inf:
        return STUCK
    S.clock[NOW] = time
    _settle(P, S)
    return DONE if S.counter[LEFT] == 0 else DECIDE


@cold
def find_overdue(P, S):
    """Starvation guard: (START, task, node) that must start; HOLD: only WAIT is legal; FREE: nothing is overdue."""
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
            if can_start(P, S, task):
                best = task
    if best >= 0:
        return START, best, choose_node(P, S, best)
    return (HOLD if any_late else FREE), NONE, NONE


@inner
def wait_is_legal(P, S):
    """WAIT is legal while work runs, and at ticks under a guard: the next tick always comes and reveals nothing."""
    return S.counter[EVENTS] > 0 or (P.setting[INTERVAL] > 0 and P.setting[MAX_WAIT] < np.inf)


@inner
def _release_tick(P, S):
    """The next tick at which some task that fits now is overdue, as long as nothing else happens; inf if none fits."""
    oldest = np.inf
    for k in range(S.counter[READY]):
        task = S.ready[k]
        if S.task[task].ready_time < oldest and can_start(P, S, task):
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
def outlast_wait(P, S):
    """One event of the WAIT that the guard forces: DECIDE once overdue work may start, ON_THE_WAY before.

    Ticks at which nothing may start are passed over in one step, however many there are.
    """
    if P.setting[INTERVAL] <= 0:
        status = advance_clock(P, S)
        return ON_THE_WAY if status == DECIDE and find_overdue(P, S)[0] == HOLD else status
    if S.counter[LEFT] == 0:
        return DONE
    if S.counter[EVENTS] > 0 and S.event_time[0] <= S.clock[NOW]:
        _settle(P, S)  # zero-duration work of this very tick: decide again at the same tick
        if S.counter[LEFT] == 0:
            return DONE
        return DECIDE if find_overdue(P, S)[0] == START else ON_THE_WAY
    time, tick = next_event(P, S), _release_tick(P, S)
    if tick < time:
        S.clock[NOW] = tick
        S.clock[LAST_TICK] = tick
        S.counter[EPOCH] += 1
        return DECIDE if find_overdue(P, S)[0] == START else ON_THE_WAY
    if time == np.inf:
        return STUCK
    S.clock[NOW] = time
    _settle(P, S)
    return DONE if S.counter[LEFT] == 0 else ON_THE_WAY


@cold
def wait_forced(P, S):
    """The WAIT that the guard forces, in one step and logged once: to the next moment at which overdue work may start.

    While nothing fits there is no decision, and nothing is logged.
    """
    while not has_eligible(P, S):
        status = advance_clock(P, S)
        if status != DECIDE or find_overdue(P, S)[0] != HOLD:
            return status
    append_decision(S, NONE, NONE, ZERO)
    status = ON_THE_WAY
    while status == ON_THE_WAY:
        status = outlast_wait(P, S)
    return status


@cold
def heed_guard(P, S, truth):
    """What the starvation guard forces: FREE if nothing, BEGUN after overdue work, else a status of its WAIT."""
    status, task, node = find_overdue(P, S)
    if status == FREE:
        return FREE
    if status == HOLD:
        return wait_forced(P, S)
    start_task(P, S, truth, task, node, ZERO)
    return BEGUN


# --------------------------------------------------------------------------- choosing by fixed priority


FEW_CLASSES = 64


class Buckets(NamedTuple):
    """Ready tasks by demand class: a heap of tasks for each class and a heap of the classes that may fit.

    A class that fits nowhere is set aside and looked at again only for nodes released since, so blocked
    tasks cost nothing. After the release of a single node, the usual case, a scan over the few blocked classes
    is cheaper than moving them through the heap.
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
def reset_buckets(buckets):
    """Forget every task."""
    for klass in range(len(buckets.size)):
        buckets.size[klass] = 0
        buckets.slot[klass] = -1
    buckets.counter[IN_ORDER] = 0
    buckets.counter[IN_BLOCKED] = 0
    buckets.counter[RETRY_NODE] = -1


@inner
def _first(buckets, a, b):
    """Whether task a runs before task b."""
    if buckets.key[a] != buckets.key[b]:
        return buckets.key[a] > buckets.key[b]
    return buckets.tie[a] < buckets.tie[b]


@inner
def _push_task(P, buckets, task):
    klass = P.task[task].klass & INDEX
    base = buckets.class_ptr[klass] & INDEX
    hole = buckets.size[klass] & INDEX
    buckets.size[klass] = hole + 1
    while hole > 0:
        above = ((hole - 1) >> 1) & INDEX
        other = buckets.heap[base + above] & INDEX
        if _first(buckets, other, task):
            break
        buckets.heap[base + hole] = other
        hole = above
    buckets.heap[base + hole] = task


@inner
def _pop_task(buckets, klass):
    base = buckets.class_ptr[klass] & INDEX
    size = (buckets.size[klass] - 1) & INDEX
    buckets.size[klass] = size
    last = buckets.heap[base + size] & INDEX
    hole = 0
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= size:
            break
        if child + 1 < size and _first(buckets, buckets.heap[base + child + 1], buckets.heap[base + child]):
            child += 1
        if _first(buckets, last, buckets.heap[base + child]):
            break
        buckets.heap[base + hole] = buckets.heap[base + child]
        hole = child
    buckets.heap[base + hole] = last


@inner
def _head_first(buckets, a, key_a, b, key_b):
    """Whether class a's first task, of key `key_a`, runs before class b's."""
    if key_a != key_b:
        return key_a > key_b
    return buckets.tie[buckets.heap[buckets.class_ptr[a]]] < buckets.tie[buckets.heap[buckets.class_ptr[b]]]


@inner
def _class_up(buckets, hole):
    klass = buckets.order[hole] & INDEX
    key = buckets.key[buckets.heap[buckets.class_ptr[klass]]]
    while hole > 0:
        above = ((hole - 1) >> 1) & INDEX
        if _head_first(buckets, buckets.order[above], buckets.order_key[above], klass, key):
            break
        buckets.order[hole] = buckets.order[above]
        buckets.order_key[hole] = buckets.order_key[above]
        buckets.slot[buckets.order[hole]] = hole
        hole = above
    buckets.order[hole] = klass
    buckets.order_key[hole] = key
    buckets.slot[klass] = hole


@inner
def _class_down(buckets, hole):
    klass = buckets.order[hole] & INDEX
    key = buckets.key[buckets.heap[buckets.class_ptr[klass]]]
    size = buckets.counter[IN_ORDER] & INDEX
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= size:
            break
        other = child + 1
        if other < size and _head_first(
            buckets, buckets.order[other], buckets.order_key[other], buckets.order[child], buckets.order_key[child]
        ):
            child = other
        if _head_first(buckets, klass, key, buckets.order[child], buckets.order_key[child]):
            break
        buckets.order[hole] = buckets.order[child]
        buckets.order_key[hole] = buckets.order_key[child]
        buckets.slot[buckets.order[hole]] = hole
        hole = child
    buckets.order[hole] = klass
    buckets.order_key[hole] = key
    buckets.slot[klass] = hole


@inner
def _insert_class(buckets, klass):
    buckets.order[buckets.counter[IN_ORDER]] = klass
    buckets.counter[IN_ORDER] += 1
    _class_up(buckets, buckets.counter[IN_ORDER] - 1)


@inner
def _drop_first_class(buckets, slot):
    buckets.slot[buckets.order[0]] = slot
    buckets.counter[IN_ORDER] -= 1
    if buckets.counter[IN_ORDER] > 0:
        buckets.order[0] = buckets.order[buckets.counter[IN_ORDER]]
        _class_down(buckets, 0)


@inner
def _take_news(P, S, buckets):
    """Move fresh tasks into the buckets, and classes that fit a released node out of the blocked list."""
    for k in range(S.counter[FRESH]):
        task = S.fresh[k] & INDEX
        klass = P.task[task].klass & INDEX
        if buckets.counter[BY_READY_TIME]:
            buckets.key[task] = -S.task[task].ready_time
        _push_task(P, buckets, task)
        if buckets.slot[klass] == -1:
            buckets.only[klass] = -1
            _insert_class(buckets, klass)
        elif buckets.slot[klass] >= 0 and buckets.heap[buckets.class_ptr[klass]] == task:
            _class_up(buckets, buckets.slot[klass])
    S.counter[FRESH] = 0
    freed = S.counter[FREED]
    if freed == 0:
        return
    only_blocked = buckets.counter[IN_ORDER] == 0 and buckets.counter[IN_BLOCKED] <= FEW_CLASSES
    if freed == 1 and buckets.counter[RETRY_NODE] < 0 and only_blocked:
        buckets.counter[RETRY_NODE] = S.freed[0]
        S.node[S.freed[0]].is_freed = 0
        S.counter[FREED] = 0
        return
    for k in range(buckets.counter[IN_ORDER]):  # after a forced WAIT alone: else every class is blocked or empty by now
        buckets.only[buckets.order[k]] = -1
    if buckets.counter[RETRY_NODE] >= 0:
        _unblock(P, S, buckets, buckets.counter[RETRY_NODE], NONE)
        buckets.counter[RETRY_NODE] = -1
    for k in range(freed):
        node = S.freed[k] & INDEX
        S.node[node].is_freed = 0
        _unblock(P, S, buckets, node, node if freed == 1 else NONE)
    S.counter[FREED] = 0


@inner
def _unblock(P, S, buckets, node, only):
    """Give the blocked classes that fit the node another chance."""
    kept = 0
    for j in range(buckets.counter[IN_BLOCKED]):
        klass = buckets.blocked[j] & INDEX
        if _node_fits(P, S, P.class_task[klass], node):
            buckets.only[klass] = only
            _insert_class(buckets, klass)
        else:
            buckets.blocked[kept] = klass
            kept += 1
    buckets.counter[IN_BLOCKED] = kept


@inner
def _best_blocked(P, S, buckets, node):
    """First task, in order of priority, of the blocked classes that fit the node; -1 if none does."""
    best = NONE
    kept = 0
    for j in range(buckets.counter[IN_BLOCKED]):
        klass = buckets.blocked[j] & INDEX
        base = buckets.class_ptr[klass] & INDEX
        while buckets.size[klass] > 0 and S.task[buckets.heap[base]].unstarted == 0:
            _pop_task(buckets, klass)
        if buckets.size[klass] == 0:
            buckets.slot[klass] = -1
            continue
        buckets.blocked[kept] = klass
        kept += 1
        head = buckets.heap[base] & INDEX
        if (best < 0 or _first(buckets, head, best)) and _node_fits(P, S, head, node):
            best = head
    buckets.counter[IN_BLOCKED] = kept
    return best


@inner
def choose_by_priority(P, S, buckets):
    """A decision: the eligible task of largest key, or NOTHING."""
    _take_news(P, S, buckets)
    first, where = NONE, NONE
    while buckets.counter[IN_ORDER] > 0:
        klass = buckets.order[0] & INDEX
        task = buckets.heap[buckets.class_ptr[klass] & INDEX] & INDEX
        if S.task[task].unstarted == 0:
            _pop_task(buckets, klass)
            if buckets.size[klass] == 0:
                _drop_first_class(buckets, -1)
            else:
                _class_down(buckets, 0)
            continue
        where = buckets.only[klass]
        if where < 0:
            where = choose_node(P, S, task)
        elif not _node_fits(P, S, task, where):
            where = NONE
        if where >= 0:
            first = task
            break
        buckets.blocked[buckets.counter[IN_BLOCKED]] = klass
        buckets.counter[IN_BLOCKED] += 1
        _drop_first_class(buckets, -2)
    if buckets.counter[RETRY_NODE] >= 0:
        node = buckets.counter[RETRY_NODE] & INDEX
        task = _best_blocked(P, S, buckets, node)
        if task >= 0 and (first < 0 or _first(buckets, task, first)):
            return START, task, node, ZERO
        if first < 0:
            buckets.counter[RETRY_NODE] = -1
    return (START if first >= 0 else NOTHING), first, where, ZERO


@inner
def go_by_priority(P, S, truth, buckets, most):
    """Run to the end (or for `most` decisions) with a fixed priority. Inlined into its callers: a tenth faster."""
    while most > 0:
        if not logs_have_room(P, S):
            return GROW
        if P.setting[MAX_WAIT] < np.inf:
            status = heed_guard(P, S, truth)
            if status == BEGUN:
                most -= 1
                continue
            if status == DECIDE:
                continue
            if status != FREE:
                return status
        status, task, node, count = choose_by_priority(P, S, buckets)
        if status == START:
            start_task(P, S, truth, task, node, count)
            most -= 1
            continue
        status = advance_clock(P, S)
        if status != DECIDE:
            return status
    return DECIDE


@entry
def run_by_priority(P, S, truth, buckets, most):
    """The same, to be called from Python."""
    return go_by_priority(P, S, truth, buckets, most)


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
    counter: IntArray  # [3]


@inner
def _meld(alike, a, b):
    """Join two heaps (-1 = empty); returns the root."""
    if a < 0 or b < 0:
        return max(a, b)
    if alike.tie[b] < alike.tie[a]:
        a, b = b, a
    root = a
    while True:
        right = alike.right[a]
        alike.right[a] = alike.left[a]
        if right < 0:
            alike.left[a] = b
            return root
        if alike.tie[b] < alike.tie[right]:
            right, b = b, right
        alike.left[a] = right
        a = right


@inner
def _open_set(alike, task):
    """A new set of one task."""
    alike.counter[SPARE_SETS] -= 1
    group = alike.spare[alike.counter[SPARE_SETS]]
    alike.slot[group] = alike.counter[OPEN_SETS]
    alike.open[alike.counter[OPEN_SETS]] = group
    alike.counter[OPEN_SETS] += 1
    alike.left[task], alike.right[task] = NONE, NONE
    alike.top[group], alike.size[group], alike.set_of[task] = task, 1, group
    return group


@inner
def _close_set(alike, group, kind):
    alike.counter[OPEN_SETS] -= 1
    last, slot = alike.open[alike.counter[OPEN_SETS]], alike.slot[group]
    alike.open[slot] = last
    alike.slot[last] = slot
    alike.spare[alike.counter[SPARE_SETS]] = group
    alike.counter[SPARE_SETS] += 1
    if alike.newest[kind] == group:
        alike.newest[kind] = -1


@inner
def _join(alike, task, group):
    alike.left[task], alike.right[task] = NONE, NONE
    alike.top[group] = _meld(alike, alike.top[group], task)
    alike.size[group] += 1
    alike.set_of[task] = group


@inner
def _take_alike(S, alike, rule):
    """Put fresh tasks into sets: with all of their kind, under HRRN with those that became ready together."""
    for k in range(S.counter[FRESH]):
        task = S.fresh[k] & INDEX
        kind = alike.kind[task] & INDEX
        group = alike.newest[kind]
        if group >= 0 and (rule != HRRN or S.task[alike.top[group]].ready_time == S.task[task].ready_time):
            _join(alike, task, group)
        else:
            alike.newest[kind] = _open_set(alike, task)
    S.counter[FRESH] = 0


@inner
def _leave(S, alike, task):
    """Take a task out that has fully started."""
    group = alike.set_of[task]
    alike.size[group] -= 1
    if alike.size[group] == 0:
        _close_set(alike, group, alike.kind[task])
        return
    top = alike.top[group]
    while S.task[top].unstarted == 0:
        top = _meld(alike, alike.left[top], alike.right[top])
    alike.top[group] = top


@entry
def regroup(S, alike):
    """Forget every set; all ready tasks count as fresh again."""
    for k in range(alike.counter[OPEN_SETS]):
        group = alike.open[k]
        alike.newest[alike.kind[alike.top[group]]] = -1
        alike.spare[alike.counter[SPARE_SETS]] = group
        alike.counter[SPARE_SETS] += 1
    alike.counter[OPEN_SETS] = 0
    for k in range(S.counter[READY]):
        S.fresh[k] = S.ready[k]
    S.counter[FRESH] = S.counter[READY]


# --------------------------------------------------------------------------- choosing by a score that changes


@inner
def _alignment(P, S, alike, task):
    """Tetris: largest sum over resources of demand x free / capacity^2 over the nodes that fit now."""
    klass = P.task[task].klass
    if alike.stamp[klass] == alike.counter[LOOK]:
        return alike.alignment[klass]
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
    alike.stamp[klass] = alike.counter[LOOK]
    alike.alignment[klass] = best
    return best


@inner
def _score(P, S, alike, rule, shortness, task, mean_alignment, mean_left):
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
        return _alignment(P, S, alike, task)
    if rule == PACKER:
        aligned = _alignment(P, S, alike, task)
        if shortness > 0:
            seconds = P.task[task].fastest
            aligned += shortness / seconds if seconds > 0 else np.inf
        return aligned
    if rule == TETRIS_SRW:
        return _alignment(P, S, alike, task) / mean_alignment - S.workflow[w].left / mean_left
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
def choose_by_score(P, S, alike, rule, shortness):
    """A decision: the eligible task of largest score, ties by ``alike.tie``, or NOTHING."""
    alike.counter[LOOK] += 1
    mean_alignment, mean_left = 1.0, 1.0
    if rule == TETRIS_SRW:
        count, alignment, left = 0, 0.0, 0.0
        for k in range(alike.counter[OPEN_SETS]):
            size, task = alike.size[alike.open[k]], alike.top[alike.open[k]]
            if can_start(P, S, task):
                count += size
                alignment += size * _alignment(P, S, alike, task)
                left += size * S.workflow[P.task[task].workflow].left
        if count > 0 and alignment > 0:
            mean_alignment = alignment / count
        if count > 0 and left > 0:
            mean_left = left / count
    best, best_score = NONE, -np.inf
    for k in range(alike.counter[OPEN_SETS]):
        task = alike.top[alike.open[k]]
        if S.class_blocked[P.task[task].klass] == S.counter[RELEASES]:
            continue
        score = _score(P, S, alike, rule, shortness, task, mean_alignment, mean_left)
        if best >= 0 and (score < best_score or (score == best_score and alike.tie[task] > alike.tie[best])):
            continue
        if can_start(P, S, task):
            best, best_score = task, score
    if best < 0:
        return NOTHING, NONE, NONE, ZERO
    return START, best, choose_node(P, S, best), ZERO


@entry
def run_by_score(P, S, truth, alike, rule, shortness, most):
    """Run to the end (or for `most` decisions) with a score computed at each decision.

    `shortness` is what PACKER adds for 1 / estimate, in seconds.
    """
    while most > 0:
        if not logs_have_room(P, S):
            return GROW
        _take_alike(S, alike, rule)
        status, task, node, count = FREE, NONE, NONE, ZERO
        if P.setting[MAX_WAIT] < np.inf:
            status, task, node = find_overdue(P, S)
        forced = status == HOLD
        if status == FREE:
            status, task, node, count = choose_by_score(P, S, alike, rule, shortness)
        if status == START:
            start_task(P, S, truth, task, node, count)
            if S.task[task].unstarted == 0:
                _leave(S, alike, task)
            most -= 1
            continue
        status = wait_forced(P, S) if forced else advance_clock(P, S)
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
    counter: IntArray  # [6]


@inner
def _segment_fits(P, bookings, task, group, seg):
    for r in range(P.capacity.shape[1]):
        if bookings.seg_free[seg, r] - P.demand[task, r] < -P.slack[group, r]:
            return False
    return True


@inner
def _cut(bookings, seg, time):
    """The segment that begins exactly at `time`, split off if need be; `seg` begins no later."""
    while bookings.seg_next[seg] >= 0 and bookings.seg_time[bookings.seg_next[seg]] <= time:
        seg = bookings.seg_next[seg]
    if bookings.seg_time[seg] == time:
        return seg
    new = bookings.counter[SEGMENTS]
    bookings.counter[SEGMENTS] += 1
    bookings.seg_time[new] = time
    for r in range(bookings.seg_free.shape[1]):
        bookings.seg_free[new, r] = bookings.seg_free[seg, r]
    bookings.seg_next[new] = bookings.seg_next[seg]
    bookings.seg_next[seg] = new
    return new


@inner
def _build_profiles(P, S, bookings):
    now = S.clock[NOW]
    for node in range(len(P.node_group)):
        bookings.head[node] = node
        bookings.seg_time[node] = now
        for r in range(P.capacity.shape[1]):
            bookings.seg_free[node, r] = S.free[node, r]
        bookings.seg_next[node] = -1
        bookings.rising[node] = 1
        bookings.counter[VERSION] += 1
        bookings.version[node] = bookings.counter[VERSION]
        bookings.first[node] = -1
        bookings.pick[node] = -1
    bookings.counter[SEGMENTS] = len(P.node_group)
    running = S.counter[EVENTS]
    for k in range(running):
        bookings.running[k] = S.event[k]
    sort_ascending(bookings.running, running)  # by allocation number: the heap's order would tell true finish times
    for k in range(running):
        alloc = bookings.running[k]
        task, node = S.alloc[alloc].task, S.alloc[alloc].node
        finish = S.alloc[alloc].execution + P.estimate[task, P.node_group[node]]
        if finish <= now:  # overran its estimate: it may end at any moment, but not yet
            finish = np.nextafter(now, np.inf)
        seg = _cut(bookings, bookings.head[node], finish)
        while seg >= 0:
            for r in range(P.capacity.shape[1]):
                bookings.seg_free[seg, r] += P.demand[task, r] * S.alloc[alloc].count
            seg = bookings.seg_next[seg]


@inner
def _data_time(P, S, task, group):
    """Seconds before which no instance can execute."""
    if P.switch[TRANSFERS]:
        return max(S.clock[NOW], S.data_ready[task, group])
    return S.clock[NOW]


@inner
def _earliest_fit(P, S, bookings, task, node, seg):
    """(segment, completion) of one instance on the node around running work and bookings, in `seg` or later."""
    group = P.node_group[node]
    ready, seconds = _data_time(P, S, task, group), P.estimate[task, group]
    if bookings.rising[node]:
        while not _segment_fits(P, bookings, task, group, seg) and bookings.seg_next[seg] >= 0:
            seg = bookings.seg_next[seg]
        return seg, max(bookings.seg_time[seg], ready) + seconds
    while True:
        end = max(bookings.seg_time[seg], ready) + seconds
        blocked = NONE
        look = seg
        while look >= 0 and (look == seg or bookings.seg_time[look] < end):
            if not _segment_fits(P, bookings, task, group, look):
                blocked = look
                break
            look = bookings.seg_next[look]
        if blocked < 0 or bookings.seg_next[blocked] < 0:
            return seg, end
        seg = bookings.seg_next[blocked]


@inner
def _completion_on(P, S, bookings, task, unit, node):
    """:func:`_earliest_fit` of a set: bookings only delay, so it goes on from where the set was last."""
    klass = P.task[task].klass
    cached = bookings.rising[node] == 1 and len(bookings.fit) > 0
    if cached and bookings.fit_version[klass, node] == bookings.version[node]:
        seg = bookings.fit[klass, node]
        group = P.node_group[node]
        return seg, max(bookings.seg_time[seg], _data_time(P, S, task, group)) + P.estimate[task, group]
    begin = bookings.resume[unit, node] if len(bookings.resume) > 0 else bookings.head[node]
    seg, completion = _earliest_fit(P, S, bookings, task, node, begin)
    if len(bookings.resume) > 0:
        bookings.resume[unit, node] = seg
    if cached:
        bookings.fit[klass, node], bookings.fit_version[klass, node] = seg, bookings.version[node]
    return seg, completion


@inner
def _find_best(P, S, bookings, rule, task, unit):
    """Least and second least completion of a set over the nodes that can ever hold it.

    Bookings only delay: a node where the set could not complete earlier when last asked is not asked again.
    """
    best, best_node, best_seg = bookings.best[unit], bookings.best_node[unit], bookings.best_seg[unit]
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
            begin = bookings.resume[unit, node] if len(bookings.resume) > 0 else bookings.head[node]
            seg, completion = begin, max(bookings.seg_time[begin], ready) + seconds
            if completion < (second if rule == SUFFERAGE else best) or (completion == best and node < best_node):
                seg, completion = _completion_on(P, S, bookings, task, unit, node)
            if completion < best or (completion == best and node < best_node):
                second, second_node = best, best_node
                best, best_node, best_seg = completion, node, seg
            elif completion < second:
                second, second_node = completion, node
    bookings.best[unit], bookings.best_node[unit], bookings.best_seg[unit] = best, best_node, best_seg
    bookings.second[unit], bookings.second_node[unit] = second, second_node


@inner
def _fits_from_now(P, S, bookings, task, node):
    """Whether one instance could start on a node now and stay until its estimated end."""
    group, seg = P.node_group[node], bookings.head[node]
    if not _segment_fits(P, bookings, task, group, seg):
        return False
    if bookings.rising[node] == 0:
        end = _data_time(P, S, task, group) + P.estimate[task, group]
        seg = bookings.seg_next[seg]
        while seg >= 0 and bookings.seg_time[seg] < end:
            if not _segment_fits(P, bookings, task, group, seg):
                return False
            seg = bookings.seg_next[seg]
    return True


@inner
def _can_start_now(P, S, bookings, alike, unit):
    """Whether some node could start a set's first task now; bookings only delay, so a "no" is remembered."""
    task = alike.top[unit]
    while 0 <= bookings.witness[unit] < len(P.node_group):
        version = bookings.version[bookings.witness[unit]]
        if bookings.clear[unit] == version:
            return True
        if _fits_from_now(P, S, bookings, task, bookings.witness[unit]):
            bookings.clear[unit] = version
            return True
        bookings.witness[unit] += 1
    bookings.witness[unit] = NONE
    return False


@inner
def _book(P, bookings, task, unit):
    """Reserve as many instances of the set's first task as fit where it completes first; returns how many."""
    node, first, end = bookings.best_node[unit], bookings.best_seg[unit], bookings.best[unit]
    group = P.node_group[node]
    _cut(bookings, first, end)
    several = bookings.left[unit]
    seg = first
    while seg >= 0 and (seg == first or bookings.seg_time[seg] < end):
        for r in range(P.capacity.shape[1]):
            if P.demand[task, r] > 0:
                room = np.floor((bookings.seg_free[seg, r] + P.slack[group, r]) / P.demand[task, r])
                several = min(several, np.int64(min(room, 1e18)))
        seg = bookings.seg_next[seg]
    several = max(several, 1)
    if end > bookings.seg_time[first]:
        seg = first
        while seg >= 0 and bookings.seg_time[seg] < end:
            for r in range(P.capacity.shape[1]):
                bookings.seg_free[seg, r] -= P.demand[task, r] * several
            seg = bookings.seg_next[seg]
        if first != bookings.head[node]:
            bookings.rising[node] = 0
    bookings.counter[VERSION] += 1
    bookings.version[node] = bookings.counter[VERSION]
    return several


@inner
def _key(bookings, rule, unit):
    if rule == MIN_MIN:
        return -bookings.best[unit]
    if rule == MAX_MIN:
        return bookings.best[unit]
    return bookings.second[unit] - bookings.best[unit]


@inner
def _books_first(bookings, alike, rule, unit, other):
    """Whether a set is booked before another (-1 = none): the larger key, the smaller tie of the first task."""
    if other < 0:
        return True
    key, than = _key(bookings, rule, unit), _key(bookings, rule, other)
    return key > than or (key == than and alike.tie[alike.top[unit]] < alike.tie[alike.top[other]])


@inner
def _enter(bookings, alike, rule, unit):
    """Put a set into the list of its best node."""
    node = bookings.best_node[unit]
    after = bookings.first[node]
    bookings.next[unit], bookings.previous[unit] = after, NONE
    if after >= 0:
        bookings.previous[after] = unit
    bookings.first[node] = unit
    if _books_first(bookings, alike, rule, unit, bookings.pick[node]):
        bookings.pick[node] = unit


@inner
def _take_from(bookings, unit, node):
    """Take a set out of a node's list, whose pick the caller finds again."""
    before, after = bookings.previous[unit], bookings.next[unit]
    if before >= 0:
        bookings.next[before] = after
    else:
        bookings.first[node] = after
    if after >= 0:
        bookings.previous[after] = before


@inner
def _find_again(P, S, bookings, rule, task, unit):
    """What a set's best completion is after bookings on its best node."""
    node = bookings.best_node[unit]
    bookings.best_seg[unit], bookings.best[unit] = _earliest_fit(P, S, bookings, task, node, bookings.best_seg[unit])
    if len(bookings.resume) > 0:
        bookings.resume[unit, node] = bookings.best_seg[unit]
    if bookings.best[unit] >= bookings.second[unit]:  # `second` may be out of date, but is never too late
        _find_best(P, S, bookings, rule, task, unit)


@inner
def _sink(bookings, alike, hole):
    """Restore the heap of Min-Min below a place whose set was replaced or delayed."""
    unit = bookings.heap[hole]
    while True:
        child = 2 * hole + 1
        if child >= bookings.counter[IN_HEAP]:
            break
        if child + 1 < bookings.counter[IN_HEAP] and _books_first(
            bookings, alike, MIN_MIN, bookings.heap[child + 1], bookings.heap[child]
        ):
            child += 1
        if _books_first(bookings, alike, MIN_MIN, unit, bookings.heap[child]):
            break
        bookings.heap[hole] = bookings.heap[child]
        hole = child
    bookings.heap[hole] = unit


@inner
def _least(P, S, bookings, alike):
    """Min-Min's next set. What was found earlier is a lower bound: only the first of the heap has to be exact."""
    while True:
        unit = bookings.heap[0]
        if bookings.best_node[unit] < 0:
            _find_best(P, S, bookings, MIN_MIN, alike.top[unit], unit)
        elif bookings.found[unit] != bookings.version[bookings.best_node[unit]]:
            _find_again(P, S, bookings, MIN_MIN, alike.top[unit], unit)
        else:
            return unit
        bookings.found[unit] = bookings.version[bookings.best_node[unit]]
        _sink(bookings, alike, 0)


@inner
def _pick(P, bookings, alike, rule):
    """The next set of Max-Min and Sufferage."""
    unit = NONE
    for node in range(len(P.node_group)):
        if bookings.pick[node] >= 0 and _books_first(bookings, alike, rule, bookings.pick[node], unit):
            unit = bookings.pick[node]
    return unit


@inner
def _is_delayed(P, bookings, task, unit, first, end):
    """Whether a booking from a segment to `end` on its best node takes from a set what it needs."""
    node, seg = bookings.best_node[unit], bookings.best_seg[unit]
    if bookings.seg_time[seg] < bookings.seg_time[first]:
        seg = first
    until = min(end, bookings.best[unit])
    while seg >= 0 and (
        bookings.seg_time[seg] < until or (seg == bookings.best_seg[unit] and bookings.seg_time[seg] < end)
    ):
        if not _segment_fits(P, bookings, task, P.node_group[node], seg):
            return True
        seg = bookings.seg_next[seg]
    return False


@inner
def _delay(P, S, bookings, alike, rule, node, first, end):
    """Find out what a booking from a segment to `end` on a node delays; bookings elsewhere change nothing there."""
    unit = bookings.first[node]
    pick = NONE
    while unit >= 0:
        after = bookings.next[unit]
        if _is_delayed(P, bookings, alike.top[unit], unit, first, end):
            _find_again(P, S, bookings, rule, alike.top[unit], unit)
        if bookings.best_node[unit] != node:
            _take_from(bookings, unit, node)
            _enter(bookings, alike, rule, unit)
        elif _books_first(bookings, alike, rule, unit, pick):
            pick = unit
        unit = after
    bookings.pick[node] = pick


@inner
def _delay_second(P, S, bookings, alike, rule, node, units):
    """Sufferage also asks what the second best completion is."""
    for k in range(units):
        unit = bookings.unit[k]
        if bookings.second_node[unit] != node or bookings.size[unit] == 0 or bookings.best_node[unit] == node:
            continue
        task = alike.top[unit]
        if _completion_on(P, S, bookings, task, unit, node)[1] > bookings.second[unit]:
            _find_best(P, S, bookings, rule, task, unit)
            if _books_first(bookings, alike, rule, unit, bookings.pick[bookings.best_node[unit]]):
                bookings.pick[bookings.best_node[unit]] = unit


@inner
def _begin_bookings(P, S, bookings, alike, rule):
    """What is known of every set in the present state; returns the number of sets."""
    _build_profiles(P, S, bookings)
    units = alike.counter[OPEN_SETS]
    for k in range(units):
        unit = alike.open[k]
        task = alike.top[unit]
        bookings.unit[k], bookings.heap[k] = unit, unit
        bookings.size[unit] = alike.size[unit]
        bookings.left[unit] = S.task[task].unstarted
        bookings.witness[unit], bookings.clear[unit] = 0, NONE
        if len(bookings.resume) > 0:
            for node in range(len(P.node_group)):
                bookings.resume[unit, node] = bookings.head[node]
        bookings.best[unit], bookings.best_node[unit] = S.clock[NOW] + P.task[task].fastest, NONE
        if rule != MIN_MIN:
            _find_best(P, S, bookings, rule, task, unit)
            _enter(bookings, alike, rule, unit)
    bookings.counter[IN_HEAP] = units
    if rule == MIN_MIN:
        for hole in range(units // 2 - 1, -1, -1):
            _sink(bookings, alike, hole)
    bookings.counter[DUE], bookings.counter[NEXT_DUE], bookings.counter[BOOKED_AT] = 0, 0, S.counter[EPOCH]
    return units


@inner
def _next_of_set(S, bookings, alike, unit):
    """The first task of a set is booked in full: go on with the next one that is not."""
    bookings.size[unit] -= 1
    top = alike.top[unit]
    top = _meld(alike, alike.left[top], alike.right[top])
    while top >= 0 and S.task[top].unstarted == 0:
        top = _meld(alike, alike.left[top], alike.right[top])
    alike.top[unit] = top
    if top >= 0:
        bookings.left[unit] = S.task[top].unstarted


@inner
def _book_all(P, S, bookings, alike, rule):
    """Book ready tasks until none could start now (later bookings cannot be due); False if the scratch is too small."""
    units = _begin_bookings(P, S, bookings, alike, rule)
    hopeless, taken, roomy = 0, 0, True
    while True:
        while hopeless < units and (
            bookings.size[bookings.unit[hopeless]] == 0
            or not _can_start_now(P, S, bookings, alike, bookings.unit[hopeless])
        ):
            hopeless += 1
        if hopeless == units:
            break
        roomy = bookings.counter[SEGMENTS] + 2 <= len(bookings.seg_time)
        roomy = roomy and bookings.counter[DUE] < len(bookings.due_task)
        if not roomy:
            break
        unit = _least(P, S, bookings, alike) if rule == MIN_MIN else _pick(P, bookings, alike, rule)
        task, node = alike.top[unit], bookings.best_node[unit]
        first, end = bookings.best_seg[unit], bookings.best[unit]
        several = _book(P, bookings, task, unit)
        if bookings.seg_time[first] == S.clock[NOW]:
            due = bookings.counter[DUE]
            bookings.due_task[due], bookings.due_node[due], bookings.due_count[due] = task, node, several
            bookings.counter[DUE] = due + 1
        bookings.left[unit] -= several
        if bookings.left[unit] == 0:
            bookings.taken[taken] = task
            taken += 1
            _next_of_set(S, bookings, alike, unit)
            if bookings.size[unit] == 0:
                if rule == MIN_MIN:
                    bookings.counter[IN_HEAP] -= 1
                    bookings.heap[0] = bookings.heap[bookings.counter[IN_HEAP]]
                else:
                    _take_from(bookings, unit, node)
        if rule == MIN_MIN:
            _sink(bookings, alike, 0)
        else:
            _delay(P, S, bookings, alike, rule, node, first, end)
        if rule == SUFFERAGE:
            _delay_second(P, S, bookings, alike, rule, node, units)
    for k in range(taken):
        task = bookings.taken[k]
        alike.left[task], alike.right[task] = NONE, NONE
        alike.top[alike.set_of[task]] = _meld(alike, alike.top[alike.set_of[task]], task)
    return roomy


@inner
def _is_waiting_for_data(P, S, task):
    for group in range(P.capacity.shape[0]):
        if S.data_ready[task, group] > S.clock[NOW]:
            return True
    return False


@inner
def _take_units(P, S, alike):
    """Put fresh tasks into sets: by kind once their data is everywhere, until then alone."""
    if P.switch[TRANSFERS]:
        for k in range(alike.counter[OPEN_SETS] - 1, -1, -1):
            unit = alike.open[k]
            task = alike.top[unit]
            known = alike.newest[alike.kind[task]]
            if known == unit or _is_waiting_for_data(P, S, task):
                continue
            if known < 0:
                alike.newest[alike.kind[task]] = unit
            else:
                _close_set(alike, unit, alike.kind[task])
                _join(alike, task, known)
    for k in range(S.counter[FRESH]):
        task = S.fresh[k]
        kind = alike.kind[task]
        if P.switch[TRANSFERS] and _is_waiting_for_data(P, S, task):
            _open_set(alike, task)
        elif alike.newest[kind] >= 0:
            _join(alike, task, alike.newest[kind])
        else:
            alike.newest[kind] = _open_set(alike, task)
    S.counter[FRESH] = 0


@inner
def choose_by_booking(P, S, bookings, alike, rule):
    """A decision: the next booking due now, HOLD where another could start, GROW if the scratch is too small."""
    if bookings.counter[BOOKED_AT] != S.counter[EPOCH]:
        _take_units(P, S, alike)
        if S.counter[EVENTS] > len(bookings.running) or not _book_all(P, S, bookings, alike, rule):
            bookings.counter[BOOKED_AT] = -1
            return GROW, NONE, NONE, ZERO
    while bookings.counter[NEXT_DUE] < bookings.counter[DUE]:
        due = bookings.counter[NEXT_DUE]
        task, node = bookings.due_task[due], bookings.due_node[due]
        several = min(bookings.due_count[due], S.task[task].unstarted)
        if P.switch[PER_DECISION] > 0:
            several = min(several, P.switch[PER_DECISION])
        if several > 0 and _node_fits(P, S, task, node):
            bookings.due_count[due] -= several
            return START, task, node, several
        bookings.counter[NEXT_DUE] = due + 1
    return (HOLD if wait_is_legal(P, S) and has_eligible(P, S) else NOTHING), NONE, NONE, ZERO


@entry
def run_by_booking(P, S, truth, bookings, alike, rule, most):
    """Run to the end (or for `most` decisions) with Min-Min, Max-Min or Sufferage."""
    while most > 0:
        if not logs_have_room(P, S):
            return GROW
        status, task, node, count = FREE, NONE, NONE, ZERO
        if P.setting[MAX_WAIT] < np.inf:
            _take_units(P, S, alike)
            status, task, node = find_overdue(P, S)
        forced = status == HOLD
        if status == FREE:
            status, task, node, count = choose_by_booking(P, S, bookings, alike, rule)
        if status == GROW:
            return GROW
        if status == START:
            start_task(P, S, truth, task, node, count)
            if S.task[task].unstarted == 0:
                _leave(S, alike, task)
            most -= 1
            continue
        if status == HOLD and not forced:
            append_decision(S, NONE, NONE, ZERO)
        status = wait_forced(P, S) if forced else advance_clock(P, S)
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
    counter: IntArray  # [2]


@inner
def choose_by_plan(P, S, follow):
    """A decision: the entry of earliest planned start that can start now, HOLD where only others could."""
    S.counter[FRESH] = 0
    best = NONE
    for node in range(len(P.node_group)):
        while follow.head[node] < follow.last[node]:
            entry = follow.queue[follow.head[node]]
            if follow.left[entry] > 0 and S.task[follow.task[entry]].unstarted > 0:
                break
            follow.head[node] += 1
        if follow.head[node] == follow.last[node]:
            continue
        entry = follow.queue[follow.head[node]]
        task = follow.task[entry]
        if np.isnan(S.task[task].ready_time) or not _node_fits(P, S, task, node):
            continue
        if best < 0 or follow.start[entry] < follow.start[follow.queue[follow.head[best]]]:
            best = node
    if best < 0:
        return (HOLD if wait_is_legal(P, S) and has_eligible(P, S) else NOTHING), NONE, NONE, ZERO
    entry = follow.queue[follow.head[best]]
    task = follow.task[entry]
    limit = min(follow.left[entry], S.task[task].unstarted)
    if P.switch[PER_DECISION] > 0:
        limit = min(limit, P.switch[PER_DECISION])
    several = _fill(P, S, task, best, limit)
    follow.left[entry] -= several
    return START, task, best, several


@entry
def run_by_plan(P, S, truth, follow, most):
    """Run to the end, for `most` decisions, or until workflows arrive that are not planned yet (ARRIVAL)."""
    while most > 0:
        if S.counter[ARRIVED] > follow.counter[PLANNED]:
            return ARRIVAL
        if follow.counter[WAITING]:  # within a WAIT that the guard forces: what arrives meanwhile is planned at once
            status = outlast_wait(P, S)
            if status == DECIDE:
                follow.counter[WAITING] = 0
            elif status != ON_THE_WAY:
                return status
            continue
        if not logs_have_room(P, S):
            return GROW
        status, task, node, count = FREE, NONE, NONE, ZERO
        if P.setting[MAX_WAIT] < np.inf:
            status, task, node = find_overdue(P, S)
        forced = status == HOLD
        if status == FREE:
            status, task, node, count = choose_by_plan(P, S, follow)
        if status == START:
            start_task(P, S, truth, task, node, count)
            most -= 1
            continue
        if status == HOLD and (not forced or has_eligible(P, S)):
            append_decision(S, NONE, NONE, ZERO)
            if forced:
                follow.counter[WAITING] = 1
                continue
        status = advance_clock(P, S)
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
    return can_start(P, S, task)


@entry
def place(P, S, task):
    """Node the placement rule picks for one instance now, or -1."""
    return choose_node(P, S, task)


@entry
def has_room(P, S):
    """Whether the logs can take one more decision."""
    return logs_have_room(P, S)


@entry
def log_wait(S):
    """Append a WAIT to the decision log."""
    append_decision(S, NONE, NONE, ZERO)


@entry
def start(P, S, truth, task, node, count):
    """Start a ready task: on `node` alone if `count` > 0, else there first and then wherever it fits."""
    start_task(P, S, truth, task, node, count)


@entry
def hand_over(S):
    """Another policy goes on from here: all ready tasks are fresh, and no release is news."""
    for k in range(S.counter[READY]):
        S.fresh[k] = S.ready[k]
    S.counter[FRESH] = S.counter[READY]
    for k in range(S.counter[FREED]):
        S.node[S.freed[k]].is_freed = 0
    S.counter[FREED] = 0


@entry
def any_eligible(P, S):
    """Whether some ready task fits some node now."""
    return has_eligible(P, S)


@entry
def may_wait(P, S):
    """Whether WAIT is legal, unless the starvation guard forces a task."""
    return wait_is_legal(P, S)


@entry
def outlast(P, S):
    """One event of a WAIT that the starvation guard forces: ON_THE_WAY until overdue work may start."""
    return outlast_wait(P, S)


@entry
def advance(P, S):
    """Let time pass to the next decision point (event-driven: the next event, eligible tasks or not)."""
    return advance_clock(P, S)


@entry
def overdue(P, S):
    """Starvation guard: (START, task, node) that must start; HOLD: only WAIT is legal; FREE: nothing is overdue."""
    return find_overdue(P, S)
