"""``tpch-batch``: makespan problems of merged TPC-H query DAGs, one JSON object a line.

Every line becomes a workload on one pooled node; every job in it is a workflow named ``job07-10g/q8`` (index,
data size, query). Milliseconds in the file are seconds in the model.
"""

from __future__ import annotations

from typing import Any

from dagsched.cluster import Cluster
from dagsched.declared import BATCH
from dagsched.errors import InvalidWorkflowError
from dagsched.formats.registry import Reader, ReadOptions
from dagsched.formats.source import Source, finite
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload

RESOURCE = "executors"
_LINE_KEYS = ("name", "capacity", "jobs", "tasks")
_TASK_KEYS = ("id", "job", "duration_ms", "demand", "parents")


def _sniff(head: str) -> bool:
    first = head.lstrip().split("\n", 1)[0]
    return first.startswith("{") and '"capacity"' in first and ('"jobs"' in first or '"tasks"' in first)


def read(source: Source, _options: ReadOptions) -> list[Workload]:
    """Read every line; raises :class:`FormatError` for a damaged one (a cut last line is damaged)."""
    workloads: list[Workload] = []
    names: set[str] = set()
    for number, line in enumerate(source.read().split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        record = _object(source, source.parse_json(line, where), where, "the line", _LINE_KEYS)
        workload = _problem(source, where, record)
        if workload.name in names:
            source.refuse(f"{where}: name {workload.name!r} is used twice in this file")
        names.add(workload.name)
        workloads.append(workload)
    if not workloads:
        source.refuse("holds no problems; expected one JSON object a line")
    return workloads


def _object(source: Source, value: Any, where: str, what: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        source.fail(where, what, value, f"an object with {', '.join(keys)}")
    for key in keys:
        if key not in value:
            source.refuse(f"{where}: {what} has no {key!r}; expected {', '.join(keys)}")
    return value


def _problem(source: Source, where: str, record: dict[str, Any]) -> Workload:
    name, capacity, jobs, rows = (record[key] for key in _LINE_KEYS)
    if not isinstance(name, str) or not name:
        source.fail(where, "name", name, "a text that is not empty")
    room = finite(capacity)
    if room is None or room <= 0:
        source.fail(where, "capacity", capacity, "a number > 0")
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, str) for job in jobs):
        source.fail(where, "jobs", jobs, "a list of names such as '10g/q8'")
    if not isinstance(rows, list) or not rows:
        source.fail(where, "tasks", rows, "a list of tasks that is not empty")
    tasks: list[list[Task]] = [[] for _ in jobs]
    owner: dict[int, int] = {}
    for position, row in enumerate(rows):
        place = f"{where}, task {position}"
        job, task = _task(source, place, row, len(jobs))
        if int(task.id) in owner:
            source.refuse(f"{place}: id {task.id} is used twice")
        owner[int(task.id)] = job
        tasks[job].append(task)
    _check_parents(source, where, tasks, owner)
    width = max(2, len(str(len(jobs) - 1)))
    workflows = []
    for job, label in enumerate(jobs):
        if not tasks[job]:
            source.refuse(f"{where}: job {job} ({label!r}) has no tasks; the line is damaged")
        try:
            workflows.append(Workflow.from_tasks(f"job{job:0{width}d}-{label}", tasks[job], resources=(RESOURCE,)))
        except InvalidWorkflowError as error:
            source.refuse(f"{where}: {error}")
    return Workload(
        name=name,
        workflows=tuple(workflows),
        resources=(RESOURCE,),
        cluster=Cluster.pooled({RESOURCE: room}),
        source=f"{source.shown}: {where}",
        declared=BATCH,
    )


def _task(source: Source, where: str, row: Any, jobs: int) -> tuple[int, Task]:
    _object(source, row, where, "the task", _TASK_KEYS)
    identifier, job, milliseconds, demand, parents = (row[key] for key in _TASK_KEYS)
    for key, value, most in (("id", identifier, 10**9), ("job", job, jobs - 1)):
        if type(value) is not int or not 0 <= value <= most:
            source.fail(where, key, value, f"a whole number from 0 to {most}")
    duration, amount = finite(milliseconds), finite(demand)
    if duration is None or duration < 0:
        source.fail(where, "duration_ms", milliseconds, "a number >= 0")
    if amount is None or amount < 0:
        source.fail(where, "demand", demand, "a number >= 0")
    if amount == 0 and duration > 0:
        source.fail(where, "demand", demand, "a number > 0", "a stage that takes time holds at least one executor")
    if not isinstance(parents, list) or not all(type(parent) is int for parent in parents):
        source.fail(where, "parents", parents, "a list of task ids")
    return job, Task(
        str(identifier), duration / 1000, demand={RESOURCE: amount}, parents=tuple(str(parent) for parent in parents)
    )


def _check_parents(source: Source, where: str, tasks: list[list[Task]], owner: dict[int, int]) -> None:
    for job, group in enumerate(tasks):
        for task in group:
            for parent in task.parents:
                if owner.get(int(parent)) != job:
                    source.fail(f"{where}, task id {task.id}", "parent", int(parent), f"the id of a task of job {job}")


READER = Reader(
    "tpch-batch", "batch makespan problems of merged TPC-H query DAGs, one JSON object a line", _sniff, read
)
