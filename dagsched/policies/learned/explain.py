"""Why a learned priority picked a task: what each feature adds to it and to the candidates it was preferred to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dagsched.errors import ConfigError
from dagsched.features import kernel as features
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, MOST_CANDIDATES, TASK_NAMES
from dagsched.policies.learned.trained import LinearRunner
from dagsched.replay import Replay
from dagsched.simulator import kernel
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """One decision of a linear priority.

    Attributes:
        decision: its number, from 1.
        now: seconds.
        task: ``[C]`` candidates, flat indices, best first; the first one was picked.
        score: ``[C]`` priorities.
        value: ``[C, F]`` raw features.
        weight: ``[F]``.
    """

    decision: int
    now: float
    task: IntArray
    score: FloatArray
    value: FloatArray
    weight: FloatArray

    def contributions(self, place: int = 0) -> FloatArray:
        """``[F]`` by how much each feature puts candidate ``place`` above the mean of all candidates."""
        return np.asarray(self.weight * (self.value[place] - self.value.mean(axis=0)))

    def reasons(self, place: int = 0, most: int = 5) -> list[tuple[str, float, float]]:
        """(feature, its value, contribution) of the largest contributions by magnitude, zeros left out."""
        parts = self.contributions(place)
        order = np.argsort(-np.abs(parts), kind="stable")[:most]
        return [(TASK_NAMES[k], float(self.value[place, k]), float(parts[k])) for k in order if parts[k] != 0]


def explain(replay: Replay, weights: FloatArray, decision: int) -> Explanation:
    """Run a linear priority up to a decision with at least one candidate and look at it.

    Args:
        replay: what to run.
        weights: ``[F]`` of raw features.
        decision: number of the decision, from 1.

    Raises:
        ConfigError: if the run has fewer decisions.
    """
    simulator = Simulator(replay)
    runner = LinearRunner(simulator, weights)
    if decision > 1:
        runner.run(decision - 1)
    while not simulator.done and not kernel.any_eligible(runner.problem, simulator.state):
        if not simulator.advance():
            break
    if decision < 1 or simulator.done or not len(simulator.eligible()):
        taken = int(simulator.state.counter[kernel.DECISIONS])
        raise ConfigError(f"decision is {decision}, expected a number from 1 to {taken}")
    most = max(MOST_CANDIDATES, len(simulator.eligible()))
    candidates, values = np.zeros(most, np.int64), np.zeros((most, len(TASK_NAMES)))
    count = features.observe(
        runner.problem,
        simulator.state,
        runner.constants,
        runner.tracker,
        candidates,
        values,
        np.zeros(len(GLOBAL_NAMES)),
        np.zeros((len(replay.cluster.groups), len(GROUP_NAMES))),
    )
    candidates, values = candidates[:count], values[:count]
    score = values @ weights
    order = np.lexsort((runner.problem.tie[candidates], -np.round(score, 12)))
    now = simulator.now
    return Explanation(decision, now, candidates[order], score[order], values[order], weights.copy())
