"""The own JSON format: nothing lost, the same bytes each time, errors that name workflow, task and field."""

from __future__ import annotations

import json
import math
import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import ConfigError, FormatError
from dagsched.formats import load, save
from dagsched.generate import fan_in, random_workload
from dagsched.replay import Replay
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Rejects, Workload
from tests.data import DATA, needs_data
from tests.formats.samples import OWN, SAMPLES, write

SCHEMA = json.loads(files("dagsched.formats").joinpath("dagsched-workload-v1.schema.json").read_text())
GROUPS = (NodeGroup("a", 2, {"cpu": 4}), NodeGroup("b", 1, {"cpu": 8, "gpu": 1}, 1.7))


def validate(path: Path) -> None:
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(path.read_text()))


def assert_same(one: Workload, two: Workload) -> None:
    assert two.digest == one.digest
    assert (two.name, two.source, two.resources, dict(two.units)) == (
        one.name,
        one.source,
        one.resources,
        dict(one.units),
    )
    assert (two.known_makespan, two.rejects) == (one.known_makespan, one.rejects)
    assert (two.cluster and two.cluster.to_dict()) == (one.cluster and one.cluster.to_dict())
    assert [w.category for w in two.workflows] == [w.category for w in one.workflows]


amounts = st.floats(0, 1e300, allow_nan=False) | st.integers(0, 9).map(float)
names = st.text(min_size=1, max_size=4)


@st.composite
def workflows(draw: st.DrawFn, name: str) -> Workflow:
    ids = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    tasks = []
    for position, task_id in enumerate(ids):
        parents = draw(st.lists(st.sampled_from(ids[:position]), unique=True)) if position else []
        tasks.append(
            Task(
                task_id,
                draw(amounts.map(lambda x: x + 0.5)),
                demand=draw(st.dictionaries(st.sampled_from(("cpu", "gpu", "ß")), amounts, max_size=3)),
                parents=parents,
                estimate=draw(st.none() | amounts),
                instances=draw(st.integers(1, 2**40)),
                edge_bytes={p: draw(amounts) for p in parents if draw(st.booleans())},
                category=draw(st.none() | st.text(max_size=3)),
                group_durations=draw(st.dictionaries(st.sampled_from(("a", "b")), amounts, max_size=2)),
            )
        )
    return Workflow.from_tasks(
        name,
        tasks,
        arrival=draw(amounts),
        deadline=draw(st.none() | st.floats(-1e9, 1e9)),
        weight=draw(st.floats(1e-9, 1e9)),
        tenant=draw(st.text(max_size=3)),
    )


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking draws of this size takes minutes
)
@given(data=st.data())
def test_round_trip_loses_nothing(tmp_path: Path, data: st.DataObject) -> None:
    bandwidth = data.draw(st.sampled_from([math.inf, 1e9, np.array([[math.inf, 1e9], [2e9, math.inf]])]))
    workload = Workload(
        name=data.draw(names),
        workflows=tuple(data.draw(workflows(name)) for name in data.draw(st.lists(names, min_size=1, unique=True))),
        units={"cpu": "cores"},
        cluster=data.draw(st.sampled_from([None, Cluster(GROUPS, bandwidth=bandwidth, latency=0.25)])),
        source=data.draw(st.text(max_size=4)),
        known_makespan=data.draw(st.none() | amounts),
        rejects=(Rejects("why", 3, "job 1"),),
    )
    path = tmp_path / "w.json"
    save(workload, path)
    (again,) = load(path, format="dagsched")
    assert_same(workload, again)
    validate(path)
    first = path.read_bytes()
    save(again, path)
    assert path.read_bytes() == first


@needs_data
@pytest.mark.parametrize(
    "name", ["wfinstances/1.5/bacass-dirt02-001.json", "psplib/j60/j601_1.sm", "alibaba-2018/batch_task_50jobs.csv"]
)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_real_workloads_round_trip(tmp_path: Path, name: str, suffix: str) -> None:
    (workload,) = load(DATA / name)
    save(workload, tmp_path / f"w{suffix}")
    assert_same(workload, load(tmp_path / f"w{suffix}")[0])
    assert [file.name for file in tmp_path.iterdir()] == [f"w{suffix}"]


def test_defaults(tmp_path: Path) -> None:
    (workload,) = load(write(tmp_path, "own.json"))
    a, b = workload.workflows[0].tasks
    assert (a.demand, a.duration, a.parents, a.instances) == ({"cpu": 1}, 2, (), 1)
    assert (b.demand, dict(b.edge_bytes)) == ({"memory": 5e9}, {"a": 7})
    assert (workload.workflows[0].arrival, workload.workflows[0].deadline, workload.workflows[0].weight) == (1.5, 90, 1)
    validate(tmp_path / "own.json")


