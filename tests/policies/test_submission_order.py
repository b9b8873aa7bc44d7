"""First come means order of submission: ``fcfs``, ``round-robin`` and the published Tetris leave ties to the source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dagsched
from dagsched.cluster import Cluster
from dagsched.evaluate.scenario import merge
from dagsched.generate.arrivals import recorded
from dagsched.replay import Replay, SimulationOptions
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.policies.test_any_policy import shuffled
from tests.policies.test_rules import order
from tests.simulator.test_hand_worked import run
from tests.twin import NumpyDice, assert_same, draw_replay, kernel_schedule, run_twin

ONE = Cluster.pooled({"cpu": 1.0})
BY_PLACE = ("fcfs", "round-robin", "tetris:score=published", "tetris:score=published:eps=0.5")
JOBS = """{"format": "dagsched-workload", "version": 1, "workflows": [
 {"name": "job1", "tasks": [{"id": "a", "duration": 1}]},
 {"name": "job2", "tasks": [{"id": "a", "duration": 5}]},
 {"name": "job3", "tasks": [{"id": "a", "duration": 3}]}]}"""


def flow(name: str, *seconds: float, arrival: float = 0.0, ids: str = "abcdefgh") -> Workflow:
    return Workflow.from_tasks(name, [Task(ids[k], s) for k, s in enumerate(seconds)], arrival=arrival)


def on_one(*flows: Workflow) -> Replay:
    return Replay.build(Workload("hand", flows), ONE)


@pytest.mark.parametrize("rule", ["fcfs", "round-robin"])
def test_jobs_of_one_moment_run_in_the_order_of_the_file(tmp_path: Path, rule: str) -> None:
    # 1, 5, 3 s on one core: they end at 1, 6, 9, mean flow 16/3. Longest first gives 5, 8, 9.
    (tmp_path / "jobs.json").write_text(JOBS)
    [workload] = dagsched.load(tmp_path / "jobs.json")
    schedule = run(Replay.build(workload, ONE), rule)
    assert schedule.task_finish.tolist() == [1, 6, 9]
    assert run(Replay.build(workload, ONE), "ljf").task_finish.tolist() == [9, 5, 8]


def test_fcfs_runs_tasks_of_a_workflow_in_the_order_in_which_they_are_written() -> None:
    assert order(on_one(flow("w", 1, 9, 5, ids="cab")), "fcfs") == ["c", "a", "b"]


def test_round_robin_starts_with_the_workflow_written_first_and_its_first_task() -> None:
    # Ids in the order of the source; w2 is written first. In turn: w2, w1, w2, w1.
    replay = on_one(flow("w2", 1, 7, ids="ba"), flow("w1", 9, 8, ids="dc"))
    assert order(replay, "round-robin") == ["b", "d", "a", "c"]


def test_an_earlier_arrival_goes_before_an_earlier_place() -> None:
    # A long task holds the core to 5; z arrives at 2, y at 1 but is written after it; both are ready when it ends.
    replay = on_one(flow("x", 5, ids="h"), flow("z", 1, arrival=2, ids="z"), flow("y", 1, arrival=1, ids="y"))
    assert order(replay, "round-robin") == ["h", "y", "z"]


def test_place_is_counted_within_equal_arrivals_over_workflows_then_tasks() -> None:
    replay = on_one(flow("b", 1, 1, ids="qp"), flow("late", 1, arrival=3), flow("a", 1))
    names = [replay.task_name(int(t)) for t in np.argsort(replay.place)]
    assert names == [("b", "q"), ("b", "p"), ("a", "a"), ("late", "a")]


@pytest.mark.parametrize("seed", range(1300, 1308))
def test_rules_by_place_schedule_shuffled_sources_like_the_twin(seed: int) -> None:
    replay = shuffled(draw_replay(NumpyDice(seed), rough=seed % 2 == 0), seed)
    for rule in BY_PLACE:
        assert_same(kernel_schedule(replay, rule), run_twin(replay, rule))


def test_the_place_is_part_of_the_digest_only_where_it_differs_from_the_natural_order() -> None:
    natural, other = on_one(flow("a", 1), flow("b", 5)), on_one(flow("b", 5), flow("a", 1))
    assert natural.digest != other.digest
    assert on_one(flow("a", 1), flow("b", 5, arrival=1)).digest == on_one(flow("b", 5, arrival=1), flow("a", 1)).digest


def test_own_json_keeps_the_place(tmp_path: Path) -> None:
    workload = Workload("hand", (flow("b", 1, 2, ids="qp"), flow("a", 3)), cluster=ONE)
    dagsched.save(workload, tmp_path / "kept.json")
    [again] = dagsched.load(tmp_path / "kept.json")
    assert Replay.build(again).digest == Replay.build(workload).digest
    assert Replay.build(again).place.tolist() == Replay.build(workload).place.tolist()


def test_a_merged_stream_keeps_the_order_of_inputs_and_recorded_arrivals_that_of_the_source() -> None:
    one, two = Workload("z", (flow("k", 4), flow("b", 1))), Workload("a", (flow("c", 2),))
    merged = merge([one, two])
    assert order(Replay.build(replace(merged, cluster=ONE)), "fcfs") == ["a", "a", "a"]
    assert [w.name for w in merged.workflows] == ["k", "b", "c"]
    moved = recorded(merged, ONE)
    assert [w.name for w in moved.workflows] == ["k", "b", "c"]
    assert run(Replay.build(moved, ONE), "fcfs").task_finish.tolist() == [5, 7, 4]  # b, c, k in natural order


def test_a_folder_is_read_by_file_name_so_that_fcfs_runs_file_after_file(tmp_path: Path) -> None:
    for name, seconds in (("b10", 9), ("b2", 4), ("a", 1)):
        (tmp_path / f"{name}.json").write_text(
            f'{{"format": "dagsched-workload", "version": 1, "workflows": '
            f'[{{"name": "x{seconds}", "tasks": [{{"id": "a", "duration": {seconds}}}]}}]}}'
        )
    merged = merge(dagsched.load(tmp_path))
    assert [w.name for w in merged.workflows] == ["x1", "x4", "x9"]
    assert run(Replay.build(merged, ONE), "fcfs").makespan == 14


@pytest.mark.parametrize("rule", ["srw", "edf", "min-min", "tetris", "hrrn"])
def test_all_other_rules_keep_the_longer_path_first_among_equals(rule: str) -> None:
    # Two workflows that differ only in a child: equal scores, so the longer path goes first wherever it is written.
    def child(name: str, after: float) -> Workflow:
        return Workflow.from_tasks(name, [Task("a", 2), Task("b", after, parents=("a",))], deadline=90.0)

    for flows in ((child("v", 3), child("w", 7)), (child("w", 7), child("v", 3))):
        first = run(on_one(*flows), rule)
        if rule == "srw":  # less work left goes first here: no tie
            assert on_one(*flows).task_name(int(first.decision_task[0])) == ("v", "a")
        else:
            assert on_one(*flows).task_name(int(first.decision_task[0])) == ("w", "a")


def test_the_guard_keeps_the_common_ties_also_under_fcfs() -> None:
    # h holds the core to 4; short (written first) and long are both ready since 0 and overdue then: the longer path.
    flows = (flow("h", 4, ids="h"), flow("s", 1, ids="s"), flow("l", 6, ids="l"))
    replay = Replay.build(Workload("hand", flows), ONE, options=SimulationOptions(max_wait=1.0))
    assert order(replay, "fcfs") == ["h", "l", "s"]
