"""Step a replay decision by decision from Python, or let a policy run it to the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dagsched import graph
from dagsched.errors import PolicyError
from dagsched.replay import PLACEMENTS, Replay
from dagsched.schedule import Schedule
from dagsched.simulator import kernel
from dagsched.simulator.observation import ObservedState
from dagsched.simulator.state import build_problem, copy_into, new_state, read_only
from dagsched.workflow import FloatArray, IntArray

MANY = 2**62


class Simulator:
    """One replay in progress.

    A fresh simulator stands before the first arrival: call :meth:`advance` to reach the first decision
    point, then :meth:`start` tasks or :meth:`wait`, until :attr:`done`.

    Policies get :meth:`observe`; ``problem``, ``state`` and ``truth`` are for compiled code that is held to
    the leak test.
    """

    def __init__(self, replay: Replay, *, policy_seed: int = 0) -> None:
        self.replay = replay
        self.policy_seed = policy_seed
        self.problem = build_problem(replay, placement_seed=policy_seed)
        self.truth = read_only(replay.duration)
        waves = np.minimum(replay.instances, 4).sum()
        self.state = new_state(self.problem, int(waves) + self.problem.node_group.size, int(waves) + 64)
        self.truncated = 0
        self._eligible = np.zeros(len(replay), np.int64)
        self._static: dict[int, dict[str, Any]] = {}
        kernel.reset(self.problem, self.state)

    def place_by(self, placement: str) -> None:
        """Let this rule pick the nodes instead of the replay's; only before the first arrival."""
        switch = self.problem.switch.copy()
        switch[kernel.PLACEMENT] = PLACEMENTS.index(placement)
        self.problem = self.problem._replace(switch=read_only(switch))

    @property
    def placed_replay(self) -> Replay:
        """The replay under the placement rule in use."""
        placement = PLACEMENTS[int(self.problem.switch[kernel.PLACEMENT])]
        options = self.replay.options
        if placement == options.placement:
            return self.replay
        return self.replay.with_options(replace(options, placement=placement))

    def reset(self) -> None:
        """Back before the first arrival."""
        kernel.reset(self.problem, self.state)
        self.truncated = 0

    def grow(self) -> None:
        """Double the room for allocations and decisions."""
        room = len(self.state.alloc), len(self.state.decision)
        self.state = copy_into(self.state, new_state(self.problem, 2 * room[0], 2 * room[1]))

    @property
    def now(self) -> float:
        """Seconds."""
        return float(self.state.clock[kernel.NOW])

    @property
    def done(self) -> bool:
        """Whether every task has finished."""
        return bool(self.state.counter[kernel.LEFT] == 0)

    @property
    def started(self) -> int:
        """Decisions so far that started a task: all but WAIT."""
        counter = self.state.counter
        return int(counter[kernel.DECISIONS] - counter[kernel.WAITS])

    @property
    def can_wait(self) -> bool:
        """WAIT is legal while work runs, and wherever decisions come at ticks under a finite ``max_wait``."""
        return bool(kernel.may_wait(self.problem, self.state))

    @property
    def is_forced(self) -> bool:
        """Whether the starvation guard leaves no choice."""
        if self.replay.options.max_wait == np.inf:
            return False
        return bool(kernel.overdue(self.problem, self.state)[0] != kernel.FREE)

    def advance(self) -> bool:
        """Let time pass to the next moment at which some task is eligible; False if the replay has ended."""
        while True:
            status = kernel.advance(self.problem, self.state)
            if status == kernel.STUCK:
                raise AssertionError("the replay cannot go on; please report this as a bug of dagsched")
            if status == kernel.DONE:
                return False
            if kernel.any_eligible(self.problem, self.state):
                return True

    def eligible(self) -> IntArray:
        """Tasks that may start now, ascending flat indices; under the starvation guard only the overdue ones."""
        if self.replay.options.max_wait < np.inf:
            status, task, _ = kernel.overdue(self.problem, self.state)
            if status == kernel.START:
                return np.array([task], np.int64)
            if status == kernel.HOLD:
                return np.zeros(0, np.int64)
        count = kernel.eligible(self.problem, self.state, self._eligible)
        return self._eligible[:count].copy()

    def start(self, task: int, *, node: int = -1, group: int = -1, count: int = 0) -> None:
        """Start an eligible task.

        Args:
            task: flat index.
            node: start on this node alone; by default the placement rule picks.
            group: start on this node group alone (its tightest node), instance after instance.
            count: at most this many instances; 0 = all that fit.

        Raises:
            PolicyError: if the task may not start now, or not there.
        """
        if not self._may_start(task):
            raise PolicyError(f"{self._named(task)} is not eligible at {self.now:g} s")
        cluster, named = self.replay.cluster, node
        for what, value, most in (("node", node, cluster.node_count), ("group", group, len(cluster.groups))):
            if not -1 <= value < most:
                expected = f"{what} is {value}, expected 0 to {most - 1}"
                raise PolicyError(f"{self._named(task)} cannot start at {self.now:g} s: {expected}")
        if not kernel.has_room(self.problem, self.state):
            self.grow()
        if group >= 0 and node < 0:
            node = int(kernel.place_in_group(self.problem, self.state, task, group))
            count = count or MANY
        elif node >= 0:
            count = count or MANY
            if not kernel.node_fits(self.problem, self.state, task, node):
                node = -1
        else:
            node = int(kernel.place(self.problem, self.state, task))
        if node < 0:
            raise PolicyError(f"{self._named(task)} does not fit {self._place_named(named, group)} at {self.now:g} s")
        kernel.start(self.problem, self.state, self.truth, task, node, count)

    def _named(self, task: int) -> str:
        arrived = self.state.counter[kernel.ARRIVED]
        if not 0 <= task < self.replay.workflow_ptr[arrived]:  # not even its name may be known
            return f"task {task}"
        workflow, name = self.replay.task_name(task)
        return f"task {name!r} of workflow {workflow!r}"

    def _place_named(self, node: int, group: int) -> str:
        cluster = self.replay.cluster
        if node >= 0:
            return f"node {cluster.node_names[node]!r}"
        return f"group {cluster.groups[group].name!r}" if group >= 0 else "any node"

    def _may_start(self, task: int) -> bool:
        state = self.state
        if (
            not 0 <= task < len(self.replay)
            or np.isnan(state.task["ready_time"][task])
            or state.task["unstarted"][task] == 0
        ):
            return False
        if not kernel.fits_somewhere(self.problem, state, task) or self.replay.milestone[task]:
            return False
        if self.replay.options.max_wait < np.inf:
            status, forced, _ = kernel.overdue(self.problem, state)
            return bool(status == kernel.FREE or (status == kernel.START and forced == task))
        return True

    def wait(self) -> bool:
        """Take the WAIT action and advance; False if the replay has ended.

        A WAIT that the starvation guard forces lasts until an overdue task may start.

        Raises:
            PolicyError: if nothing is running, unless decisions come at ticks under a finite ``max_wait``.
        """
        if not self.can_wait:
            raise PolicyError(f"WAIT is not allowed at {self.now:g} s: nothing is running")
        if not kernel.has_room(self.problem, self.state):
            self.grow()
        kernel.log_wait(self.state)
        if self.replay.options.max_wait == np.inf or kernel.overdue(self.problem, self.state)[0] != kernel.HOLD:
            return self.advance()
        status = kernel.ON_THE_WAY
        while status == kernel.ON_THE_WAY:
            status = kernel.outlast(self.problem, self.state)
        if status == kernel.STUCK:
            raise AssertionError("the replay cannot go on; please report this as a bug of dagsched")
        return bool(status == kernel.DECIDE)

    def observe(self) -> ObservedState:
        """What a policy may know now; arrays are read-only and hold arrived workflows only."""
        state, replay = self.state, self.replay
        arrived = int(state.counter[kernel.ARRIVED])
        known = int(replay.workflow_ptr[arrived])
        static = self._observed_constants(arrived, known)
        running = state.task["unfinished"][:known] - state.task["unstarted"][:known]
        busy = state.alloc[np.sort(state.event[: state.counter[kernel.EVENTS]])]  # heap order would tell finish times
        changing: dict[str, Any] = {
            "running_task": busy["task"].copy(),
            "running_node": busy["node"].copy(),
            "running_count": busy["count"].copy(),
            "running_start": busy["start"].copy(),
            "running_execution": busy["execution"].copy(),
            "eligible": self.eligible(),
            "unstarted": state.task["unstarted"][:known].copy(),
            "running": running,
            "ready_time": state.task["ready_time"][:known].copy(),
            "started": state.task["start"][:known].copy(),
            "finished": state.task["finish"][:known].copy(),
            "free": state.free.copy(),
        }
        for array in changing.values():
            array.setflags(write=False)
        return ObservedState(now=self.now, noise=replay.noise.kind, sigma=replay.noise.sigma, **static, **changing)

    def _observed_constants(self, arrived: int, known: int) -> dict[str, Any]:
        """Arrays that change only when a workflow arrives, copied out so that no base array leads further."""
        if arrived not in self._static:
            replay, problem = self.replay, self.problem
            owner = replay.workflow_of[:known]
            edges = int(replay.parent_ptr[known])
            static = {
                "estimate": replay.estimate[:known].copy(),
                "fastest": problem.fastest[:known].copy(),
                "demand": replay.demand[:known].copy(),
                "instances": replay.instances[:known].copy(),
                "arrival": replay.arrival[owner],
                "deadline": replay.deadline[owner],
                "weight": replay.weight[owner],
                "workflow": owner.copy(),
                "upward_rank": graph.upward_rank(replay)[:known].copy(),
                "bottom_level": problem.bottom[:known].copy(),
                "parent_ptr": replay.parent_ptr[: known + 1].copy(),
                "parent_idx": replay.parent_idx[:edges].copy(),
                "capacity": replay.cluster.capacity[problem.node_group],
                "node_group": problem.node_group.copy(),
            }
            for array in static.values():
                array.setflags(write=False)
            self._static = {arrived: static}
        return self._static[arrived]

    def schedule(
        self, policy: str, *, timings_ms: FloatArray | None = None, report: Mapping[str, Any] | None = None
    ) -> Schedule:
        """The finished replay as a :class:`Schedule`; ``report`` is what the policy's run says of itself."""
        if not self.done:
            raise PolicyError("the replay has not ended yet; there is no schedule to take")
        state = self.state
        size = int(state.counter[kernel.ALLOCS])
        decisions = int(state.counter[kernel.DECISIONS])
        return Schedule(
            replay=self.replay,
            policy=policy,
            task=state.alloc["task"][:size].copy(),
            node=state.alloc["node"][:size].copy(),
            count=state.alloc["count"][:size].copy(),
            start=state.alloc["start"][:size].copy(),
            finish=state.alloc["finish"][:size].copy(),
            execution=state.alloc["execution"][:size].copy(),
            ready=state.task["ready_time"].copy(),
            decision_time=state.decision["time"][:decisions].copy(),
            decision_task=state.decision["task"][:decisions].copy(),
            decision_node=state.decision["node"][:decisions].copy(),
            decision_count=state.decision["count"][:decisions].copy(),
            truncated_decisions=self.truncated,
            report=dict(report or {}),
            timings_ms=np.zeros(0) if timings_ms is None else timings_ms,
        )