def test_the_schema_knows_exactly_the_keys_the_reader_knows() -> None:
    from dagsched.formats import own, own_columns

    assert tuple(SCHEMA["properties"]) == own.DOCUMENT_KEYS
    assert tuple(SCHEMA["$defs"]["workflow"]["properties"]) == own.WORKFLOW_KEYS
    assert tuple(SCHEMA["$defs"]["task"]["properties"]) == own_columns.TASK_KEYS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version": 1', '"version": 2', "version is 2, expected 1; a newer dagsched"),
        ('"arrival": 1.5', '"arival": 1.5', "workflow 'w': unknown key 'arival'; did you mean 'arrival'"),
        ('"duration": 2', '"duratoin": 2', "workflow 'w', task 'a': unknown key 'duratoin'; did you mean 'duration'"),
        (
            '"duration": 2',
            '"duration": true',
            "workflow 'w', task 'a': duration is True, expected a finite number >= 0",
        ),
        ('"duration": 2', '"duration": -1', "task 'a': duration is -1"),
        ('"duration": 2', '"instances": 2', "task 'a': duration is None"),
        ('"duration": 2', '"duration": 2, "instances": 1.5', "task 'a': instances is 1.5"),
        ('"duration": 2', '"duration": 2, "parents": ["b"]', "workflow 'w': contains a cycle: [ab] -> [ab] -> [ab]"),
        ('"parents": ["a"]', '"parents": ["q"]', "task 'b': parent is 'q', expected the id of a task"),
        ('"parents": ["a"]', '"parents": ["a", "a"]', "task 'b': parent 'a' is listed twice"),
        ('"edge_bytes": {"a": 7}', '"edge_bytes": {"b": 7}', "task 'b': a name in edge_bytes is 'b'"),
        ('{"memory": 5', '{"disk": 5', "task 'b': a name in demand is 'disk', expected one of cpu, memory"),
        ('"id": "b"', '"id": "a"', "task 'a': the id is used twice"),
        ('"id": "b"', '"id": 7', r"tasks\[1\]: id is 7, expected a text"),
        ('"deadline": 90', '"deadline": 1e999', "workflow 'w': deadline is inf, expected a finite number"),
        ('"deadline": 90', '"weight": 0', "workflow 'w': weight is 0.0, expected a number > 0"),
        ('"name": "hand"', '"cluster": {"groups": []}', "cluster 'cluster': has no groups"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in OWN
    with pytest.raises(FormatError, match=message):
        load(write(tmp_path, "x.json", OWN.replace(old, new, 1)))


def document(tasks: list[dict[str, object]], **fields: object) -> str:
    return json.dumps(
        {"format": "dagsched-workload", "version": 1, "workflows": [{"name": "w", "tasks": tasks}], **fields}
    )


@pytest.mark.parametrize("key", ["demand", "group_durations"])
def test_a_file_cannot_ask_for_terabytes(tmp_path: Path, key: str) -> None:
    tasks = [{"id": f"t{i}", "duration": 1, key: {f"r{i}": 1}} for i in range(50_000)]
    with pytest.raises(FormatError, match=r"number of (resources|groups) is 50000, expected at most 256"):
        load(write(tmp_path, "x.json", document(tasks)))
    groups = [{"name": f"g{i}", "capacity": {"cpu": 1}} for i in range(50_000)]
    with pytest.raises(FormatError, match="has 50000 groups, at most 1024 work"):
        load(write(tmp_path, "x.json", document([{"id": "a", "duration": 1}], cluster={"groups": groups})))


def test_ids_of_any_length_sort(tmp_path: Path) -> None:
    ids = ["9" * 6000, "t2", "t10", "8" * 6000]
    (workload,) = load(write(tmp_path, "x.json", document([{"id": i, "duration": 1} for i in ids])))
    replay = Replay.build(workload, sigma=0.1)
    assert [replay.task_name(task)[1][:3] for task in range(4)] == ["888", "999", "t2", "t10"]


def test_a_join_of_many_parents_with_bytes_loads_quickly(tmp_path: Path) -> None:
    tasks: list[dict[str, object]] = [{"id": f"t{i}", "duration": 1} for i in range(30_000)]
    names = [f"t{i}" for i in range(30_000)]
    tasks.append({"id": "join", "duration": 1, "parents": names, "edge_bytes": dict.fromkeys(names, 1.0)})
    begin = time.process_time()
    assert load(write(tmp_path, "x.json", document(tasks)))[0].workflows[0].edge_count == 30_000
    assert time.process_time() - begin < 3


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path) -> None:
    workload = load(write(tmp_path, "own.json"))[0]
    with pytest.raises(ConfigError, match="cannot write"):
        save(workload, tmp_path / "own.json" / "below-a-file.json")
    assert [file.name for file in tmp_path.iterdir()] == ["own.json"]
    assert (tmp_path / "own.json").read_text() == SAMPLES["own.json"]


def test_the_same_workload_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        save(random_workload("layered", np.random.default_rng(1), count=3), tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_a_hundred_thousand_tasks_load_quickly(tmp_path: Path) -> None:
    workflow = fan_in(np.random.default_rng(0))
    save(Workload("big", (workflow,)), tmp_path / "big.json")
    begin = time.process_time()
    (workload,) = load(tmp_path / "big.json")
    assert time.process_time() - begin < 5  # 1 s on an idle core; the room is for a busy one
    assert workload.workflows[0].digest == workflow.digest
