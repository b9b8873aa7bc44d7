"""What simulations of one replay work on: the observable problem, root, scratch, keys and logs."""

from __future__ import annotations

import numpy as np

from dagsched.cost import TARDINESS
from dagsched.policies.runners import new_buckets
from dagsched.search import rollout
from dagsched.search.rollout import DecisionLog, Noise, OpenWork, new_open_work
from dagsched.simulator import kernel
from dagsched.simulator.kernel import Problem, State
from dagsched.simulator.state import new_state, read_only, with_area_below
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray, IntArray

LADDER = ((0.02, 0.0), (0.1, 0.0), (0.0, 0.2), (0.05, 0.1), (0.3, 0.0), (0.0, 0.5))
"""Noise for tasks and for whole workflows, as shares of the range of keys."""
REACH = ((2.0, 0.0), (3.0, 0.0), (0.0, 2.0), (2.0, 1.0), (6.0, 0.0), (0.0, 4.0))
"""Places in the order that the same noise spans at least, where the keys are so few that a share of them is none."""
KINDS = {"makespan": rollout.MAKESPAN, "flow_time": rollout.FLOW_TIME, "slo": rollout.SLO}


class Workspace:
    """Everything that simulations of one replay work on: the observable problem, root, scratch, keys and logs."""

    def __init__(self, simulator: Simulator, objective: str) -> None:
        self.simulator, self.objective = simulator, objective
        self.whole = with_area_below(simulator.problem, simulator.replay)
        self.problem = self.whole
        tasks, workflows = len(self.whole.task), len(self.whole.workflow)
        self.work: OpenWork = new_open_work(self.whole, len(simulator.state.alloc))
        self.work.kind[0] = KINDS[objective]
        self.root, self.scratch = self._blank(), self._blank()
        self.buckets = new_buckets(self.whole, np.zeros(tasks))
        self.noise = Noise(
            key=np.zeros(tasks),
            shift=np.zeros(workflows),
            random=np.zeros(1, np.uint64),
            ladder=np.array(LADDER),
            reach=np.array(REACH),
            spacing=np.zeros(1),
        )
        self.log = self._new_log()
        self.truth = read_only(simulator.replay.estimate)
        self.arrived = 0
        paths = np.maximum.reduceat(self.whole.task["bottom"], self.whole.workflow_ptr[:-1])
        self._path = np.cumsum(paths) / np.arange(1, workflows + 1)  # mean critical path of what has arrived, s

    def _blank(self) -> State:
        state = self.simulator.state
        blank = new_state(self.whole, len(state.alloc), len(state.decision))
        kernel.reset(self.whole, blank)
        return blank

    def _new_log(self) -> DecisionLog:
        room = len(self.scratch.decision)
        return DecisionLog(np.zeros(room), np.zeros(room, np.int64))

    def take_root(self) -> bool:
        """Copy the present state; returns whether workflows have arrived since the last time."""
        state = self.simulator.state
        arrived = int(state.counter[kernel.ARRIVED])
        new = arrived != self.arrived
        if new:
            self._admit(arrived)
        if len(self.work.live) < len(state.alloc):
            self.grow()
        while rollout.take_root(self.problem, state, self.root, self.scratch, self.work) == kernel.GROW:
            self.grow()
        return new

    def _admit(self, arrived: int) -> None:
        replay = self.simulator.replay
        self.problem = self.whole._replace(workflow=self.whole.workflow[:arrived])
        first = self.arrived
        self.work.weight[first:arrived] = replay.weight[first:arrived]
        self.work.deadline[first:arrived] = replay.deadline[first:arrived]
        self.work.amount[rollout.PER_LATE] = 1.0
        self.work.amount[rollout.PER_TARDY] = TARDINESS / max(self.mean_path(arrived), 1e-9)
        self.arrived = arrived

    def mean_path(self, arrived: int) -> float:
        """Mean critical path of the first so many workflows, by estimates, s."""
        return float(self._path[arrived - 1])

    def grow(self) -> None:
        """Double the room of every log, which keep what they hold; the root must be taken again."""
        room = 2 * max(len(self.scratch.alloc), len(self.simulator.state.alloc))
        decisions = max(2 * room, len(self.scratch.decision))
        self.root, self.scratch = (new_state(self.whole, room, decisions) for _ in range(2))
        for state in (self.root, self.scratch):
            kernel.reset(self.whole, state)
        self.work = self.work._replace(live=np.zeros(room, np.int64))
        old, self.log = self.log, self._new_log()
        self.log.time[: len(old.time)], self.log.task[: len(old.task)] = old.time, old.task

    def regrow(self) -> None:
        """More room for logs, and the root again."""
        self.grow()
        self.take_root()

    @property
    def states(self) -> tuple[Problem, State, State, OpenWork]:
        """(problem, root, scratch, open work): what every simulation works on."""
        return self.problem, self.root, self.scratch, self.work

    def restart(self) -> None:
        """Put the scratch back to the root."""
        rollout.restore_scratch(*self.states)

    def open(self) -> IntArray:
        """Unfinished tasks of arrived workflows."""
        return np.asarray(self.work.open[: self.work.counter[rollout.OPEN]])

    def taken(self) -> tuple[FloatArray, IntArray]:
        """(seconds, tasks) of the decisions logged last, copied."""
        count = int(self.work.counter[rollout.LOGGED])
        return self.log.time[:count].copy(), self.log.task[:count].copy()

    def value(self) -> float:
        """Cost of the finished scratch, whose decisions become the log."""
        return float(rollout.value_of(self.problem, self.scratch, self.work, self.log))
