"""The reader of ``dagsched-workload`` version 1, the project's own JSON; the writer is ``own_writer.py``.

The file is described by ``dagsched-workload-v1.schema.json``. It is checked by hand here, not against that
schema, because a workflow of 100,000 tasks must load in two seconds and an error must name workflow and task.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from dagsched.cluster import Cluster
from dagsched.errors import InvalidClusterError, InvalidWorkflowError
from dagsched.formats.registry import Reader, ReadOptions
from dagsched.formats.source import Source, finite, shorten, stem
from dagsched.workflow import MAX_INSTANCES, Workflow
from dagsched.workload import Rejects, Workload

FORMAT = "dagsched-workload"
VERSION = 1
DOCUMENT_KEYS = (
    "format",
    "version",
    "name",
    "source",
    "resources",
    "units",
    "cluster",
    "known_makespan",
    "rejects",
    "workflows",
)
WORKFLOW_KEYS = ("name", "arrival", "deadline", "weight", "tenant", "groups", "tasks")
TASK_KEYS = (
    "id",
    "duration",
    "estimate",
    "demand",
    "instances",
    "parents",
    "edge_bytes",
    "category",
    "group_durations",
)
_REJECT_KEYS = ("reason", "count", "example")
_MARK = re.compile(r'"format"\s*:\s*"dagsched-workload"')
_TASK_KEY_SET = frozenset(TASK_KEYS)


def _sniff(head: str) -> bool:
    return head.lstrip().startswith("{") and _MARK.search(head) is not None


def read(source: Source, _options: ReadOptions) -> list[Workload]:
    """Read the one workload of a file; raises :class:`FormatError` naming workflow, task and field."""
    document = source.json()
    if not isinstance(document, dict):
        source.fail("", "the document", document, f"an object with format {FORMAT!r}")
    if document.get("format") != FORMAT:
        source.fail("", "format", document.get("format"), repr(FORMAT))
    if type(document.get("version")) is not int or document["version"] != VERSION:
        source.fail("", "version", document.get("version"), f"{VERSION}", "a newer dagsched may have written it")
    _known_keys(source, "", document, DOCUMENT_KEYS)
    stated = _texts(source, "", document, "resources")
    rows = document.get("workflows")
    if not isinstance(rows, list) or not rows:
        source.fail("", "workflows", rows, "a list of workflows that is not empty")
    resources = stated if stated is not None else _resources_used(rows)
    workflows = tuple(_workflow(source, position, row, resources) for position, row in enumerate(rows))
    known = _number(source, "", document, "known_makespan", None)
    return [
        Workload(
            name=_text(source, "", document, "name", stem(source.path)),
            workflows=workflows,
            resources=tuple(resources),
            units=_units(source, document),
            cluster=_cluster(source, document.get("cluster")),
            source=_text(source, "", document, "source", str(source.path)),
            known_makespan=known,
            rejects=_rejects(source, document),
        )
    ]


def _known_keys(source: Source, where: str, record: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in record:
        if key not in known:
            close = get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
            source.refuse(f"{where + ': ' if where else ''}unknown key {shorten(key)}; {hint}")


def _text(source: Source, where: str, record: Mapping[str, Any], key: str, default: str) -> str:
    value = record.get(key, default)
    if not isinstance(value, str):
        source.fail(where, key, value, "a text")
    return value


def _texts(source: Source, where: str, record: Mapping[str, Any], key: str) -> list[str] | None:
    value = record.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value) or len(set(value)) < len(value):
        source.fail(where, key, value, "a list of distinct names")
    return value


def _number(source: Source, where: str, record: Mapping[str, Any], key: str, default: float | None) -> Any:
    value = record.get(key)
    if value is None:
        return default
    number = finite(value)
    if number is None or number < 0:
        source.fail(where, key, value, "a finite number >= 0")
    return number


def _deadline(source: Source, where: str, row: Mapping[str, Any]) -> float | None:
    value = row.get("deadline")
    if value is not None and finite(value) is None:
        source.fail(where, "deadline", value, "a finite number")
    return finite(value)


def _resources_used(rows: Iterable[Any]) -> list[str]:
    """Names of the demands in order of appearance; malformed records are left for the later checks."""
    used: dict[str, None] = {}
    for row in rows:
        tasks = row.get("tasks") if isinstance(row, dict) else None
        for task in tasks if isinstance(tasks, list) else ():
            demand = task.get("demand") if isinstance(task, dict) else None
            used.update(dict.fromkeys(demand if isinstance(demand, dict) else ("cpu",)))
    return list(used)


def _workflow(source: Source, position: int, row: Any, resources: Sequence[str]) -> Workflow:
    if not isinstance(row, dict):
        source.fail("", f"workflows[{position}]", row, "an object")
    name = row.get("name")
    if not isinstance(name, str) or not name:
        source.fail(f"workflows[{position}]", "name", name, "a text that is not empty")
    where = f"workflow {shorten(name)}"
    _known_keys(source, where, row, WORKFLOW_KEYS)
    tasks = row.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        source.fail(where, "tasks", tasks, "a list of tasks that is not empty")
    try:
        return Workflow(
            name=name,
            **_Columns(source, where, tasks, resources, _texts(source, where, row, "groups")).arrays(),
            resources=tuple(resources),
            arrival=_number(source, where, row, "arrival", 0.0),
            deadline=_deadline(source, where, row),
            weight=_number(source, where, row, "weight", 1.0),
            tenant=_text(source, where, row, "tenant", ""),
        )
    except InvalidWorkflowError as error:
        source.refuse(str(error))


class _Columns:
    """Turns the task records of one workflow into the arrays of :class:`Workflow`, one pass over them."""

    def __init__(
        self, source: Source, where: str, tasks: list[Any], resources: Sequence[str], groups: list[str] | None
    ) -> None:
        self.source, self.where, self.tasks = source, where, tasks
        self.column = {name: column for column, name in enumerate(resources)}
        self.index: dict[str, int] = {}
        self.group = {name: column for column, name in enumerate(groups or self._groups_used())}

    def _groups_used(self) -> dict[str, None]:
        used: dict[str, None] = {}
        for task in self.tasks:
            given = task.get("group_durations") if isinstance(task, dict) else None
            if isinstance(given, dict):
                used.update(dict.fromkeys(given))
        return used

    def arrays(self) -> dict[str, Any]:
        """Keyword arguments of :class:`Workflow`."""
        count = len(self.tasks)
        self._read_ids()
        demand = np.zeros((count, len(self.column)))
        group_duration = np.full((count, len(self.group)), math.nan)
        duration, estimate, instances, pointers = [], [], [], [0]
        parents: list[int] = []
        sizes: list[float] = []
        for row, task in enumerate(self.tasks):
            seconds = self._amount(task, "duration", task.get("duration"))
            told = task.get("estimate")
            duration.append(seconds)
            estimate.append(seconds if told is None else self._amount(task, "estimate", told))
            instances.append(self._instances(task))
            self._fill(task, "demand", demand[row], self.column, {"cpu": 1.0})
            if "group_durations" in task:
                self._fill(task, "group_durations", group_duration[row], self.group, {})
            self._append_parents(task, parents, sizes)
            pointers.append(len(parents))
        return {
            "task_ids": tuple(self.index),
            "duration": np.array(duration, np.float64),
            "estimate": np.array(estimate, np.float64),
            "demand": demand,
            "instances": np.array(instances, np.int64),
            "parent_ptr": np.array(pointers, np.int64),
            "parent_idx": np.array(parents, np.int64),
            "parent_bytes": np.array(sizes, np.float64),
            "category": tuple(self._category(task) for task in self.tasks),
            "group_names": tuple(self.group),
            "group_duration": group_duration,
        }

    def _read_ids(self) -> None:
        for row, task in enumerate(self.tasks):
            if not isinstance(task, dict):
                self.source.fail(self.where, f"tasks[{row}]", task, "an object")
            identifier = task.get("id")
            if not isinstance(identifier, str) or not identifier:
                self.source.fail(f"{self.where}, tasks[{row}]", "id", identifier, "a text that is not empty")
            if not task.keys() <= _TASK_KEY_SET:
                _known_keys(self.source, self._place(task), task, TASK_KEYS)
            if identifier in self.index:
                self.source.refuse(f"{self._place(task)}: the id is used twice; ids must be unique in a workflow")
            self.index[identifier] = row

    def _place(self, task: Mapping[str, Any]) -> str:
        return f"{self.where}, task {shorten(task.get('id'))}"

    def _amount(self, task: Mapping[str, Any], what: str, value: object) -> float:
        if type(value) is float and 0 <= value < math.inf:
            return value
        number = finite(value)
        if number is None or number < 0:
            self.source.fail(self._place(task), what, value, "a finite number >= 0")
        return number

    def _instances(self, task: Mapping[str, Any]) -> int:
        value = task.get("instances", 1)
        if type(value) is not int or not 1 <= value <= MAX_INSTANCES:
            self.source.fail(self._place(task), "instances", value, f"a whole number from 1 to {MAX_INSTANCES}")
        return value

    def _category(self, task: Mapping[str, Any]) -> str | None:
        value = task.get("category")
        if value is not None and not isinstance(value, str):
            self.source.fail(self._place(task), "category", value, "a text")
        return value

    def _fill(
        self, task: Mapping[str, Any], key: str, row: Any, columns: Mapping[str, int], default: Mapping[str, float]
    ) -> None:
        values = task.get(key, default)
        if not isinstance(values, dict):
            self.source.fail(self._place(task), key, values, "an object that maps names to numbers")
        for name, value in values.items():
            if name not in columns:
                self.source.fail(self._place(task), f"a name in {key}", name, f"one of {', '.join(columns)}")
            if type(value) is float and 0 <= value < math.inf:  # the usual case, without wording an error
                row[columns[name]] = value
            else:
                row[columns[name]] = self._amount(task, f"{key} {shorten(name)}", value)

    def _append_parents(self, task: Mapping[str, Any], parents: list[int], sizes: list[float]) -> None:
        names = task.get("parents", ())
        sent = task.get("edge_bytes")
        if not isinstance(names, list | tuple):
            self.source.fail(self._place(task), "parents", names, "a list of task ids")
        for name in names:
            found = self.index.get(name) if isinstance(name, str) else None
            if found is None:
                self.source.fail(self._place(task), "parent", name, "the id of a task of this workflow")
            parents.append(found)
        if sent is None:
            sizes.extend([0.0] * len(names))
            return
        if not isinstance(sent, dict):
            self.source.fail(self._place(task), "edge_bytes", sent, "an object that maps parents to bytes")
        for name in sent:
            if name not in names:
                self.source.fail(self._place(task), "a name in edge_bytes", name, "one of its parents")
        sizes.extend(self._amount(task, f"bytes from {shorten(name)}", sent.get(name, 0.0)) for name in names)


def _units(source: Source, document: Mapping[str, Any]) -> dict[str, str]:
    value = document.get("units", {})
    if not isinstance(value, dict) or not all(isinstance(unit, str) for unit in value.values()):
        source.fail("", "units", value, "an object that maps resources to texts")
    return value


def _cluster(source: Source, value: Any) -> Cluster | None:
    """JSON has no infinity: ``null`` in ``bandwidth`` means that data is there at once."""
    if value is None:
        return None
    if isinstance(value, dict) and "bandwidth" in value:
        given = value["bandwidth"]
        rows = (
            [[_unlimited(v) for v in row] if isinstance(row, list) else row for row in given]
            if isinstance(given, list)
            else _unlimited(given)
        )
        value = {**value, "bandwidth": rows}
    try:
        return Cluster.from_dict(value)
    except InvalidClusterError as error:
        source.refuse(str(error))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        source.refuse(f"cluster: {error}")


def _unlimited(value: Any) -> Any:
    return math.inf if value is None else value


def _rejects(source: Source, document: Mapping[str, Any]) -> tuple[Rejects, ...]:
    rows = document.get("rejects", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        source.fail("", "rejects", rows, "a list of objects")
    for row in rows:
        _known_keys(source, "rejects", row, _REJECT_KEYS)
        if type(row.get("count")) is not int or row["count"] < 0:
            source.fail("rejects", "count", row.get("count"), "a whole number >= 0")
    return tuple(
        Rejects(_text(source, "rejects", row, "reason", ""), row["count"], _text(source, "rejects", row, "example", ""))
        for row in rows
    )


READER = Reader("dagsched", "the project's own JSON, dagsched-workload version 1", _sniff, read)
