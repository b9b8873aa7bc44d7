"""What the validator's checks share: reason codes, tolerance and messages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dagsched.errors import InvalidScheduleError
from dagsched.replay import Replay
from dagsched.workflow import FloatArray, IntArray

TIME_TOLERANCE = 1e-9
"""Two times are the same if they differ by at most this share of the larger one."""

REASONS = (
    "bad-shape",
    "not-finite",
    "unknown-task",
    "milestone-on-node",
    "bad-node",
    "missing-instances",
    "extra-instances",
    "before-arrival",
    "precedence",
    "ready-time",
    "data-not-ready",
    "execution-late",
    "duration",
    "start-in-past",
    "capacity",
    "off-tick",
    "decision-log",
    "starvation",
)
"""Every reason code an :class:`InvalidScheduleError` may carry, in the order of the checks."""


def violation(reason: str, message: str) -> InvalidScheduleError:
    """The error for one broken rule."""
    return InvalidScheduleError(reason, f"invalid schedule ({reason}): {message}")


def label(replay: Replay, task: int) -> str:
    """How messages name a task."""
    workflow, task_id = replay.task_name(task)
    return f"workflow {workflow!r}, task {task_id!r}"


def edges(replay: Replay) -> tuple[IntArray, IntArray]:
    """(child, parent) of every edge."""
    return np.repeat(np.arange(len(replay)), np.diff(replay.parent_ptr)), replay.parent_idx


def tolerance(*times: FloatArray) -> FloatArray:
    """Seconds by which times of this size may differ."""
    return np.asarray(TIME_TOLERANCE * np.maximum.reduce([np.abs(t) for t in times]))


def before(left: FloatArray, right: FloatArray) -> NDArray[np.bool_]:
    """Whether ``left`` lies before ``right`` by more than rounding."""
    return np.asarray(left < right - tolerance(left, right))


def precedence_violation(replay: Replay, child: int, parent: int, start: float, finish: float) -> InvalidScheduleError:
    """The error for a child that starts too early."""
    return violation(
        "precedence",
        f"{label(replay, child)} starts at {start:.12g}, before its parent {replay.task_name(parent)[1]!r} "
        f"finishes at {finish:.12g}",
    )
