"""A schedule: what ran where and when, and the decisions that led to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dagsched.frames import data_frame
from dagsched.frozen import restore
from dagsched.replay import Replay
from dagsched.workflow import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

WAIT = -1
"""The action that starts nothing and lets time pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The answer to a replay; ``A`` allocations in order of start.

    Milestones run on no node and have no allocation; ``ready`` tells when they passed.

    Attributes:
        replay: the question.
        policy: spec of the policy that produced it.
        task, node, count: ``[A]`` flat task index, node index, instances.
        start, finish: ``[A]`` seconds; the node is held over ``[start, finish)``.
        execution: ``[A]`` seconds at which execution begins (``start`` unless data arrives later).
        ready: ``[T]`` seconds at which each task became ready (arrived, all parents finished).
        decision_time: ``[D]`` seconds of each decision.
        decision_task: ``[D]`` flat task index, or ``WAIT``.
        decision_node: ``[D]`` node that the policy chose; -1 = it left that to the placement rule, or waited.
        decision_count: ``[D]`` instances that the decision started; 0 for a WAIT, and where it is not known (files of
            earlier versions).
        truncated_decisions: decisions at which a learned policy looked at a part of the eligible tasks only.
        timings_ms: wall-clock ms of the first decisions, if they were measured.
        report: what the policy says of the run; of a planner ``search``, ``simulations`` and, of plan mode, ``plan``.
            Neither written to files nor part of what a schedule is.
    """

    replay: Replay
    policy: str
    task: IntArray
    node: IntArray
    count: IntArray
    start: FloatArray
    finish: FloatArray
    execution: FloatArray
    ready: FloatArray
    decision_time: FloatArray
    decision_task: IntArray
    truncated_decisions: int = 0
    timings_ms: FloatArray = field(default_factory=lambda: np.zeros(0))
    decision_node: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    decision_count: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    report: Mapping[str, Any] = field(default_factory=dict)

    __setstate__ = restore

    def __post_init__(self) -> None:
        if not len(self.decision_node) and not len(self.decision_count):  # not known
            object.__setattr__(self, "decision_node", np.full(len(self.decision_task), -1, np.int64))
            object.__setattr__(self, "decision_count", np.zeros(len(self.decision_task), np.int64))
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __repr__(self) -> str:
        return f"Schedule({self.policy!r} on {self.replay!r}, makespan {self.makespan:g} s)"

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each allocation: workflow, task, node, group, instances, start, execution and finish in seconds.

        Raises:
            ConfigError: if pandas is not installed.
        """
        replay = self.replay
        names = [replay.task_name(int(task)) for task in self.task]
        groups = [group.name for group in replay.cluster.groups]
        return data_frame(
            {
                "workflow": [workflow for workflow, _ in names],
                "task": [task for _, task in names],
                "node": self.node,
                "group": [groups[group] for group in replay.cluster.node_group[self.node]],
                "instances": self.count,
                "start": self.start,
                "execution": self.execution,
                "finish": self.finish,
            }
        )

    def plot(self) -> Figure:
        """The Gantt chart as a matplotlib figure; ``dagsched.draw.gantt.save_gantt`` writes it to a file."""
        drawing = import_module("dagsched.draw.gantt")  # by name: pictures stand above
        return cast("Figure", drawing.gantt_figure(self))

    @property
    def task_finish(self) -> FloatArray:
        """``[T]`` seconds at which each task finished (its last allocation; a milestone when it was ready)."""
        finish = np.where(self.replay.milestone, self.ready, -np.inf)
        np.maximum.at(finish, self.task, self.finish)
        return finish

    @property
    def task_start(self) -> FloatArray:
        """``[T]`` seconds of each task's first allocation (a milestone when it was ready)."""
        start = np.where(self.replay.milestone, self.ready, np.inf)
        np.minimum.at(start, self.task, self.start)
        return start

    @property
    def workflow_finish(self) -> FloatArray:
        """``[W]`` seconds at which each workflow's last task finished."""
        return np.asarray(np.maximum.reduceat(self.task_finish, self.replay.workflow_ptr[:-1]))

    @property
    def makespan(self) -> float:
        """Last finish minus first arrival, in seconds."""
        return float(self.task_finish.max() - self.replay.first_arrival)
