"""Schedules on disk: lossless JSON, and the formats of others as their own schemas define them."""

from __future__ import annotations

import csv
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from dagsched.cluster import Cluster
from dagsched.errors import ConfigError, FormatError
from dagsched.files import write_atomic
from dagsched.schedule import WAIT, Schedule
from dagsched.schedule_export import lanes, trace_events, wfformat
from dagsched.schedule_io import FORMATS, load_schedule, save_schedule
from dagsched.simulator.validate import validate
from dagsched.task import Task
from tests.handmade import list_schedule, one_workflow, random_replay, schedule_of

ARRAYS = (
    "task",
    "node",
    "count",
    "start",
    "finish",
    "execution",
    "ready",
    "decision_time",
    "decision_task",
)


@pytest.fixture
def schedule() -> Schedule:
    return list_schedule(random_replay(3))


def test_json_reads_back_every_array_exactly(schedule: Schedule, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    save_schedule(schedule, path)
    again = load_schedule(path, schedule.replay)
    for name in ARRAYS:
        assert np.array_equal(getattr(again, name), getattr(schedule, name)), name
        assert getattr(again, name).dtype == getattr(schedule, name).dtype
    assert again.policy == schedule.policy
    validate(again)


def test_json_keeps_waits_and_awkward_floats(tmp_path: Path) -> None:
    replay = one_workflow([Task("a", 0.1 + 0.2)], Cluster.pooled({"cpu": 1}))
    log = {"decision_time": np.array([0.0, 0.1]), "decision_task": np.array([0, WAIT])}
    schedule = schedule_of(
        replay, [(0, 0, 1, 0, 0.1 + 0.2)], [0], **log, timings_ms=np.array([1e-7, 3.3]), truncated_decisions=2
    )
    save_schedule(schedule, tmp_path / "s.json")
    again = load_schedule(tmp_path / "s.json", replay)
    assert again.decision_task.tolist() == [0, WAIT]
    assert again.finish[0] == 0.1 + 0.2
    assert len(again.timings_ms) == 0  # measured with a clock: they would differ from run to run
    assert "timings" not in (tmp_path / "s.json").read_text()
    assert again.truncated_decisions == 2


def test_a_schedule_without_allocations_reads_back(tmp_path: Path) -> None:
    replay = one_workflow([Task("m", 0, {})], Cluster.pooled({"cpu": 1}))
    whole, real = np.zeros(0, np.int64), np.zeros(0)
    save_schedule(
        Schedule(replay, "x", whole, whole, whole, real, real, real, np.zeros(1), real, whole), tmp_path / "s.json"
    )
    validate(load_schedule(tmp_path / "s.json", replay))
    for name in FORMATS:
        save_schedule(load_schedule(tmp_path / "s.json", replay), tmp_path / name, format=name)


def test_another_replay_is_refused(schedule: Schedule, tmp_path: Path) -> None:
    save_schedule(schedule, tmp_path / "s.json")
    with pytest.raises(FormatError, match="not on this one"):
        load_schedule(tmp_path / "s.json", random_replay(4))


def test_damaged_files_give_one_line(schedule: Schedule, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    save_schedule(schedule, path)
    data = json.loads(path.read_text())
    damaged: list[object] = [[], 3, {}, {**data, "version": 2}, {**data, "allocations": 3}, {**data, "ready": []}]
    damaged += [{k: v for k, v in data.items() if k != key} for key in ("allocations", "decisions", "ready", "policy")]
    damaged += [{**data, "allocations": [["no", "such", "node", 1, 2, 3, 4]]}, {**data, "allocations": [[1]]}]
    damaged += [{**data, "allocations": [[*data["allocations"][0][:3], 10**30, 0, 0, 0]]}]
    for entry in damaged:
        path.write_text(json.dumps(entry))
        with pytest.raises(FormatError) as caught:
            load_schedule(path, schedule.replay)
        assert "\n" not in str(caught.value)
    for content in (b"", b"\xff\xfe", b"{", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(FormatError):
            load_schedule(path, schedule.replay)
    with pytest.raises(FormatError, match="cannot read"):
        load_schedule(tmp_path / "none.json", schedule.replay)


def test_csv_has_one_row_per_allocation_and_milestone(schedule: Schedule, tmp_path: Path) -> None:
    save_schedule(schedule, tmp_path / "s.csv")
    with (tmp_path / "s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(schedule.task) + int(schedule.replay.milestone.sum())
    assert float(rows[5]["finish"]) == schedule.finish[5]
    assert rows[5]["node"] == schedule.replay.cluster.node_names[schedule.node[5]]
    assert rows[-1]["node"] == ""


def test_wfformat_follows_the_published_schema_and_loads_again(tmp_path: Path) -> None:
    import jsonschema

    tasks = [Task("a b/c", 2, {"cpu": 2}), Task("d", 3, parents=("a b/c",), edge_bytes={"a b/c": 1000})]
    replay = one_workflow(tasks, Cluster.pooled({"cpu": 2}))
    schedule = list_schedule(replay)
    document = wfformat(schedule)
    data = Path(__file__).resolve().parents[2] / os.environ.get("DAGSCHED_DATA", "../shared/data")
    schema = data / "wfinstances" / "schema" / "wfcommons-schema-1.5.json"
    if schema.exists():
        jsonschema.validate(document, json.loads(schema.read_text()))
    execution = document["workflow"]["execution"]
    assert execution["makespanInSeconds"] == 5
    assert execution["tasks"][1] == {
        "id": "d",
        "runtimeInSeconds": 3.0,
        "executedAt": "1970-01-01T00:00:02+00:00",
        "coreCount": 1.0,
        "machines": ["pool-0"],
    }
    assert document["workflow"]["specification"]["files"] == [{"id": "a_b_c.to.d", "sizeInBytes": 1000}]
    save_schedule(schedule, tmp_path / "s.wfformat.json")
    from dagsched.formats import load

    (workload,) = load(tmp_path / "s.wfformat.json")
    assert sorted(workload.workflows[0].duration.tolist()) == [2, 3]


def test_ids_of_several_workflows_stay_distinct(schedule: Schedule) -> None:
    tasks = wfformat(schedule)["workflow"]["specification"]["tasks"]
    assert len({t["id"] for t in tasks}) == len(tasks) == len(schedule.replay)
    known = {t["id"] for t in tasks}
    assert all(p in known for t in tasks for p in (*t["parents"], *t["children"]))


def test_trace_events_are_microseconds_with_integer_ids_and_names(schedule: Schedule) -> None:
    events = trace_events(schedule)["traceEvents"]
    tasks = [e for e in events if e.get("cat") == "task"]
    assert len(tasks) == len(schedule.task)
    assert all(type(e["pid"]) is int and type(e["tid"]) is int for e in events)
    assert {e["ts"] for e in tasks} == {round(s * 1e6, 3) for s in schedule.start.tolist()}
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"node a/0", "node a/1", "node b/0", "workflows"}
    spans = {e["name"]: e for e in events if e.get("cat") == "workflow"}
    assert spans["w1"]["ts"] + spans["w1"]["dur"] == pytest.approx(
        1e6 * schedule.workflow_finish[[w.name for w in schedule.replay.workflows].index("w1")]
    )


def test_trace_slices_on_one_thread_never_overlap(schedule: Schedule) -> None:
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in trace_events(schedule)["traceEvents"]:
        if event.get("cat") == "task":
            found.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in found.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-3 for a, b in itertools.pairwise(spans))


def test_waiting_for_data_is_a_slice_inside_the_task(schedule: Schedule) -> None:
    waiting = [e for e in trace_events(schedule)["traceEvents"] if e.get("cat") == "transfer"]
    assert len(waiting) == int((schedule.execution > schedule.start).sum()) > 0


def test_lanes_reuse_the_smallest_free_one() -> None:
    start, finish = np.array([0.0, 0.0, 1.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0, 3.0, 4.0])
    assert lanes(start, finish).tolist() == [0, 1, 0, 1, 2]


def test_the_name_tells_the_format_or_the_caller_does(schedule: Schedule, tmp_path: Path) -> None:
    save_schedule(schedule, tmp_path / "x.trace.json")
    assert "traceEvents" in json.loads((tmp_path / "x.trace.json").read_text())
    save_schedule(schedule, tmp_path / "y.txt", format="csv")
    assert (tmp_path / "y.txt").read_text().startswith("workflow,task,")
    with pytest.raises(ConfigError, match="cannot tell"):
        save_schedule(schedule, tmp_path / "y.txt")
    with pytest.raises(ConfigError, match="unknown schedule format"):
        save_schedule(schedule, tmp_path / "y.txt", format="xml")


def test_atomic_writes_leave_the_old_file_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_atomic(path, "old")
    assert path.read_text() == "old"

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match="No space left"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]
    with pytest.raises(ConfigError):
        write_atomic(path / "below", b"x")
