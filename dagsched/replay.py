"""A replay: one workload on one cluster with every random outcome drawn before any policy runs."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dagsched.checks import as_number
from dagsched.cluster import Cluster
from dagsched.declared import MOST_SIGMA, NOTHING, Declared, Nature, NoiseModel
from dagsched.errors import ConfigError, InvalidReplayError, closest
from dagsched.frozen import restore
from dagsched.objective import ObjectiveName
from dagsched.texts import described
from dagsched.workflow import MAX_INSTANCES, FloatArray, IntArray, Workflow, child_rows, natural_key
from dagsched.workload import Workload

Placement = Literal["earliest-finish", "best-fit", "least-loaded", "round-robin", "random"]
PLACEMENTS: tuple[Placement, ...] = ("earliest-finish", "best-fit", "least-loaded", "round-robin", "random")

FIT_TOLERANCE = 1e-9
MOST_STARTS = 2**25
"""Starts of a replay, about 4 GB of records: 2.4 times the tasks of the Alibaba trace of 2018."""
"""A demand fits if it exceeds the free amount by at most this share of the node's capacity (float rounding)."""


MOST_SECONDS = 1e12
"""Times beyond 30,000 years are refused: the clock (float64) could no longer tell short tasks apart."""

LEAST_INTERVAL = 1e-6


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """How time and placement work; part of the replay, so that every policy meets the same rules.

    Attributes:
        placement: the rule that picks a node once the task is chosen.
        decision_interval: seconds between decision ticks; 0 = decide at every event.
        max_wait: seconds after which a ready task must be picked first; ``inf`` = no guard.
        instances_per_decision: cap on the instances one decision starts; 0 = as many as fit.
    """

    placement: Placement = "earliest-finish"
    decision_interval: float = 0.0
    max_wait: float = math.inf
    instances_per_decision: int = 0

    def __post_init__(self) -> None:
        for name in ("decision_interval", "max_wait"):
            value = getattr(self, name)
            seconds = as_number(value)
            if seconds is None:
                raise ConfigError(f"{name} is {described(value)}, expected seconds")
            object.__setattr__(self, name, seconds)
        if not isinstance(self.placement, str) or self.placement not in PLACEMENTS:
            raise ConfigError(f"placement is {described(self.placement)}, expected one of {', '.join(PLACEMENTS)}")
        if self.decision_interval != 0 and not (LEAST_INTERVAL <= self.decision_interval <= MOST_SECONDS):
            raise ConfigError(
                f"decision_interval is {self.decision_interval!r}, expected 0 or seconds from {LEAST_INTERVAL:g} to "
                f"{MOST_SECONDS:g}"
            )
        if not self.max_wait >= 0:
            raise ConfigError(f"max_wait is {self.max_wait!r}, expected seconds >= 0")
        cap = self.instances_per_decision
        if isinstance(cap, bool) or not isinstance(cap, int | np.integer) or not 0 <= cap <= MAX_INSTANCES:
            raise ConfigError(
                f"instances_per_decision is {described(cap)}, expected a whole number from 0 to {MAX_INSTANCES}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Flat arrays over all ``T`` tasks of ``W`` workflows, on ``G`` groups of ``N`` nodes with ``R`` resources.

    Build one with :meth:`build`. Workflows are ordered by (arrival, name) and tasks within a workflow by
    natural id order, so that the order of the input changes nothing and flat index order is the last
    tie-break of every rule; the order of submission is kept in ``place`` for the rules that go by it (first come,
    first served). ``duration`` is the only field policies must never see.

    Attributes:
        noise, closed, objective: what is declared, fixed before any policy runs (:mod:`dagsched.declared`).
        workflows: ``W`` in flat order.
        local_index: ``[T]`` index of each flat task in its workflow.
        workflow_ptr: ``[W + 1]``; workflow ``w`` owns tasks ``workflow_ptr[w]:workflow_ptr[w + 1]``.
        workflow_of: ``[T]``.
        place: ``[T]`` rank in the order of submission: by arrival, then as in the source (workflows in their order,
            tasks in that of their workflow).
        arrival, deadline, weight: ``[W]``; no deadline is ``inf``.
        estimate, duration: ``[T, G]`` seconds, what is told and what will happen.
        demand: ``[T, R]`` per instance, columns in the cluster's order.
        instances: ``[T]``.
        milestone: ``[T]`` zero duration and demand.
        can_hold: ``[T, G]`` an empty node of the group fits one instance.
        parent_ptr, parent_idx, parent_bytes: parents by child (CSR), flat indices.
        child_ptr, child_idx: children by parent (CSR), ascending.
        topological_order: ``[T]``.
        digest: SHA-256 over everything that can influence a schedule or a metric.
    """

    workload: Workload
    cluster: Cluster
    options: SimulationOptions
    noise: NoiseModel
    closed: bool
    objective: ObjectiveName
    seed: int
    workflows: tuple[Workflow, ...]
    local_index: IntArray
    workflow_ptr: IntArray
    workflow_of: IntArray
    place: IntArray
    arrival: FloatArray
    deadline: FloatArray
    weight: FloatArray
    estimate: FloatArray
    duration: FloatArray
    demand: FloatArray
    instances: IntArray
    milestone: NDArray[np.bool_]
    can_hold: NDArray[np.bool_]
    parent_ptr: IntArray
    parent_idx: IntArray
    parent_bytes: FloatArray
    child_ptr: IntArray
    child_idx: IntArray
    topological_order: IntArray
    _cache: dict[str, object] = field(default_factory=dict, repr=False)

    def __setstate__(self, state: Sequence[Any]) -> None:
        """Unpickle with arrays that cannot be written to, and without what was derived."""
        restore(self, state)
        object.__setattr__(self, "_cache", {})

    @classmethod
    def build(
        cls,
        workload: Workload,
        cluster: Cluster | None = None,
        *,
        seed: int = 0,
        sigma: float = 0.0,
        options: SimulationOptions | None = None,
        declared: Declared | None = None,
    ) -> Replay:
        """Draw every outcome and check that each task fits some node.

        Args:
            workload: what to run.
            cluster: where; by default the workload's own cluster, else the shipped ``default``.
            seed: of the duration noise; policies never receive it.
            sigma: spread of lognormal noise around the estimates; 0 keeps the recorded durations.
            options: placement and decision times.
            declared: closedness, objective and noise of recorded durations; where it says nothing, the workload's own.

        Raises:
            InvalidReplayError: naming the task, its demand and the largest node, or a duration that differs from an
                estimate declared exact.
            ConfigError: for a negative or non-finite sigma or seed.
        """
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ConfigError(f"seed is {described(seed)}, expected a whole number >= 0")
        spread = as_number(sigma)
        if spread is None or not 0 <= spread <= MOST_SIGMA:
            raise ConfigError(f"noise sigma is {described(sigma)}, expected a number from 0 to {MOST_SIGMA:g}")
        _check_kinds(workload, cluster, options)
        sigma = spread
        if cluster is None:
            cluster = cluster_for(workload)
        flat = _flatten(workload, cluster)
        told, recorded = flat.pop("told"), flat.pop("recorded")
        nature = workload.nature_under(declared or NOTHING)
        duration, noise = recorded, nature.noise
        if sigma > 0:
            factor = _noise_factors(flat["workflows"], flat["local_index"], seed, sigma)
            duration, noise = told * factor[:, None], NoiseModel("lognormal", float(sigma))
        replay = cls(
            workload=workload,
            cluster=cluster,
            options=options or SimulationOptions(),
            noise=noise,
            closed=nature.closed,
            objective=nature.objective,
            seed=int(seed),
            estimate=told,
            duration=duration,
            **flat,
        )
        for name in cls.__slots__:
            value = getattr(replay, name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        _check_times(replay)
        _check_exact(replay)
        _check_fit(replay)
        _check_starts(replay)
        return replay

    def __repr__(self) -> str:
        size = f"{len(self)} tasks of {len(self.workflows)} workflows"
        return f"Replay({self.workload.name!r}, {size}, on {self.cluster!r}, {self.nature})"

    def __len__(self) -> int:
        return len(self.workflow_of)

    @property
    def first_arrival(self) -> float:
        """Seconds at which the first workflow arrives."""
        return float(self.arrival[0])

    @property
    def nature(self) -> Nature:
        """Closedness, objective and noise, as fixed for this replay."""
        return Nature(self.closed, self.objective, self.noise)

    @property
    def known_at_start(self) -> int:
        """Workflows known before the first decision: all of a closed workload, else those that arrive first."""
        if self.closed:
            return len(self.arrival)
        return int(np.searchsorted(self.arrival, self.first_arrival, side="right"))

    @property
    def weight_share(self) -> FloatArray:
        """``[W]`` weights of the workflows as shares of their sum."""
        return np.asarray(self.weight / self.weight.sum())

    @property
    def is_batch(self) -> bool:
        """Whether everything is declared to be known at the start, and may start then."""
        return self.closed and bool((self.arrival == self.arrival[0]).all())

    @property
    def has_transfers(self) -> bool:
        """Whether any edge can take time between groups."""
        between = ~np.eye(len(self.cluster.groups), dtype=bool)
        slow = np.isfinite(self.cluster.bandwidth) & between
        late = (self.cluster.latency > 0) & between
        return bool(len(self.parent_idx) and ((slow.any() and self.parent_bytes.any()) or late.any()))

    def task_name(self, task: int) -> tuple[str, str]:
        """(workflow name, task id) of a flat task index."""
        workflow = self.workflows[int(self.workflow_of[task])]
        return workflow.name, workflow.task_ids[int(self.local_index[task])]

    def with_durations(self, duration: FloatArray) -> Replay:
        """The same replay with other hidden durations ``[T, G]`` (leak tests, scenarios)."""
        return replace(self, duration=np.array(duration, np.float64), _cache={})

    def with_options(self, options: SimulationOptions) -> Replay:
        """The same replay under other placement or decision times."""
        return replace(self, options=options, _cache={})

    @property
    def digest(self) -> str:
        """SHA-256 over everything that can influence a schedule or a metric."""
        if "digest" not in self._cache:
            digest = hashlib.sha256()
            for workflow in self.workflows:
                workflow.digest_into(digest)
            settings = {
                "cluster": _as_floats(self.cluster.to_dict()),
                "options": asdict(self.options),
                "noise": asdict(self.noise),
                "closed": self.closed,
                "objective": self.objective,
            }
            digest.update(json.dumps(settings, sort_keys=True).encode())
            for array in (self.arrival, self.estimate, self.duration, self.demand):
                digest.update(np.ascontiguousarray(array).tobytes())
            if (np.diff(self.place) < 0).any():  # submitted in another order than the flat one
                digest.update(b"place" + self.place.tobytes())
            self._cache["digest"] = digest.hexdigest()
        return str(self._cache["digest"])


def _check_kinds(workload: object, cluster: object, options: object) -> None:
    for name, value, kind in (
        ("workload", workload, Workload),
        ("cluster", cluster, Cluster),
        ("options", options, SimulationOptions),
    ):
        if not isinstance(value, kind) and (value is not None or name == "workload"):
            raise InvalidReplayError(f"{name} is {described(value)}, expected a {kind.__name__}")


def _as_floats(value: Any) -> Any:
    """A described cluster with whole numbers as floats: 1 core and 1.0 cores are the same."""
    if isinstance(value, dict):
        return {key: _as_floats(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_as_floats(entry) for entry in value]
    return float(value) if isinstance(value, int) else value


def cluster_for(workload: Workload) -> Cluster:
    """The cluster a workload runs on when none is given: its own, else the shipped default."""
    from dagsched.cluster import default_cluster

    return workload.cluster if workload.cluster is not None else default_cluster()


def _submission_order(workload: Workload, workflows: Sequence[Workflow], local_index: Sequence[IntArray]) -> IntArray:
    """:attr:`Replay.place` of workflows in flat order, whose tasks are ``local_index[w]`` of their workflow."""
    first, begin = {}, 0
    for workflow in workload.workflows:
        first[workflow.name] = begin
        begin += len(workflow)
    source = np.concatenate([first[w.name] + rows for w, rows in zip(workflows, local_index, strict=True)])
    arrival = np.repeat([w.arrival for w in workflows], [len(w) for w in workflows])
    place = np.empty(len(source), np.int64)
    place[np.lexsort((source, arrival))] = np.arange(len(source))
    return place


def _natural_order(ids: Sequence[str]) -> IntArray:
    if all(len(i) < 18 and i.isascii() and i.isdigit() and (i[0] != "0" or i == "0") for i in ids):
        return np.argsort(np.array(ids, dtype=np.int64), kind="stable")
    return np.array(sorted(range(len(ids)), key=lambda row: natural_key(ids[row])), np.int64)


def _flatten(workload: Workload, cluster: Cluster) -> dict[str, Any]:
    workflows = tuple(sorted(workload.workflows, key=lambda w: (w.arrival, natural_key(w.name))))
    _check_resources(workload, cluster)
    sizes = [len(w) for w in workflows]
    pointers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    orders = [_natural_order(w.task_ids) for w in workflows]
    parent_idx, parent_bytes, parent_counts, topological = [], [], [], []
    for workflow, order, base in zip(workflows, orders, pointers, strict=False):
        flat_of = np.empty(len(order), np.int64)
        flat_of[order] = np.arange(base, base + len(order))
        counts = np.diff(workflow.parent_ptr)[order]
        starts = workflow.parent_ptr[:-1][order]
        edges = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
        parent_idx.append(flat_of[workflow.parent_idx[edges]])
        parent_bytes.append(workflow.parent_bytes[edges])
        parent_counts.append(counts)
        topological.append(flat_of[workflow.topological_order])
    parent_ptr = np.concatenate([[0], np.cumsum(np.concatenate(parent_counts))]).astype(np.int64)
    all_parents = np.concatenate(parent_idx).astype(np.int64)
    child_ptr, child_idx, _ = child_rows(parent_ptr, all_parents)
    demand = np.concatenate([_demand(w, cluster)[order] for w, order in zip(workflows, orders, strict=True)])
    seconds = [_seconds(w, cluster) for w in workflows]
    milestone = np.concatenate([w.milestone[o] for w, o in zip(workflows, orders, strict=True)])
    capacity = cluster.capacity
    fits = (capacity[None, :, :] - demand[:, None, :] >= -capacity[None, :, :] * FIT_TOLERANCE).all(axis=2)
    return {
        "workflows": workflows,
        "local_index": np.concatenate(orders),
        "workflow_ptr": pointers,
        "workflow_of": np.repeat(np.arange(len(workflows)), sizes),
        "place": _submission_order(workload, workflows, orders),
        "arrival": np.array([w.arrival for w in workflows]),
        "deadline": np.array([math.inf if w.deadline is None else w.deadline for w in workflows]),
        "weight": np.array([w.weight for w in workflows]),
        "told": np.concatenate([s[0][order] for s, order in zip(seconds, orders, strict=True)]),
        "recorded": np.concatenate([s[1][order] for s, order in zip(seconds, orders, strict=True)]),
        "demand": demand,
        "instances": np.concatenate([w.instances[order] for w, order in zip(workflows, orders, strict=True)]),
        "milestone": milestone,
        "can_hold": fits,
        "parent_ptr": parent_ptr,
        "parent_idx": all_parents,
        "parent_bytes": np.concatenate(parent_bytes),
        "child_ptr": child_ptr,
        "child_idx": child_idx,
        "topological_order": np.concatenate(topological),
    }


def _check_resources(workload: Workload, cluster: Cluster) -> None:
    """Every demanded resource must exist in the cluster."""
    for workflow in workload.workflows:
        for column, resource in enumerate(workflow.resources):
            if resource not in cluster.resources and workflow.demand[:, column].any():
                row = int(np.argmax(workflow.demand[:, column] > 0))
                raise InvalidReplayError(
                    f"workflow {workflow.name!r}, task {workflow.task_ids[row]!r}: demands {resource!r}, which cluster "
                    f"{cluster.name!r} does not have (it has {', '.join(cluster.resources)}); add it to the cluster"
                )


def _demand(workflow: Workflow, cluster: Cluster) -> FloatArray:
    demand = np.zeros((len(workflow), len(cluster.resources)))
    for column, resource in enumerate(cluster.resources):
        if resource in workflow.resources:
            demand[:, column] = workflow.demand[:, workflow.resources.index(resource)]
    return demand


def _seconds(workflow: Workflow, cluster: Cluster) -> tuple[FloatArray, FloatArray]:
    """Told and recorded seconds ``[T, G]``: the group's own value where given, else duration / speed.

    A given group value is a realised duration; where the estimate differs from the duration, the estimate
    on that group differs by the same factor.
    """
    groups = [group.name for group in cluster.groups]
    if workflow.group_names and not set(workflow.group_names) & set(groups):
        raise InvalidReplayError(
            f"workflow {workflow.name!r}: group_durations names {', '.join(map(repr, workflow.group_names[:6]))}, and "
            f"cluster {cluster.name!r} has no such group; {closest(workflow.group_names[0], groups, ', '.join(groups))}"
        )
    speed = cluster.speed
    told = workflow.estimate[:, None] / speed
    recorded = workflow.duration[:, None] / speed
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(workflow.duration > 0, workflow.estimate / workflow.duration, 1.0)
    for column, group in enumerate(cluster.groups):
        if group.name in workflow.group_names:
            given = workflow.group_duration[:, workflow.group_names.index(group.name)]
            known = ~np.isnan(given)
            recorded[known, column] = given[known]
            told[known, column] = (given * factor)[known]
    return told, recorded


def _noise_factors(workflows: Sequence[Workflow], local_index: IntArray, seed: int, sigma: float) -> FloatArray:
    """exp(sigma Z - sigma^2 / 2) per flat task, Z keyed by (seed, workflow name, task id) through a hash."""
    from scipy.special import ndtri

    words = bytearray()
    position = 0
    for workflow in workflows:
        prefix = hashlib.blake2b(f"dagsched noise {seed}\0{workflow.name}\0".encode(), digest_size=8)
        for row in local_index[position : position + len(workflow)]:
            keyed = prefix.copy()
            keyed.update(workflow.task_ids[row].encode())
            words += keyed.digest()
        position += len(workflow)
    uniform = (np.frombuffer(bytes(words), "<u8") >> np.uint64(11)).astype(np.float64)
    z = ndtri((uniform + 0.5) * 2.0**-53)
    return np.asarray(np.exp(sigma * z - sigma**2 / 2))


def _check_times(replay: Replay) -> None:
    """Every time must be one that the clock can count with."""
    for what, seconds in (("estimate", replay.estimate), ("duration", replay.duration)):
        bad = ~(seconds <= MOST_SECONDS)
        if bad.any():
            task, group = (int(k) for k in np.argwhere(bad)[0])
            workflow, task_id = replay.task_name(task)
            raise InvalidReplayError(
                f"workflow {workflow!r}, task {task_id!r}: {what} on group {replay.cluster.groups[group].name!r} is "
                f"{seconds[task, group]:g} s, expected at most {MOST_SECONDS:g} s; check the units and the speed"
            )
    deadline = np.where(np.isinf(replay.deadline), 0.0, replay.deadline)
    for what, moments in (("arrival", replay.arrival), ("deadline", deadline), ("weight", replay.weight)):
        bad = ~(np.abs(moments) <= MOST_SECONDS)
        if bad.any():
            late = int(np.argmax(bad))
            raise InvalidReplayError(
                f"workflow {replay.workflows[late].name!r}: {what} is {moments[late]:g}, expected at most "
                f"{MOST_SECONDS:g}; check the units"
            )
    between = ~np.eye(len(replay.cluster.groups), dtype=bool)
    if not len(replay.parent_idx) or not between.any():
        return
    slowest = float(replay.cluster.bandwidth[between].min())
    longest = float(replay.cluster.latency[between].max()) + float(replay.parent_bytes.max()) / slowest
    if not longest <= MOST_SECONDS:
        edge = int(np.argmax(replay.parent_bytes))
        workflow, task_id = replay.task_name(int(replay.parent_idx[edge]))
        raise InvalidReplayError(
            f"workflow {workflow!r}, task {task_id!r}: sending its {replay.parent_bytes[edge]:g} bytes would take "
            f"{longest:g} s, expected at most {MOST_SECONDS:g} s; check bytes, bandwidth and latency"
        )


def _check_exact(replay: Replay) -> None:
    """Where estimates are declared exact, they must be."""
    if replay.noise.kind != "exact" or np.array_equal(replay.estimate, replay.duration):
        return
    task, group = (int(k) for k in np.argwhere(replay.estimate != replay.duration)[0])
    workflow, task_id = replay.task_name(task)
    raise InvalidReplayError(
        f"workflow {workflow!r}, task {task_id!r}: the estimate is {replay.estimate[task, group]:g} s and the duration "
        f"{replay.duration[task, group]:g} s, but estimates are declared exact; declare them unknown, or drop them"
    )


def _check_fit(replay: Replay) -> None:
    """Every task must fit on some empty node; otherwise the replay could never end."""
    stuck = ~replay.can_hold.any(axis=1)
    if not stuck.any():
        return
    task = int(np.argmax(stuck))
    workflow, task_id = replay.task_name(task)
    capacity, resources = replay.cluster.capacity, replay.cluster.resources
    shares = [replay.demand[task] / np.where(row > 0, row, 1e-300) for row in capacity]
    largest = int(np.argmin([share.max() for share in shares]))
    need = ", ".join(f"{r} {a:g}" for r, a in zip(resources, replay.demand[task], strict=True))
    room = ", ".join(f"{r} {a:g}" for r, a in zip(resources, capacity[largest], strict=True))
    more = f" ({int(stuck.sum())} tasks in all)" if stuck.sum() > 1 else ""
    raise InvalidReplayError(
        f"workflow {workflow!r}, task {task_id!r}: demand {need} fits no node of cluster {replay.cluster.name!r}; the "
        f"largest, group {replay.cluster.groups[largest].name!r}, has {room}{more}; enlarge a node or drop the task"
    )


def _check_starts(replay: Replay) -> None:
    """Every start is recorded: more of them than memory holds are refused before it is full."""
    if int(replay.instances.sum()) <= MOST_STARTS:  # the usual case, without arrays of tasks x groups
        return
    room = np.zeros(len(replay))
    for group, capacity in enumerate(replay.cluster.capacity):
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(replay.demand > 0, capacity * (1 + FIT_TOLERANCE) / replay.demand, np.inf).min(axis=1)
        room = np.maximum(room, np.where(replay.can_hold[:, group], np.maximum(np.floor(share), 1.0), 0.0))
    starts = np.ceil(replay.instances / room)
    if starts.sum() <= MOST_STARTS:
        return
    task = int(np.argmax(starts))
    workflow, task_id = replay.task_name(task)
    raise InvalidReplayError(
        f"workflow {workflow!r}, task {task_id!r}: {replay.instances[task]:,} instances, at most {room[task]:,.0f} of "
        f"them on a node at once; the replay needs {starts.sum():,.0f} starts or more, and at most {MOST_STARTS:,} can "
        f"be recorded; use fewer instances or workflows (compare has --limit)"
    )
