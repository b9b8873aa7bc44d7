"""Standard Task Graph Set: tasks of unit demand on identical processors, no communication.

The number of processors is not in the file; it becomes a cluster of that many one-core nodes. The dummy first
and last task are milestones; other tasks of zero time keep their core.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dagsched.cluster import Cluster, NodeGroup
from dagsched.declared import BATCH
from dagsched.formats.known import known_makespan
from dagsched.formats.registry import Reader, ReadOptions
from dagsched.formats.source import Source, stem, whole
from dagsched.task import Task
from dagsched.texts import shorten
from dagsched.workflow import Workflow
from dagsched.workload import Workload

MAX_TASKS = 1_000_000
_MAX_BYTES = 64 * 2**20
_FIRST = re.compile(r"\s*\d{1,9}[ \t]*\r?\n\s*\d+[ \t]+\d+[ \t]+\d+(?=\s|$)")
_FOOTER_TASKS = re.compile(r"#\s*Tasks\s*:\s*(\d{1,9})\s*\(\+dummy tasks\s*:\s*(\d{1,9})\)")
_FOOTER_EDGES = re.compile(r"#\s*Edges\s*:\s*(\d{1,12})\b[^#\n]*\(\+d[ua]mmy edges\s*:\s*(\d{1,12})\)")


def _sniff(head: str) -> bool:
    return _FIRST.match(head) is not None


def read(source: Source, options: ReadOptions) -> list[Workload]:
    """Read one task graph; raises :class:`FormatError` where rows, counts and footer do not agree."""
    lines = source.text(_MAX_BYTES).split("\n")
    numbered = [
        (n, line.split()) for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")
    ]
    if not numbered:
        source.refuse("holds no task graph")
    stated = whole(numbered[0][1][0])
    if stated is None or len(numbered[0][1]) != 1 or not 1 <= stated <= MAX_TASKS:
        source.fail(f"line {numbered[0][0]}", "number of tasks", " ".join(numbered[0][1]), f"1 to {MAX_TASKS}")
    rows = [_row(source, line, tokens, task) for task, (line, tokens) in enumerate(numbered[1:])]
    _check_counts(source, stated, rows)
    _check_footer(source, lines, rows)
    last = len(rows) - 1
    tasks = [
        Task(
            str(task),
            float(time),
            demand={} if task in (0, last) and time == 0 else {"cpu": 1.0},
            parents=tuple(map(str, parents)),
        )
        for task, (time, parents) in enumerate(rows)
    ]
    name = stem(source.path)
    workflow = Workflow.from_tasks(name, tasks, resources=("cpu",))
    known = known_makespan(source.path, options.known, options.processors)
    return [
        Workload(
            name=name,
            workflows=(workflow,),
            resources=("cpu",),
            units={"cpu": "cores"},
            cluster=Cluster(
                (NodeGroup("processor", options.processors, {"cpu": 1.0}),), name=f"{options.processors}-processors"
            ),
            source=source.shown,
            known_makespan=None if known is None else known.value,
            declared=BATCH,
        )
    ]


def _row(source: Source, line: int, tokens: Sequence[str], task: int) -> tuple[int, list[int]]:
    """Processing time and parents of one row."""
    values = [whole(token) for token in tokens]
    if None in values or any(v is not None and v < 0 for v in values):
        source.fail(f"line {line}", "row", " ".join(tokens), "whole numbers >= 0: id, time, number of parents, parents")
    numbers = [int(v or 0) for v in values]
    if numbers[0] != task:
        source.fail(f"line {line}", "task number", numbers[0], str(task), "tasks must be numbered in order from 0")
    if len(numbers) < 3 or len(numbers) != 3 + numbers[2]:
        expected = f"{numbers[2]}, as stated" if len(numbers) > 2 else "at least the fields id, time, number of parents"
        source.fail(f"line {line}", "number of parents listed", max(0, len(numbers) - 3), expected)
    return numbers[1], numbers[3:]


def _check_counts(source: Source, stated: int, rows: Sequence[tuple[int, list[int]]]) -> None:
    """The first line counts the tasks without the two dummies (``robot`` counts them)."""
    if len(rows) not in (stated, stated + 2):
        source.refuse(
            f"has {len(rows)} task rows, but the first line says {stated} (plus two dummies); the file is cut off"
        )
    parents = {parent for _, row in rows for parent in row}
    ends = [task for task in range(len(rows)) if task not in parents]
    if rows[0] != (0, []) or rows[-1][0] != 0 or ends != [len(rows) - 1]:
        source.refuse(
            f"task 0 must be a dummy of zero time without parents and task {len(rows) - 1} the dummy end that alone "
            f"has no successor (without one: {shorten(str(ends[:5]))}); the file is cut off or not a task graph"
        )


def _check_footer(source: Source, lines: Sequence[str], rows: Sequence[tuple[int, list[int]]]) -> None:
    """Where the generator's remarks are present, their counts must agree with the rows."""
    remarks = "\n".join(line for line in lines if line.lstrip().startswith("#"))
    found = (("tasks", _FOOTER_TASKS, len(rows)), ("edges", _FOOTER_EDGES, sum(len(parents) for _, parents in rows)))
    for what, pattern, counted in found:
        match = pattern.search(remarks)
        if match and int(match[1]) + int(match[2]) != counted:
            source.refuse(
                f"has {counted} {what}, but its footer says {match[1]} + {match[2]} dummy; the file is damaged"
            )


READER = Reader("stg", "Standard Task Graph Set (unit demand, identical processors)", _sniff, read)
