"""Alibaba cluster trace 2018, ``batch_task.csv``: one workload of many jobs, each a DAG of tasks.

The dependencies are in the task names (``J5_3_4`` is task 5 after 3 and 4). The trace's start and end times are
not execution times (most children start before their parents end), so measured durations from a companion
``<stem>_measured.csv`` are preferred. A job that cannot be used is left out whole and counted by reason.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dagsched.cluster import default_cluster
from dagsched.declared import TRACE
from dagsched.errors import InvalidWorkflowError
from dagsched.formats.registry import Reader, ReadOptions, ReadProgress
from dagsched.formats.source import Source, decode, stem, whole
from dagsched.formats.tally import Tally
from dagsched.task import Task
from dagsched.texts import shorten
from dagsched.workflow import MAX_INSTANCES, Workflow
from dagsched.workload import Workload

RESOURCES = ("cpu", "memory")
UNITS = {"cpu": "cores", "memory": "% of a machine"}
COLUMNS = (
    "task_name",
    "instance_num",
    "job_name",
    "task_type",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
)
_CORE = 100.0
"""``plan_cpu`` of one core."""

_NAME_WIDTH = 50
"""The trace cuts task names at so many characters: a name that fills them may have lost its last parents."""

_CUT = f"a task name fills the {_NAME_WIDTH} characters at which the trace cuts names: parents may be missing"
_DAG_LIKE = re.compile(r"[A-Za-z]+\d[\d_]*(Stg?\d*|S)?")
_DAG_NAME = re.compile(r"[A-Za-z]+(\d{1,9})((?:_\d{1,9})*)(?:_Stg\d+)?")
_BROKEN_DAG_NAME = re.compile(r"[A-Za-z]\d")
_DECIMAL = re.compile(r"[+-]?\d{1,18}(\.\d{1,18})?([eE][+-]?\d{1,2})?")
_STATUS = re.compile(r"[A-Za-z]{1,40}")


class _Row(NamedTuple):
    """One task of the trace; ``None`` where the field is empty."""

    line: int
    name: str
    instances: int | None
    status: str
    start: int | None
    end: int | None
    cpu: float | None
    memory: float | None


class _UnusableJobError(Exception):
    """Why a job cannot be used: reason, then line, field and value for ``strict``."""

    def __init__(self, reason: str, row: _Row, field: str, found: object) -> None:
        super().__init__(reason)
        self.reason, self.row, self.field, self.found = reason, row, field, found


def _sniff(head: str) -> bool:
    first = head.split("\n", 1)[0].rstrip("\r").split(",")
    if tuple(first) == COLUMNS:
        return True
    numbers = (first[1], first[5], first[6]) if len(first) == len(COLUMNS) else ()
    return (
        len(numbers) == 3 and bool(_STATUS.fullmatch(first[4])) and all(not n or whole(n) is not None for n in numbers)
    )


def read(source: Source, options: ReadOptions) -> list[Workload]:
    """Read a trace; raises :class:`FormatError` for damage, or in strict mode for the first unusable job."""
    jobs = _jobs(source, options.progress)
    measured = _measured(source.path)
    if measured is not None:
        listed = {(job, row.name) for job, rows in jobs.items() for row in rows}
        extra = next((key for key in measured[1] if key not in listed), None)
        if extra is not None:
            source.refuse(
                f"has no row for task {shorten(extra[1])} of job {shorten(extra[0])}, which {measured[0].name} lists; "
                f"the trace is cut off or the two files do not belong together"
            )
    seconds = {} if measured is None else measured[1]
    workflows: list[Workflow] = []
    rejected, assumed = Tally(), Tally()
    for job, rows in jobs.items():
        try:
            workflows.append(_workflow(job, rows, seconds))
            for row in rows:
                if not row.cpu:
                    assumed.add(
                        f"plan_cpu is {'empty' if row.cpu is None else 0}: read as one core", f"line {row.line}"
                    )
        except _UnusableJobError as error:
            example = f"job {job}, line {error.row.line}"
            if options.strict:
                source.fail(
                    f"line {error.row.line}: job {job}, task {error.row.name}",
                    error.field,
                    error.found,
                    f"something usable ({error.reason})",
                    "without strict such jobs are left out and counted",
                )
            rejected.add(error.reason, example)
    rejects = rejected.rejects()
    if not workflows:
        why = "; ".join(f"{r.count} because {r.reason}" for r in rejects)
        source.refuse(f"holds no usable job: {why}")
    first_arrival = min(workflow.arrival for workflow in workflows)
    return [
        Workload(
            name=stem(source.path),
            workflows=tuple(w.with_(arrival=w.arrival - first_arrival) for w in workflows),
            resources=RESOURCES,
            units=UNITS,
            cluster=default_cluster("alibaba"),
            source=source.shown,
            rejects=rejects,
            assumed=assumed.assumed(),
            declared=TRACE,
        )
    ]


def _jobs(source: Source, progress: ReadProgress | None) -> dict[str, list[_Row]]:
    """Rows by job, in order of first appearance; a job's rows need not be together."""
    jobs: dict[str, list[_Row]] = {}
    for line, fields in _records(source, len(COLUMNS), progress):
        if line == 1 and tuple(fields) == COLUMNS:
            continue
        name, instances, job, _, status, start, end, cpu, memory = fields
        if not name or not job:
            source.refuse(f"line {line}: {'task_name' if not name else 'job_name'} is empty, expected a name")
        if not _STATUS.fullmatch(status):
            source.fail(f"line {line}", "status", status, "a word such as Terminated")
        row = _Row(
            line,
            name,
            _integer(source, line, "instance_num", instances),
            status,
            _integer(source, line, "start_time", start),
            _integer(source, line, "end_time", end),
            _decimal(source, line, "plan_cpu", cpu),
            _decimal(source, line, "plan_mem", memory),
        )
        jobs.setdefault(job, []).append(row)
    if not jobs:
        source.refuse("holds no rows")
    return jobs


