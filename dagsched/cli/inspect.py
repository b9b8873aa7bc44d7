"""``dagsched inspect``: what is in a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagsched.cli import options
from dagsched.cli.console import examples, plural
from dagsched.files import is_dir
from dagsched.texts import shown_path

if TYPE_CHECKING:
    from rich.console import Console

    from dagsched.cluster import Cluster
    from dagsched.replay import Replay
    from dagsched.workload import Assumption, Rejects, Workload

EXAMPLES = examples(
    "dagsched inspect workloads/wfcommons",
    "dagsched inspect NAME.json --draw dag.svg",
    "dagsched inspect batch_task.csv --strict",
)
_SHOWN_WIDTHS = 24
_GAP, _LEAST_NAME = 2, 12


def inspect(
    paths: options.Paths,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", help="Draw the DAG with its critical path: .png or .svg.", show_default=False),
    ] = None,
    workflow: Annotated[
        str | None,
        typer.Option("--workflow", help="Which workflow to draw, if there are several.", show_default=False),
    ] = None,
    cluster: options.ClusterFile = None,
    known: options.Known = None,
    format: options.Format = None,  # noqa: A002
    strict: options.Strict = False,
    processors: options.Processors = 4,
) -> None:
    """Show counts, widths, critical path, demands and rejected records; draw a DAG."""
    from dagsched.cli.console import output, say
    from dagsched.cli.loading import load_all
    from dagsched.cluster import cluster_named
    from dagsched.draw.figures import picture_kind
    from dagsched.replay import cluster_for

    if draw is not None:
        picture_kind(draw)
    workloads = load_all(paths, format=format, strict=strict, processors=processors, known=known)
    given = cluster_named(cluster)
    console = output()
    if len(workloads) == 1:
        _describe(console, workloads[0], given or cluster_for(workloads[0]))
    else:
        _list(console, workloads, given)
    print_rejects(console, [reject for workload in workloads for reject in workload.rejects])
    print_assumed(console, [assumption for workload in workloads for assumption in workload.assumed])
    _print_skipped(console, paths, format)
    if draw is not None:
        _draw(workloads, workflow, given, draw)
        say(f"drawing written to {draw}")


def _describe(console: Console, workload: Workload, cluster: Cluster) -> None:
    """One workload in detail."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from dagsched.graph import critical_path, lower_bound
    from dagsched.replay import Replay
    from dagsched.texts import digits

    replay = Replay.build(workload, cluster)
    path = critical_path(replay)
    widths = level_widths(replay)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()

    def row(name: str, text: str) -> None:
        table.add_row(Text(name), Text(text))

    row("workload", workload.name)
    row("workflows", f"{len(workload.workflows):,}")
    row("tasks", f"{len(replay):,}, of these {int(replay.milestone.sum()):,} milestones")
    row("instances", f"{int(replay.instances.sum()):,}")
    row("edges", f"{len(replay.parent_idx):,}, carrying {digits(float(replay.parent_bytes.sum()))} bytes")
    row("levels", f"{len(widths):,}, at most {max(widths):,} tasks wide")
    more = " ..." if len(widths) > _SHOWN_WIDTHS else ""
    row("width by level", " ".join(str(width) for width in widths[:_SHOWN_WIDTHS]) + more)
    row("critical path", f"{digits(float(path.max()))} s (longest workflow, fastest nodes, no transfers)")
    row("work", f"{digits(float((replay.duration.min(axis=1) * replay.instances).sum()))} s on the fastest nodes")
    row("lower bound", f"{digits(lower_bound(replay))} s to complete on cluster {cluster.name}")
    row("arrivals", f"from {digits(float(replay.arrival[0]))} s to {digits(float(replay.arrival[-1]))} s")
    row("declared", str(workload.nature))
    row("deadlines", f"{int(np.isfinite(replay.deadline).sum()):,} workflows have one")
    for column, resource in enumerate(cluster.resources):
        demand = replay.demand[:, column]
        unit = f" {workload.units[resource]}" if resource in workload.units else ""
        low, mean, high = (digits(float(f(demand))) for f in (np.min, np.mean, np.max))
        row(f"demand of {resource}", f"{low} to {high}{unit} per instance, {mean} on average")
    if workload.known_makespan is not None:
        row("best known", f"{digits(workload.known_makespan)} s")
    row("cluster", describe_cluster(cluster))
    console.print(table)
    width = max(len(str(cell)) for cell in table.columns[0].cells)
    console.print(Text.assemble(("digest".ljust(width), "bold"), "  ", workload.digest), soft_wrap=True)


