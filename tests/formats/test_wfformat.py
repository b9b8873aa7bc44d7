"""WfFormat in all its versions: units, names and ids, files on edges."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import ConfigError, FormatError
from dagsched.formats import load, save_wfformat
from dagsched.task import Task
from dagsched.workflow import Workflow
from tests.data import DATA, data_files, data_id, needs_data
from tests.formats.samples import WFFORMAT_13, WFFORMAT_15, write

FIVE_VERSIONS = (
    "montage-chameleon-2mass-005d-001",
    "srasearch-chameleon-10a-001",
    "1000genome-chameleon-2ch-100k-001",
    "blast-chameleon-small-001",
)


def only(path: Path) -> Workflow:
    (workload,) = load(path)
    (workflow,) = workload.workflows
    return workflow


def by_id(workflow: Workflow) -> dict[str, Task]:
    return {task.id: task for task in workflow.tasks}


@pytest.mark.parametrize(("name", "ids"), [("hand13.json", ("split_ID1", "blast_ID2")), ("hand15.json", ("s", "b"))])
def test_units_by_version(tmp_path: Path, name: str, ids: tuple[str, str]) -> None:
    workflow = only(write(tmp_path, name))
    split, blast = (by_id(workflow)[task_id] for task_id in ids)
    assert (split.duration, split.demand, split.category) == (2.5, {"cpu": 1, "memory": 3e6}, "split")
    assert (blast.duration, blast.demand, blast.category) == (0, {"cpu": 2}, "blast")
    assert blast.parents == (split.id,)
    assert blast.edge_bytes == {split.id: 70}
    assert workflow.name == Path(name).stem
    assert not workflow.milestone.any()


@needs_data
@pytest.mark.parametrize("stem", FIVE_VERSIONS)
def test_all_five_versions_give_the_same_workflow(stem: str) -> None:
    workflows = [
        only(DATA / "wfinstances" / version / f"{stem}.json") for version in ("1.0", "1.2", "1.3", "1.4", "1.5")
    ]
    first = by_id(workflows[0])
    for workflow in workflows[1:]:
        tasks = by_id(workflow)
        assert tasks.keys() == first.keys()
        for task_id, task in tasks.items():
            same = first[task_id]
            assert (task.duration, task.demand, task.category) == (same.duration, same.demand, same.category)
            assert sorted(task.parents) == sorted(same.parents)
            assert dict(task.edge_bytes) == dict(same.edge_bytes)


@needs_data
def test_srasearch_as_read_by_eye() -> None:
    workflow = only(DATA / "wfinstances/1.5/srasearch-chameleon-10a-001.json")
    task = by_id(workflow)["bowtie2_ID0000003"]
    assert (len(workflow), workflow.edge_count) == (22, 30)
    assert by_id(workflow)["bowtie2-build_ID0000001"].demand == {"cpu": 1, "memory": 94_720_000}
    assert by_id(workflow)["bowtie2-build_ID0000001"].duration == 6.352
    assert task.edge_bytes["bowtie2-build_ID0000001"] == 2 * 4226858 + 2 * 24280 + 24273 + 17


@needs_data
def test_repeated_names_are_told_apart_as_version_1_5_does() -> None:
    old = only(DATA / "wfinstances/1.4/bacass-dirt02-001.json")
    new = only(DATA / "wfinstances/1.5/bacass-dirt02-001.json")
    assert set(old.task_ids) == set(new.task_ids)
    assert {t.id: t.duration for t in old.tasks} == {t.id: t.duration for t in new.tasks}
    assert (old.edge_count, new.edge_count) == (0, 14)  # Nextflow 1.4 records no edges


@needs_data
def test_a_cyclic_recording_is_refused_with_its_cycle() -> None:
    with pytest.raises(FormatError, match=r"rnaseq.*contains a cycle: star_align\S+ -> .* -> star_align"):
        load(DATA / "wfinstances/1.3/rnaseq-nextflow-chameleon-001.json")


def edited(text: str, *path: object, value: object) -> str:
    document = json.loads(text)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return json.dumps(document)


TASKS = ("workflow", "tasks")
SPECIFIED = ("workflow", "specification", "tasks")
EXECUTED = ("workflow", "execution", "tasks")


@pytest.mark.parametrize(
    ("text", "path", "value", "message"),
    [
        (WFFORMAT_13, ("schemaVersion",), "2.0", "schemaVersion is '2.0', expected one of 1.0"),
        (WFFORMAT_13, (*TASKS, 0, "runtime"), -1, r"task 'split_ID1': runtime is -1, expected a finite number >= 0"),
        (WFFORMAT_13, (*TASKS, 0, "runtime"), True, r"task 'split_ID1': runtime is True"),
        (WFFORMAT_13, (*TASKS, 0, "runtime"), None, r"task 'split_ID1': runtime is missing"),
        (WFFORMAT_13, (*TASKS, 0, "memory"), "3 GB", r"memory is '3 GB', expected a finite number"),
        (WFFORMAT_13, (*TASKS, 1, "parents"), ["nobody"], r"parent 'nobody' is not a task of this workflow"),
        (WFFORMAT_13, (*TASKS, 1, "parents"), [], r"lists child 'blast_ID2', which does not list it as a parent"),
        (WFFORMAT_13, (*TASKS, 0, "children"), ["split_ID1"], r"'split_ID1': lists child 'split_ID1'"),
        (WFFORMAT_13, (*TASKS, 0, "files", 0, "link"), "in", r"link of file 'a' is 'in'"),
        (WFFORMAT_13, (*TASKS, 1, "name"), "split_ID1", r"child 'blast_ID2' is not a task|'split_ID1'"),
        (WFFORMAT_15, (*EXECUTED, 1), None, r"task 'b': is specified but has no"),
        (WFFORMAT_15, (*SPECIFIED, 1), None, r"child 'b'|task 'b' is not in specification"),
        (WFFORMAT_15, (*SPECIFIED, 1, "inputFiles"), ["zz"], r"file 'zz' is not listed in specification.files"),
        (WFFORMAT_15, (*SPECIFIED, 1, "id"), "s", r"task 's': is specified but has no \(or a second\)"),
        (WFFORMAT_15, ("workflow", "execution"), 5, r"workflow: execution is 5, expected an object"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, path: tuple[object, ...], value: object, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load(write(tmp_path, "x.json", edited(text, *path, value=value)), format="wfformat")


def test_edges_from_children_where_parents_are_absent(tmp_path: Path) -> None:
    text = edited(edited(WFFORMAT_13, *TASKS, 1, "parents", value=None), *TASKS, 0, "parents", value=None)
    assert by_id(only(write(tmp_path, "x.json", text)))["blast_ID2"].parents == ("split_ID1",)


def test_version_1_6_is_read_as_1_5(tmp_path: Path) -> None:
    text = edited(WFFORMAT_15, "schemaVersion", value="1.6")
    assert only(write(tmp_path, "x.json", text)).with_(name="w").digest == (
        only(write(tmp_path, "y.json", WFFORMAT_15)).with_(name="w").digest
    )


@needs_data
@pytest.mark.parametrize("file", data_files("wfinstances/1.5/*a-00*.json", "wfinstances/1.5/blast*.json"), ids=data_id)
def test_written_files_read_back_the_same_and_match_the_schema(tmp_path: Path, file: Path) -> None:
    import jsonschema

    workflow = only(file)
    save_wfformat(workflow, tmp_path / file.name)
    again = only(tmp_path / file.name)
    assert by_id(again).keys() == by_id(workflow).keys()
    for one, two in zip(workflow.tasks, again.tasks, strict=True):
        assert (one.duration, one.demand, set(one.parents), dict(one.edge_bytes)) == (
            two.duration,
            two.demand,
            set(two.parents),
            dict(two.edge_bytes),
        )
    schema = json.loads((DATA / "wfinstances/schema/wfcommons-schema-1.5.json").read_text())
    jsonschema.Draft7Validator(schema).validate(json.loads((tmp_path / file.name).read_text()))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task("a", 1, instances=2), "several instances"),
        (Task("a", 1, demand={"gpu": 1}), "demands 'gpu'"),
        (Task("a", 1, estimate=2), "estimates"),
        (Task("a", 1, group_durations={"g": 1}), "durations by node group"),
    ],
)
def test_what_wfformat_cannot_say_is_refused(tmp_path: Path, task: Task, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        save_wfformat(Workflow.from_tasks("w", [task]), tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_sizes_that_only_the_reader_of_a_file_states_count(tmp_path: Path) -> None:
    text = edited(WFFORMAT_13, *TASKS, 0, "files", 0, "size", value=None)
    workflow = only(write(tmp_path, "x.json", text))
    assert np.array_equal(workflow.parent_bytes, [70])