def _records(source: Source, columns: int, progress: ReadProgress | None = None) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of a CSV file whose every line has ``columns`` fields and an end."""
    blank = False
    for number, data, ended in source.lines(progress):
        if blank:
            source.refuse(f"line {number - 1}: is empty; the file is damaged")
        if not data:
            blank = True  # harmless at the very end
            continue
        line = decode(data)
        try:
            fields = next(csv.reader([line], strict=True)) if '"' in line else line.split(",")
        except (csv.Error, StopIteration) as error:
            source.refuse(f"line {number}: is not a row of a CSV table: {error}")
        if len(fields) != columns:
            source.fail(
                f"line {number}", "number of fields", len(fields), f"{columns}", "the file is damaged or cut off"
            )
        if not ended:
            source.refuse(
                f"line {number}: the last line has no end: the file is cut off; if it is whole, add a line end"
            )
        yield number, fields


def _integer(source: Source, line: int, field: str, text: str) -> int | None:
    value = whole(text) if text else None
    if text and value is None:
        source.fail(f"line {line}", field, text, "a whole number or nothing")
    return value


def _decimal(source: Source, line: int, field: str, text: str) -> float | None:
    if text and not _DECIMAL.fullmatch(text):
        source.fail(f"line {line}", field, text, "a number or nothing")
    return float(text) if text else None


def _measured(trace: Path) -> tuple[Path, dict[tuple[str, str], float]] | None:
    """Mean seconds an instance ran, by job and task, from the companion file if there is one."""
    names = (f"{stem(trace)}_measured.csv", f"{stem(trace)}_measured.csv.gz")
    path = next((trace.parent / name for name in names if (trace.parent / name).is_file()), None)
    if path is None:
        return None
    source = Source(path)
    header = decode(next((data for _, data, _ in source.lines()), b"")).split(",")
    needed = ("job_name", "task_name", "mean_instance_seconds")
    for name in needed:
        if name not in header:
            source.fail("line 1", "header", ",".join(header), f"columns {', '.join(needed)}")
    job, task, seconds = (header.index(name) for name in needed)
    result: dict[tuple[str, str], float] = {}
    for line, fields in _records(source, len(header)):
        if line == 1:
            continue
        value = _decimal(source, line, "mean_instance_seconds", fields[seconds])
        if value is not None and value < 0:
            source.fail(f"line {line}", "mean_instance_seconds", value, "a number >= 0")
        key = (fields[job], fields[task])
        if value is not None and result.setdefault(key, value) != value:
            source.refuse(
                f"line {line}: task {shorten(key[1])} of job {shorten(key[0])} is listed twice, with "
                f"{result[key]:.17g} and {value:.17g} seconds; the file is damaged"
            )
    return path, result


def _workflow(job: str, rows: list[_Row], measured: dict[tuple[str, str], float]) -> Workflow:
    """The workflow of one job; its arrival is still in the trace's clock."""
    for row in rows:
        if row.status != "Terminated":
            raise _UnusableJobError(f"a task's status is {row.status}, not Terminated", row, "status", row.status)
    number_of = _numbers(rows)
    tasks = [_task(job, row, number_of, measured) for row in rows]
    arrival = min(float(row.start or 0) for row in rows)
    try:
        return Workflow.from_tasks(job, tasks, resources=RESOURCES, arrival=arrival)
    except InvalidWorkflowError:
        raise _UnusableJobError("its dependencies form a cycle", rows[0], "task_name", rows[0].name) from None


