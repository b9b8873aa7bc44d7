"""The reader of ``dagsched-workload`` version 1, the project's own JSON; the writer is ``own_writer.py``.

The file is described by ``dagsched-workload-v1.schema.json``. It is checked by hand here, not against that
schema, because a workflow of 100,000 tasks must load in two seconds and an error must name workflow and task.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dagsched.cluster import Cluster
from dagsched.declared import Declared, NoiseModel
from dagsched.errors import ConfigError, InvalidClusterError, InvalidWorkflowError
from dagsched.formats.own_columns import Columns, few, known_keys
from dagsched.formats.registry import Reader, ReadOptions
from dagsched.formats.source import Source, finite, stem
from dagsched.texts import shorten
from dagsched.workflow import Workflow
from dagsched.workload import Assumption, Rejects, Workload

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
    "closed",
    "objective",
    "noise",
    "all_have_deadlines",
    "rejects",
    "assumed",
    "workflows",
)
WORKFLOW_KEYS = ("name", "arrival", "deadline", "weight", "tenant", "groups", "tasks")
_REJECT_KEYS = ("reason", "count", "example")
_ASSUMED_KEYS = ("rule", "count", "example")
_MARK = re.compile(r'"format"\s*:\s*"dagsched-workload"')


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
    known_keys(source, "", document, DOCUMENT_KEYS)
    stated = _texts(source, "", document, "resources")
    rows = document.get("workflows")
    if not isinstance(rows, list) or not rows:
        source.fail("", "workflows", rows, "a list of workflows that is not empty")
    resources = stated if stated is not None else few(source, "", "resources", list(_resources_used(rows)))
    workflows = tuple(_workflow(source, position, row, resources) for position, row in enumerate(rows))
    known = _number(source, "", document, "known_makespan", None)
    try:
        workload = Workload(
            name=_text(source, "", document, "name", stem(source.path)),
            workflows=workflows,
            resources=tuple(resources),
            units=_units(source, document),
            cluster=_cluster(source, document.get("cluster")),
            source=_text(source, "", document, "source", source.shown),
            known_makespan=known,
            rejects=tuple(Rejects(*row) for row in _counted(source, document, "rejects", _REJECT_KEYS)),
            assumed=tuple(Assumption(*row) for row in _counted(source, document, "assumed", _ASSUMED_KEYS)),
            declared=_declared(source, document),
        )
    except InvalidWorkflowError as error:
        source.refuse(str(error))
    return [workload]


def _declared(source: Source, document: Mapping[str, Any]) -> Declared:
    """``noise`` is ``"exact"``, ``"unknown"`` or ``{"lognormal": SIGMA}``."""
    noise = document.get("noise")
    drawn = isinstance(noise, dict) and list(noise) == ["lognormal"]
    kind: Any = "lognormal" if drawn else noise
    sigma = finite(noise["lognormal"]) if isinstance(noise, dict) and drawn else 0.0
    if noise is not None and (not isinstance(kind, str) or sigma is None):
        source.fail("", "noise", noise, 'exact, unknown or an object {"lognormal": SIGMA}')
    try:
        return Declared(
            closed=document.get("closed"),
            objective=document.get("objective"),
            noise=None if noise is None else NoiseModel(kind, sigma or 0.0),
            all_have_deadlines=document.get("all_have_deadlines", False),
        )
    except ConfigError as error:
        source.refuse(str(error))


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
    return few(source, where, key, value)


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


def _resources_used(rows: Iterable[Any]) -> dict[str, None]:
    """Names of the demands in order of appearance; malformed records are left for the later checks."""
    used: dict[str, None] = {}
    for row in rows:
        tasks = row.get("tasks") if isinstance(row, dict) else None
        for task in tasks if isinstance(tasks, list) else ():
            demand = task.get("demand") if isinstance(task, dict) else None
            used.update(dict.fromkeys(demand if isinstance(demand, dict) else ("cpu",)))
    return used


def _workflow(source: Source, position: int, row: Any, resources: Sequence[str]) -> Workflow:
    if not isinstance(row, dict):
        source.fail("", f"workflows[{position}]", row, "an object")
    name = row.get("name")
    if not isinstance(name, str) or not name:
        source.fail(f"workflows[{position}]", "name", name, "a text that is not empty")
    where = f"workflow {shorten(name)}"
    known_keys(source, where, row, WORKFLOW_KEYS)
    tasks = row.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        source.fail(where, "tasks", tasks, "a list of tasks that is not empty")
    try:
        return Workflow(
            name=name,
            **Columns(source, where, tasks, resources, _texts(source, where, row, "groups")).arrays(),
            resources=tuple(resources),
            arrival=_number(source, where, row, "arrival", 0.0),
            deadline=_deadline(source, where, row),
            weight=_number(source, where, row, "weight", 1.0),
            tenant=_text(source, where, row, "tenant", ""),
            states_arrival=row.get("arrival") is not None,
            states_estimates=any(task.get("estimate") is not None for task in tasks),
        )
    except InvalidWorkflowError as error:
        source.refuse(str(error))


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


def _counted(
    source: Source, document: Mapping[str, Any], key: str, keys: tuple[str, str, str]
) -> list[tuple[str, int, str]]:
    """(text, count, example) of what was left out (``rejects``) or read by a rule (``assumed``)."""
    rows = document.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        source.fail("", key, rows, "a list of objects")
    found = []
    for row in rows:
        known_keys(source, key, row, keys)
        if type(row.get("count")) is not int or row["count"] < 0:
            source.fail(key, "count", row.get("count"), "a whole number >= 0")
        found.append((_text(source, key, row, keys[0], ""), row["count"], _text(source, key, row, "example", "")))
    return found


READER = Reader("dagsched", "the project's own JSON, dagsched-workload version 1", _sniff, read)
