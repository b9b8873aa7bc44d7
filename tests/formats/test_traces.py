"""Alibaba 2018 and tpch-batch: many workflows from one file, with rejects counted by reason."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dagsched.errors import FormatError
from dagsched.formats import load
from dagsched.task import Task
from dagsched.workload import Rejects, Workload
from tests.data import DATA, needs_data
from tests.formats.samples import ALIBABA, TPCH, write

MEASURED = "job_name,task_name,mean_instance_seconds,mean_cpu_usage,mean_mem_usage\nj_1,M1,12.5,,\nj_1,R2_1,,,\n"


def trace(path: Path, **options: object) -> Workload:
    (workload,) = load(path, **options)
    return workload


def tasks(workload: Workload, workflow: str) -> dict[str, Task]:
    return {task.id: task for w in workload.workflows if w.name == workflow for task in w.tasks}


def test_jobs_are_grouped_and_numbered_from_their_task_names(tmp_path: Path) -> None:
    workload = trace(write(tmp_path, "hand.csv"))
    one, two = tasks(workload, "j_1"), tasks(workload, "j_2")
    assert [w.name for w in workload.workflows] == ["j_1", "j_2"]
    assert [w.arrival for w in workload.workflows] == [0, 20]
    assert (one["M1"].duration, one["M1"].instances, one["M1"].demand) == (60, 3, {"cpu": 1, "memory": 0.3})
    assert (one["R2_1"].parents, one["R2_1"].duration) == (("M1",), 30)
    assert (two["R2_1"].parents, two["M1_Stg8"].demand, two["M1_Stg8"].duration) == (
        ("M1_Stg8",),
        {"cpu": 2, "memory": 0.2},
        0,
    )
    assert (two["task_Nzg3ODAw=="].parents, two["task_Nzg3ODAw=="].demand) == ((), {"cpu": 1})
    assert workload.cluster is not None
    assert workload.cluster.name == "alibaba"


def test_unusable_jobs_are_counted_by_reason(tmp_path: Path) -> None:
    assert trace(write(tmp_path, "hand.csv")).rejects == (
        Rejects("a task's status is Failed, not Terminated", 1, "job j_3, line 6"),
        Rejects("a task's status is Waiting, not Terminated", 1, "job j_4, line 7"),
        Rejects("a parent is missing from the trace", 1, "job j_5, line 8"),
        Rejects("end_time is before start_time", 1, "job j_6, line 9"),
        Rejects("its dependencies form a cycle", 1, "job j_7, line 10"),
    )


def test_strict_names_file_line_and_field(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"hand.csv: line 6: job j_3, task M1: status is 'Failed'"):
        load(write(tmp_path, "hand.csv"), strict=True)


def test_measured_durations_replace_end_minus_start(tmp_path: Path) -> None:
    write(tmp_path, "hand_measured.csv", MEASURED)
    one = tasks(trace(write(tmp_path, "hand.csv")), "j_1")
    assert (one["M1"].duration, one["R2_1"].duration) == (12.5, 30)
    assert len(load(tmp_path)) == 1  # the companion is no trace of its own
    write(tmp_path, "hand_measured.csv", MEASURED + "j_9,M1,5,,\n")
    with pytest.raises(FormatError, match=r"no row for task 'M1' of job 'j_9', which hand_measured.csv lists"):
        load(tmp_path / "hand.csv")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("160,100.0,0.3", "160,100.0", "line 1: number of fields is 8, expected 9"),
        ("R2_1,1,j_2", "R2_1,one,j_2", "line 2: instance_num is 'one', expected a whole number or nothing"),
        ("131,50.0,0.2", "131,nan,0.2", "line 2: plan_cpu is 'nan', expected a number or nothing"),
        ("131,50.0,0.2", "131,5_0,0.2", "line 2: plan_cpu is '5_0'"),
        ("R2_1,1,j_2", ",1,j_2", "line 2: task_name is empty"),
        ("R2_1,1,j_2", "R2_1,1,", "line 2: job_name is empty"),
        ("R2_1,1,j_1", "\nR2_1,1,j_1", "line 3: is empty"),
    ],
)
def test_damage_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ALIBABA
    with pytest.raises(FormatError, match=message):
        load(write(tmp_path, "x.csv", ALIBABA.replace(old, new)), format="alibaba-2018")


@pytest.mark.parametrize("end", ["0.2", "0."])
def test_a_torn_last_line_is_refused(tmp_path: Path, end: str) -> None:
    with pytest.raises(FormatError, match=r"line 11: .*(no end|plan_mem)"):
        load(write(tmp_path, "x.csv", ALIBABA.rstrip()[: -len("0.2")] + end))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("M1,0,j,,Terminated,1,2,100,1", "instance_num is not a positive number"),
        ("M1,1,j,,Terminated,0,2,100,1", "start_time is missing"),
        ("M1,1,j,,Terminated,1,2,-100,1", "plan_cpu is negative"),
        ("M1_x,1,j,,Terminated,1,2,100,1", "a task name is not of the form J5_3_4"),
        ("M1_1,1,j,,Terminated,1,2,100,1", "its dependencies form a cycle"),
        ("M1,1,j,,Running,1,2,100,1", "a task's status is Running, not Terminated"),
    ],
)
def test_a_trace_without_a_usable_job_is_refused_with_the_reason(tmp_path: Path, row: str, reason: str) -> None:
    with pytest.raises(FormatError, match=f"holds no usable job: 1 because {reason}"):
        load(write(tmp_path, "x.csv", row + "\n"))


def test_progress_ends_at_one(tmp_path: Path) -> None:
    seen: list[float] = []
    rows = "".join(f"M{i},1,j_{i // 1000},,Terminated,{i + 1},{i + 2},100,1\n" for i in range(45_000))
    path = write(tmp_path, "x.csv.gz", gzip.compress(rows.encode()))
    assert trace(path, progress=seen.append).task_count == 45_000
    assert seen == sorted(seen)
    assert (len(seen), seen[-1]) == (3, 1.0)


@needs_data
def test_real_traces() -> None:
    workload = trace(DATA / "alibaba-2018/batch_task.csv")
    assert (len(workload.workflows), sum(reject.count for reject in workload.rejects)) == (3245, 30)
    assert min(w.arrival for w in workload.workflows) == 0
    measured = tasks(trace(DATA / "alibaba-2018/batch_task_usage.csv"), "j_2187")
    assert (measured["M4"].duration, measured["M4"].instances) == (136.071429, 14)
    assert measured["J2_1_4"].parents == ("M1", "M4")


def test_batch_problem_sample(tmp_path: Path) -> None:
    (workload,) = load(write(tmp_path, "hand.jsonl"))
    assert (workload.name, [w.name for w in workload.workflows]) == ("hand-0", ["job00-2g/q1", "job01-5g/q3"])
    assert workload.cluster is not None
    assert workload.cluster.capacity.tolist() == [[10]]
    first = workload.workflows[0]
    assert first.duration.tolist() == [0.6255, 0.1]
    assert (first.demand.ravel().tolist(), first.parents(1).tolist()) == ([2, 10], [0])


@needs_data
def test_batch_problems_have_the_published_sizes() -> None:
    sizes = {count: [w.task_count for w in load(DATA / f"tpch-batch/tpch-{count}.jsonl")] for count in (50, 100, 150)}
    assert {count: sum(tasks) / 10 for count, tasks in sizes.items()} == {50: 467.2, 100: 929.8, 150: 1384.5}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"duration_ms": 100', '"duration_ms": -1', "line 1, task 1: duration_ms is -1"),
        ('"duration_ms": 100', '"duration_ms": NaN', "line 1: is not valid JSON: NaN is not a JSON number"),
        ('"duration_ms": 100', '"duration_ms": 1e999', "duration_ms is inf"),
        ('"demand": 10', '"demand": true', "line 1, task 1: demand is True"),
        ('"demand": 10', '"demand": 1, "demand": 10', "key 'demand' appears twice"),
        ('"parents": [0]', '"parents": [2]', "line 1, task id 1: parent is 2, expected the id of a task of job 0"),
        ('"id": 1', '"id": 0', "task 1: id 0 is used twice"),
        ('"capacity": 10', '"capacity": 0', "capacity is 0, expected a number > 0"),
        ('"jobs": ["2g/q1", "5g/q3"]', '"jobs": ["2g/q1", "5g/q3", "x"]', r"job 2 \('x'\) has no tasks"),
    ],
)
def test_batch_problem_damage_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TPCH
    with pytest.raises(FormatError, match=message):
        load(write(tmp_path, "x.jsonl", TPCH.replace(old, new, 1)))
