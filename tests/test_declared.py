"""Closedness, objective and noise are declared or follow from what a source states, never from hidden values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dagsched import Declared, NoiseModel, Replay, Task, Workflow, Workload, load, replay, save, validate
from dagsched.cluster import Cluster
from dagsched.declared import EXACT, UNKNOWN, parse_noise
from dagsched.errors import ConfigError, FormatError, InvalidReplayError, InvalidWorkflowError, PolicyError
from dagsched.evaluate.compare import compare_baselines
from dagsched.generate import poisson_arrivals, random_workload, with_deadlines
from dagsched.generate.suite import Suite
from dagsched.run_policy import simulate
from tests.policies.leak import decided_before

ONE = Cluster.pooled({"cpu": 1.0})


def workflow(name: str = "w", seconds: float = 2.0, **fields: object) -> Workflow:
    estimate = fields.pop("estimate", None)
    return Workflow.from_tasks(name, [Task("a", seconds, {"cpu": 1}, estimate=estimate)], **fields)


def nature(*workflows: Workflow, **declared: object) -> str:
    return str(Workload("made", workflows, declared=Declared(**declared)).nature)


def test_a_source_that_states_no_arrivals_is_closed() -> None:
    assert nature(workflow("a"), workflow("b")) == "closed, objective makespan, estimates exact"
    assert nature(workflow("a", arrival=0.0), workflow("b")).startswith("open, objective flow_time")
    assert nature(workflow("a").with_(arrival=0.0)).startswith("open")
    assert nature(workflow("a", arrival=0.0), closed=True) == "closed, objective makespan, estimates exact"
    assert nature(workflow("a"), closed=False) == "open, objective flow_time, estimates of unknown error"


def test_estimates_are_exact_only_where_it_is_stated() -> None:
    assert nature(workflow(estimate=2.0)) == "closed, objective makespan, estimates of unknown error"
    assert nature(workflow(estimate=2.0), noise=EXACT) == "closed, objective makespan, estimates exact"
    assert nature(workflow(arrival=0.0)) == "open, objective flow_time, estimates of unknown error"
    known = NoiseModel("lognormal", 0.25)
    assert nature(workflow(), noise=known).endswith("estimates with lognormal error, sigma 0.25")


def test_slo_is_the_objective_only_where_it_is_declared_or_all_work_has_deadlines() -> None:
    due = workflow(arrival=0.0, deadline=5.0)
    assert nature(due).startswith("open, objective flow_time")
    assert nature(due, objective="slo").startswith("open, objective slo")
    assert nature(due, all_have_deadlines=True).startswith("open, objective slo")
    assert nature(due, all_have_deadlines=True, closed=True).startswith("closed, objective makespan")
    with pytest.raises(InvalidWorkflowError, match="declared that all have deadlines, but workflow 'b' has none"):
        nature(due.with_(name="a"), workflow("b"), all_have_deadlines=True)


def test_generated_arrivals_are_open_and_generated_deadlines_are_of_all_work() -> None:
    made = random_workload("layered", np.random.default_rng(0), count=3, tasks=8)
    assert str(made.nature) == "closed, objective makespan, estimates exact"
    stream = poisson_arrivals(made, 0.8)
    assert str(stream.nature) == "open, objective flow_time, estimates exact"
    assert str(with_deadlines(stream, 2.0).nature) == "open, objective slo, estimates exact"
    assert str(with_deadlines(made, 2.0).nature) == "closed, objective makespan, estimates exact"


def test_estimates_declared_exact_must_be() -> None:
    wrong = Workload("made", (workflow(estimate=3.0),), declared=Declared(noise=EXACT))
    with pytest.raises(InvalidReplayError, match="'a': the estimate is 3 s and the duration 2 s"):
        Replay.build(wrong, ONE)
    assert Replay.build(wrong, ONE, declared=Declared(noise=UNKNOWN)).noise == UNKNOWN


def test_what_the_caller_declares_goes_before_the_data() -> None:
    made = Workload("made", (workflow(arrival=0.0),), declared=Declared(objective="slo", noise=EXACT))
    built = Replay.build(made, ONE, declared=Declared(closed=True, objective="makespan"))
    assert (built.closed, built.objective, built.noise) == (True, "makespan", EXACT)
    assert Replay.build(made, ONE, sigma=0.5).noise == NoiseModel("lognormal", 0.5)
    assert built.digest != Replay.build(made, ONE).digest


def test_own_json_keeps_what_is_declared(tmp_path: Path) -> None:
    for declared in (
        Declared(),
        Declared(closed=False, objective="slo", noise=NoiseModel("lognormal", 0.3)),
        Declared(closed=True, noise=UNKNOWN, all_have_deadlines=True),
    ):
        for one in (workflow(deadline=9.0), workflow(deadline=9.0, estimate=2.0), workflow(deadline=9.0, arrival=0.0)):
            made = Workload("made", (one,), declared=declared)
            save(made, tmp_path / "made.json")
            [again] = load(tmp_path / "made.json")
            assert str(again.nature) == str(made.nature)
            assert again.digest == made.digest
            save(again, tmp_path / "again.json")
            assert (tmp_path / "again.json").read_bytes() == (tmp_path / "made.json").read_bytes()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("closed", "yes", "closed is 'yes', expected true or false"),
        ("objective", "speed", "objective is 'speed', expected one of makespan, flow_time, slo"),
        ("noise", "none", "noise is 'none', expected exact, lognormal or unknown"),
        ("noise", {"lognormal": 0}, "lognormal noise needs one above 0"),
        ("noise", {"lognormal": 11}, "noise sigma is 11"),
        ("noise", {"sigma": 1}, "expected exact, unknown or an object"),
        ("noise", "lognormal", "lognormal noise needs one above 0"),
        ("all_have_deadlines", 1, "all_have_deadlines is 1, expected true or false"),
        ("all_have_deadlines", True, "declared that all have deadlines, but workflow 'w' has none"),
    ],
)
def test_mistakes_in_declarations_of_a_file_are_named(field: str, value: object, message: str, tmp_path: Path) -> None:
    tasks = [{"id": "a", "duration": 1}]
    document = {"format": "dagsched-workload", "version": 1, "workflows": [{"name": "w", "tasks": tasks}], field: value}
    (tmp_path / "wrong.json").write_text(json.dumps(document))
    with pytest.raises(FormatError, match=r"wrong\.json") as error:
        load(tmp_path / "wrong.json")
    assert message in str(error.value)


def test_noise_is_a_spread_or_a_word() -> None:
    assert parse_noise("0.3") == (0.3, None)
    assert parse_noise(0) == (0.0, None)
    assert parse_noise("exact") == (0.0, EXACT)
    assert parse_noise("unknown") == (0.0, UNKNOWN)
    for wrong in ("none", -0.1, float("nan"), True, None, "11", [1]):
        with pytest.raises(ConfigError, match="noise is"):
            parse_noise(wrong)


def test_suites_declare_what_their_problems_are() -> None:
    stream = Suite.load("online-layered").replay("test", 0)
    assert (stream.closed, stream.objective) == (False, "flow_time")
    batch = Suite.load("build").replay("test", 0)
    assert (batch.closed, batch.objective, batch.noise) == (True, "makespan", EXACT)
    opened = Suite.load("build", ["closed=false"]).replay("test", 0)
    assert (opened.closed, opened.is_batch, opened.objective) == (False, False, "makespan")


def streams(seed: int) -> tuple[Workload, list[Workload]]:
    """A workload of which all has arrived soon, and others that differ only in what arrives at 1,000 s."""
    rng = np.random.default_rng(seed)

    def made(name: str, arrival: float, **fields: object) -> Workflow:
        tasks = [
            Task(f"t{k}", float(rng.integers(1, 9)), {"cpu": 1}, (f"t{k - 2}",) if k > 1 else ()) for k in range(5)
        ]
        return Workflow.from_tasks(name, tasks, arrival=arrival, **fields)

    first = [made(f"w{k}", 0.0) for k in range(2)]
    late = made("late", 1000.0)
    longer = [Task("t0", 50.0, {"cpu": 1}, estimate=5.0)]
    others = [
        [*first, late],
        [*first, late.with_(deadline=1010.0)],
        [*first, Workflow.from_tasks("late", longer, arrival=1000.0)],
        [*first, late, made("later", 1500.0, deadline=1501.0)],
    ]
    return Workload("s", tuple(first)), [Workload("s", tuple(some)) for some in others]


@pytest.mark.parametrize("policy", ["mcts:simulations=6", "mcts-rules:simulations=6", "evolved", "srw", "cp+demand"])
def test_what_arrives_later_changes_no_earlier_decision_of_undeclared_work(policy: str) -> None:
    """Before, arrivals, deadlines and durations yet to come chose the mode and the objective in 37 to 40 of 40."""
    cluster = Cluster.pooled({"cpu": 2.0})
    for seed in range(20):
        alone, others = streams(seed)
        one = simulate(Replay.build(alone, cluster), policy)
        validate(one)
        for other in others:
            two = simulate(Replay.build(other, cluster), policy)
            validate(two)
            assert decided_before(one, 1000.0) == decided_before(two, 1000.0)


def test_an_open_workload_is_refused_by_whole_plans_whatever_arrives_later() -> None:
    alone, others = streams(0)
    for workload in (alone, *others):
        with pytest.raises(PolicyError, match="this workload is open: more may arrive"):
            replay(workload, Cluster.pooled({"cpu": 2.0}), "sampling:n=2", noise="exact" if workload is alone else None)
    planned = replay(alone, Cluster.pooled({"cpu": 2.0}), "sampling:n=2", closed=True, noise="exact")
    validate(planned)


def test_a_comparison_states_what_is_declared(tmp_path: Path) -> None:
    made = random_workload("layered", np.random.default_rng(0), count=3, tasks=6)
    found = compare_baselines(made, ["fcfs", "srw"], arrivals="poisson:0.9", out=tmp_path)
    assert found.config.objective == "flow_time"
    about = json.loads((tmp_path / "summary.json").read_text())
    assert about["objective"] == "flow_time"
    assert about["provenance"]["workloads"][0]["declared"] == "open, objective flow_time, estimates exact"
    assert "open, objective flow_time, estimates exact" in (tmp_path / "report.html").read_text()
    batch = compare_baselines(made, ["fcfs", "srw"], noise=0.2)
    assert batch.config.objective == "makespan"
    late = compare_baselines(made, ["fcfs", "srw"], arrivals="poisson:0.9", deadlines=2.0)
    assert late.config.objective == "slo"
    declared = compare_baselines(made, ["fcfs", "srw"], closed=False, noise="unknown")
    assert declared.config.objective == "flow_time"


def test_one_core_and_one_point_nought_cores_are_the_same_cluster() -> None:
    made = Workload("made", (workflow(),))
    digests = {Replay.build(made, Cluster.pooled({"cpu": amount})).digest for amount in (1, 1.0)}
    assert len(digests) == 1
