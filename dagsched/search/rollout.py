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
from dagsched.simulator.compilation import entry, inner
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
    advance_clock,
    append_decision,
    can_start,
    choose_node,
    go_by_priority,
    logs_have_room,
    next_event,
    push_event,
    reset_buckets,
    sort_ascending,
    start_task,
    uniform,
)
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.workflow import FloatArray, IntArray

WAIT: Any = np.int64(-1)
MANY: Any = np.int64(2**62)
NO_ACTION: Any = np.int64(-2)
# Slots of View.counter.
OPEN, LIVE, FIRST_WORKFLOW, FIRST_TASK, END_TASK, SIMULATIONS, LOGGED = range(7)
# Slots of View.amount.
PER_LATE, PER_TARDY, BEFORE, PAST = range(4)
MAKESPAN, FLOW_TIME, SLO = range(3)


class OpenWork(NamedTuple):
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


class DecisionLog(NamedTuple):
    """The decisions of a simulated schedule, WAIT as task -1."""

    time: FloatArray  # [D] s
    task: IntArray  # [D]


@inner
def workflow_cost(P, work, w, last):
    """What a workflow costs that finishes at ``last``; the makespan is no sum over workflows."""
    if work.kind[0] == FLOW_TIME:
        return work.weight[w] * (last - P.workflow[w].arrival)
    if work.kind[0] == SLO and last > work.deadline[w]:
        return work.amount[PER_LATE] + work.amount[PER_TARDY] * (last - work.deadline[w])
    return 0.0


@inner
def _find_open(P, S, work):
    """List unfinished tasks and the allocations that still matter, of workflows that have arrived."""
    past = work.amount[BEFORE]
    count, live = 0, 0
    unbroken = True
    for w in range(work.counter[FIRST_WORKFLOW], S.counter[ARRIVED]):
        before, last = count, -np.inf
        for task in range(P.workflow_ptr[w], P.workflow_ptr[w + 1]):
            unfinished = np.isnan(S.task[task].finish)
            if unfinished:
                work.open[count] = task
                count += 1
            else:
                last = max(last, S.task[task].finish)
            if unfinished or P.switch[TRANSFERS]:
                alloc = S.task[task].last_alloc
                while alloc >= 0:
                    work.live[live] = alloc
                    live += 1
                    alloc = S.alloc[alloc].older
        if count == before:
            past += workflow_cost(P, work, w, last)
        unbroken = unbroken and count == before
        if unbroken:
            work.counter[FIRST_WORKFLOW] = w + 1
            work.amount[BEFORE] = past
    work.counter[FIRST_TASK] = P.workflow_ptr[work.counter[FIRST_WORKFLOW]]
    work.counter[END_TASK] = P.workflow_ptr[S.counter[ARRIVED]]
    work.amount[PAST] = past
    work.counter[OPEN], work.counter[LIVE] = count, live


@inner
def _copy_small(S, scratch):
    for k in range(len(S.clock)):
        scratch.clock[k] = S.clock[k]
    for k in range(len(S.counter)):
        scratch.counter[k] = S.counter[k]
    for node in range(S.free.shape[0]):
        scratch.node[node] = S.node[node]
        for r in range(S.free.shape[1]):
            scratch.free[node, r] = S.free[node, r]
    for group in range(S.group_free.shape[0]):
        for r in range(S.group_free.shape[1]):
            scratch.group_free[group, r] = S.group_free[group, r]
    for klass in range(len(S.class_blocked)):
        scratch.class_blocked[klass] = S.class_blocked[klass]
    for k in range(S.counter[READY]):
        scratch.ready[k] = S.ready[k]


@inner
def _copy_task(P, S, scratch, task):
    scratch.task[task] = S.task[task]
    if P.switch[TRANSFERS]:
        for group in range(S.data_ready.shape[1]):
            scratch.data_ready[task, group] = S.data_ready[task, group]


@inner
def believed_end(begin, seconds, now):
    """When running work ends that should take so long; what is due at this very moment still ends at it."""
    end = begin + seconds
    return end if end >= now else np.nextafter(now, np.inf)  # it overran: at any moment, but not yet