def _numbers(rows: list[_Row]) -> dict[int, str]:
    """Task name by the number it bears in the DAG."""
    numbers: dict[int, str] = {}
    names: set[str] = set()
    for row in rows:
        match = _DAG_NAME.fullmatch(row.name)
        if len(row.name) == _NAME_WIDTH and _DAG_LIKE.fullmatch(row.name):
            raise _UnusableJobError(_CUT, row, "task_name", row.name)
        if row.name in names or (match and int(match[1]) in numbers):
            raise _UnusableJobError("two tasks have the same number or name", row, "task_name", row.name)
        names.add(row.name)
        if match:
            numbers[int(match[1])] = row.name
        elif _BROKEN_DAG_NAME.match(row.name):
            raise _UnusableJobError("a task name is not of the form J5_3_4", row, "task_name", row.name)
    return numbers


def _task(job: str, row: _Row, number_of: dict[int, str], measured: dict[tuple[str, str], float]) -> Task:
    match = _DAG_NAME.fullmatch(row.name)
    parents = dict.fromkeys(int(n) for n in match[2].split("_") if n) if match else {}
    for parent in parents:
        if parent not in number_of:
            raise _UnusableJobError("a parent is missing from the trace", row, "task_name", row.name)
    if row.instances is None or not 1 <= row.instances <= MAX_INSTANCES:
        raise _UnusableJobError("instance_num is not a positive number", row, "instance_num", row.instances)
    if row.start is None or row.start <= 0:
        raise _UnusableJobError("start_time is missing", row, "start_time", row.start)
    seconds = measured.get((job, row.name))
    if seconds is None:
        if row.end is None or row.end < row.start:
            raise _UnusableJobError("end_time is before start_time", row, "end_time", row.end)
        seconds = float(row.end - row.start)
    cpu = row.cpu / _CORE if row.cpu else 1.0
    memory = 0.0 if row.memory is None else row.memory
    for field, value in (("plan_cpu", cpu), ("plan_mem", memory)):
        if value < 0:
            raise _UnusableJobError(f"{field} is negative", row, field, value)
    return Task(
        row.name,
        seconds,
        demand={"cpu": cpu, "memory": memory},
        parents=tuple(number_of[parent] for parent in parents),
        instances=row.instances,
        category=match[0][0] if match else None,
    )


READER = Reader("alibaba-2018", "Alibaba cluster trace 2018, batch_task.csv (a stream of jobs)", _sniff, read)
