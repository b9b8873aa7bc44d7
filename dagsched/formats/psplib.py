"""PSPLIB ``.sm`` files: resource-constrained project scheduling, one mode, renewable resources.

The file becomes one workflow on one node that pools the four resources. The dummy first and last job stay,
as milestones. Times are integers without a unit; they are kept as seconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dagsched.cluster import Cluster
from dagsched.declared import BATCH
from dagsched.formats.known import known_makespan
from dagsched.formats.registry import Reader, ReadOptions
from dagsched.formats.source import Source, stem, whole
from dagsched.formats.tally import Tally
from dagsched.workflow import Workflow
from dagsched.workload import Workload

MAX_JOBS = 100_000
MAX_RESOURCES = 64
_PROJECT = "PROJECT INFORMATION"
_PROJECT_FIELDS = 6
_DEFAULT_DUE = (
    "the due date is MPM-Time, the length without limits, which the generator writes by default: read as none"
)
_SECTIONS = ("PRECEDENCE RELATIONS", "REQUESTS/DURATIONS", "RESOURCEAVAILABILITIES")
_MAX_BYTES = 32 * 2**20
_HEADER_LINES = 100


def _sniff(head: str) -> bool:
    return head.lstrip().startswith("*") and ("file with basedata" in head or _SECTIONS[0] in head)


@dataclass
class _Table:
    """The numbered rows of one section, with their line numbers; ``closed`` by the line of stars after it."""

    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    closed: bool = False


def read(source: Source, options: ReadOptions) -> list[Workload]:
    """Read one project; raises :class:`FormatError` for several modes, other resources or damage."""
    lines = source.text(_MAX_BYTES).split("\n")
    jobs, resources = _header(source, lines)
    tables = _tables(source, lines)
    successors = _successors(source, tables[_SECTIONS[0]], jobs)
    duration, demand = _requests(source, tables[_SECTIONS[1]], jobs, resources)
    capacity = _capacity(source, tables[_SECTIONS[2]], resources)
    tally = Tally()
    release, due = _dates(source, tables.get(_PROJECT), tally)
    names = tuple(f"R{r + 1}" for r in range(resources))
    parents: list[list[int]] = [[] for _ in range(jobs)]
    for job, following in enumerate(successors):
        for child in following:
            parents[child].append(job)
    seconds = np.array(duration, np.float64)
    name = stem(source.path)
    workflow = Workflow(
        name=name,
        task_ids=tuple(str(job + 1) for job in range(jobs)),
        resources=names,
        duration=seconds,
        estimate=seconds,
        demand=np.array(demand, np.float64).reshape(jobs, resources),
        instances=np.ones(jobs, np.int64),
        parent_ptr=np.concatenate([[0], np.cumsum([len(p) for p in parents])]),
        parent_idx=np.array([p for row in parents for p in row], np.int64),
        parent_bytes=np.zeros(sum(len(p) for p in parents)),
        arrival=release,
        deadline=due,
    )
    known = known_makespan(source.path, options.known)
    return [
        Workload(
            name=name,
            workflows=(workflow,),
            resources=names,
            cluster=Cluster.pooled(dict(zip(names, map(float, capacity), strict=True))),
            source=source.shown,
            known_makespan=None if known is None else known.value,
            assumed=tally.assumed(),
            declared=BATCH,
        )
    ]


def _header(source: Source, lines: Sequence[str]) -> tuple[int, int]:
    """Number of jobs (dummies included) and of renewable resources."""
    jobs = _labelled(source, lines, r"jobs\s*\(incl\. supersource/sink\s*\)", 1, MAX_JOBS)
    resources = _labelled(source, lines, r"-\s*renewable", 1, MAX_RESOURCES)
    for label in (r"-\s*nonrenewable", r"-\s*doubly constrained"):
        _labelled(source, lines, label, 0, 0, "only renewable resources (single-mode .sm files) can be read")
    _labelled(source, lines, r"projects", 1, 1, "give files of one project")
    return jobs, resources


def _labelled(source: Source, lines: Sequence[str], label: str, least: int, most: int, hint: str = "") -> int:  # noqa: RET503
    pattern = re.compile(rf"\s*{label}\s*:\s*(\S+)", re.IGNORECASE)
    plain = label.replace("\\s*", " ").replace("\\", "").strip()
    for number, line in enumerate(lines[:_HEADER_LINES], 1):
        match = pattern.match(line)
        if match:
            value = whole(match[1])
            if value is None or not least <= value <= most:
                allowed = str(least) if least == most else f"a whole number from {least} to {most}"
                source.fail(f"line {number}", repr(plain), match[1], allowed, hint)
            return value
    source.refuse(f"header line {plain!r} is missing, so this is not a whole PSPLIB file; fetch it again")


def _tables(source: Source, lines: Sequence[str]) -> dict[str, _Table]:
    """The rows of each section; every section ends with the same line of stars that opens the file."""
    rule = next((line.strip() for line in lines if line.strip()), "")
    tables: dict[str, _Table] = {}
    current: _Table | None = None
    for number, line in enumerate(lines, 1):
        title = line.strip().rstrip(":").strip()
        if title in (*_SECTIONS, _PROJECT):
            if title in tables:
                source.refuse(f"line {number}: section {title} appears twice")
            current = tables[title] = _Table()
        elif current is not None and line.strip() == rule:
            current.closed, current = True, None
        elif current is not None and line.strip() and not line.lstrip().startswith(("-", "jobnr", "pronr", "R ")):
            current.rows.append((number, line.split()))
    for title in _SECTIONS:
        if title not in tables:
            source.refuse(f"section {title} is missing: the file is cut off; fetch it again")
    for title, table in tables.items():
        if not table.closed:
            source.refuse(f"section {title} does not end with a line of stars: the file is cut off; fetch it again")
    return tables


def _dates(source: Source, table: _Table | None, tally: Tally) -> tuple[float, float | None]:
    """Release date and due date of the project, seconds; a file without the section states neither.

    The published sets give every project the release date 0 and, as its due date, the length of its longest path
    without resource limits: what the generator writes where no due date was asked for, and what hardly any schedule
    meets. Such a due date is no deadline; it is counted as read by a rule.
    """
    if table is None:
        return 0.0, None
    if len(table.rows) != 1:
        source.refuse(
            f"{_PROJECT} has {len(table.rows)} rows, expected the dates of 1 project; give files of one project each"
        )
    line, tokens = table.rows[0]
    values = _numbers(source, line, tokens, _PROJECT)
    if len(values) != _PROJECT_FIELDS:
        expected = f"{_PROJECT_FIELDS} (pronr. #jobs rel.date duedate tardcost MPM-Time)"
        source.fail(f"line {line}", f"number of fields of {_PROJECT}", len(values), expected)
    _, _, release, due, _, longest = values
    if release == 0 and due == longest:
        if due:
            tally.add(_DEFAULT_DUE, f"due date {due}")
        return 0.0, None
    if due and due < release:
        source.fail(f"line {line}", "duedate", due, f"at least the release date {release}, or 0 for none")
    return float(release), float(due) if due else None


def _numbers(source: Source, line: int, tokens: Sequence[str], section: str) -> list[int]:
    values = []
    for token in tokens:
        value = whole(token)
        if value is None or value < 0:
            source.fail(f"line {line}", f"a field of {section}", token, "a whole number >= 0")
        values.append(value)
    return values


def _job_rows(source: Source, table: _Table, section: str, jobs: int) -> list[tuple[int, list[int]]]:
    if len(table.rows) != jobs:
        source.refuse(f"{section} has {len(table.rows)} rows, expected one for each of {jobs} jobs")
    rows = []
    for job, (line, tokens) in enumerate(table.rows, 1):
        values = _numbers(source, line, tokens, section)
        if values[0] != job:
            source.fail(f"line {line}", "job number", values[0], str(job), "jobs must be numbered in order")
        rows.append((line, values))
    return rows


def _successors(source: Source, table: _Table, jobs: int) -> list[list[int]]:
    """Zero-based successors of each job."""
    result = []
    for line, values in _job_rows(source, table, _SECTIONS[0], jobs):
        if len(values) < 3 or len(values) != 3 + values[2]:
            stated = values[2] if len(values) > 2 else "none"
            source.fail(f"line {line}", "number of successors listed", max(0, len(values) - 3), f"{stated}, as stated")
        if values[1] != 1:
            source.fail(f"line {line}", "number of modes", values[1], "1", "multi-mode projects are not read")
        following = [value - 1 for value in values[3:]]
        for child in following:
            if not 0 <= child < jobs:
                source.fail(f"line {line}", "successor", child + 1, f"a job from 1 to {jobs}")
        if len(set(following)) != len(following):
            source.refuse(f"line {line}: a successor of job {values[0]} is listed twice")
        result.append(following)
    return result


def _requests(source: Source, table: _Table, jobs: int, resources: int) -> tuple[list[int], list[list[int]]]:
    duration, demand = [], []
    for line, values in _job_rows(source, table, _SECTIONS[1], jobs):
        if len(values) != 3 + resources:
            source.fail(f"line {line}", "number of fields", len(values), f"{3 + resources} (job, mode, duration, R)")
        if values[1] != 1:
            source.fail(f"line {line}", "mode", values[1], "1", "multi-mode projects are not read")
        duration.append(values[2])
        demand.append(values[3:])
    return duration, demand


def _capacity(source: Source, table: _Table, resources: int) -> list[int]:
    if len(table.rows) != 1:
        source.refuse(f"{_SECTIONS[2]} has {len(table.rows)} rows of numbers, expected 1")
    line, tokens = table.rows[0]
    capacity = _numbers(source, line, tokens, _SECTIONS[2])
    if len(capacity) != resources:
        source.fail(f"line {line}", "number of capacities", len(capacity), f"{resources}, one for each resource")
    return capacity


READER = Reader("psplib", "PSPLIB .sm projects (single mode, renewable resources)", _sniff, read)
