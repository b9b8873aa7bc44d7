"""WfCommons WfFormat JSON, versions 1.0 to 1.6: one recorded workflow run a file.

The versions differ in names, nesting and units; each is brought to the same records (:class:`_Record`) first.
Recorded seconds are kept as they are: they are not scaled by the speed of the machine that ran the task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dagsched.declared import BATCH
from dagsched.formats.fields import Fields
from dagsched.formats.registry import Reader, ReadOptions
from dagsched.formats.source import Source, first_repeated, stem
from dagsched.formats.tally import Tally
from dagsched.task import Task
from dagsched.texts import shorten
from dagsched.workflow import Workflow
from dagsched.workload import Workload

RESOURCES = ("cpu", "memory")
UNITS = {"cpu": "cores", "memory": "bytes"}
VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6")
_MARKS = re.compile(r'"(schemaVersion|workflow)"\s*:')
_SCHEMA = re.compile(r'\s*\{\s*"\$schema"')
_NUMBERED = re.compile(r"_(ID)?\d+$")
_KILO = 1000.0
"""Up to 1.3 ``memory`` is in KB; 1.4 states the same values times 1000 in bytes."""

_NO_CORES = "the core count is not above 0 (the schema's least is 1): read as not stated, 1 core"
_TWO_SIZES = "a file has one size where it is written and another where it is read: the writer's counts"


@dataclass
class _Record:
    """One task as every version can state it; files are (name, bytes or ``None`` where unstated)."""

    name: str
    id: str | None
    seconds: float
    cores: float | None
    memory: float
    parents: list[str] | None
    children: list[str] | None
    category: str | None = None
    inputs: dict[str, float | None] = field(default_factory=dict)
    outputs: dict[str, float | None] = field(default_factory=dict)


def _sniff(head: str) -> bool:
    return head.lstrip().startswith("{") and _MARKS.search(head) is not None and not _SCHEMA.match(head)


def read(source: Source, _options: ReadOptions) -> list[Workload]:
    """Read one workflow; raises :class:`FormatError` for anything that cannot be a whole recorded run."""
    document = source.json()
    if not isinstance(document, dict):
        source.fail("", "the document", document, "a WfFormat object")
    version = document.get("schemaVersion")
    if version not in VERSIONS:
        source.fail("", "schemaVersion", version, f"one of {', '.join(VERSIONS)}")
    body = Fields(source).object(document, "workflow", "the document")
    split = version in ("1.5", "1.6")
    records = _split_records(source, body) if split else _joint_records(source, body, str(version))
    ids = [str(record.id) for record in records] if split else _chosen_ids(source, records)
    parents = _parents(source, records, ids, by_id=split)
    tally = Tally()
    cores = [_stated_cores(record, task_id, tally) for record, task_id in zip(records, ids, strict=True)]
    tasks = [
        Task(
            task_id,
            record.seconds,
            demand={"cpu": count, "memory": record.memory},
            parents=tuple(ids[p] for p in row),
            edge_bytes={ids[p]: size for p in row if (size := _bytes(records[p], record, tally)) > 0},
            category=record.category,
        )
        for task_id, record, row, count in zip(ids, records, parents, cores, strict=True)
    ]
    name = stem(source.path)
    workflow = Workflow.from_tasks(name, tasks, resources=RESOURCES)
    return [
        Workload(
            name,
            (workflow,),
            RESOURCES,
            UNITS,
            source=source.shown,
            assumed=tally.assumed(),
            declared=BATCH,
        )
    ]


def _stated_cores(record: _Record, task_id: str, tally: Tally) -> float:
    """Cores of one instance; 0 and less are no count of cores and mean the same as none."""
    if record.cores is None or record.cores > 0:
        return 1.0 if record.cores is None else record.cores
    tally.add(_NO_CORES, f"{record.cores:g} of task {shorten(task_id)}")
    return 1.0


def _joint_records(source: Source, body: Mapping[str, Any], version: str) -> list[_Record]:
    """Versions 1.0 to 1.4: structure and measurements in one record."""
    reading = Fields(source)
    in_bytes = version == "1.4"
    key = "jobs" if "jobs" in body and "tasks" not in body else "tasks"
    records = []
    for position, row in enumerate(reading.objects(body, key, "workflow")):
        where = f"task {row['name']!r}" if isinstance(row.get("name"), str) else f"{key}[{position}]"
        where = shorten_where(where)
        cores = reading.cores(row, "coreCount" if "coreCount" in row else "cores", where)
        memory = reading.amount(row, "memoryInBytes" if in_bytes else "memory", where)
        record = _Record(
            name=reading.text(row, "name", where),
            id=reading.text(row, "id", where) if "id" in row else None,
            seconds=reading.seconds(row, "runtimeInSeconds" if in_bytes else "runtime", where),
            cores=cores,
            memory=(memory or 0.0) * (1.0 if in_bytes else _KILO),
            parents=reading.texts(row, "parents", where),
            children=reading.texts(row, "children", where),
        )
        category = row.get("category")
        record.category = category if isinstance(category, str) and category else _category(record.name)
        if row.get("files"):
            for entry in reading.objects(row, "files", where):
                _add_file(reading, record, entry, where, "sizeInBytes" if in_bytes else "size")
        records.append(record)
    return records


def _add_file(reading: Fields, record: _Record, entry: Mapping[str, Any], where: str, size_key: str) -> None:
    name = reading.text(entry, "name", where)
    path = entry.get("path")
    key = f"{path}{name}" if isinstance(path, str) else name
    link = entry.get("link")
    if link not in ("input", "output"):
        reading.source.fail(where, f"link of file {name!r}", link, "'input' or 'output'")
    files = record.inputs if link == "input" else record.outputs
    _add_size(reading.source, files, key, reading.amount(entry, size_key, where), where)


def _add_size(source: Source, sizes: dict[str, float | None], name: str, size: float | None, where: str) -> None:
    """Note the size of a file; one list must not give a file two sizes."""
    before = sizes.setdefault(name, size)
    if size is not None and before is not None and size != before:
        source.refuse(
            f"{where}: file {shorten(name)} is listed twice, with {before:.17g} and {size:.17g} bytes; "
            f"a file has one size"
        )
    if before is None:
        sizes[name] = size


def _split_records(source: Source, body: Mapping[str, Any]) -> list[_Record]:
    """Versions 1.5 and 1.6: specification and execution, joined by task id."""
    reading = Fields(source)
    specification = reading.object(body, "specification", "workflow")
    if not body.get("execution") or body["execution"] == {"tasks": []}:
        source.refuse(
            "is a WfFormat file without a recorded run (no workflow.execution), and a schedule needs the runtime of "
            "every task; give the file of a run, add workflow.execution.tasks with id and runtimeInSeconds, or write "
            "the workflow as own JSON with durations"
        )
    execution = reading.object(body, "execution", "workflow")
    sizes: dict[str, float | None] = {}
    if specification.get("files"):
        for entry in reading.objects(specification, "files", "specification"):
            name = reading.text(entry, "id", "specification.files")
            size = reading.amount(entry, "sizeInBytes", f"file {shorten(name)}")
            _add_size(source, sizes, name, size, "specification.files")
    runs: dict[str, dict[str, Any]] = {}
    for run in reading.objects(execution, "tasks", "execution"):
        identifier = reading.text(run, "id", "execution.tasks")
        if identifier in runs:
            source.refuse(f"execution.tasks: id {shorten(identifier)} appears twice")
        runs[identifier] = run
    records = []
    for row in reading.objects(specification, "tasks", "specification"):
        identifier = reading.text(row, "id", "specification.tasks")
        where = shorten_where(f"task {identifier!r}")
        if identifier not in runs:
            source.refuse(f"{where}: is specified but has no (or a second) record in execution.tasks")
        run = runs.pop(identifier)
        inputs, outputs = (reading.texts(row, key, where) or [] for key in ("inputFiles", "outputFiles"))
        for file in (*inputs, *outputs):
            if file not in sizes:
                source.refuse(f"{where}: file {shorten(file)} is not listed in specification.files")
        name = reading.text(row, "name", where)
        records.append(
            _Record(
                name=name,
                id=identifier,
                seconds=reading.seconds(run, "runtimeInSeconds", where),
                cores=reading.cores(run, "coreCount", where),
                memory=reading.amount(run, "memoryInBytes", where) or 0.0,
                parents=reading.texts(row, "parents", where),
                children=reading.texts(row, "children", where),
                category=_category(name),
                inputs={file: sizes[file] for file in inputs},
                outputs={file: sizes[file] for file in outputs},
            )
        )
    if runs:
        source.refuse(f"execution.tasks: task {shorten(next(iter(runs)))} is not in specification.tasks")
    return records


def shorten_where(where: str) -> str:
    """A place in the file at a length that keeps the message readable."""
    return where if len(where) <= 80 else f"{where[:77]}..."


def _category(name: str) -> str:
    """The program behind ``blastall_ID000002``."""
    return _NUMBERED.sub("", name) or name


def _chosen_ids(source: Source, records: Sequence[_Record]) -> list[str]:
    """Names where they are unique (the ids of 1.5), else ``name_id`` as 1.5 writes them for Nextflow."""
    names = [record.name for record in records]
    if len(set(names)) == len(names):
        return names
    ids = [f"{record.name}_{record.id}" for record in records]
    if any(record.id is None for record in records) or len(set(ids)) < len(ids):
        repeated = first_repeated(names)
        source.refuse(f"task {shorten(repeated)}: the name is used twice and no unique id tells the tasks apart")
    return ids


def _parents(source: Source, records: Sequence[_Record], ids: Sequence[str], *, by_id: bool) -> list[list[int]]:
    """Indices of each task's parents: from ``parents``, where that is absent from the others' ``children``.

    Where a task lists children they must be those that the parents lists say: a difference is damage.
    """
    resolve = _resolver(source, records, ids, by_id=by_id)
    result: list[list[int]] = []
    for record in records:
        listed = [resolve(record, name, "parent") for name in record.parents or ()]
        if len(set(listed)) != len(listed):
            source.refuse(f"task {shorten(record.name)}: a parent is listed twice")
        result.append(listed)
    stated = {(parent, child) for child, row in enumerate(result) for parent in row}
    listed_children = [{resolve(record, name, "child"): name for name in record.children or ()} for record in records]
    for parent, record in enumerate(records):
        for child, name in listed_children[parent].items():
            if records[child].parents is None and (parent, child) not in stated:
                result[child].append(parent)
                stated.add((parent, child))
            elif (parent, child) not in stated:
                source.refuse(
                    f"task {shorten(record.name)}: lists child {shorten(name)}, which does not list it as a parent; "
                    f"the file is damaged"
                )
    for parent, child in sorted(stated):
        if records[parent].children is not None and child not in listed_children[parent]:
            source.refuse(
                f"task {shorten(records[child].name)}: lists parent {shorten(records[parent].name)}, which does not "
                f"list it as a child; the file is damaged"
            )
    return result


def _resolver(source: Source, records: Sequence[_Record], ids: Sequence[str], *, by_id: bool) -> Any:
    """A function (record, name, role) -> index of the task meant."""
    by_name: dict[str, list[int]] = {}
    if not by_id:
        for index, record in enumerate(records):
            by_name.setdefault(record.name, []).append(index)
    numbers = {str(record.id): index for index, record in enumerate(records) if record.id is not None}
    if by_id and len(numbers) < len(records):
        repeated = first_repeated(ids)
        source.refuse(f"task {shorten(repeated)}: the id is used twice; ids must be unique")

    def resolve(record: _Record, name: str, role: str) -> int:  # noqa: RET503 - refuse raises
        named = by_name.get(name, [])
        if len(named) == 1:
            return named[0]
        if name in numbers:
            return numbers[name]
        problem = "is the name of several tasks" if named else "is not a task of this workflow"
        source.refuse(
            f"task {shorten(record.name)}: {role} {shorten(name)} {problem}; the file is damaged or ambiguous"
        )

    return resolve


def _bytes(parent: _Record, child: _Record, tally: Tally) -> float:
    """Bytes of the files that the parent writes and the child reads, by the parent's sizes where stated."""
    total = 0.0
    for name, size in parent.outputs.items():
        if name in child.inputs:
            received = child.inputs[name]
            total += size if size is not None else (received or 0.0)
            if size is not None and received is not None and received != size:
                tally.add(_TWO_SIZES, f"{size:.17g} and {received:.17g} bytes of {shorten(name)}")
    return total


READER = Reader("wfformat", "WfCommons WfFormat JSON 1.0-1.6, one recorded workflow run", _sniff, read)
