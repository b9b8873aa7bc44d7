"""What a file does not state, states twice, or states as something that cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from dagsched import Cluster, NodeGroup, replay, validate
from dagsched.cli import app
from dagsched.errors import ConfigError, FormatError
from dagsched.formats import load, save, save_wfformat
from dagsched.replay import Replay
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.data import data_files, data_id, needs_data
from tests.formats.samples import OWN, PSPLIB, STG, TPCH, WFFORMAT_13, WFFORMAT_15, write
from tests.formats.test_wfformat import edited

ONE_CORE = Cluster((NodeGroup("n", 1, {"cpu": 1, "memory": 1e9}),))


def only(path: Path, **options: Any) -> Workload:
    (workload,) = load(path, **options)
    return workload


def recorded_run(cores: object, count: int = 3) -> str:
    ids = [str(number) for number in range(count)]
    return json.dumps(
        {
            "name": "x",
            "schemaVersion": "1.5",
            "workflow": {
                "specification": {"tasks": [{"name": "a", "id": i, "parents": [], "children": []} for i in ids]},
                "execution": {
                    "makespanInSeconds": 1,
                    "executedAt": "x",
                    "tasks": [{"id": i, "runtimeInSeconds": 100, "coreCount": cores} for i in ids],
                },
            },
        }
    )


@pytest.mark.parametrize("cores", [0, -1, -0.5, 0.0])
def test_a_core_count_that_is_not_above_zero_is_not_stated(tmp_path: Path, cores: float) -> None:
    """Three tasks of 100 s need 300 s of one core; read as 0 cores they ran at once."""
    workload = only(write(tmp_path, "core0.json", recorded_run(cores)))
    assert workload.workflows[0].demand[:, 0].tolist() == [1, 1, 1]
    schedule = replay(workload, ONE_CORE, policy="fcfs")
    validate(schedule)
    assert schedule.makespan == 300
    (assumption,) = workload.assumed
    assert (assumption.count, "1 core" in assumption.rule) == (3, True)
    assert f"{cores:g} of task '0'" in assumption.example


@pytest.mark.parametrize("key", ["cores", "coreCount"])
def test_a_core_count_of_zero_is_not_stated_up_to_version_1_4(tmp_path: Path, key: str) -> None:
    text = edited(WFFORMAT_13, "workflow", "tasks", 0, key, value=0)
    workload = only(write(tmp_path, "x.json", text))
    assert dict(zip(workload.workflows[0].task_ids, workload.workflows[0].demand[:, 0].tolist(), strict=True)) == {
        "split_ID1": 1,
        "blast_ID2": 2,
    }
    assert [a.count for a in workload.assumed] == [1]


def test_inspect_and_compare_say_how_many_values_were_read_by_a_rule(tmp_path: Path) -> None:
    path = write(tmp_path, "core0.json", recorded_run(0))
    shown = CliRunner().invoke(app, ["inspect", str(path)])
    assert shown.exit_code == 0
    assert "3 values read by a rule" in shown.output
    out = tmp_path / "out"
    compared = CliRunner().invoke(app, ["compare", str(path), "--policies", "fcfs", "--out", str(out)])
    assert "3 values read by a rule" in compared.output
    assert json.loads((out / "summary.json").read_text())["provenance"]["workloads"][0]["assumed"][0]["count"] == 3
    assert "Read by a rule" in (out / "report.html").read_text()


def test_own_json_keeps_what_was_read_by_a_rule(tmp_path: Path) -> None:
    workload = only(write(tmp_path, "core0.json", recorded_run(0)))
    save(workload, tmp_path / "own.json")
    assert only(tmp_path / "own.json").assumed == workload.assumed


def test_wfformat_cannot_say_that_a_task_holds_no_core(tmp_path: Path) -> None:
    for demand in ({"memory": 5.0}, {"cpu": 0.0, "memory": 5.0}, {}):
        with pytest.raises(ConfigError, match="has tasks that hold no core, which WfFormat cannot express"):
            save_wfformat(Workflow.from_tasks("w", [Task("a", 1, demand=demand)]), tmp_path / "x.json")


def test_a_plan_cpu_of_zero_is_read_as_one_core_as_an_empty_one_is(tmp_path: Path) -> None:
    rows = (
        "M1,1,j_1,,Terminated,100,160,0,0.3\nM2,1,j_1,,Terminated,100,160,,0.3\nM3,1,j_1,,Terminated,100,160,200,0.3\n"
    )
    workload = only(write(tmp_path, "t.csv", rows))
    assert workload.workflows[0].demand[:, 0].tolist() == [1, 1, 2]
    assert [(a.rule, a.count, a.example) for a in workload.assumed] == [
        ("plan_cpu is 0: read as one core", 1, "line 1"),
        ("plan_cpu is empty: read as one core", 1, "line 2"),
    ]
    negative = rows.replace(",0,0.3", ",-100,0.3") + rows.replace("j_1", "j_2")
    assert [r.reason for r in only(write(tmp_path, "n.csv", negative)).rejects] == ["plan_cpu is negative"]


def test_a_stage_that_takes_time_without_an_executor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"task 0: demand is 0, expected a number > 0"):
        load(write(tmp_path, "x.jsonl", TPCH.replace('"demand": 2', '"demand": 0')))
    with pytest.raises(FormatError, match=r"task 0: demand is -2, expected a number >= 0"):
        load(write(tmp_path, "x.jsonl", TPCH.replace('"demand": 2', '"demand": -2')))
    with pytest.raises(FormatError, match=r"the task has no 'demand'"):
        load(write(tmp_path, "x.jsonl", TPCH.replace('"demand": 2, ', "")))


def test_a_missing_demand_is_one_core_and_a_stated_nothing_is_nothing(tmp_path: Path) -> None:
    """Own JSON and Python say what they mean: ``{}`` and ``cpu: 0`` hold no core, no demand is one core."""
    for stated, cores in ((', "demand": {}', 0), (', "demand": {"cpu": 0}', 0), ("", 1)):
        text = OWN.replace('"id": "a", "duration": 2', f'"id": "a", "duration": 2{stated}')
        assert only(write(tmp_path, "own.json", text)).workflows[0].demand[0, 0] == cores
    text = OWN.replace('"id": "a", "duration": 2', '"id": "a", "duration": 2, "demand": {"cpu": -1}')
    with pytest.raises(FormatError, match=r"task 'a': demand 'cpu' is -1, expected a finite number >= 0"):
        load(write(tmp_path, "own.json", text))
    assert Workflow.from_tasks("w", [Task("a", 1), Task("b", 1, demand={})]).demand.ravel().tolist() == [1, 0]
    assert only(write(tmp_path, "hand.stg", STG)).workflows[0].demand.ravel().tolist() == [0, 1, 1, 1, 0]


CUT = (
    "M1,1,j_1,1,Terminated,1000,1500,100,0.1\n"
    "M12,1,j_1,1,Terminated,1000,1010,100,0.1\n"
    + "".join(f"M1000000{k},1,j_1,1,Terminated,1000,1010,100,0.1\n" for k in range(1, 6))
    + "R20_10000001_10000002_10000003_10000004_10000005_1,1,j_1,1,Terminated,1600,1610,100,0.1\n"
    + "M1,1,j_2,1,Terminated,1000,1500,100,0.1\n"
)


def test_a_job_with_a_name_of_fifty_characters_is_left_out_since_the_trace_cuts_names(tmp_path: Path) -> None:
    workload = only(write(tmp_path, "trace.csv", CUT))
    assert [w.name for w in workload.workflows] == ["j_2"]
    (reject,) = workload.rejects
    assert (reject.count, reject.example) == (1, "job j_1, line 8")
    assert "fills the 50 characters" in reject.reason
    underscore = CUT.replace("10000005_1,", "1000005_1_,")  # the cut came right after an underscore
    assert only(write(tmp_path, "u.csv", underscore)).rejects[0].reason == reject.reason
    whole = CUT.replace("10000005_1,", "10000005,")
    assert [w.name for w in only(write(tmp_path, "w.csv", whole)).workflows] == ["j_1", "j_2"]
    independent = CUT.replace("R20_10000001_10000002_10000003_10000004_10000005_1", "task_" + "a" * 45)
    assert len(only(write(tmp_path, "i.csv", independent)).workflows) == 2


def test_measured_seconds_that_differ_for_one_task_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "t.csv", "M1,1,j_1,,Terminated,100,160,100,0.3\n")
    head = "job_name,task_name,mean_instance_seconds\nj_1,M1,5\n"
    write(tmp_path, "t_measured.csv", head + "j_1,M1,5\n")
    assert only(tmp_path / "t.csv").workflows[0].duration.tolist() == [5]
    write(tmp_path, "t_measured.csv", head + "j_1,M1,7\n")
    with pytest.raises(FormatError, match=r"line 3: task 'M1' of job 'j_1' is listed twice, with 5 and 7 seconds"):
        load(tmp_path / "t.csv")


def test_a_table_that_gives_two_known_makespans_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "hand.sm", PSPLIB)
    table = write(tmp_path, "best.csv", "problem,optimum\nhand,7\nhand,7\n")
    assert only(path, known=table).known_makespan == 7
    write(tmp_path, "best.csv", "problem,optimum\nhand,7\nhand,8\n")
    with pytest.raises(FormatError, match=r"best.csv: line 3: 'hand' is listed twice, with 7 and 8"):
        load(path, known=table)


DATES = "    1      3      0        9        0        7"


def project(tmp_path: Path, dates: str) -> Workload:
    return only(write(tmp_path, "x.sm", PSPLIB.replace(DATES, dates)))


def test_a_project_arrives_at_its_release_date_and_is_due_at_its_due_date(tmp_path: Path) -> None:
    """Jobs of 3, 4 and 4 s: the last waits for the 4 s of job 3, which holds all of R2: 8 s from the release at 7."""
    workload = project(tmp_path, "    1      3      7       12       26        7")
    (workflow,) = workload.workflows
    assert (workflow.arrival, workflow.deadline, workload.assumed) == (7, 12, ())
    schedule = replay(workload, policy="lft")
    validate(schedule)
    assert (schedule.start.min(), schedule.finish.max(), schedule.makespan) == (7, 15, 8)


def test_the_case_of_a_project_with_dates_ends_at_sixteen(tmp_path: Path) -> None:
    """Jobs of 4 and 5 s that need 2 of 3 units each run one after the other from 7 on."""
    text = PSPLIB.replace(DATES, "    1      3      7       12       26        7")
    for old, new in (
        ("  2      1     3       2    0", "  2      1     4       7    0"),
        ("  3      1     4       1   10", "  3      1     5       7    0"),
        ("  4      1     4       2    1", "  4      1     0       0    0"),
    ):
        text = text.replace(old, new)
    workload = only(write(tmp_path, "x.sm", text))
    schedule = replay(workload, policy="lft")
    validate(schedule)
    assert schedule.finish.max() == 16
    assert Replay.build(workload).objective == "makespan"


@pytest.mark.parametrize(
    ("dates", "deadline"),
    [
        ("    1      3      0        9        0        7", 9),
        ("    1      3      0        7        0        7", None),  # as in all published sets
        ("    1      3      0        0        0        7", None),
        ("    1      3      2        0        0        7", None),
    ],
)
def test_a_due_date_that_the_generator_writes_by_default_is_none(
    tmp_path: Path, dates: str, deadline: float | None
) -> None:
    workload = project(tmp_path, dates)
    assert workload.workflows[0].deadline == deadline
    assert [a.example for a in workload.assumed] == (["due date 7"] if "7        0        7" in dates else [])


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (
            f"{DATES}\n    2      3      4        9        0        7",
            "PROJECT INFORMATION has 2 rows, expected the dates",
        ),
        ("    1      3      0        9        0", "number of fields of PROJECT INFORMATION is 5, expected 6"),
        ("    1      3     -1        9        0        7", "a field of PROJECT INFORMATION is '-1'"),
        ("    1      3      8        5        0        7", "duedate is 5, expected at least the release date 8"),
    ],
)
def test_dates_that_cannot_be_used_are_named(tmp_path: Path, dates: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        project(tmp_path, dates)


@needs_data
@pytest.mark.parametrize("file", data_files("psplib/j30/j3010_1.sm", "psplib/j120/j12010_1.sm"), ids=data_id)
def test_published_projects_keep_their_workflow_and_say_so(file: Path) -> None:
    workload = only(file)
    assert (workload.workflows[0].arrival, workload.workflows[0].deadline) == (0, None)
    assert [a.count for a in workload.assumed] == [1]


@pytest.mark.parametrize("execution", [None, {}, {"tasks": []}, "absent"])
def test_a_file_without_a_recorded_run_is_told_what_it_needs(tmp_path: Path, execution: object) -> None:
    document = json.loads(WFFORMAT_15)
    if execution == "absent":
        del document["workflow"]["execution"]
    else:
        document["workflow"]["execution"] = execution
    with pytest.raises(FormatError, match=r"without a recorded run .* runtime of every task; give .*runtimeInSeconds"):
        load(write(tmp_path, "x.json", json.dumps(document)))


def test_a_file_id_with_two_sizes_is_refused_with_both(tmp_path: Path) -> None:
    document = json.loads(WFFORMAT_15)
    files = document["workflow"]["specification"]["files"]
    files.append({"id": "a", "sizeInBytes": 70})
    assert only(write(tmp_path, "x.json", json.dumps(document))).workflows[0].parent_bytes.tolist() == [70]
    files.append({"id": "a", "sizeInBytes": 999})
    with pytest.raises(FormatError, match="file 'a' is listed twice, with 70 and 999 bytes"):
        load(write(tmp_path, "x.json", json.dumps(document)))


def test_one_task_cannot_list_a_file_with_two_sizes(tmp_path: Path) -> None:
    document = json.loads(WFFORMAT_13)
    document["workflow"]["tasks"][0]["files"].append({"link": "output", "name": "a", "size": 71})
    with pytest.raises(FormatError, match="task 'split_ID1': file 'a' is listed twice, with 70 and 71 bytes"):
        load(write(tmp_path, "x.json", json.dumps(document)))


def test_where_writer_and_reader_state_different_sizes_the_writers_counts_and_is_told(tmp_path: Path) -> None:
    document = json.loads(WFFORMAT_13)
    document["workflow"]["tasks"][1]["files"][0]["size"] = 999
    workload = only(write(tmp_path, "x.json", json.dumps(document)))
    assert workload.workflows[0].parent_bytes.tolist() == [70]
    assert [(a.count, a.example) for a in workload.assumed] == [(1, "70 and 999 bytes of 'a'")]


@needs_data
@pytest.mark.parametrize("file", data_files("wfinstances/1.[0-4]/[!r]*.json"), ids=data_id)
def test_recorded_runs_state_nothing_twice(file: Path) -> None:
    workload = only(file)
    assert workload.assumed == ()
    assert np.all(workload.workflows[0].demand[:, 0] >= 1)
