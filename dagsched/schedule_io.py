"""Saves schedules: JSON (all but timings; read back given the replay), CSV, WfFormat and Chrome trace events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dagsched.checks import as_path, check_type
from dagsched.errors import ConfigError, FormatError
from dagsched.files import write_atomic
from dagsched.replay import Replay
from dagsched.schedule import WAIT, Schedule
from dagsched.schedule_export import trace_events, wfformat
from dagsched.texts import csv_table, csv_text

FORMAT, VERSION = "dagsched-schedule", 1
FORMATS = ("json", "csv", "wfformat", "trace")
"""What :func:`save_schedule` writes; by suffix ``.json``, ``.csv``, ``.wfformat.json`` and ``.trace.json``."""

CSV_COLUMNS = ("workflow", "task", "node", "count", "ready", "start", "execution", "finish")


def save_schedule(schedule: Schedule, path: str | Path, *, format: str | None = None) -> None:  # noqa: A002
    """Write a schedule; the file appears only when complete.

    Args:
        schedule: what to write.
        path: the output file.
        format: one of :data:`FORMATS`; by default the suffix decides.

    Raises:
        ConfigError: for an unknown format or suffix, or a path that cannot be written.
    """
    check_type(schedule, Schedule, "schedule")
    path = as_path(path)
    write_atomic(path, _WRITERS[schedule_format(path, format)](schedule))


def schedule_format(path: Path, format: str | None = None) -> str:  # noqa: A002
    """The one of :data:`FORMATS` that is given or, by default, that the suffix of the path tells.

    Raises:
        ConfigError: for an unknown format or suffix.
    """
    chosen = format or _format_of(path)
    if chosen not in _WRITERS:
        raise ConfigError(f"{path}: unknown schedule format {chosen!r}, expected one of {', '.join(FORMATS)}")
    return chosen


def load_schedule(path: str | Path, replay: Replay) -> Schedule:
    """Read a JSON schedule back, for the same replay it was made on.

    The schedule is not validated; :func:`dagsched.validate` does that.

    Raises:
        FormatError: if the file cannot be read, is no schedule, or belongs to another replay.
    """
    path = as_path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FormatError(f"{path}: cannot read the schedule: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FormatError(f"{path}: not a schedule: key 'format' must be {FORMAT!r}")
    if data.get("version") != VERSION:
        raise FormatError(f"{path}: version is {data.get('version')!r}, expected {VERSION}; use a matching dagsched")
    if data.get("replay_digest") != replay.digest:
        raise FormatError(
            f"{path}: made on replay {str(data.get('replay_digest'))[:12]}, not on this one ({replay.digest[:12]}); "
            f"give the same workload, cluster, seed and options"
        )
    try:
        return _from_json(data, replay)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise FormatError(f"{path}: damaged schedule: {type(error).__name__} {error}") from None


def schedule_json(schedule: Schedule) -> str:
    """The JSON text: one allocation or decision a line, numbers in the shortest form that reads back the same.

    What was measured with a clock (``timings_ms``) is left out, so that the same run gives the same bytes.
    """
    replay = schedule.replay
    nodes = replay.cluster.node_names
    names = [replay.task_name(task) for task in range(len(replay))]
    columns = (schedule.task, schedule.node, schedule.count, schedule.start, schedule.execution, schedule.finish)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    decisions = (schedule.decision_time, schedule.decision_task, schedule.decision_node, schedule.decision_count)
    parts: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "replay_digest": replay.digest,
        "workload": replay.workload.name,
        "cluster": replay.cluster.name,
        "policy": schedule.policy,
        "makespan": schedule.makespan,
        "truncated_decisions": schedule.truncated_decisions,
    }
    lists: dict[str, list[Any]] = {
        "allocation_columns": ["workflow", "task", "node", "count", "start", "execution", "finish"],
        "allocations": [[*names[t], nodes[n], c, s, e, f] for t, n, c, s, e, f in rows],
        "ready_columns": ["workflow", "task", "ready"],
        "ready": [[*name, moment] for name, moment in zip(names, schedule.ready.tolist(), strict=True)],
        "decision_columns": ["time", "workflow", "task", "node", "count"],
        "decisions": [
            [moment, *(names[task] if task != WAIT else (None, None)), nodes[node] if node >= 0 else None, count]
            for moment, task, node, count in zip(*(column.tolist() for column in decisions), strict=True)
        ],
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in parts.items()]
    for key, entries in lists.items():
        inner = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
        lines.append(f" {json.dumps(key)}: {f'[{chr(10)}{inner}{chr(10)} ]' if entries else '[]'}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def schedule_csv(schedule: Schedule) -> str:
    """One allocation a row, times in seconds; milestones (which run nowhere) follow with an empty node.

    Names that a spreadsheet would take for formulas get an apostrophe in front (:func:`dagsched.texts.csv_text`).
    """
    replay = schedule.replay
    nodes = replay.cluster.node_names
    rows: list[Iterable[str]] = [CSV_COLUMNS]
    columns = (schedule.task, schedule.node, schedule.count, schedule.start, schedule.execution, schedule.finish)
    for task, node, count, start, execution, finish in zip(*(c.tolist() for c in columns), strict=True):
        ready = float(schedule.ready[task])
        names = map(csv_text, (*replay.task_name(task), nodes[node]))
        rows.append((*names, str(count), *map(repr, (ready, start, execution, finish))))
    rows.extend(
        (*map(csv_text, replay.task_name(task)), "", "", *[repr(float(schedule.ready[task]))] * 4)
        for task in np.flatnonzero(replay.milestone).tolist()
    )
    return csv_table(rows)


def _from_json(data: Mapping[str, Any], replay: Replay) -> Schedule:
    task_of = {replay.task_name(task): task for task in range(len(replay))}
    node_of = {name: node for node, name in enumerate(replay.cluster.node_names)}
    rows = data["allocations"]
    floats = np.array([row[4:7] for row in rows], np.float64).reshape(len(rows), 3)
    decisions = [
        (*row, None, 0)[:5] if len(row) == 3 else row for row in data["decisions"]
    ]  # earlier files have 3 columns
    if len(data["ready"]) != len(replay):
        raise ValueError(f"ready times of {len(data['ready'])} tasks, expected {len(replay)}")
    ready = np.full(len(replay), np.nan)
    for workflow, task_id, moment in data["ready"]:
        ready[task_of[workflow, task_id]] = moment
    return Schedule(
        replay=replay,
        policy=str(data["policy"]),
        task=np.array([task_of[row[0], row[1]] for row in rows], np.int64),
        node=np.array([node_of[row[2]] for row in rows], np.int64),
        count=np.array([row[3] for row in rows], np.int64),
        start=floats[:, 0].copy(),
        execution=floats[:, 1].copy(),
        finish=floats[:, 2].copy(),
        ready=ready,
        decision_time=np.array([row[0] for row in decisions], np.float64),
        decision_task=np.array([WAIT if row[2] is None else task_of[row[1], row[2]] for row in decisions], np.int64),
        decision_node=np.array([-1 if row[3] is None else node_of[row[3]] for row in decisions], np.int64),
        decision_count=np.array([row[4] for row in decisions], np.int64),
        truncated_decisions=int(data["truncated_decisions"]),
    )


def _format_of(path: Path) -> str:
    name = path.name.lower()
    for ending, chosen in (
        (".wfformat.json", "wfformat"),
        (".trace.json", "trace"),
        (".json", "json"),
        (".csv", "csv"),
    ):
        if name.endswith(ending):
            return chosen
    raise ConfigError(
        f"{path}: cannot tell the schedule format from the name; end it in .json, .csv, .wfformat.json or .trace.json"
    )


def _as_json(build: Callable[[Schedule], Any]) -> Callable[[Schedule], str]:
    return lambda schedule: json.dumps(build(schedule), indent=1) + "\n"


_WRITERS: Mapping[str, Callable[[Schedule], str]] = {
    "json": schedule_json,
    "csv": schedule_csv,
    "wfformat": _as_json(wfformat),
    "trace": _as_json(trace_events),
}
