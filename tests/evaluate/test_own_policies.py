"""Functions and policy objects in a comparison."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dagsched
from dagsched import CompareConfig, Decision, ObservedState, compare_baselines, run_comparison
from dagsched.errors import ConfigError
from dagsched.evaluate.runner import PolicyCrashError
from dagsched.policies.registry import make_policy
from dagsched.replay import SimulationOptions
from tests.handmade import random_replay

REPLAY = random_replay(4)
RUN = {"cluster": REPLAY.cluster, "noise": 0.2, "replays": 3, "seed": 3}


def shortest(state: ObservedState) -> np.ndarray:
    return -state.fastest[state.eligible]


def first_on_last(state: ObservedState) -> Decision:
    task = int(state.eligible[0])
    return Decision(task, node=int(state.nodes_for(task)[-1]))


def failing(state: ObservedState) -> np.ndarray:
    raise ValueError("no")


def test_functions_and_objects_stand_beside_specs(tmp_path: Path) -> None:
    policies = ["fcfs", shortest, first_on_last, make_policy("critical-path:placement=best-fit")]
    found = compare_baselines(REPLAY.workload, policies, out=tmp_path / "one", **RUN)  # type: ignore[arg-type]
    names = ["fcfs", "shortest", "first_on_last", "critical-path:placement=best-fit"]
    assert [row["policy"] for row in found.rows] == names * 3
    assert all(row["valid"] for row in found.rows)
    apart = compare_baselines(REPLAY.workload, [names[3]], **RUN)  # type: ignore[arg-type]
    assert [row["makespan"] for row in apart.rows] == [r["makespan"] for r in found.rows if r["policy"] == names[3]]
    again = compare_baselines(REPLAY.workload, policies, out=tmp_path / "two", jobs=2, **RUN)  # type: ignore[arg-type]
    assert again.rows == found.rows
    assert (tmp_path / "one/results.csv").read_bytes() == (tmp_path / "two/results.csv").read_bytes()
    assert "first_on_last" in (tmp_path / "one/report.html").read_text()


def test_an_edited_function_runs_again_where_a_comparison_was_interrupted(tmp_path: Path) -> None:
    def make(sign: float) -> object:
        def mine(state: ObservedState) -> np.ndarray:
            return sign * state.fastest[state.eligible]

        return mine

    with pytest.raises(PolicyCrashError, match=r"policy 'failing' on workload .*: policy failing: the function failed"):
        compare_baselines(REPLAY.workload, [make(1.0), failing], out=tmp_path, **RUN)  # type: ignore[arg-type, list-item]
    found = compare_baselines(REPLAY.workload, [make(-1.0)], out=tmp_path, **RUN)  # type: ignore[arg-type, list-item]
    wanted = compare_baselines(REPLAY.workload, [shortest], **RUN)  # type: ignore[arg-type]
    assert [row["makespan"] for row in found.rows] == [row["makespan"] for row in wanted.rows]


def test_what_cannot_be_is_refused() -> None:
    def heft(state: ObservedState) -> np.ndarray:
        return shortest(state)

    for policies, says in (
        ([heft], "function 'heft' has the name of a policy"),
        ([shortest, shortest], "'shortest' is named twice"),
        ([3], "policies has 3, expected a list of specs, functions or policies"),
        ("fcfs", "policies is 'fcfs', expected a list"),
        ([None], "policies has None"),
    ):
        with pytest.raises(ConfigError, match=says):
            compare_baselines(REPLAY.workload, policies, **RUN)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"'<lambda>' cannot be sent to other processes.*use jobs=1"):
        compare_baselines(REPLAY.workload, ["fcfs", lambda s: shortest(s)], jobs=2, **RUN)  # type: ignore[arg-type]


def test_the_front_door_and_the_configuration_are_the_same() -> None:
    options = SimulationOptions(max_wait=20.0)
    config = CompareConfig(
        policies=("fcfs", "srw"), noise=0.2, replays=3, seed=3, cluster=REPLAY.cluster, options=options
    )
    one = run_comparison([REPLAY.workload], config)
    two = compare_baselines(REPLAY.workload, ["fcfs", "srw"], max_wait=20.0, **RUN)  # type: ignore[arg-type]
    assert one.rows == two.rows
    assert dagsched.CompareConfig is CompareConfig
