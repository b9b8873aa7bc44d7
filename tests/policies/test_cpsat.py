from __future__ import annotations

import sys

import numpy as np
import pytest

import dagsched.formats as formats
from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import PolicyError
from dagsched.graph import lower_bound
from dagsched.policies.exact.cliques import exclusive_cliques
from dagsched.policies.exact.cpsat import CpSatPlanner, make_cp_sat, solve
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate
from dagsched.task import Task
from dagsched.workflow import Workflow

from ..data import DATA, data_files, needs_data
from ..handmade import many_workflows, one_workflow, two_groups
from .test_listing import random_replay

pytest.importorskip("ortools")


def test_two_workers_share_five_tasks_optimally() -> None:
    """3 + 3 against 2 + 2 + 2: longest-first lists give 7."""
    tasks = [Task(name, seconds) for name, seconds in zip("abcde", (3.0, 3.0, 2.0, 2.0, 2.0), strict=True)]
    for cluster in (Cluster.pooled({"cpu": 2}), Cluster((NodeGroup("n", 2, {"cpu": 1}),))):
        replay = one_workflow(tasks, cluster)
        result = solve(replay, workers=1)
        assert (result.makespan, result.bound, result.proven) == (6, 6, True)
        schedule = simulate(replay, make_cp_sat("cp-sat", {"workers": "1"}))
        validate(schedule)
        assert schedule.makespan == 6


def test_a_transfer_is_paid_only_where_it_helps() -> None:
    """Moving b to the fast node costs 4 s and saves 3: it stays; with 2 bytes it moves."""
    for size, makespan in ((4.0, 8.0), (2.0, 7.0)):
        tasks = [
            Task("a", 2.0, group_durations={"slow": 2.0, "fast": 9.0}),
            Task("b", 6.0, parents=["a"], edge_bytes={"a": size}, group_durations={"slow": 6.0, "fast": 3.0}),
        ]
        result = solve(one_workflow(tasks, two_groups(bandwidth=1.0)), workers=1)
        assert (result.makespan, result.proven) == (makespan, True)


def test_instances_are_placed_one_by_one() -> None:
    """Five instances of 6 s, 3 s on the fast node, two at a time on each: 2 x 2 fast and 1 slow by 6 s."""
    result = solve(one_workflow([Task("a", 6.0, instances=5)], two_groups()), workers=1)
    assert (result.makespan, result.proven, result.plan.count.sum()) == (6, True, 5)


def test_fractional_times_give_a_feasible_plan_within_the_grid() -> None:
    tasks = [Task(str(k), 0.1 * (k + 1)) for k in range(7)]
    result = solve(one_workflow(tasks, Cluster.pooled({"cpu": 2})), workers=1)
    assert result.makespan == pytest.approx(1.4, rel=1e-4)
    assert result.bound <= 1.4 * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(300, 306))
def test_plans_are_valid_and_no_worse_than_the_rules(seed: int) -> None:
    replay = random_replay(seed, transfers=seed % 2 == 0, workflows=1)
    planner = CpSatPlanner("cp-sat", replay, 0.5, 1, 0, deterministic=True)
    schedule = simulate(replay, make_cp_sat("cp-sat", {"workers": "1", "time_limit": "0.5"}))
    validate(schedule)
    planner.plan_arrivals(np.arange(1), 0.0)
    assert planner.result is not None
    assert schedule.makespan <= planner.result.makespan * (1 + 1e-9)
    assert planner.result.bound <= planner.result.makespan
    assert lower_bound(replay) <= schedule.makespan * (1 + 1e-9)
    for rule in ("heft", "lft", "cp+demand"):
        assert planner.result.makespan <= simulate(replay, rule).makespan * (1 + 1e-9)


def test_one_worker_repeats_itself() -> None:
    replay = random_replay(310, workflows=1)
    first, again = (solve(replay, time_limit=0.3, workers=1, seed=4, deterministic=True) for _ in range(2))
    assert first.plan.start.tolist() == again.plan.start.tolist()
    assert make_cp_sat("cp-sat", {"workers": "1"}).reproducible
    assert not make_cp_sat("cp-sat", {}).reproducible


def test_cliques_hold_only_tasks_that_exclude_each_other() -> None:
    tasks = [
        Task("a", 3.0, {"cpu": 2}),
        Task("b", 2.0, {"cpu": 2}),
        Task("c", 4.0, {"cpu": 1}, ["a"]),
        Task("d", 1.0, {"cpu": 1}),
    ]
    found = exclusive_cliques(one_workflow(tasks, Cluster.pooled({"cpu": 3})))
    assert [clique.tolist() for clique in found] == [[0, 2], [0, 1]]


def test_what_cannot_be_solved_is_refused_in_one_line() -> None:
    large = one_workflow([Task("a", 1.0, instances=10_000)], Cluster.pooled({"cpu": 2}))
    task = Task("a", 1.0)
    late = Workflow.from_tasks("late", [task], arrival=5.0)
    stream = many_workflows([Workflow.from_tasks("w", [task]), late], Cluster.pooled({"cpu": 2}))
    for replay, message in ((large, "10000 task instances are too many"), (stream, "more may arrive")):
        with pytest.raises(PolicyError, match=message) as error:
            simulate(replay, make_cp_sat("cp-sat", {}))
        assert "\n" not in str(error.value)


def test_a_missing_solver_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(PolicyError, match=r"pip install 'dagsched\[cp\]'"):
        make_cp_sat("cp-sat", {})


def test_only_a_deterministic_clock_repeats() -> None:
    assert make_cp_sat("cp-sat", {"workers": "1"}).reproducible
    assert not make_cp_sat("cp-sat", {"workers": "1", "clock": "wall"}).reproducible
    assert not make_cp_sat("cp-sat", {"workers": "2"}).reproducible
    with pytest.raises(PolicyError, match="needs workers=1"):
        make_cp_sat("cp-sat", {"workers": "2", "clock": "deterministic"})


@pytest.mark.parametrize(("key", "value"), [("time_limit", "0"), ("workers", "two"), ("seed", "-1"), ("clock", "sun")])
def test_wrong_options_are_named(key: str, value: str) -> None:
    with pytest.raises(PolicyError, match=f"{key} is '{value}', expected"):
        make_cp_sat("cp-sat", {key: value})


@needs_data
def test_some_j30_optima_are_proven_and_equal_the_published_ones() -> None:
    for file in data_files("psplib/j30/j30[1-4]_1.sm"):
        workload = formats.load(file)[0]
        result = solve(Replay.build(workload), time_limit=10, workers=2)
        assert result.proven
        assert result.makespan == workload.known_makespan


@needs_data
@pytest.mark.slow
def test_58_of_60_j30_instances_are_proven_optimal_in_ten_seconds_each() -> None:
    proven = 0
    for file in data_files("psplib/j30/*.sm"):
        workload = formats.load(file)[0]
        assert workload.known_makespan is not None
        result = solve(Replay.build(workload), time_limit=10, workers=2)
        assert result.bound <= workload.known_makespan <= result.makespan
        assert not result.proven or result.makespan == workload.known_makespan
        proven += result.proven
    assert proven >= 58


@needs_data
@pytest.mark.slow
def test_small_stg_optima_are_never_beaten() -> None:
    files = sorted((DATA / "stg/50").glob("*.stg"))[:6]
    assert files
    for file in files:
        workload = formats.load(file)[0]
        replay = Replay.build(workload)
        result = solve(replay, time_limit=5, workers=2)
        assert workload.known_makespan is None or result.makespan >= workload.known_makespan
        validate(simulate(replay, make_cp_sat("cp-sat", {"time_limit": "2"})))
