"""Gantt charts: one band per node, each allocation a block as high as the share of the node it holds."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dagsched.schedule import Schedule
from dagsched.workflow import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BLOCKS = 3000
"""Blocks drawn at most; the largest (share x time) are kept."""

LEAST_WIDTH = 0.0015
"""Share of the time axis that a block takes at least, so that short tasks of a long schedule can be seen."""

_THINNEST = 0.02

PALETTE = (
    "#3b6fb6",
    "#d9822b",
    "#3f9b6c",
    "#c2507a",
    "#7d63b5",
    "#b5a12a",
    "#2f9fb0",
    "#a8623f",
    "#7f9f3a",
    "#8d6e98",
    "#5b86d9",
    "#cf5f4e",
)
"""Fill colours that tell apart for most forms of colour blindness, and are visible on white and on black."""


@dataclass(frozen=True, slots=True, eq=False)
class GanttChart:
    """Where to draw what.

    Attributes:
        nodes: ``[K]`` names of the bands from top to bottom: the nodes that ran something.
        allocation: ``[B]`` row of the schedule of each block.
        node: ``[B]`` band.
        low, high: ``[B]`` share of the band, 0 at its bottom, 1 at its top.
        start, finish: ``[B]`` seconds.
        colour: ``[B]`` index into ``labels``.
        labels: what the colours stand for: workflows, or categories of a single workflow.
        left_out: allocations that are not drawn (empty ones are nothing to draw and do not count).
        idle: nodes without any block.
    """

    nodes: tuple[str, ...]
    allocation: IntArray
    node: IntArray
    low: FloatArray
    high: FloatArray
    start: FloatArray
    finish: FloatArray
    colour: IntArray
    labels: tuple[str, ...]
    left_out: int
    idle: int

    @property
    def note(self) -> str:
        """What the reader must know about the drawing; empty if all is drawn."""
        notes = []
        if self.left_out:
            drawn = len(self.allocation)
            notes.append(f"The {drawn:,} largest of {drawn + self.left_out:,} allocations are drawn.")
        if self.idle:
            notes.append(f"{self.idle:,} idle node{'' if self.idle == 1 else 's'} not drawn.")
        return " ".join(notes)


def gantt_chart(schedule: Schedule, *, max_blocks: int = MAX_BLOCKS) -> GanttChart:
    """Lay a schedule out. Blocks of a node never overlap; each takes the lowest gap that is high enough.

    A block's height is its largest share of the node over resources. Where blocks led by different resources
    add up to more than the node, its whole band is drawn to a smaller scale.
    """
    replay, cluster = schedule.replay, schedule.replay.cluster
    room = cluster.capacity[cluster.node_group][schedule.node]
    amount = replay.demand[schedule.task] * schedule.count[:, None]
    share = np.maximum((amount / np.where(room > 0, room, np.inf)).max(axis=1, initial=0.0), _THINNEST)
    rows = np.flatnonzero(schedule.finish > schedule.start)
    size = (share * (schedule.finish - schedule.start))[rows]
    left_out = max(0, len(rows) - max_blocks)
    rows = np.sort(rows[np.argsort(-size, kind="stable")[:max_blocks]])
    low = np.zeros(len(rows))
    scale = np.ones(cluster.node_count)
    for node in np.unique(schedule.node[rows]):
        here = np.flatnonzero(schedule.node[rows] == node)
        low[here], scale[node] = _pack(schedule.start[rows[here]], schedule.finish[rows[here]], share[rows[here]])
    colour, labels = _colours(schedule)
    used = np.unique(schedule.node[rows])
    node = schedule.node[rows]
    return GanttChart(
        nodes=tuple(cluster.node_names[n] for n in used),
        allocation=rows,
        node=np.searchsorted(used, node),
        low=low / scale[node],
        high=(low + share[rows]) / scale[node],
        start=schedule.start[rows],
        finish=schedule.finish[rows],
        colour=colour[rows],
        labels=labels,
        left_out=left_out,
        idle=cluster.node_count - len(used),
    )


def colour_of(index: int) -> str:
    """The hex colour of a label: the palette, then hues a golden angle apart."""
    if index < len(PALETTE):
        return PALETTE[index]
    red, green, blue = colorsys.hls_to_rgb((index * 0.618034) % 1.0, 0.5, 0.45)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def save_gantt(schedule: Schedule, path: str | Path) -> None:
    """Draw a schedule to a PNG or SVG file (by suffix; the file appears only when complete).

    Raises:
        ConfigError: for another suffix or a path that cannot be written.
    """
    from dagsched.draw.figures import save_figure, style

    with style():
        save_figure(draw_gantt(schedule), path)


def gantt_figure(schedule: Schedule) -> Figure:
    """The chart in the style of the house, for a notebook: see :meth:`dagsched.Schedule.plot`."""
    from dagsched.draw.figures import style

    with style():
        return draw_gantt(schedule)


def draw_gantt(schedule: Schedule) -> Figure:
    """The chart as a matplotlib figure, in the style that is set."""
    from matplotlib.collections import PolyCollection

    from dagsched.draw.figures import figure, picture_text

    chart = gantt_chart(schedule)
    bands = len(chart.nodes)
    fig, axes = figure(11.0, min(max(3.4, 1.6 + 0.42 * bands), 14.0))
    least = LEAST_WIDTH * schedule.makespan
    narrow = chart.finish - chart.start < least
    end = np.where(narrow, chart.start + least, chart.finish)
    floor = bands - 1 - chart.node + 0.06
    bottom, top = floor + 0.88 * chart.low, floor + 0.88 * chart.high
    corners = np.stack(
        [
            np.column_stack([chart.start, bottom]),
            np.column_stack([end, bottom]),
            np.column_stack([end, top]),
            np.column_stack([chart.start, top]),
        ],
        axis=1,
    )
    fills = [colour_of(int(c)) for c in chart.colour]
    edges = [fill if short else "white" for fill, short in zip(fills, narrow.tolist(), strict=True)]
    thin = np.where(narrow, 0.6, 0.4 if len(fills) < 800 else 0.1)
    axes.add_collection(PolyCollection(list(corners), facecolors=fills, edgecolors=edges, linewidths=thin))
    first = schedule.replay.first_arrival
    axes.set_xlim(first, first + max(schedule.makespan, 1e-9))
    axes.set_ylim(0, max(bands, 1))
    step = max(1, -(-bands // 40))
    shown = range(0, bands, step)
    axes.set_yticks([bands - 1 - n + 0.5 for n in shown], [picture_text(chart.nodes[n]) for n in shown])
    axes.tick_params(axis="y", length=0)
    for edge in range(1, bands):
        axes.axhline(edge, color="#d8dce2", linewidth=0.5, zorder=0)
    axes.set_xlabel(f"seconds    ({chart.note})" if chart.note else "seconds")
    title = f"{schedule.replay.workload.name}: {schedule.policy}, completion time {schedule.makespan:,.6g} s"
    axes.set_title(picture_text(title), loc="left", fontsize=11)
    _legend(fig, chart)
    return fig


def _legend(fig: Figure, chart: GanttChart) -> None:
    from matplotlib.patches import Patch

    from dagsched.draw.figures import picture_text

    used = np.unique(chart.colour).tolist()
    shown = used[:12] if len(used) > 1 else []
    handles = [Patch(color=colour_of(c), label=picture_text(chart.labels[c][:40])) for c in shown]
    if len(used) > len(shown) and shown:
        handles.append(Patch(color="none", label=f"and {len(used) - len(shown)} more"))
    if handles:
        fig.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False, fontsize=8, handlelength=1.0)


def _pack(start: FloatArray, finish: FloatArray, height: FloatArray) -> tuple[FloatArray, float]:
    """(``[B]`` bottoms, height of the whole pile, at least 1), first fit in order of start, higher blocks first."""
    low = np.zeros(len(start))
    top = 1.0
    active: list[tuple[float, float, float]] = []
    for block in np.lexsort((-height, start)).tolist():
        active = [entry for entry in active if entry[2] > start[block]]
        level = 0.0
        for below, above, _ in active:
            if below - level >= height[block] - 1e-9:
                break
            level = max(level, above)
        low[block] = level
        top = max(top, level + height[block])
        active.append((level, level + float(height[block]), float(finish[block])))
        active.sort()
    return low, top


def _colours(schedule: Schedule) -> tuple[IntArray, tuple[str, ...]]:
    """``[A]`` colour index: the workflow, or within a single workflow the category, else the task's depth."""
    replay = schedule.replay
    if len(replay.workflows) > 1:
        return replay.workflow_of[schedule.task], tuple(w.name for w in replay.workflows)
    workflow = replay.workflows[0]
    names = [workflow.category[row] or "other" for row in replay.local_index.tolist()]
    labels = tuple(dict.fromkeys(names))
    if 1 < len(labels) <= len(PALETTE):
        index = {label: i for i, label in enumerate(labels)}
        return np.array([index[name] for name in names], np.int64)[schedule.task], labels
    depth = np.zeros(len(replay), np.int64)
    for task in replay.topological_order.tolist():
        parents = replay.parent_idx[replay.parent_ptr[task] : replay.parent_ptr[task + 1]]
        if len(parents):
            depth[task] = depth[parents].max() + 1
    depth %= len(PALETTE)
    return depth[schedule.task], tuple(f"level {i + 1}" for i in range(len(PALETTE)))
