"""Everything about a replay's tasks that does not change while they wait, as arrays; and the normaliser.

Start reading at :func:`build_constants`; what changes with the state is computed in
:mod:`dagsched.features.kernel`. Only estimates, demands, edges and arrivals up to the workflow's own are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dagsched import graph
from dagsched.checks import as_matrix
from dagsched.errors import ConfigError
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, NODE_FEATURES, TASK_FEATURES, TASK_NAMES, TYPES
from dagsched.replay import Replay
from dagsched.simulator.kernel import Problem
from dagsched.simulator.state import DESCENDANT_LIMIT, build_problem, read_only, with_area_below
from dagsched.workflow import FloatArray, IntArray

_AT = {name: k for k, name in enumerate(TASK_NAMES)}
FIXED: IntArray = np.array(
    [k for k, name in enumerate(TASK_NAMES) if k <= _AT["instances"] or k >= _AT["demand_1"]], np.int64
)
"""Columns that are fixed once the workflow has arrived (times up to the scale)."""
FIXED_IS_TIME = np.array([TASK_FEATURES[k].unit == "scale" for k in FIXED])


class Constants(NamedTuple):
    """What the compiled feature kernel reads beside the problem; ``F`` fixed columns, times in seconds.

    Work of a resource is demand x estimate / total capacity: seconds that the whole cluster would need.
    """

    fixed: FloatArray  # [T, F]
    is_time: IntArray  # [F]
    below: FloatArray  # [T] share-seconds of the task and its descendants
    share: FloatArray  # [T, R] demand / capacity of the largest node
    work: FloatArray  # [T, R] s, one instance
    tail: FloatArray  # [T, R] s, all distinct descendants
    near: FloatArray  # [T, R]
    child_share: FloatArray  # [T, R] mean over children
    log_weight: FloatArray  # [W]
    deadline: FloatArray  # [W] s, inf without
    scale: FloatArray  # [W] s, mean critical path of workflows 0..w
    total: FloatArray  # [R] capacity of the cluster
    largest: FloatArray  # [R] capacity of the largest node
    per_capacity: FloatArray  # [G, R] 1 / capacity of a node, 0 where it has none
    per_resource: FloatArray  # [1] 1 / R
    group_share: FloatArray  # [G, 3] nodes, speed, capacity: the fixed group features


@njit(cache=True, nogil=True)
def _nearness(topological_order, parent_ptr, parent_idx, share):  # type: ignore[no-untyped-def]
    near = share.copy()
    for k in range(len(topological_order) - 1, -1, -1):
        task = topological_order[k]
        for edge in range(parent_ptr[task], parent_ptr[task + 1]):
            for r in range(share.shape[1]):
                near[parent_idx[edge], r] = max(near[parent_idx[edge], r], 0.5 * near[task, r])
    return near


def _child_mean(replay: Replay, value: FloatArray) -> FloatArray:
    """``[T]`` or ``[T, R]`` mean of a value over each task's children; 0 without children."""
    counts = np.diff(replay.child_ptr)
    sums = np.zeros_like(value)
    owners = np.repeat(np.arange(len(replay)), counts)
    np.add.at(sums, owners, value[replay.child_idx])
    most = np.maximum(counts, 1)
    return np.asarray(sums / (most if value.ndim == 1 else most[:, None]))


def _sibling_mean(replay: Replay, value: FloatArray) -> FloatArray:
    """``[T]`` mean over the other parents of the children, each as often as it shares a child; 0 without any."""
    parents = np.diff(replay.parent_ptr)
    sums = np.add.reduceat(np.append(value[replay.parent_idx], 0.0), replay.parent_ptr[:-1]) * (parents > 0)
    owners = np.repeat(np.arange(len(replay)), np.diff(replay.child_ptr))
    total, count = np.zeros(len(replay)), np.zeros(len(replay))
    np.add.at(total, owners, sums[replay.child_idx] - value[owners])
    np.add.at(count, owners, parents[replay.child_idx] - 1.0)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1.0), 0.0))


def _last_of_arrival(arrival: FloatArray) -> IntArray:
    """``[W]`` the last workflow that arrives at the same time as each one."""
    return np.searchsorted(arrival, arrival, side="right") - 1


