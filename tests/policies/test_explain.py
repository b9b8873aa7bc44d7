"""Explanations: the candidate on top is what the policy starts, and the parts add up."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.errors import ConfigError
from dagsched.features.linear import start_weights
from dagsched.features.schema import TASK_NAMES
from dagsched.generate import layered, poisson_arrivals, random_workload
from dagsched.policies.learned.explain import explain
from dagsched.policies.learned.trained import LinearRunner
from dagsched.replay import Replay
from dagsched.simulator.stepper import Simulator
from dagsched.simulator.validate import validate
from dagsched.workload import Workload


def _replay(seed: int) -> Replay:
    rng = np.random.default_rng(seed)
    workload = random_workload("layered", rng, count=6, tasks=12)
    return Replay.build(poisson_arrivals(workload, 2.0, seed=seed), seed=seed, sigma=0.3)


def _weights(seed: int) -> np.ndarray:
    return start_weights("cp+demand") + 0.05 * np.random.default_rng(seed).normal(size=len(TASK_NAMES))


@pytest.mark.parametrize("seed", range(3))
def test_the_candidate_on_top_is_what_the_policy_starts(seed: int) -> None:
    replay, weights = _replay(seed), _weights(seed)
    simulator = Simulator(replay)
    LinearRunner(simulator, weights).run()
    schedule = simulator.schedule("linear")
    validate(schedule)
    for number in range(1, len(schedule.decision_task) + 1, 5):
        found = explain(replay, weights, number)
        assert found.task[0] == schedule.decision_task[number - 1]
        assert found.now == schedule.decision_time[number - 1]


def test_the_parts_add_up_to_the_lead_over_the_mean() -> None:
    found = explain(_replay(5), _weights(5), 4)
    for place in range(len(found.task)):
        assert np.isclose(found.contributions(place).sum(), found.score[place] - found.score.mean())
    assert (np.diff(found.score) <= 1e-9).all()


def test_reasons_are_the_largest_parts_first() -> None:
    found = explain(_replay(6), _weights(6), 2)
    parts = [abs(part) for _, _, part in found.reasons(0, 4)]
    assert len(parts) == 4
    assert parts == sorted(parts, reverse=True)
    assert parts[0] == pytest.approx(np.abs(found.contributions(0)).max())


@pytest.mark.parametrize("number", [0, -1, 6])
def test_a_decision_that_is_never_taken_is_refused(number: int) -> None:
    workload = Workload("one", (layered(np.random.default_rng(0), tasks=5),))
    with pytest.raises(ConfigError, match="expected a number from 1 to"):
        explain(Replay.build(workload), start_weights("critical-path"), number)