def level_widths(replay: Replay) -> list[int]:
    """Tasks per level; the level of a task is the largest number of edges on a path from an entry."""
    import numpy as np

    level = np.zeros(len(replay), np.int64)
    pointers, parents = replay.parent_ptr.tolist(), replay.parent_idx
    for task in replay.topological_order.tolist():
        row = parents[pointers[task] : pointers[task + 1]]
        if len(row):
            level[task] = level[row].max() + 1
    return [int(count) for count in np.bincount(level)]


def describe_cluster(cluster: Cluster) -> str:
    """``default: 14 nodes in 4 groups (cpu, memory)``."""
    size = f"{plural(cluster.node_count, 'node')} in {plural(len(cluster.groups), 'group')}"
    return f"{cluster.name}: {size} ({', '.join(cluster.resources)})"


def shortened(name: str, room: int) -> str:
    """A name in at most so many characters, the middle replaced by an ellipsis; its ends tell names apart."""
    if len(name) <= room:
        return name
    tail = (room - 1) // 2
    return f"{name[: room - 1 - tail]}…{name[len(name) - tail :]}"


def _list(console: Console, workloads: list[Workload], cluster: Cluster | None) -> None:
    """Many workloads, one line each."""
    from rich.table import Table
    from rich.text import Text

    from dagsched.graph import critical_path
    from dagsched.replay import Replay, cluster_for
    from dagsched.texts import digits

    titles = ("workload", "workflows", "tasks", "edges", "levels", "widest", "critical path", "cluster")
    rows = []
    for workload in workloads:
        used = cluster or cluster_for(workload)
        replay = Replay.build(workload, used)
        levels = level_widths(replay)
        row = (
            workload.name,
            f"{len(workload.workflows):,}",
            f"{len(replay):,}",
            f"{len(replay.parent_idx):,}",
            f"{len(levels):,}",
            f"{max(levels):,}",
            f"{digits(float(critical_path(replay).max()))} s",
            used.name,
        )
        rows.append(row)
    widths = [max(len(cell) for cell in column) for column in zip(titles, *rows, strict=True)]
    room = max(console.width - sum(width + _GAP for width in widths[1:]), _LEAST_NAME)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, justify="left" if title in ("workload", "cluster") else "right", no_wrap=True)
    for name, *cells in rows:
        table.add_row(*(Text(cell) for cell in (shortened(name, room), *cells)))
    console.print(table)
    tasks = sum(workload.task_count for workload in workloads)
    console.print(f"{plural(len(workloads), 'workload')}, {plural(tasks, 'task')}")


def print_rejects(console: Console, rejects: list[Rejects]) -> None:
    """Records left out while reading, counted by reason."""
    found = [(reject.reason, reject.count, reject.example) for reject in rejects]
    _print_counted(console, found, "record", "left out (--strict makes this an error)")


def print_assumed(console: Console, assumed: list[Assumption]) -> None:
    """Values that were read by a rule, counted by rule."""
    found = [(assumption.rule, assumption.count, assumption.example) for assumption in assumed]
    _print_counted(console, found, "value", "read by a rule of the format")


def _print_counted(console: Console, found: list[tuple[str, int, str]], what: str, heading: str) -> None:
    """(text, count, example) summed by text, below a heading."""
    if not found:
        return
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for text, count, example in found:
        counts[text] += count
        examples.setdefault(text, example)
    console.print(f"{plural(sum(counts.values()), what)} {heading}:")
    for text, number in counts.most_common():
        console.print(f"  {number:,} x {text}, for example {examples[text]}", markup=False)


def _print_skipped(console: Console, paths: list[Path], format: str | None) -> None:  # noqa: A002
    from dagsched.formats import scan

    skipped = [skip for path in paths if is_dir(path) for skip in scan(path, format=format).skipped]
    for skip in skipped[:10]:
        console.print(f"not read: {shown_path(skip.path)} ({skip.reason})", markup=False, style="dim")
    if len(skipped) > 10:
        console.print(f"not read: {len(skipped) - 10:,} more files", style="dim")


def _draw(workloads: list[Workload], name: str | None, cluster: Cluster | None, path: Path) -> None:
    from dagsched.draw.dag import save_dag
    from dagsched.errors import ConfigError
    from dagsched.replay import Replay, cluster_for

    found = [
        (workload, workflow)
        for workload in workloads
        for workflow in workload.workflows
        if name is None or workflow.name == name
    ]
    first = workloads[0].workflows[0].name
    if not found:
        raise ConfigError(f"there is no workflow {name!r}; the first is {first!r}")
    if name is None and len(found) > 1:
        raise ConfigError(f"there are {len(found)} workflows; choose one to draw with --workflow, such as {first!r}")
    workload, chosen = found[0]
    replay = Replay.build(workload, cluster or cluster_for(workload))
    names = [workflow.name for workflow in replay.workflows]  # a replay has its own order
    save_dag(replay, path, index=names.index(chosen.name))
