"""Plain start times as schedules: how published solutions of one-node problems are checked."""

from __future__ import annotations

import numpy as np

from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.simulator.validate import ready_times, validate
from dagsched.simulator.violation import before, edges, label, precedence_violation, violation
from dagsched.workflow import FloatArray, IntArray


def validate_start_times(replay: Replay, start: FloatArray) -> Schedule:
    """Check plain start times ``[T]`` (seconds, milestones included) on a pooled one-node cluster.

    Returns the schedule they stand for. Unlike :func:`validate` it also checks when milestones happen.

    Raises:
        InvalidScheduleError: as :func:`validate`.
    """
    schedule = schedule_from_starts(replay, start)
    start = np.asarray(start, np.float64)
    finish = start + replay.duration[:, 0]
    early = before(start, replay.arrival[replay.workflow_of])
    if early.any():
        task = int(np.argmax(early))
        arrival = replay.arrival[replay.workflow_of[task]]
        raise violation("before-arrival", f"{label(replay, task)} starts at {start[task]:g} but arrives at {arrival:g}")
    child, parent = edges(replay)
    early = before(start[child], finish[parent])
    if early.any():
        edge = int(np.argmax(early))
        raise precedence_violation(
            replay, int(child[edge]), int(parent[edge]), start[child[edge]], finish[parent[edge]]
        )
    validate(schedule)
    return schedule


def schedule_from_starts(replay: Replay, start: FloatArray, *, policy: str = "given starts") -> Schedule:
    """The schedule in which each task starts all its instances at ``start[t]`` on the only node.

    Nothing is checked but shapes and finiteness; pass the result to :func:`validate`. The starts of milestones
    are not kept: a milestone passes as soon as it is ready.

    Raises:
        InvalidScheduleError: ``bad-shape`` for a wrong length or a cluster of several nodes, ``not-finite``.
    """
    start = np.asarray(start, np.float64)
    if replay.cluster.node_count != 1:
        raise violation("bad-shape", f"plain start times need one node, the cluster has {replay.cluster.node_count}")
    if start.shape != (len(replay),):
        raise violation("bad-shape", f"start times have shape {start.shape}, expected ({len(replay)},)")
    if not np.isfinite(start).all():
        task = int(np.argmin(np.isfinite(start)))
        raise violation("not-finite", f"{label(replay, task)} starts at {start[task]}, expected finite seconds")
    position = np.empty(len(replay), np.int64)
    position[replay.topological_order] = np.arange(len(replay))
    order = np.lexsort((position, start))
    placed: IntArray = order[~replay.milestone[order]]
    finish = start + replay.duration[:, 0]
    return Schedule(
        replay=replay,
        policy=policy,
        task=placed,
        node=np.zeros(len(placed), np.int64),
        count=replay.instances[placed],
        start=start[placed],
        finish=finish[placed],
        execution=start[placed],
        ready=ready_times(replay, np.where(replay.milestone, -np.inf, finish)),
        decision_time=start[placed],
        decision_task=placed,
    )
