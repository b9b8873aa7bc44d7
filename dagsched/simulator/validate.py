"""Checks a schedule against its replay with NumPy alone, sharing no code with the simulator's kernel.

Everything is recomputed from the replay and the allocations: instances, arrival, precedence, data readiness,
durations, capacity of every node at every instant, decision ticks and the decision log. Times may differ by
``TIME_TOLERANCE`` (relative); occupation intervals are half-open.
"""

from __future__ import annotations

import numpy as np

from dagsched.checks import check_type
from dagsched.replay import FIT_TOLERANCE, Replay
from dagsched.schedule import Schedule
from dagsched.simulator.occupancy import occupation
from dagsched.simulator.validate_log import check_decision_log, check_starvation, check_ticks
from dagsched.simulator.violation import (
    REASONS,
    TIME_TOLERANCE,
    before,
    edges,
    label,
    precedence_violation,
    violation,
)
from dagsched.workflow import FloatArray

__all__ = ["REASONS", "TIME_TOLERANCE", "ready_times", "validate"]

_PAIRS_AT_ONCE = 1 << 20


def validate(schedule: Schedule) -> None:
    """Accept a complete, feasible schedule; do nothing then.

    Raises:
        InvalidScheduleError: for the first violated constraint; ``reason`` is one of :data:`REASONS`, the
            message names the task, the node and the times.
    """
    check_type(schedule, Schedule, "schedule")
    _check_arrays(schedule)
    _check_instances(schedule)
    _check_order_of_tasks(schedule)
    _check_execution(schedule)
    _check_capacity(schedule)
    check_ticks(schedule)
    check_decision_log(schedule)
    check_starvation(schedule)


def ready_times(replay: Replay, finish: FloatArray) -> FloatArray:
    """``[T]`` seconds at which each task is ready when the tasks on nodes finish at ``finish[t]``.

    Entries of milestones in ``finish`` are ignored: they finish when they are ready.
    """
    finish = finish.copy()
    ready = replay.arrival[replay.workflow_of]
    pointers, parents = replay.parent_ptr, replay.parent_idx
    milestones = replay.topological_order[replay.milestone[replay.topological_order]]
    for task in milestones.tolist():
        rows = parents[pointers[task] : pointers[task + 1]]
        finish[task] = max(ready[task], finish[rows].max()) if len(rows) else ready[task]
    has_parents = np.flatnonzero(np.diff(pointers))
    if len(has_parents):
        latest = np.maximum.reduceat(finish[parents], pointers[has_parents])
        ready[has_parents] = np.maximum(ready[has_parents], latest)
    return ready


def _check_arrays(schedule: Schedule) -> None:
    replay = schedule.replay
    lengths = (
        (len(schedule.task), ("task", "node", "count", "start", "finish", "execution")),
        (len(replay), ("ready",)),
        (len(schedule.decision_time), ("decision_time", "decision_task", "decision_node", "decision_count")),
    )
    for length, names in lengths:
        for name in names:
            array = getattr(schedule, name)
            if array.shape != (length,):
                raise violation("bad-shape", f"{name} has shape {array.shape}, expected ({length},)")
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise violation("not-finite", f"{name} holds {array[np.argmin(np.isfinite(array))]}")
    unknown = (schedule.task < 0) | (schedule.task >= len(replay))
    if unknown.any():
        raise violation("unknown-task", f"task index {schedule.task[unknown][0]}, expected 0 to {len(replay) - 1}")
    resting = replay.milestone[schedule.task]
    if resting.any():
        raise violation("milestone-on-node", f"{label(replay, int(schedule.task[resting][0]))} runs on a node")
    nodes = replay.cluster.node_count
    wrong = (schedule.node < 0) | (schedule.node >= nodes)
    if wrong.any():
        where = label(replay, int(schedule.task[wrong][0]))
        raise violation("bad-node", f"{where} runs on node {schedule.node[wrong][0]}, expected 0 to {nodes - 1}")


def _check_instances(schedule: Schedule) -> None:
    replay = schedule.replay
    bad = schedule.count < 1
    if bad.any():
        task = int(schedule.task[bad][0])
        raise violation("missing-instances", f"{label(replay, task)} has an allocation of {schedule.count[bad][0]}")
    started = np.zeros(len(replay), np.int64)
    np.add.at(started, schedule.task, schedule.count)
    wanted = np.where(replay.milestone, 0, replay.instances)
    for reason, wrong in (("missing-instances", started < wanted), ("extra-instances", started > wanted)):
        if wrong.any():
            task = int(np.argmax(wrong))
            raise violation(reason, f"{label(replay, task)} ran {started[task]} of {wanted[task]} instances")