@entry
def take_root(P, S, root, scratch, work):
    """Copy the open part of state ``S`` into the root and the scratch; running work ends as estimated.

    ``P`` ends with the last workflow that has arrived. Returns GROW if a log of ``root`` or ``scratch`` is too short.
    """
    if S.counter[ALLOCS] + len(P.node_group) > min(len(root.alloc), len(scratch.alloc)):
        return GROW
    _find_open(P, S, work)
    _copy_small(S, root)
    for task in range(work.counter[FIRST_TASK], work.counter[END_TASK]):
        _copy_task(P, S, root, task)
        _copy_task(P, S, scratch, task)
    for k in range(work.counter[LIVE]):
        alloc = work.live[k]
        root.alloc[alloc] = S.alloc[alloc]
        scratch.alloc[alloc] = S.alloc[alloc]
    for w in range(work.counter[FIRST_WORKFLOW], S.counter[ARRIVED]):
        root.workflow[w] = S.workflow[w]
    root.counter[LEFT] = work.counter[OPEN]
    root.counter[DECISIONS] = 0
    root.counter[FRESH] = 0
    root.counter[FREED] = 0
    for node in range(len(P.node_group)):
        root.node[node].is_freed = 0
    running = S.counter[EVENTS]
    for k in range(running):
        root.event[k] = S.event[k]
    sort_ascending(root.event, running)  # the heap's order would tell true finish times
    root.counter[EVENTS] = 0
    for k in range(running):  # in place: pushing writes no further than the place just read
        alloc = root.event[k]
        group = P.node_group[root.alloc[alloc].node]
        seconds = P.estimate[root.alloc[alloc].task, group]
        root.alloc[alloc].finish = believed_end(root.alloc[alloc].execution, seconds, S.clock[NOW])
        push_event(root, alloc)
    return DECIDE


@inner
def restore(P, root, scratch, work):
    """Put the scratch ``scratch`` back to the root."""
    _copy_small(root, scratch)
    for k in range(work.counter[OPEN]):
        _copy_task(P, root, scratch, work.open[k])
    for k in range(work.counter[LIVE]):
        alloc = work.live[k]
        scratch.alloc[alloc] = root.alloc[alloc]
    for k in range(root.counter[EVENTS]):
        scratch.event[k] = root.event[k]
        scratch.event_time[k] = root.event_time[k]
    for w in range(work.counter[FIRST_WORKFLOW], root.counter[ARRIVED]):
        scratch.workflow[w] = root.workflow[w]


@inner
def act(P, scratch, truth, task):
    """Take one action in the scratch: start ``task`` where the placement rule says, or WAIT (-1); returns a status."""
    if task >= 0:
        start_task(P, scratch, truth, task, choose_node(P, scratch, task), ZERO)
        return DECIDE
    append_decision(scratch, NONE, NONE, ZERO)
    return advance_clock(P, scratch)


@inner
def perturb(P, work, buckets, noise, step):
    """Keys of open tasks with the noise of the ladder's rung for the ``step``-th simulation; 0 = unperturbed.

    The fewer keys there are, the further they lie apart: noise spans a few of them, however few they are.
    """
    task_scale, workflow_scale = 0.0, 0.0
    if step > 0:
        rung = (step - 1) % noise.ladder.shape[0]
        task_scale, workflow_scale = noise.ladder[rung, 0], noise.ladder[rung, 1]
        if task_scale > 0:
            task_scale = max(task_scale, noise.reach[rung, 0] * noise.spacing[0])
        if workflow_scale > 0:
            workflow_scale = max(workflow_scale, noise.reach[rung, 1] * noise.spacing[0])
    if workflow_scale > 0:
        for w in range(work.counter[FIRST_WORKFLOW], len(P.workflow)):
            noise.shift[w] = workflow_scale * (uniform(noise.random) - 0.5)
    for k in range(work.counter[OPEN]):
        task = work.open[k]
        key = noise.key[task]
        if task_scale > 0:
            key += task_scale * (uniform(noise.random) - 0.5)
        if workflow_scale > 0:
            key += noise.shift[P.task[task].workflow]
        buckets.key[task] = key


