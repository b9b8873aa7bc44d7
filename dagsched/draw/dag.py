"""Drawings of a workflow: tasks in layers from left to right, the critical path highlighted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dagsched.graph import fastest
from dagsched.replay import Replay
from dagsched.texts import digits
from dagsched.workflow import FloatArray, IntArray, Workflow, child_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SWEEPS = 8
_MOST_EDGES = 20_000
_LABELLED = 60


@dataclass(frozen=True, slots=True, eq=False)
class DagLayout:
    """Positions of the ``T`` tasks and the critical path.

    Attributes:
        x: ``[T]`` layer: the longest number of edges from an entry.
        y: ``[T]`` position within the layer, layers centred around 0.
        parent, child: ``[E]`` edges.
        critical: ``[T]`` whether the task lies on the drawn critical path.
        critical_edge: ``[E]`` whether both ends are neighbours on it.
    """

    x: IntArray
    y: FloatArray
    parent: IntArray
    child: IntArray
    critical: NDArray[np.bool_]
    critical_edge: NDArray[np.bool_]


def dag_layout(workflow: Workflow, duration: FloatArray | None = None) -> DagLayout:
    """Layers by depth, ordered by a few barycentre sweeps to reduce crossings; deterministic.

    ``duration`` ``[T]`` decides the critical path, by default the durations at speed 1.
    """
    count = len(workflow)
    parent = workflow.parent_idx
    child = np.repeat(np.arange(count), np.diff(workflow.parent_ptr))
    x = _depth(workflow)
    y = _order(x, parent, child)
    path = _critical_path(workflow, workflow.duration if duration is None else duration)
    critical = np.zeros(count, np.bool_)
    critical[path] = True
    following = np.full(count, -1, np.int64)
    following[path[:-1]] = path[1:]
    return DagLayout(x, y, parent, child, critical, following[parent] == child)


def save_dag(source: Workflow | Replay, path: str | Path, *, index: int = 0) -> None:
    """Draw a workflow, or workflow ``index`` of a replay, to a PNG or SVG file, by suffix.

    Tasks are dots as large as their work, in layers from left to right; the path of longest duration is orange:
    durations are those on the fastest nodes of a replay that can hold the task, or those of speed 1 for a workflow
    alone. Labels are drawn while there is room for them. The file appears only when complete.

    Raises:
        ConfigError: for another suffix or a path that cannot be written.
    """
    from dagsched.draw.figures import save_figure, style

    with style():
        save_figure(_draw_source(source, index), path)


def dag_figure(source: Workflow | Replay, *, index: int = 0) -> Figure:
    """The drawing of :func:`save_dag` as a matplotlib figure, for a notebook: see :meth:`dagsched.Workflow.plot`."""
    from dagsched.draw.figures import style

    with style():
        return _draw_source(source, index)


def _draw_source(source: Workflow | Replay, index: int) -> Figure:
    if isinstance(source, Replay):
        workflow, own = source.workflows[index], slice(*source.workflow_ptr[index : index + 2].tolist())
        duration = np.empty(len(workflow))
        duration[source.local_index[own]] = fastest(source, realised=True)[own]
        where = f"on the fastest nodes of cluster {source.cluster.name}"
    else:
        workflow, duration, where = source, source.duration, "at speed 1"
    return _draw(workflow, duration, where)


def _draw(workflow: Workflow, duration: FloatArray, where: str) -> Figure:
    from matplotlib.collections import LineCollection

    from dagsched.draw.figures import figure, picture_text

    layout = dag_layout(workflow, duration)
    layers, widest = int(layout.x.max()) + 1, int(np.bincount(layout.x).max())
    fig, axes = figure(
        min(max(6.0, 1.3 * layers + 1.5), 22.0),
        min(max(3.0, (0.34 if len(workflow) <= _LABELLED else 0.2) * widest + 1.2), 13.0),
    )
    ends = np.stack(
        [
            np.column_stack([layout.x[layout.parent], layout.y[layout.parent]]),
            np.column_stack([layout.x[layout.child], layout.y[layout.child]]),
        ],
        axis=1,
    )
    plain = np.flatnonzero(~layout.critical_edge)
    shown = plain if len(plain) <= _MOST_EDGES else plain[:: -(-len(plain) // _MOST_EDGES)]
    faint = float(np.clip(600 / max(len(shown), 1), 0.12, 0.7))
    axes.add_collection(LineCollection(list(ends[shown]), colors="#8a919c", linewidths=0.7, alpha=faint, zorder=1))
    axes.add_collection(LineCollection(list(ends[layout.critical_edge]), colors="#d9622b", linewidths=2.0, zorder=2))
    _draw_tasks(axes, workflow, layout, widest)
    axes.set_xlim(-0.6, layers - 0.4)
    span = max((widest - 1) / 2, 0.5)
    axes.set_ylim(-span - 0.8, span + 0.8)
    axes.axis("off")
    title = f"{workflow.name}: {len(workflow):,} tasks, {workflow.edge_count:,} edges, {layers} layers"
    longest = digits(float(duration[layout.critical].sum()))
    notes = [f"critical path {longest} s {where}, {int(layout.critical.sum())} tasks (orange)"]
    if len(shown) < len(plain):
        notes.append(f"{len(shown):,} of {len(plain):,} other edges drawn")
    axes.set_title(f"{picture_text(title)}\n{picture_text('; '.join(notes))}", loc="left", fontsize=10)
    return fig


def _draw_tasks(axes: Axes, workflow: Workflow, layout: DagLayout, widest: int) -> None:
    from dagsched.draw.figures import picture_text

    work = workflow.duration * workflow.instances
    largest = float(work.max()) or 1.0
    room = 100.0 if len(workflow) <= _LABELLED else float(np.clip(6000 / widest, 14, 100))
    size = 10 + (room - 10) * np.sqrt(work / largest)
    colours = np.where(layout.critical, "#d9622b", "#3b6fb6")
    axes.scatter(layout.x, layout.y, s=size, c=colours, edgecolors="white", linewidths=0.5, zorder=3)
    labelled = range(len(workflow)) if len(workflow) <= _LABELLED else ()
    for task in labelled:
        label = workflow.task_ids[task]
        label = label if len(label) <= 17 else f"{label[:8]}…{label[-8:]}"
        axes.annotate(
            picture_text(label),
            (layout.x[task], layout.y[task]),
            xytext=(0, -1.5 - np.sqrt(size[task]) / 2),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=6,
            zorder=4,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        )


def _depth(workflow: Workflow) -> IntArray:
    depth = np.zeros(len(workflow), np.int64)
    pointers, parents = workflow.parent_ptr.tolist(), workflow.parent_idx
    for task in workflow.topological_order.tolist():
        if pointers[task + 1] > pointers[task]:
            depth[task] = depth[parents[pointers[task] : pointers[task + 1]]].max() + 1
    return depth


def _order(x: IntArray, parent: IntArray, child: IntArray) -> FloatArray:
    """Positions in each layer by alternating sweeps over the mean position of parents and of children."""
    count = len(x)
    rank = np.zeros(count)
    rank[np.argsort(x, kind="stable")] = np.arange(count)
    y = _centred(x, rank)
    if not len(parent):
        return y
    for sweep in range(_SWEEPS):
        near, far = (child, parent) if sweep % 2 == 0 else (parent, child)
        degree = np.bincount(near, minlength=count)
        mean = np.bincount(near, y[far], count) / np.maximum(degree, 1)
        y = _centred(x, np.where(degree > 0, mean, y))
    return y


def _centred(x: IntArray, key: FloatArray) -> FloatArray:
    """Whole steps in each layer in order of ``key`` (ties by index), centred around 0."""
    order = np.lexsort((np.arange(len(x)), key, x))
    sizes = np.bincount(x)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    y = np.empty(len(x))
    y[order] = (np.arange(len(x)) - first[x[order]]) - (sizes[x[order]] - 1) / 2
    return -y


def _critical_path(workflow: Workflow, duration: FloatArray) -> IntArray:
    """Tasks of one path of longest duration, from entry to exit; ties to the lower index."""
    count = len(workflow)
    pointers, children, _ = child_rows(workflow.parent_ptr, workflow.parent_idx)
    length = duration.copy()
    for task in workflow.topological_order[::-1].tolist():
        below = children[pointers[task] : pointers[task + 1]]
        if len(below):
            length[task] += length[below].max()
    entries = np.flatnonzero(np.diff(workflow.parent_ptr) == 0)
    path = [int(entries[np.argmax(length[entries])])]
    while len(path) <= count:
        below = children[pointers[path[-1]] : pointers[path[-1] + 1]]
        if not len(below):
            break
        path.append(int(below[np.argmax(length[below])]))
    return np.array(path, np.int64)