def _check_order_of_tasks(schedule: Schedule) -> None:
    """Arrival, precedence, recorded ready times, and time that runs forwards."""
    replay, task, start = schedule.replay, schedule.task, schedule.start
    arrival = replay.arrival[replay.workflow_of]
    early = before(start, arrival[task])
    if early.any():
        a = int(np.argmax(early))
        raise violation(
            "before-arrival",
            f"{label(replay, int(task[a]))} starts at {start[a]:.12g}, before it arrives at {arrival[task[a]]:.12g}",
        )
    finish = np.full(len(replay), -np.inf)
    np.maximum.at(finish, task, schedule.finish)
    ready = ready_times(replay, finish)
    early = before(start, ready[task])
    if early.any():
        a = int(np.argmax(early))
        child = int(task[a])
        parents = replay.parent_idx[replay.parent_ptr[child] : replay.parent_ptr[child + 1]]
        finish = np.where(replay.milestone, ready, finish)
        latest = int(parents[np.argmax(finish[parents])])
        raise precedence_violation(replay, child, latest, start[a], finish[latest])
    wrong = before(schedule.ready, ready) | before(ready, schedule.ready)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise violation(
            "ready-time",
            f"{label(replay, t)} was ready at {ready[t]:.12g}, the schedule says {schedule.ready[t]:.12g}",
        )
    back = np.flatnonzero(np.diff(start) < 0)
    if len(back):
        a = int(back[0]) + 1
        raise violation(
            "start-in-past",
            f"{label(replay, int(task[a]))} starts at {start[a]:.12g}, listed after a start at {start[a - 1]:.12g}",
        )


def _data_ready(schedule: Schedule) -> FloatArray:
    """``[A]`` seconds at which the inputs of each allocation are on its group (-inf without inputs).

    This depends on the receiver only through its task and group, so it is computed once for each of these.
    """
    replay, cluster = schedule.replay, schedule.replay.cluster
    group = cluster.node_group[schedule.node]
    ready = np.full((len(replay), len(cluster.groups)), -np.inf)
    by_task = np.argsort(schedule.task, kind="stable")
    first = np.searchsorted(schedule.task[by_task], np.arange(len(replay) + 1))
    child, parent = edges(replay)
    senders = np.diff(first)[parent]
    ends = np.cumsum(senders)
    begin = 0
    while begin < len(child):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _PAIRS_AT_ONCE, "right")))
        edge = np.repeat(np.arange(begin, end), senders[begin:end])
        rank = np.arange(len(edge)) - np.repeat(ends[begin:end] - senders[begin:end] - done, senders[begin:end])
        sender = by_task[first[parent[edge]] + rank]
        source = group[sender]
        size = replay.parent_bytes[edge] * schedule.count[sender] / replay.instances[parent[edge]]
        for target in range(len(cluster.groups)):
            with np.errstate(divide="ignore", invalid="ignore"):  # within a group the network does not count
                moved = cluster.latency[source, target] + size / cluster.bandwidth[source, target]
            arrives = schedule.finish[sender] + np.where(source == target, 0.0, moved)
            np.maximum.at(ready[:, target], child[edge], arrives)
        begin = end
    return np.asarray(ready[schedule.task, group])


def _check_execution(schedule: Schedule) -> None:
    """Execution begins at max(start, data ready) and lasts the realised duration."""
    replay = schedule.replay
    data = _data_ready(schedule)
    begin = np.maximum(schedule.start, data)
    seconds = replay.duration[schedule.task, replay.cluster.node_group[schedule.node]]
    held = schedule.finish - schedule.execution
    off = np.abs(held - seconds) > TIME_TOLERANCE * np.maximum(np.abs(schedule.finish), seconds)
    for reason, wrong, found, expected in (
        ("data-not-ready", before(schedule.execution, begin), schedule.execution, begin),
        ("execution-late", before(begin, schedule.execution), schedule.execution, begin),
        ("duration", off, held, seconds),
    ):
        if wrong.any():
            a = int(np.argmax(wrong))
            what = "executes for" if reason == "duration" else "begins to execute at"
            raise violation(
                reason,
                f"{label(replay, int(schedule.task[a]))} on node {replay.cluster.node_names[schedule.node[a]]} {what} "
                f"{found[a]:.12g}, expected {expected[a]:.12g} seconds",
            )


def _check_capacity(schedule: Schedule) -> None:
    replay, cluster = schedule.replay, schedule.replay.cluster
    room = cluster.capacity[cluster.node_group][schedule.node]
    amount = replay.demand[schedule.task] * schedule.count[:, None]
    alone = amount > room * (1 + FIT_TOLERANCE)
    if alone.any():
        a, column = (int(index[0]) for index in np.nonzero(alone))
        _raise_capacity(schedule, a, cluster.resources[column], float(schedule.start[a]))
    share = amount / np.where(room > 0, room, 1.0)
    time, node, level = occupation(schedule.node, schedule.start, schedule.finish, share, TIME_TOLERANCE)
    over = level > 1 + FIT_TOLERANCE + 4e-16 * len(level)
    if over.any():
        k, column = (int(index[0]) for index in np.nonzero(over))
        here = (schedule.node == node[k]) & (schedule.start <= time[k]) & (schedule.finish > time[k])
        last = int(np.flatnonzero(here)[-1])
        _raise_capacity(schedule, last, cluster.resources[column], float(time[k]))


def _raise_capacity(schedule: Schedule, allocation: int, resource: str, time: float) -> None:
    replay, cluster, node = schedule.replay, schedule.replay.cluster, int(schedule.node[allocation])
    column = cluster.resources.index(resource)
    here = (schedule.node == node) & (schedule.start <= time) & (schedule.finish > time)
    here[allocation] = True
    room = cluster.capacity[cluster.node_group[node], column]
    used = float((replay.demand[schedule.task[here], column] * schedule.count[here]).sum())
    raise violation(
        "capacity",
        f"node {cluster.node_names[node]} holds {used:g} {resource} at {time:.12g}, but has "
        f"{room:g}; {label(replay, int(schedule.task[allocation]))} is there",
    )