@inner
def demote_ready(root, buckets, noise):
    """Lower the keys of what is ready now by one random amount: whoever waits does so for something else."""
    amount = uniform(noise.random)
    for k in range(root.counter[READY]):
        buckets.key[root.ready[k]] -= amount


@inner
def fill_buckets(scratch, buckets):
    """Hand every ready task of the scratch to empty buckets."""
    reset_buckets(buckets)
    for k in range(scratch.counter[READY]):
        scratch.fresh[k] = scratch.ready[k]
    scratch.counter[FRESH] = scratch.counter[READY]


@inner
def cost(P, scratch, work):
    """Cost of the schedule that the scratch has run to its end: s, weighted s, or lateness."""
    if work.kind[0] == MAKESPAN:
        return scratch.clock[NOW]
    for w in range(work.counter[FIRST_WORKFLOW], len(P.workflow)):
        work.last[w] = -np.inf
    for k in range(work.counter[OPEN]):
        task = work.open[k]
        w = P.task[task].workflow
        work.last[w] = max(work.last[w], scratch.task[task].finish)
    total = work.amount[PAST]
    for w in range(work.counter[FIRST_WORKFLOW], len(P.workflow)):
        if work.last[w] > -np.inf:
            total += workflow_cost(P, work, w, work.last[w])
    return total


@inner
def keep_log(scratch, log, work):
    """Remember the decisions that the scratch has taken since the root; False if the log is too short."""
    count = scratch.counter[DECISIONS]
    if count > len(log.time):
        return False
    for k in range(count):
        log.time[k] = scratch.decision[k].time
        log.task[k] = scratch.decision[k].task
    work.counter[LOGGED] = count
    return True


@entry
def restore_scratch(P, root, scratch, work):
    """Put the scratch back to the root, with nothing logged."""
    restore(P, root, scratch, work)
    work.counter[SIMULATIONS] += 1


@entry
def run_keys(P, scratch, buckets, truth, most):
    """Go on in the scratch with the priority of ``buckets.key``, to the end or for a while; returns a status."""
    fill_buckets(scratch, buckets)
    return go_by_priority(P, scratch, truth, buckets, most)


@entry
def follow(P, scratch, truth, time, task, until):
    """Start tasks in the scratch at the times given, ascending, and wait between them, up to a moment.

    Returns a status, STUCK if a start is not possible at its time: random placement may have gone another way.
    """
    for k in range(len(time)):
        if time[k] > until:
            break
        if scratch.task[task[k]].unstarted == 0:
            continue
        # several events may share a moment: work of no duration, a slot and what waits for it
        while scratch.clock[NOW] < time[k] or scratch.task[task[k]].pending > 0 or not can_start(P, scratch, task[k]):
            status = advance_clock(P, scratch)
            if status != DECIDE:
                return status
            if scratch.clock[NOW] > time[k]:
                return STUCK
        if not logs_have_room(P, scratch):
            return GROW
        start_task(P, scratch, truth, task[k], choose_node(P, scratch, task[k]), ZERO)
    while (
        scratch.clock[NOW] < until and next_event(P, scratch) < np.inf
    ):  # what waits now does so until something happens
        status = advance_clock(P, scratch)
        if status != DECIDE:
            return status
    return DECIDE


@entry
def cost_of(P, scratch, work):
    """Cost of the finished scratch, whose decisions are not logged."""
    return cost(P, scratch, work)


@entry
def value_of(P, scratch, work, log):
    """Cost of the finished scratch, its decisions logged in ``log``; NaN if the log is too short."""
    return cost(P, scratch, work) if keep_log(scratch, log, work) else np.nan


def new_open_work(problem: kernel.Problem, allocations: int) -> OpenWork:
    """A view for a replay; the caller fills weights and deadlines."""
    tasks, workflows = len(problem.task), len(problem.workflow)
    return OpenWork(
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
