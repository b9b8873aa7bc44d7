"""Validator checks of when decisions were taken: ticks, the decision log and the starvation guard."""

from __future__ import annotations

import numpy as np

from dagsched.schedule import WAIT, Schedule
from dagsched.simulator.violation import before, label, tolerance, violation
from dagsched.workflow import FloatArray, IntArray


def check_ticks(schedule: Schedule) -> None:
    """Starts and decisions lie at multiples of the decision interval."""
    interval = schedule.replay.options.decision_interval
    if interval <= 0:
        return
    for times in (schedule.start, schedule.decision_time):
        off = np.abs(np.round(times / interval) * interval - times) > tolerance(times, np.full(len(times), interval))
        if off.any():
            found = times[np.argmax(off)]
            raise violation(
                "off-tick", f"a decision at {found:.12g}, which is no multiple of the interval {interval:g}"
            )


def check_decision_log(schedule: Schedule) -> None:
    """Each decision started something, each start was decided, and WAIT came only while work ran.

    Where decisions come at ticks under a finite ``max_wait``, WAIT is legal on an idle cluster too.
    """
    replay, time, chosen = schedule.replay, schedule.decision_time, schedule.decision_task
    if (np.diff(time) < 0).any():
        raise violation(
            "decision-log", f"decision {int(np.argmax(np.diff(time) < 0)) + 1} lies before the previous one"
        )
    bad = (chosen != WAIT) & ((chosen < 0) | (chosen >= len(replay)))
    if bad.any():
        raise violation(
            "decision-log", f"decision {int(np.argmax(bad))} picked task {chosen[bad][0]}, which does not exist"
        )
    ticking = replay.options.decision_interval > 0 and np.isfinite(replay.options.max_wait)
    waits = time[:0] if ticking else time[chosen == WAIT]
    instant = schedule.finish == schedule.start
    begun = np.searchsorted(schedule.start, waits, "right")
    ended = np.searchsorted(np.sort(schedule.finish), waits, "right")
    just = np.searchsorted(schedule.start[instant], waits, "right") - np.searchsorted(schedule.start[instant], waits)
    idle = begun - ended + just <= 0
    if idle.any():
        raise violation("decision-log", f"WAIT at {waits[np.argmax(idle)]:.12g} while nothing ran")
    decided, times_decided = _pairs(time[chosen != WAIT], chosen[chosen != WAIT])
    started, instances = _pairs(schedule.start, schedule.task, schedule.count)
    if not np.array_equal(decided, started):
        extra = next(iter(_missing(started, decided)), None)
        moment, task = extra if extra is not None else next(iter(_missing(decided, started)))
        what = "starts without a decision" if extra is not None else "was picked without starting"
        raise violation("decision-log", f"{label(replay, int(task))} {what} at {moment:.12g}")
    _check_choices(schedule, instances)
    cap = replay.options.instances_per_decision
    if cap and (instances > cap * times_decided).any():
        moment, task = started[np.argmax(instances > cap * times_decided)]
        raise violation(
            "decision-log", f"{label(replay, int(task))} started more than {cap} instances at {moment:.12g}"
        )


def _check_choices(schedule: Schedule, instances: IntArray) -> None:
    """Decisions started as many instances as they say, on the node that they name.

    ``instances``: ``[P]`` started at each distinct (time, task), in order.
    """
    replay, time, chosen = schedule.replay, schedule.decision_time, schedule.decision_task
    node, count = schedule.decision_node, schedule.decision_count
    nodes, waits = replay.cluster.node_count, chosen == WAIT
    wrong = (node < -1) | (node >= nodes) | (count < 0) | (waits & ((node != -1) | (count != 0)))
    if wrong.any():
        k = int(np.argmax(wrong))
        what = "a WAIT" if waits[k] else label(replay, int(chosen[k]))
        raise violation("decision-log", f"decision {k} is {what} with node {node[k]} and count {count[k]}")
    rows, told = _pairs(time[~waits], chosen[~waits], count[~waits])
    _, unknown = _pairs(time[~waits], chosen[~waits], (count[~waits] == 0).astype(np.int64))
    wrong = (unknown == 0) & (told != instances)
    if wrong.any():
        k = int(np.argmax(wrong))
        where = f"{label(replay, int(rows[k, 1]))} at {rows[k, 0]:.12g}"
        raise violation("decision-log", f"{told[k]} instances of {where} were decided, {instances[k]} started")
    named = node >= 0
    rows, told = _pairs(time[named], chosen[named] * nodes + node[named], count[named])
    held, started = _pairs(schedule.start, schedule.task * nodes + schedule.node, schedule.count)
    key, known = rows[:, 0] + 1j * rows[:, 1], held[:, 0] + 1j * held[:, 1]  # complex numbers sort by both parts
    at = np.minimum(np.searchsorted(known, key), max(len(known) - 1, 0))
    wrong = (known[at] != key) | (started[at] < told) if len(known) else np.ones(len(key), bool)
    if wrong.any():
        k = int(np.argmax(wrong))
        task, at_node = divmod(int(rows[k, 1]), nodes)
        raise violation(
            "decision-log",
            f"{label(replay, task)} was decided for node {replay.cluster.node_names[at_node]} at {rows[k, 0]:.12g} "
            f"with {told[k]} instances, which did not start there",
        )


def _pairs(time: FloatArray, task: IntArray, weight: IntArray | None = None) -> tuple[FloatArray, IntArray]:
    """(``[P, 2]`` distinct (time, task) in order, ``[P]`` weight of each)."""
    order = np.lexsort((task, time))
    rows = np.column_stack([time[order], task[order].astype(np.float64)])
    weights = np.ones(len(task), np.int64) if weight is None else weight[order]
    if not len(rows):
        return rows, weights
    first = np.flatnonzero(np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)]))
    return rows[first], np.add.reduceat(weights, first)


def _missing(rows: FloatArray, other: FloatArray) -> list[tuple[float, float]]:
    known = {(float(a), float(b)) for a, b in other}
    return [(float(a), float(b)) for a, b in rows if (float(a), float(b)) not in known]


def check_starvation(schedule: Schedule) -> None:
    """Under ``max_wait``, no task that is not overdue is picked while an overdue one still waits."""
    replay = schedule.replay
    limit = replay.options.max_wait
    if not np.isfinite(limit):
        return
    last_start = np.full(len(replay), -np.inf)
    np.maximum.at(last_start, schedule.task, schedule.start)
    overdue_from = schedule.ready + limit
    overdue_from = overdue_from + tolerance(overdue_from)
    overdue = last_start > overdue_from
    picked = schedule.decision_task != WAIT
    time, chosen = schedule.decision_time[picked], schedule.decision_task[picked]
    became = np.searchsorted(np.sort(overdue_from[overdue]), time)
    served = np.searchsorted(np.sort(last_start[overdue]), time, "right")
    wrong = (became > served) & before(time, schedule.ready[chosen] + limit)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise violation(
            "starvation",
            f"{label(replay, int(chosen[k]))} was picked at {time[k]:.12g} while one ready for over {limit:g} s waited",
        )
