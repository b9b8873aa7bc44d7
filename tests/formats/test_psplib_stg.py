"""PSPLIB and STG: structure, clusters, known makespans, damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import ConfigError, FormatError
from dagsched.formats import known_makespan, load
from tests.data import DATA, data_files, needs_data
from tests.formats.samples import PSPLIB, STG, write


def test_psplib_sample(tmp_path: Path) -> None:
    (workload,) = load(write(tmp_path, "hand.sm"))
    (workflow,) = workload.workflows
    assert workload.resources == ("R1", "R2")
    assert workload.cluster is not None
    assert (workload.cluster.node_count, workload.cluster.capacity.tolist()) == (1, [[12, 10]])
    assert workflow.duration.tolist() == [0, 3, 4, 4, 0]
    assert workflow.demand.tolist() == [[0, 0], [2, 0], [1, 10], [2, 1], [0, 0]]
    assert [workflow.parents(v).tolist() for v in range(5)] == [[], [0], [0], [1], [2, 3]]
    assert workflow.milestone.tolist() == [True, False, False, False, True]
    assert workload.known_makespan is None


@needs_data
def test_psplib_instance_as_read_by_eye() -> None:
    (workload,) = load(DATA / "psplib/j30/j3010_1.sm")
    (workflow,) = workload.workflows
    assert workload.cluster is not None
    assert workload.cluster.capacity.tolist() == [[24, 23, 25, 33]]
    assert (len(workflow), workflow.task_ids[10], workflow.duration[10]) == (32, "11", 7)
    assert workflow.demand[10].tolist() == [1, 6, 6, 6]
    assert sorted(int(p) + 1 for p in workflow.parents(17)) == [6, 7, 17]


@needs_data
@pytest.mark.parametrize(
    ("instance", "value", "proven"),
    [("j30/j301_1", 43, True), ("j60/j605_1", 76, True), ("j60/j601_1", 77, True), ("j120/j1206_1", 143, False)],
)
def test_known_makespans_beside_psplib_instances(instance: str, value: float, proven: bool) -> None:
    path = DATA / f"psplib/{instance}.sm"
    known = known_makespan(path)
    assert known is not None
    assert (known.value, known.proven) == (value, proven)
    assert load(path)[0].known_makespan == value


@needs_data
def test_every_psplib_instance_has_a_known_makespan_not_below_its_longest_chain() -> None:
    for workload in load(DATA / "psplib"):
        (workflow,) = workload.workflows
        finish = np.zeros(len(workflow))
        for task in workflow.topological_order:
            parents = workflow.parents(task)
            finish[task] = workflow.duration[task] + (finish[parents].max() if len(parents) else 0)
        assert workload.known_makespan is not None
        assert finish.max() <= workload.known_makespan


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "  - nonrenewable              :  0",
            "  - nonrenewable              :  2",
            "line 10.*nonrenewable.*expected 0",
        ),
        ("   3        1          1           5\n", "", "PRECEDENCE RELATIONS has 4 rows, expected one for each of 5"),
        ("   3        1          1           5", "   3        2          1           5", "number of modes is 2"),
        ("   3        1          1           5", "   3        1          2           5", "listed is 1, expected 2"),
        (
            "   3        1          1           5",
            "   3        1          1           9",
            "successor is 9, expected a job",
        ),
        ("   3        1          1           5", "   3        1          1           2", "alone|cycle|3"),
        ("  3      1     4       1   10", "  3      1    -4       1   10", "'-4', expected a whole number >= 0"),
        ("  3      1     4       1   10", "  3      1     4       1", "number of fields is 4, expected 5"),
        ("   12   10\n", "   12\n", "number of capacities is 1, expected 2"),
        (
            "jobs (incl. supersource/sink ):  5",
            "jobs (incl. supersource/sink ):  1e3",
            "expected a whole number from 1",
        ),
    ],
)
def test_psplib_damage_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PSPLIB
    path = write(tmp_path, "x.sm", PSPLIB.replace(old, new))
    if "alone" in message:  # a changed successor can be a valid project: then it must load
        load(path)
        return
    with pytest.raises(FormatError, match=message):
        load(path)


def test_psplib_with_crlf_bom_and_latin_1(tmp_path: Path) -> None:
    crlf = "\ufeff" + PSPLIB.replace("\n", "\r\n")
    latin = PSPLIB.replace("hand.bas", "hänsel.bas").encode("latin-1")
    plain = load(write(tmp_path, "a.sm", PSPLIB))[0].workflows[0].with_(name="w").digest
    for name, content in (("b.sm", crlf.encode()), ("c.sm", latin)):
        assert load(write(tmp_path, name, content))[0].workflows[0].with_(name="w").digest == plain


def test_stg_sample(tmp_path: Path) -> None:
    (workload,) = load(write(tmp_path, "hand.stg"), processors=3)
    (workflow,) = workload.workflows
    assert workload.cluster is not None
    assert (workload.cluster.node_count, workload.cluster.capacity.tolist()) == (3, [[1.0]])
    assert workflow.duration.tolist() == [0, 9, 4, 0, 0]
    assert workflow.demand.ravel().tolist() == [0, 1, 1, 1, 0]  # task 3 takes no time but is a real task
    assert [workflow.parents(v).tolist() for v in range(5)] == [[], [0], [0], [1, 2], [3]]


@needs_data
def test_stg_instances_as_read_by_eye() -> None:
    (workload,) = load(DATA / "stg/50/rand0000.stg")
    (workflow,) = workload.workflows
    assert (len(workflow), workflow.edge_count, workflow.duration[49]) == (52, 96 + 23, 9)
    assert workflow.parents(49).tolist() == [30, 39, 46, 47]
    assert load(DATA / "stg/application/robot")[0].task_count == 90
    assert load(DATA / "stg/application/sparse")[0].task_count == 98


@needs_data
@pytest.mark.parametrize(("processors", "value"), [(2, 131), (4, 66), (8, 55), (3, None)])
def test_known_makespans_of_stg_depend_on_processors(processors: int, value: float | None) -> None:
    path = DATA / "stg/50/rand0000.stg"
    assert load(path, processors=processors)[0].known_makespan == value
    table = DATA / f"stg/optimum/Case50_{processors}_OPT.csv"
    if table.exists():
        assert load(path, processors=processors, known=table)[0].known_makespan == value


@needs_data
def test_unproven_stg_rows_give_the_best_known_value() -> None:
    known = known_makespan(DATA / "stg/100/rand0012.stg", processors=2)
    assert known is not None
    assert (known.value, known.proven) == (312, False)


@needs_data
def test_directories_rename_only_stems_that_repeat() -> None:
    workloads = load(DATA / "stg")
    names = [workload.name for workload in workloads]
    assert len(set(names)) == len(names) == len(data_files("stg/*/*")) - len(data_files("stg/optimum/*"))
    assert {"50/rand0000", "100/rand0000", "robot"} <= set(names)
    assert all(workload.workflows[0].name == workload.name for workload in workloads)


def test_known_from_a_two_column_table(tmp_path: Path) -> None:
    table = write(tmp_path, "best.csv", "problem,optimum\nhand.sm,8\n")
    assert load(write(tmp_path, "hand.sm"), known=table)[0].known_makespan == 8
    assert load(tmp_path / "hand.sm")[0].known_makespan is None
    with pytest.raises(FormatError, match=r"bad.csv: line 1: row is 'a,b', expected"):
        load(tmp_path / "hand.sm", known=write(tmp_path, "bad.csv", "a,b\n"))
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "hand.sm", known=tmp_path / "none.csv")
    with pytest.raises(FormatError, match="give it as known=FILE"):
        load(table)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("          3          0          2          1          2\n", "", "line 5.*task number is 4, expected 3"),
        ("          2          1          2\n", "          3          1          2\n", "listed is 2, expected 3"),
        ("          3\n          0", "          7\n          0", "has 5 task rows, but the first line says 7"),
        ("          1          9", "          1          -9", "row is '1 -9 1 0', expected whole numbers >= 0"),
        ("          1          9", "          1          x", "row is '1 x 1 0'"),
        ("+dummy edges : 3", "+dummy edges : 4", "has 5 edges, but its footer says 2 \\+ 4"),
        ("          1          3\n#", "          1          2\n#", "dummy end that alone"),
    ],
)
def test_stg_damage_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in STG
    with pytest.raises(FormatError, match=message):
        load(write(tmp_path, "x.stg", STG.replace(old, new)), format="stg")


@pytest.mark.parametrize("processors", [0, -1, True, 2.5])
def test_processors_must_be_a_count(tmp_path: Path, processors: object) -> None:
    with pytest.raises(ConfigError, match="processors is"):
        load(write(tmp_path, "hand.stg"), processors=processors)
