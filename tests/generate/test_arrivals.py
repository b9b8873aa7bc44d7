"""Bursty and recorded arrivals."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import ConfigError
from dagsched.generate import poisson_rate
from dagsched.generate.arrivals import arrive, bursty, poisson, recorded
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload

CLUSTER = Cluster((NodeGroup("g", 2, {"cpu": 4}),))


def jobs(count: int) -> Workload:
    workflows = [
        Workflow.from_tasks(f"w{k}", [Task("a", 10.0, {"cpu": 1})], arrival=100.0 + k * k, deadline=150.0 + k * k)
        for k in range(count)
    ]
    return Workload("jobs", tuple(workflows))


def times(workload: Workload) -> np.ndarray:
    return np.array([w.arrival for w in workload.workflows])


def dispersion(moments: np.ndarray, window: float) -> float:
    counts = np.histogram(moments, np.arange(0, moments[-1], window))[0]
    return float(counts.var() / counts.mean())


def test_bursts_have_the_mean_load_of_poisson_and_far_more_spread() -> None:
    workload = jobs(20_000)
    mean = 1 / poisson_rate(workload, CLUSTER, 0.9)
    rng = np.random.default_rng(0)
    burst = times(bursty(workload, CLUSTER, 0.9, rng))
    plain = times(poisson(workload, CLUSTER, 0.9, rng))
    assert (np.diff(burst) >= 0).all()
    assert burst[-1] / len(burst) == pytest.approx(mean, rel=0.06)
    assert dispersion(plain, 20 * mean) == pytest.approx(1, abs=0.2)
    assert dispersion(burst, 20 * mean) > 4


def test_a_burst_of_one_is_poisson() -> None:
    burst = times(bursty(jobs(5000), CLUSTER, 0.9, np.random.default_rng(0), burst=1.0))
    gaps = np.diff(burst)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.06)


def test_recorded_arrivals_start_at_zero_and_stretch_to_a_load() -> None:
    workload = jobs(5)
    assert times(recorded(workload, CLUSTER)).tolist() == [0, 1, 4, 9, 16]
    assert [w.deadline for w in recorded(workload, CLUSTER).workflows] == [50, 51, 54, 59, 66]
    stretched = times(recorded(workload, CLUSTER, 0.5))
    rate = poisson_rate(workload, CLUSTER, 0.5)
    assert stretched[-1] == pytest.approx(4 / rate)
    assert stretched / stretched[-1] == pytest.approx(np.array([0, 1, 4, 9, 16]) / 16)


def test_at_once_is_at_zero() -> None:
    assert times(arrive(jobs(4), CLUSTER, "at-once", None, np.random.default_rng(0))).tolist() == [0, 0, 0, 0]


def test_wrong_arrivals_are_named() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ConfigError, match="load is missing; bursty arrivals need"):
        arrive(jobs(2), CLUSTER, "bursty", None, rng)
    with pytest.raises(ConfigError, match="expected at-once, poisson, bursty or recorded"):
        arrive(jobs(2), CLUSTER, "often", 1.0, rng)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"burst is 0\.5"):
        bursty(jobs(2), CLUSTER, 1.0, rng, burst=0.5)
    with pytest.raises(ConfigError, match="all arrive at once"):
        recorded(arrive(jobs(2), CLUSTER, "at-once", None, rng), CLUSTER, 0.5)
