"""Names from strangers: paths that are not UTF-8, control characters in pictures, cells that look like formulas."""

from __future__ import annotations

import csv
import json
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from dagsched import Cluster, NodeGroup, Task, Workflow, Workload, compare_baselines, load, replay, save, validate
from dagsched.cli import run
from dagsched.draw.dag import save_dag
from dagsched.draw.gantt import save_gantt
from dagsched.env.picture import picture
from dagsched.evaluate.read_results import read_comparison
from dagsched.evaluate.results import render_again
from dagsched.replay import Replay
from dagsched.schedule_io import save_schedule, schedule_csv
from dagsched.simulator.stepper import Simulator
from dagsched.texts import csv_text, shown_path, text_from_csv
from tests.formats.samples import OWN, WFFORMAT_15, write

ODD = os.fsdecode(b"h\xe4nsel\xff")
"""A name of bytes that are not UTF-8, as Python gives it."""

CLUSTER = "name: one\nresources: [cpu, memory]\ngroups:\n  - {name: n, nodes: 2, capacity: {cpu: 4, memory: 1.0e+10}}\n"


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder, a workload and a cluster file whose names are not UTF-8."""
    folder = tmp_path / ODD
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    write(folder, f"{ODD}.json", OWN)
    write(folder, f"{ODD}15.json", WFFORMAT_15)
    (folder / f"{ODD}.yaml").write_text(CLUSTER)
    return folder


def test_a_path_is_shown_with_its_odd_bytes_escaped() -> None:
    assert shown_path(os.fsdecode(b"a/h\xe4n.json")) == r"a/h\xe4n.json"
    assert shown_path("häns/日本.json") == "häns/日本.json"


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "{in}.json", "--draw", "{in}.svg"],
        ["inspect", "{in}15.json", "--cluster", "{in}.yaml", "--draw", "{in}.png"],
        ["inspect", "{folder}"],
        ["compare", "{folder}", "--cluster", "{in}.yaml", "--policies", "fcfs,heft", "--out", "{in}-out"],
        ["compare", "{folder}", "--policies", "fcfs,heft", "--out", "{in}-out", "--save-schedules"],
        ["compare", "{in}15.json", "--arrivals", "poisson:0.5", "--policies", "fcfs", "--out", "{in}-out"],
        ["schedule", "{in}15.json", "--policy", "heft", "--gantt", "{in}.svg", "--out", "{in}-s.json"],
        ["schedule", "{in}15.json", "--policy", "heft", "--gantt", "{in}.png", "--out", "{in}-s.csv"],
        ["schedule", "{in}15.json", "--policy", "heft", "--out", "{in}-s.trace.json"],
        ["schedule", "{in}15.json", "--policy", "heft", "--out", "{in}-s.wfformat.json"],
        ["generate", "layered", "--tasks", "5", "--out", "{in}-new.json"],
        ["generate", "layered", "--tasks", "5", "--cluster", "{in}.yaml", "--out", "{in}-new.json.gz"],
    ],
    ids=lambda words: "-".join(word.strip("-") for word in words[:3] if "{" not in word),
)
def test_commands_take_paths_that_are_not_utf_8(
    odd: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = [word.replace("{in}", str(odd / ODD)).replace("{folder}", str(odd)) for word in words]
    assert run(command) == 0, capsys.readouterr().err
    for option in ("--out", "--gantt", "--draw"):
        if option in command:
            assert Path(command[command.index(option) + 1]).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect", "{in}-no.json"], "cannot be read"),
        (["compare", "{in}.json", "--cluster", "{in}-no.yaml"], "cannot read the cluster file"),
        (["compare", "{in}.json", "--cluster", "{in}.json"], "cluster"),
        (["compare", "{in}.json", "--out", "{in}.json"], ""),
        (["compare", "{in}.json", "--policies", "{in}.py:f"], ""),
        (["schedule", "{in}.json", "--out", "{in}.odd"], "schedule format"),
        (["schedule", "{in}.json", "--gantt", "{in}.odd"], "pictures are written as"),
        (["schedule", "{in}.json", "--policy", "{in}"], "there is no policy"),
        (["generate", "{in}.yaml", "--out", "{in}-new.json"], ""),
        (["train", "{in}.yaml"], ""),
        (["train", "{in}-no.yaml"], "no such configuration"),
        (["eval", "{in}-no", "build"], ""),
        (["report", "{in}-no"], ""),
        (["explain", "{in}15.json"], "no checkpoint fits"),
        (["inspect", "{in}.yaml"], "no known workload format"),
        (["inspect", "{in}.json", "--known", "{in}-no"], "does not exist"),
    ],
)
def test_errors_about_paths_that_are_not_utf_8_are_one_line(
    odd: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [word.replace("{in}", str(odd / ODD)) for word in words]
    assert run(command) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    error.encode()


def test_names_of_workloads_from_odd_paths_can_be_written(odd: Path, tmp_path: Path) -> None:
    (workload,) = load(odd / f"{ODD}15.json")
    assert workload.name == r"h\xe4nsel\xff15"
    save(workload, tmp_path / "again.json")
    assert load(tmp_path / "again.json")[0].digest == workload.digest
    shutil.copy(odd / f"{ODD}15.json", tmp_path / "other15.json")
    comparison = compare_baselines(odd / f"{ODD}15.json", ["fcfs", "heft"], out=odd / "out")
    rows, _, about = read_comparison(odd / "out")
    assert {row["workload"] for row in rows} == {comparison.rows[0]["workload"]} == {workload.name}
    assert about["provenance"]["workloads"][0]["source"].endswith(r"h\xe4nsel\xff15.json")


FORMULAS = ('=HYPERLINK("http://x")', "+1", "-2", "@SUM(A1)", "\tx", "\rx", "'quoted", "'=x", "plain", "1-2")


def test_texts_that_look_like_formulas_are_quoted_and_come_back() -> None:
    for text in (*FORMULAS, "", "'", "''", "日本"):
        assert text_from_csv(csv_text(text)) == text
        assert not csv_text(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert [csv_text(text) for text in ("plain", "1-2", "")] == ["plain", "1-2", ""]


def formulas() -> list[Workload]:
    return [
        Workload(name, (Workflow.from_tasks(name, [Task(name, 2, category=name), Task("b", 1, parents=[name])]),))
        for name in FORMULAS
    ]


def cells(file: Path) -> list[list[str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.reader(opened))


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_no_table_of_a_comparison_holds_a_formula_and_all_are_read_back(tmp_path: Path) -> None:
    cluster = Cluster((NodeGroup("=n", 2, {"cpu": 2, "=r": 1}),), name="=c")
    comparison = compare_baselines(formulas(), ["fcfs", "heft"], cluster=cluster, out=tmp_path, save_schedules=True)
    tables = list(tmp_path.rglob("*.csv"))
    assert {file.name for file in tables} >= {"results.csv", "timings.csv"}
    for file in tables:
        for cell in (cell for line in cells(file) for cell in line):
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or is_number(cell), cell
    rows, timings, _ = read_comparison(tmp_path)
    assert [row["workload"] for row in rows] == [str(row["workload"]) for row in comparison.rows]
    assert {row["workload"] for row in timings} == set(FORMULAS)
    assert render_again(tmp_path) is None or (tmp_path / "report.html").is_file()


def test_no_cell_of_a_schedule_is_a_formula(tmp_path: Path) -> None:
    for workload in formulas():
        schedule = replay(workload, Cluster((NodeGroup("=n", 2, {"cpu": 2}),)), policy="fcfs")
        validate(schedule)
        save_schedule(schedule, tmp_path / "s.csv")
        table = cells(tmp_path / "s.csv")[1:]
        assert {text_from_csv(line[1]) for line in table} == {workload.name, "b"}
        assert all(not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for line in table for cell in line)
        assert schedule_csv(schedule).count("\n") >= 3


def test_an_interrupted_comparison_of_such_names_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(done: int, _total: int) -> None:
        if done >= 9:
            raise StopError

    with pytest.raises(StopError):
        compare_baselines(formulas(), ["fcfs", "heft"], out=tmp_path / "a", progress=stop)
    compare_baselines(formulas(), ["fcfs", "heft"], out=tmp_path / "a")
    compare_baselines(formulas(), ["fcfs", "heft"], out=tmp_path / "b")
    assert (tmp_path / "a" / "results.csv").read_bytes() == (tmp_path / "b" / "results.csv").read_bytes()


CONTROL = "a\x07b\x1b[31m\x00\x7f\u202e日本\ue000$x_1$\n"


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures_of_control_characters_warn_of_nothing(tmp_path: Path, suffix: str) -> None:
    tasks = [Task(CONTROL, 2, category=CONTROL), Task("b", 1, parents=[CONTROL], category="x")]
    workload = Workload(CONTROL, (Workflow.from_tasks(CONTROL, tasks),))
    schedule = replay(workload, Cluster((NodeGroup(CONTROL, 2, {"cpu": 2}),), name=CONTROL), policy="fcfs")
    validate(schedule)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_gantt(schedule, tmp_path / f"g.{suffix}")
        save_dag(workload.workflows[0], tmp_path / f"d.{suffix}")
        save_dag(schedule.replay, tmp_path / f"r.{suffix}")
        simulator = Simulator(Replay.build(workload), policy_seed=0)
        assert picture(simulator).dtype == np.uint8
    if suffix == "svg":
        assert r"a\x07b\x1b[31m\x00" in (tmp_path / "d.svg").read_text(encoding="utf-8")


def test_json_of_such_names_is_json(tmp_path: Path) -> None:
    workload = Workload(CONTROL, (Workflow.from_tasks(CONTROL, [Task(CONTROL, 1)]),))
    compare_baselines(workload, ["fcfs"], out=tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["provenance"]["workloads"][0]["name"] == CONTROL
