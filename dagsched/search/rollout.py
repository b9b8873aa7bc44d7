"""Compiled simulations of the planner: from the present state to the end of all arrived work, without its future.

A simulation is the simulator itself on a copy of the state in which running work ends as estimated (or as a scenario
says) and workflows that have not arrived do not exist. :func:`take_root` makes that copy once for each decision,
every simulation goes on from it. What a decision cannot change is not copied: most of a long stream has finished.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dagsched.simulator import kernel
from dagsched.simulator.kernel import (
    ALLOCS,
    ARRIVED,
    DECIDE,
    DECISIONS,
    EVENTS,
    FREED,
    FRESH,
    GROW,
    LEFT,
    NONE,
    NOW,
    READY,
    STUCK,
    TRANSFERS,
    ZERO,
    _advance,
    _fits_somewhere,
    _has_room,
    _log_decision,
    _next_event,
    _place,
    _push_event,
    _sort,
    _start,
    entry,
    go_by_priority,
    inner,
    reset_buckets,
    uniform,
)
from dagsched.simulator.stale import drop_stale
from dagsched.workflow import FloatArray, IntArray

WAIT: Any = np.int64(-1)
MANY: Any = np.int64(2**62)
NO_ACTION: Any = np.int64(-2)
# Slots of View.counter.
OPEN, LIVE, FIRST_WORKFLOW, FIRST_TASK, END_TASK, SIMULATIONS, LOGGED = range(7)
# Slots of View.amount.
PER_LATE, PER_TARDY, BEFORE, PAST = range(4)
MAKESPAN, FLOW_TIME, SLO = range(3)


class View(NamedTuple):
    """What of the state is still open, and what finishing it costs."""

    open: IntArray  # [T] unfinished tasks of arrived workflows
    live: IntArray  # [A] allocations that a simulation may read or change
    counter: IntArray  # [7]
    last: FloatArray  # [W] scratch: last finish of each open workflow, s
    weight: FloatArray  # [W]
    deadline: FloatArray  # [W] s
    amount: FloatArray  # [4] SLO: cost of being late, of a second of tardiness; cost of workflows that have finished
    kind: IntArray  # [1] MAKESPAN, FLOW_TIME or SLO


class Noise(NamedTuple):
    """Perturbation of the keys of open tasks: each by itself, and all of a workflow together."""

    key: FloatArray  # [T] unperturbed, in [-1, 0], larger first
    shift: FloatArray  # [W] scratch
    random: NDArray[np.uint64]  # [1] state of the stream
    ladder: FloatArray  # [L, 2] scales for tasks and for workflows, taken in turn
    reach: FloatArray  # [L, 2] places in the order of tasks that the same noise spans at least
    spacing: FloatArray  # [1] how far the keys of two tasks that follow each other lie apart


class Log(NamedTuple):
    """The decisions of a simulated schedule, WAIT as task -1."""

    time: FloatArray  # [D] s
    task: IntArray  # [D]


@inner
def _workflow_cost(P, V, w, last):
    """What a workflow costs that finishes at ``last``; the makespan is no sum over workflows."""
    if V.kind[0] == FLOW_TIME:
        return V.weight[w] * (last - P.workflow[w].arrival)
    if V.kind[0] == SLO and last > V.deadline[w]:
        return V.amount[PER_LATE] + V.amount[PER_TARDY] * (last - V.deadline[w])
    return 0.0


@inner
def _find_open(P, S, V):
    """List unfinished tasks and the allocations that still matter, of workflows that have arrived."""
    past = V.amount[BEFORE]
    count, live = 0, 0
    unbroken = True
    for w in range(V.counter[FIRST_WORKFLOW], S.counter[ARRIVED]):
        before, last = count, -np.inf
        for task in range(P.workflow_ptr[w], P.workflow_ptr[w + 1]):
            unfinished = np.isnan(S.task[task].finish)
            if unfinished:
                V.open[count] = task
                count += 1
            else:
                last = max(last, S.task[task].finish)
            if unfinished or P.switch[TRANSFERS]:
                alloc = S.task[task].last_alloc
                while alloc >= 0:
                    V.live[live] = alloc
                    live += 1
                    alloc = S.alloc[alloc].older
        if count == before:
            past += _workflow_cost(P, V, w, last)
        unbroken = unbroken and count == before
        if unbroken:
            V.counter[FIRST_WORKFLOW] = w + 1
            V.amount[BEFORE] = past
    V.counter[FIRST_TASK] = P.workflow_ptr[V.counter[FIRST_WORKFLOW]]
    V.counter[END_TASK] = P.workflow_ptr[S.counter[ARRIVED]]
    V.amount[PAST] = past
    V.counter[OPEN], V.counter[LIVE] = count, live


@inner
def _copy_small(S, D):
    for k in range(len(S.clock)):
        D.clock[k] = S.clock[k]
    for k in range(len(S.counter)):
        D.counter[k] = S.counter[k]
    for node in range(S.free.shape[0]):
        D.node[node] = S.node[node]
        for r in range(S.free.shape[1]):
            D.free[node, r] = S.free[node, r]
    for group in range(S.group_free.shape[0]):
        for r in range(S.group_free.shape[1]):
            D.group_free[group, r] = S.group_free[group, r]
    for klass in range(len(S.class_blocked)):
        D.class_blocked[klass] = S.class_blocked[klass]
    for k in range(S.counter[READY]):
        D.ready[k] = S.ready[k]


@inner
def _copy_task(P, S, D, task):
    D.task[task] = S.task[task]
    if P.switch[TRANSFERS]:
        for group in range(S.data_ready.shape[1]):
            D.data_ready[task, group] = S.data_ready[task, group]


@inner
def believed_end(begin, seconds, now):
    """When running work ends that should take so long; what is due at this very moment still ends at it."""
    end = begin + seconds
    return end if end >= now else np.nextafter(now, np.inf)  # it overran: at any moment, but not yet


@entry
def take_root(P, S, R, D, V):
    """Copy the open part of state ``S`` into the root ``R`` and the scratch ``D``; running work ends as estimated.

    ``P`` ends with the last workflow that has arrived. Returns GROW if a log of ``R`` or ``D`` is too short.
    """
    if S.counter[ALLOCS] + len(P.node_group) > min(len(R.alloc), len(D.alloc)):
        return GROW
    _find_open(P, S, V)
    _copy_small(S, R)
    for task in range(V.counter[FIRST_TASK], V.counter[END_TASK]):
        _copy_task(P, S, R, task)
        _copy_task(P, S, D, task)
    for k in range(V.counter[LIVE]):
        alloc = V.live[k]
        R.alloc[alloc] = S.alloc[alloc]
        D.alloc[alloc] = S.alloc[alloc]
    for w in range(V.counter[FIRST_WORKFLOW], S.counter[ARRIVED]):
        R.workflow[w] = S.workflow[w]
    R.counter[LEFT] = V.counter[OPEN]
    R.counter[DECISIONS] = 0
    R.counter[FRESH] = 0
    R.counter[FREED] = 0
    for node in range(len(P.node_group)):
        R.node[node].is_freed = 0
    running = S.counter[EVENTS]
    for k in range(running):
        R.event[k] = S.event[k]
    _sort(R.event, running)  # the heap's order would tell true finish times
    R.counter[EVENTS] = 0
    for k in range(running):  # in place: pushing writes no further than the place just read
        alloc = R.event[k]
        group = P.node_group[R.alloc[alloc].node]
        seconds = P.estimate[R.alloc[alloc].task, group]
        R.alloc[alloc].finish = believed_end(R.alloc[alloc].execution, seconds, S.clock[NOW])
        _push_event(R, alloc)
    return DECIDE


@inner
def restore(P, R, D, V):
    """Put the scratch ``D`` back to the root."""
    _copy_small(R, D)
    for k in range(V.counter[OPEN]):
        _copy_task(P, R, D, V.open[k])
    for k in range(V.counter[LIVE]):
        alloc = V.live[k]
        D.alloc[alloc] = R.alloc[alloc]
    for k in range(R.counter[EVENTS]):
        D.event[k] = R.event[k]
        D.event_time[k] = R.event_time[k]
    for w in range(V.counter[FIRST_WORKFLOW], R.counter[ARRIVED]):
        D.workflow[w] = R.workflow[w]


@inner
def act(P, D, truth, task):
    """Take one action in the scratch: start ``task`` where the placement rule says, or WAIT (-1); returns a status."""
    if task >= 0:
        _start(P, D, truth, task, _place(P, D, task), ZERO)
        return DECIDE
    _log_decision(D, NONE)
    return _advance(P, D)


@inner
def perturb(P, V, B, N, step):
    """Keys of open tasks with the noise of the ladder's rung for the ``step``-th simulation; 0 = unperturbed.

    The fewer keys there are, the further they lie apart: noise spans a few of them, however few they are.
    """
    task_scale, workflow_scale = 0.0, 0.0
    if step > 0:
        rung = (step - 1) % N.ladder.shape[0]
        task_scale, workflow_scale = N.ladder[rung, 0], N.ladder[rung, 1]
        if task_scale > 0:
            task_scale = max(task_scale, N.reach[rung, 0] * N.spacing[0])
        if workflow_scale > 0:
            workflow_scale = max(workflow_scale, N.reach[rung, 1] * N.spacing[0])
    if workflow_scale > 0:
        for w in range(V.counter[FIRST_WORKFLOW], len(P.workflow)):
            N.shift[w] = workflow_scale * (uniform(N.random) - 0.5)
    for k in range(V.counter[OPEN]):
        task = V.open[k]
        key = N.key[task]
        if task_scale > 0:
            key += task_scale * (uniform(N.random) - 0.5)
        if workflow_scale > 0:
            key += N.shift[P.task[task].workflow]
        B.key[task] = key


@inner
def demote_ready(R, B, N):
    """Lower the keys of what is ready now by one random amount: whoever waits does so for something else."""
    amount = uniform(N.random)
    for k in range(R.counter[READY]):
        B.key[R.ready[k]] -= amount


@inner
def fill_buckets(D, B):
    """Hand every ready task of the scratch to empty buckets."""
    reset_buckets(B)
    for k in range(D.counter[READY]):
        D.fresh[k] = D.ready[k]
    D.counter[FRESH] = D.counter[READY]


@inner
def cost(P, D, V):
    """Cost of the schedule that the scratch has run to its end: s, weighted s, or lateness."""
    if V.kind[0] == MAKESPAN:
        return D.clock[NOW]
    for w in range(V.counter[FIRST_WORKFLOW], len(P.workflow)):
        V.last[w] = -np.inf
    for k in range(V.counter[OPEN]):
        task = V.open[k]
        w = P.task[task].workflow
        V.last[w] = max(V.last[w], D.task[task].finish)
    total = V.amount[PAST]
    for w in range(V.counter[FIRST_WORKFLOW], len(P.workflow)):
        if V.last[w] > -np.inf:
            total += _workflow_cost(P, V, w, V.last[w])
    return total


@inner
def keep_log(D, G, V):
    """Remember the decisions that the scratch has taken since the root; False if the log is too short."""
    count = D.counter[DECISIONS]
    if count > len(G.time):
        return False
    for k in range(count):
        G.time[k] = D.decision[k].time
        G.task[k] = D.decision[k].task
    V.counter[LOGGED] = count
    return True


@entry
def restore_scratch(P, R, D, V):
    """Put the scratch back to the root, with nothing logged."""
    restore(P, R, D, V)
    V.counter[SIMULATIONS] += 1


@entry
def run_keys(P, D, B, truth, most):
    """Go on in the scratch with the priority of ``B.key``, to the end or for so many decisions; returns a status."""
    fill_buckets(D, B)
    return go_by_priority(P, D, truth, B, most)


@entry
def follow(P, D, truth, time, task, until):
    """Start tasks in the scratch at the times given, ascending, and wait between them, up to a moment.

    Returns a status, STUCK if a start is not possible at its time: random placement may have gone another way.
    """
    for k in range(len(time)):
        if time[k] > until:
            break
        if D.task[task[k]].unstarted == 0:
            continue
        # several events may share a moment: work of no duration, a slot and what waits for it
        while D.clock[NOW] < time[k] or D.task[task[k]].pending > 0 or not _fits_somewhere(P, D, task[k]):
            status = _advance(P, D)
            if status != DECIDE:
                return status
            if D.clock[NOW] > time[k]:
                return STUCK
        if not _has_room(P, D):
            return GROW
        _start(P, D, truth, task[k], _place(P, D, task[k]), ZERO)
    while D.clock[NOW] < until and _next_event(P, D) < np.inf:  # what waits now does so until something happens
        status = _advance(P, D)
        if status != DECIDE:
            return status
    return DECIDE


@entry
def cost_of(P, D, V):
    """Cost of the finished scratch, whose decisions are not logged."""
    return cost(P, D, V)


@entry
def value_of(P, D, V, G):
    """Cost of the finished scratch, its decisions logged in ``G``; NaN if the log is too short."""
    return cost(P, D, V) if keep_log(D, G, V) else np.nan


def new_view(problem: kernel.Problem, allocations: int) -> View:
    """A view for a replay; the caller fills weights and deadlines."""
    tasks, workflows = len(problem.task), len(problem.workflow)
    return View(
        open=np.zeros(tasks, np.int64),
        live=np.zeros(allocations, np.int64),
        counter=np.zeros(7, np.int64),
        last=np.zeros(workflows),
        weight=np.zeros(workflows),
        deadline=np.full(workflows, np.inf),
        amount=np.zeros(4),
        kind=np.zeros(1, np.int64),
    )


drop_stale(take_root, kernel.__file__)
