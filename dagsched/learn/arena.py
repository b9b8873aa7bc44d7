"""A replay made ready for thousands of runs: everything allocated once, greedy runs in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np

from dagsched import graph
from dagsched.features import kernel as features
from dagsched.features.schema import TASK_NAMES
from dagsched.policies.learned import LinearRunner
from dagsched.processes import cores
from dagsched.replay import Replay
from dagsched.simulator import kernel
from dagsched.simulator.simulator import Simulator
from dagsched.workflow import FloatArray

Objective = Literal["makespan", "flow_time", "slo"]
TARDINESS = 0.05


class Arena:
    """One replay with all that drives it, reset for every run. Not for two threads at once."""

    def __init__(self, replay: Replay, objective: Objective) -> None:
        self.replay, self.objective = replay, objective
        self.simulator = Simulator(replay)
        self.runner = LinearRunner(self.simulator)
        self.problem, self.constants = self.runner.problem, self.runner.constants
        self.tracker, self.linear = self.runner.tracker, self.runner.linear
        self._cost = cost_function(replay, objective)

    def reset(self) -> None:
        """Back before the first arrival."""
        self.runner.reset()

    def set_weights(self, weights: FloatArray) -> None:
        """Use the linear priority of raw weights ``[F]``."""
        self.runner.set_weights(weights)

    def run_linear(self, weights: FloatArray) -> float:
        """Cost of one greedy run."""
        self.runner.reset()
        self.runner.set_weights(weights)
        self.runner.run()
        return self.cost()

    def run_each_linear(self, weights: FloatArray) -> list[float]:
        """Cost of a greedy run with each of the raw weights ``[P, F]``."""
        return [self._cost(finish) for finish in self.runner.run_each(weights)]

    def cost(self) -> float:
        """Cost of the finished run."""
        return self._cost(self.simulator.state.task["finish"])

    def rows(self, weights: FloatArray, most: int) -> tuple[list[FloatArray], list[FloatArray], list[FloatArray]]:
        """Raw features of the candidates, the state and the groups at up to ``most`` decisions of a greedy run.

        Returns:
            One ``[candidates, F]``, ``[G]`` and ``[groups, Q]`` array per decision with a choice.
        """
        self.reset()
        self.set_weights(weights)
        tasks: list[FloatArray] = []
        general: list[FloatArray] = []
        groups: list[FloatArray] = []
        observer = Observer(self)
        stride = max(1, len(self.replay) // most)
        while self.simulator.advance():
            while len(self.simulator.eligible()):
                count = observer.observe()
                if count > 1:
                    tasks.append(observer.tasks[:count].copy())
                    general.append(observer.general.copy())
                    groups.append(observer.groups.copy())
                status = self.runner.step(stride)
                if status == kernel.GROW:
                    self.simulator.grow()
                if status == kernel.DONE:
                    return tasks, general, groups
                if not kernel.any_eligible(self.problem, self.simulator.state):
                    break
        return tasks, general, groups


class Observer:
    """Buffers for the raw features of a simulator's current decision."""

    def __init__(self, arena: Arena, most: int = 64) -> None:
        from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES

        self._arena = arena
        self.candidates = np.zeros(most, np.int64)
        self.tasks = np.zeros((most, len(TASK_NAMES)))
        self.general = np.zeros(len(GLOBAL_NAMES))
        self.groups = np.zeros((len(arena.replay.cluster.groups), len(GROUP_NAMES)))

    def observe(self) -> int:
        """Fill the buffers; returns the number of candidates in them."""
        arena = self._arena
        count = features.observe(
            arena.problem,
            arena.simulator.state,
            arena.constants,
            arena.tracker,
            self.candidates,
            self.tasks,
            self.general,
            self.groups,
        )
        return min(int(count), len(self.candidates))


def cost_function(replay: Replay, objective: Objective) -> Callable[[FloatArray], float]:
    """The cost of finish times ``[T]``; lower is better, of the order of one.

    makespan / lower bound; weighted mean flow time / mean critical path; share of late workflows + 0.05 x mean
    tardiness / mean critical path. Given the finish times of the first so many workflows alone, what these add.
    """
    path = max(float(graph.critical_path(replay).mean()), 1e-9)
    if objective == "makespan":
        bound = max(graph.lower_bound(replay), 1e-9)
        return lambda finish: float(finish.max() - replay.first_arrival) / bound
    if objective == "flow_time":
        share = replay.weight_share

        def flow(finish: FloatArray) -> float:
            ends = _ends(replay, finish)
            return float(((ends - replay.arrival[: len(ends)]) * share[: len(ends)]).sum()) / path

        return flow

    def late(finish: FloatArray) -> float:
        due = np.isfinite(replay.deadline)
        if not due.any():
            return 0.0
        ends = _ends(replay, finish)
        over = (ends - replay.deadline[: len(ends)])[due[: len(ends)]]
        return float((over > 0).sum() + TARDINESS * np.maximum(over, 0.0).sum() / path) / int(due.sum())

    return late


def _ends(replay: Replay, finish: FloatArray) -> FloatArray:
    """``[workflows]`` last finish of each of the workflows whose tasks' finish times these are."""
    return np.asarray(np.maximum.reduceat(finish, replay.workflow_ptr[:-1][replay.workflow_ptr[:-1] < len(finish)]))


def linear_costs(weights: FloatArray, arenas: Sequence[Arena], threads: int = 1) -> FloatArray:
    """``[P, arenas]`` greedy cost of each of the raw weight vectors ``[P, F]`` on each arena."""
    costs = np.zeros((len(weights), len(arenas)))

    def work(at: int) -> None:
        costs[:, at] = arenas[at].run_each_linear(weights)

    with ThreadPoolExecutor(min(threads, cores())) as pool:  # compiled runs release the interpreter
        list(pool.map(work, range(len(arenas))))
    return costs
