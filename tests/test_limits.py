"""Numbers beyond what the clock and the kernel can count with are refused in one line, before anything runs."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import ConfigError, DagschedError, InvalidClusterError, InvalidReplayError, PolicyError
from dagsched.evaluate.metrics import metrics
from dagsched.policies.own.function import FunctionPolicy
from dagsched.replay import FIT_TOLERANCE, Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.simulator import Simulator, validate
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.handmade import one_workflow


def one(tasks: list[Task], cluster: Cluster | None = None, **attributes: float) -> Replay:
    flow = Workflow.from_tasks("w", tasks, **attributes)
    return Replay.build(Workload("w", (flow,)), cluster or Cluster.pooled({"cpu": 4}))


@pytest.mark.parametrize(
    ("tasks", "attributes", "word"),
    [
        ([Task("a", 1.5e308)], {}, "duration|estimate"),
        ([Task("a", 1)], {"arrival": 1e18}, "arrival"),
        ([Task("a", 1)], {"deadline": -1.7e308}, "deadline"),
        ([Task("a", 1)], {"weight": 1e308}, "weight"),
    ],
)
def test_times_the_clock_cannot_count_with(tasks: list[Task], attributes: dict[str, float], word: str) -> None:
    with pytest.raises(InvalidReplayError, match=word):
        one(tasks, **attributes)


def test_endless_transfers_name_the_sender() -> None:
    cluster = Cluster((NodeGroup("a", 1, {"cpu": 1}), NodeGroup("b", 1, {"cpu": 1})), bandwidth=np.array(1e-10))
    with pytest.raises(InvalidReplayError, match=r"task 'a'.*bytes"):
        one([Task("a", 1), Task("b", 1, parents=["a"], edge_bytes={"a": 1e300})], cluster)


@pytest.mark.parametrize(
    "options",
    [
        {"decision_interval": 1e-310},
        {"decision_interval": "1"},
        {"max_wait": None},
        {"instances_per_decision": 10**30},
    ],
)
def test_options_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        SimulationOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("sigma", [1e200, "a", math.nan])
def test_noise_out_of_range(sigma: object) -> None:
    with pytest.raises(ConfigError, match="sigma"):
        Replay.build(Workload("w", (Workflow.from_tasks("w", [Task("a", 1)]),)), sigma=sigma)  # type: ignore[arg-type]


def test_whole_and_real_numbers_make_the_same_options() -> None:
    assert SimulationOptions(decision_interval=1, max_wait=5) == SimulationOptions(decision_interval=1.0, max_wait=5.0)
    assert isinstance(SimulationOptions(max_wait=5).max_wait, float)


def test_policy_seed_out_of_range() -> None:
    with pytest.raises(ConfigError, match="policy_seed"):
        simulate(one([Task("a", 1)]), "random", policy_seed=2**63)


@pytest.mark.parametrize("seed", range(20))
def test_a_demand_at_the_very_tolerance_is_refused_or_runs(seed: int) -> None:
    capacity = float(np.random.default_rng(seed).uniform(1, 5))
    try:
        replay = one([Task("a", 1, {"cpu": capacity * (1 + FIT_TOLERANCE)})], Cluster.pooled({"cpu": capacity}))
    except InvalidReplayError:
        return
    validate(simulate(replay, "fcfs"))


def test_a_pipe_is_no_cluster_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(ConfigError, match="regular file"):
        Cluster.from_yaml(tmp_path / "pipe.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "groups: [{name: a, capacity: {cpu: 1}, nodes: 0x" + "f" * 5000 + "}]",
        "groups: [{name: a, capacity: {cpu: 1}}]\nbandwidth: 0x1" + "0" * 400,
        "groups: [{name: a, capacity: {cpu: 1}}]\nbandwidth: true",
        "resources: [cpu, cpu]\ngroups: [{name: a, capacity: {cpu: 1}}]",
        "groups: [{name: a, capacity: {cpu: 1.0e+300}}]",
        "groups: [{name: a, capacity: {null: 4}}]",
        "groups: [{name: a, capacity: {yes: 4}}]",
    ],
)
def test_odd_cluster_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises((InvalidClusterError, ConfigError)) as caught:
        Cluster.from_yaml(tmp_path / "c.yaml")
    assert "c.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rule_that_exits_is_an_error_not_the_end() -> None:
    def leave(state: object) -> np.ndarray:
        raise SystemExit(0)

    with pytest.raises(PolicyError, match="SystemExit"):
        simulate(one([Task("a", 1)]), FunctionPolicy("leave", leave))


def test_a_rule_is_not_asked_when_only_wait_is_legal() -> None:
    asked = []

    def rule(state: object) -> np.ndarray:
        asked.append(len(state.eligible))
        return -state.demand[state.eligible][:, 0]

    tasks = [
        Task("a", 10),
        Task("b", 2, {"cpu": 2}),
        Task("c", 5),
        Task("e", 3, parents=["c"]),
    ]
    flow = Workflow.from_tasks("w", tasks)
    options = SimulationOptions(max_wait=1)
    replay = Replay.build(Workload("w", (flow,)), Cluster.pooled({"cpu": 2}), options=options)
    validate(simulate(replay, FunctionPolicy("rule", rule)))
    assert min(asked) > 0


def test_lateness_is_measured_against_the_flow_time_not_the_clock() -> None:
    late = simulate(one([Task("a", 10)], arrival=1.7e9, deadline=1.7e9 + 8.5), "fcfs")
    assert metrics(late)["slo_violation_rate"] == 1.0
    in_time = simulate(one([Task("a", 10)], arrival=1.7e9, deadline=1.7e9 + 10), "fcfs")
    assert metrics(in_time)["slo_violation_rate"] == 0.0


def test_the_state_shows_what_runs_and_since_when() -> None:
    simulator = Simulator(one([Task("a", 4), Task("b", 2), Task("c", 1, parents=["b"])]))
    simulator.advance()
    simulator.start(0)
    simulator.start(1)
    simulator.wait()
    state = simulator.observe()
    assert state.now == 2.0
    assert state.running_task.tolist() == [0]
    assert state.running_start.tolist() == [0.0]
    assert state.running_execution.tolist() == [0.0]


def test_every_refusal_is_a_dagsched_error() -> None:
    for kind in (ConfigError, InvalidClusterError, InvalidReplayError, PolicyError):
        assert issubclass(kind, DagschedError)


def test_more_starts_than_memory_holds_are_refused_before_they_fill_it() -> None:
    """2^31 instances of one core were killed by the system after 23 GB."""
    many = one_workflow([Task("a", 1.0, {"cpu": 1.0}, instances=2**25 * 4)], Cluster.pooled({"cpu": 4.0}))
    assert many.instances.sum() == 2**27  # 2^25 waves of four
    with pytest.raises(InvalidReplayError, match=r"workflow 'w', task 'b': 134,217,732 instances, at most 4 of them"):
        one_workflow([Task("b", 1.0, {"cpu": 1.0}, instances=2**27 + 4)], Cluster.pooled({"cpu": 4.0}))
    nothing = one_workflow([Task("c", 1.0, {}, instances=2**40)], Cluster.pooled({"cpu": 4.0}))
    validate(simulate(nothing, "fcfs"))