def _type_order(replay: Replay, work: FloatArray, relative_level: FloatArray) -> IntArray:
    """``[W, TYPES]`` resources by the mean relative bottom level of their work, highest first; -1 = no such one.

    Counted over what had arrived with the workflow or before it.
    """
    first = replay.workflow_ptr[:-1]
    spent = work * replay.instances[:, None]
    amount = np.cumsum(np.add.reduceat(spent, first), axis=0)
    level = np.cumsum(np.add.reduceat(spent * relative_level[:, None], first), axis=0)
    mean = np.divide(level, amount, out=np.zeros_like(level), where=amount > 0)
    order = np.argsort(-np.round(mean, 12), axis=1, kind="stable")[_last_of_arrival(replay.arrival)]
    padded = np.full((len(order), TYPES), -1, np.int64)
    padded[:, : order.shape[1]] = order[:, :TYPES]
    return padded


def _typed(value: FloatArray, order: IntArray) -> FloatArray:
    """``[T, TYPES]`` columns of ``value`` in each task's type order; 0 where there is no such resource."""
    return np.where(order >= 0, np.take_along_axis(value, np.maximum(order, 0), axis=1), 0.0)


def _kin_columns(replay: Replay, own: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Means of what the tasks have themselves, over children, grandchildren and siblings."""
    child = {name: _child_mean(replay, value) for name, value in own.items()}
    column = {f"child_{name}": value for name, value in child.items()}
    column |= {f"grandchild_{name}": _child_mean(replay, child[name]) for name in ("estimate", "share", "parents")}
    return column | {f"sibling_{name}": _sibling_mean(replay, own[name]) for name in ("estimate", "share")}


def build_constants(replay: Replay, problem: Problem) -> Constants:
    """The fixed features of all tasks; ``problem`` must come from :func:`with_area_below`."""
    assert not np.isnan(problem.task["below"]).any()
    cluster = replay.cluster
    nodes = np.array([group.nodes for group in cluster.groups], np.float64)
    total = (cluster.capacity * nodes[:, None]).sum(axis=0)
    largest = cluster.capacity.max(axis=0)
    own, instances = problem.fastest, replay.instances
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(largest > 0, replay.demand / largest, 0.0)
        work = np.where(total > 0, replay.demand / total, 0.0) * own[:, None]
        relative_capacity = np.where(largest > 0, cluster.capacity / largest, 0.0).mean(axis=1)
    bottom, top = problem.bottom, graph.top_level(replay)
    path = graph.critical_path(replay, realised=False)
    cp = path[replay.workflow_of]
    safe = np.where(cp > 0, cp, 1.0)
    tail, count = graph.descendants(replay, work * instances[:, None], most=DESCENDANT_LIMIT)
    near = _nearness(replay.topological_order, replay.parent_ptr, replay.parent_idx, share)
    order = _type_order(replay, work, bottom / safe)[replay.workflow_of]
    children = np.log1p(np.diff(replay.child_ptr))
    parents = np.log1p(np.diff(replay.parent_ptr).astype(np.float64))
    after = bottom - own
    column: dict[str, FloatArray] = {
        "estimate": own,
        "mean_level": graph.mean_level(replay),
        "bottom": bottom,
        "path_after": after,
        "path": cp,
        "slack": cp - top - bottom,
        "tail": np.maximum(after, tail.max(axis=1)),
        "child_work": _child_mean(replay, own) * np.diff(replay.child_ptr),
        "area": problem.share * own,
        "share": problem.share,
        "mean_share": share.mean(axis=1),
        "children": children,
        "descendants": count / np.maximum(np.diff(replay.workflow_ptr)[replay.workflow_of] - 1, 1),
        "depth": top / safe,
        "instances": np.log1p(instances.astype(np.float64)),
    }
    for name, value in (("demand", share), ("tail", tail), ("near", near)):
        typed = _typed(value, order)
        column |= {f"{name}_{k + 1}": typed[:, k] for k in range(TYPES)}
    column |= _kin_columns(replay, {"estimate": own, "bottom": bottom, "share": problem.share, "parents": parents})
    constants = Constants(
        fixed=np.column_stack([column[TASK_NAMES[k]] for k in FIXED]),
        is_time=FIXED_IS_TIME.astype(np.int64),
        below=problem.task["below"],
        share=share,
        work=work,
        tail=tail,
        near=near,
        child_share=_child_mean(replay, share),
        log_weight=np.log(np.maximum(replay.weight, 1e-9)),
        deadline=replay.deadline,
        scale=np.maximum(np.cumsum(path) / np.arange(1, len(path) + 1), 1e-9),
        total=total,
        largest=largest,
        per_capacity=np.divide(1.0, cluster.capacity, out=np.zeros_like(cluster.capacity), where=cluster.capacity > 0),
        per_resource=np.array([1.0 / len(total)]),
        group_share=np.column_stack([nodes / nodes.sum(), cluster.speed / cluster.speed.max(), relative_capacity]),
    )
    return Constants(*map(read_only, constants))


def observable(replay: Replay, *, placement_seed: int = 0) -> tuple[Problem, Constants]:
    """(problem with descendants' areas, constants) of a replay."""
    problem = with_area_below(build_problem(replay, placement_seed=placement_seed), replay)
    return problem, build_constants(replay, problem)


def node_features(replay: Replay, constants: Constants | None = None) -> FloatArray:
    """``[T, len(NODE_FEATURES)]`` input of the graph encoder, times over the scale at the workflow's arrival."""
    constants = observable(replay)[1] if constants is None else constants
    scale = constants.scale[_last_of_arrival(replay.arrival)][replay.workflow_of]
    place = {int(k): at for at, k in enumerate(FIXED)}
    columns = []
    for name in NODE_FEATURES:
        at = place[_AT[name]]
        value = constants.fixed[:, at]
        columns.append(value / scale if constants.is_time[at] else value)
    return np.column_stack(columns)


@dataclass(frozen=True, slots=True, eq=False)
class Normaliser:
    """Mean and deviation over the training set: tasks ``[F]``, global ``[G]``, groups ``[Q]``, nodes ``[S]``."""

    task_mean: FloatArray
    task_std: FloatArray
    global_mean: FloatArray
    global_std: FloatArray
    group_mean: FloatArray
    group_std: FloatArray
    node_mean: FloatArray
    node_std: FloatArray

    _NAMES = {  # noqa: RUF012 - a constant of the class, not a field
        "task": TASK_NAMES,
        "global": GLOBAL_NAMES,
        "group": GROUP_NAMES,
        "node": NODE_FEATURES,
    }

    @classmethod
    def fit(cls, task: FloatArray, general: FloatArray, group: FloatArray, node: FloatArray) -> Normaliser:
        """From raw rows ``[*, F]``, ``[*, G]``, ``[*, Q]``, ``[*, S]``; a constant column keeps the value 0."""
        parts: dict[str, FloatArray] = {}
        for name, rows in (("task", task), ("global", general), ("group", group), ("node", node)):
            std = rows.std(axis=0)
            parts[f"{name}_mean"] = rows.mean(axis=0)
            parts[f"{name}_std"] = np.where(std > 1e-9, std, 1e9)
        return cls(**parts)

    def to_dict(self) -> dict[str, Any]:
        """Names with mean and standard deviation, for ``normaliser.json``."""
        return {
            part: {
                name: [float(mean), float(std)]
                for name, mean, std in zip(
                    names, getattr(self, f"{part}_mean"), getattr(self, f"{part}_std"), strict=True
                )
            }
            for part, names in self._NAMES.items()
        }

    @classmethod
    def from_dict(cls, data: object) -> Normaliser:
        """Read :meth:`to_dict`.

        Raises:
            ConfigError: naming the missing, unknown or unusable entry.
        """
        values: dict[str, FloatArray] = {}
        for part, names in cls._NAMES.items():
            rows = data.get(part) if isinstance(data, dict) else None
            if not isinstance(rows, dict) or list(rows) != list(names):
                raise ConfigError(f"normaliser: {part!r} does not list the features of this schema")
            table = as_matrix([rows[name] for name in names])
            if (
                table is None
                or table.shape != (len(names), 2)
                or not np.isfinite(table).all()
                or (table[:, 1] <= 0).any()
            ):
                raise ConfigError(f"normaliser: {part!r} needs a finite mean and a positive deviation for each feature")
            values[f"{part}_mean"], values[f"{part}_std"] = table[:, 0].copy(), table[:, 1].copy()
        return cls(**values)
