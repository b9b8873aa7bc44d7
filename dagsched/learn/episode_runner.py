"""A replay made ready for thousands of runs: everything allocated once, greedy runs in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dagsched.cost import cost_function
from dagsched.features import kernel as features
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, TASK_NAMES
from dagsched.objective import ObjectiveName
from dagsched.policies.learned.trained import LinearRunner
from dagsched.processes import cores
from dagsched.replay import Replay
from dagsched.simulator import kernel
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray


class EpisodeRunner:
    """One replay with all that drives it, reset for every run. Not for two threads at once."""

    def __init__(self, replay: Replay, objective: ObjectiveName) -> None:
        self.replay, self.objective = replay, objective
        self.simulator = Simulator(replay)
        self._policy = LinearRunner(self.simulator)
        self.problem, self.constants = self._policy.problem, self._policy.constants
        self.tracker, self.linear = self._policy.tracker, self._policy.linear
        self._cost = cost_function(replay, objective)

    def reset(self) -> None:
        """Back before the first arrival."""
        self._policy.reset()

    def set_weights(self, weights: FloatArray) -> None:
        """Use the linear priority of raw weights ``[F]``."""
        self._policy.set_weights(weights)

    def run_linear(self, weights: FloatArray) -> float:
        """Cost of one greedy run."""
        self._policy.reset()
        self._policy.set_weights(weights)
        self._policy.run()
        return self.cost()

    def run_each_linear(self, weights: FloatArray) -> list[float]:
        """Cost of a greedy run with each of the raw weights ``[P, F]``."""
        return [self._cost(finish) for finish in self._policy.run_each(weights)]

    def cost(self) -> float:
        """Cost of the finished run."""
        return self._cost(self.simulator.state.task["finish"])

    def rows(self, weights: FloatArray, maximum: int) -> tuple[list[FloatArray], list[FloatArray], list[FloatArray]]:
        """Raw features of the candidates, the state and the groups at up to ``maximum`` decisions of a greedy run.

        Returns:
            One ``[candidates, F]``, ``[G]`` and ``[groups, Q]`` array per decision with a choice.
        """
        self.reset()
        self.set_weights(weights)
        tasks: list[FloatArray] = []
        general: list[FloatArray] = []
        groups: list[FloatArray] = []
        observer = Observer(self)
        stride = max(1, len(self.replay) // maximum)
        while self.simulator.advance():
            while len(self.simulator.eligible()):
                count = observer.observe()
                if count > 1:
                    tasks.append(observer.tasks[:count].copy())
                    general.append(observer.general.copy())
                    groups.append(observer.groups.copy())
                status = self._policy.step(stride)
                if status == kernel.GROW:
                    self.simulator.grow()
                if status == kernel.DONE:
                    return tasks, general, groups
                if not kernel.any_eligible(self.problem, self.simulator.state):
                    break
        return tasks, general, groups


class Observer:
    """Buffers for the raw features of a simulator's current decision."""

    def __init__(self, runner: EpisodeRunner, maximum: int = 64) -> None:
        self._runner = runner
        self.candidates = np.zeros(maximum, np.int64)
        self.tasks = np.zeros((maximum, len(TASK_NAMES)))
        self.general = np.zeros(len(GLOBAL_NAMES))
        self.groups = np.zeros((len(runner.replay.cluster.groups), len(GROUP_NAMES)))

    def observe(self) -> int:
        """Fill the buffers; returns the number of candidates in them."""
        runner = self._runner
        count = features.observe(
            runner.problem,
            runner.simulator.state,
            runner.constants,
            runner.tracker,
            self.candidates,
            self.tasks,
            self.general,
            self.groups,
        )
        return min(int(count), len(self.candidates))


def linear_costs(weights: FloatArray, runners: Sequence[EpisodeRunner], threads: int = 1) -> FloatArray:
    """``[P, runners]`` greedy cost of each of the raw weight vectors ``[P, F]`` on each runner."""
    costs = np.zeros((len(weights), len(runners)))

    def work(at: int) -> None:
        costs[:, at] = runners[at].run_each_linear(weights)

    with ThreadPoolExecutor(min(threads, cores())) as pool:  # compiled runs release the interpreter
        list(pool.map(work, range(len(runners))))
    return costs
