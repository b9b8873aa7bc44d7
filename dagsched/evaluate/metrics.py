"""What a schedule is worth: every metric of ``docs/metrics.md``, one pure function.

Notation: workflow w has arrival a_w, finish f_w, flow time F_w = f_w - a_w, weight w_w, deadline d_w, critical path
CP_w (realised durations, fastest groups, no transfers). The span runs from the first arrival to the last finish.
"""

from __future__ import annotations

import numpy as np

from dagsched.evaluate.columns import DECISION_QUANTILES
from dagsched.graph import critical_path, lower_bound
from dagsched.replay import Replay
from dagsched.schedule import WAIT, Schedule
from dagsched.simulator.occupancy import occupation
from dagsched.workflow import FloatArray, IntArray

Metrics = dict[str, float | None]
"""Metric values by name; ``None`` where a denominator is zero or nothing has a deadline (an empty cell)."""

LATE_TOLERANCE = 1e-9
"""A workflow is late if it finishes after its deadline by more than this share of its flow time (rounding)."""

_SPREAD_FLOOR = 1e-12
"""Variances below this are the rounding of running sums, not imbalance."""


def metrics(schedule: Schedule) -> Metrics:
    """All metrics of one complete schedule, in the order of the columns of ``results.csv``.

    Times are in seconds, shares and ratios have no unit. The columns ``decision_ms_...`` are
    measured and belong in ``timings.csv`` (:data:`dagsched.evaluate.columns.TIMING_METRICS`).
    """
    return {
        **completion(schedule),
        **waiting(schedule),
        "load_imbalance": load_imbalance(schedule),
        **service_level(schedule),
        **utilisation(schedule),
        **decisions(schedule),
    }


def _known_applies(replay: Replay) -> bool:
    own = replay.workload.cluster
    same = own is None or own.to_dict() == replay.cluster.to_dict()
    return bool(same) and np.array_equal(replay.duration, replay.estimate)


def completion(schedule: Schedule) -> Metrics:
    """How soon the work is done.

    - ``makespan`` = max f - min a, ``lower_bound`` as in ``graph.lower_bound``, ``ratio_lb`` = their ratio
    - ``mean_flow_time`` = mean F, ``p95_flow_time`` = 95th percentile of F (linear interpolation)
    - ``weighted_flow_time`` = sum w F / sum w
    - ``mean_slowdown`` = mean of F / CP over workflows with CP > 0
    - ``slr`` = makespan / max CP, ``gap_known`` = makespan / known makespan - 1, where the published makespan
      is about this very problem: the workload's own cluster, arrivals and durations
    """
    replay = schedule.replay
    flow = schedule.workflow_finish - replay.arrival
    path = critical_path(replay)
    makespan, bound = schedule.makespan, lower_bound(replay)
    known = replay.workload.known_makespan if _known_applies(replay) else None
    gap = None if known is None else _ratio(makespan, known)
    long = path > 0
    return {
        "makespan": makespan,
        "lower_bound": bound,
        "ratio_lb": _ratio(makespan, bound),
        "mean_flow_time": float(flow.mean()),
        "p95_flow_time": float(np.percentile(flow, 95)),
        "weighted_flow_time": _ratio(float((replay.weight * flow).sum()), float(replay.weight.sum())),
        "mean_slowdown": float((flow[long] / path[long]).mean()) if long.any() else None,
        "slr": _ratio(makespan, float(path.max())),
        "gap_known": None if gap is None else gap - 1.0,
    }


def waiting(schedule: Schedule) -> Metrics:
    """Seconds between ready and first allocation over tasks that are no milestones.

    ``mean_wait``, ``p99_wait`` (99th percentile, linear interpolation) and ``longest_wait``.
    """
    placed = ~schedule.replay.milestone
    wait = (schedule.task_start - schedule.ready)[placed]
    if not len(wait):
        return {"mean_wait": None, "p99_wait": None, "longest_wait": None}
    return {
        "mean_wait": float(wait.mean()),
        "p99_wait": float(np.percentile(wait, 99)),
        "longest_wait": float(wait.max()),
    }


def load_imbalance(schedule: Schedule) -> float | None:
    """Mean over the span of the standard deviation over nodes of node utilisation.

    A node's utilisation at an instant is its largest share held over the resources it has (the dominant one).
    ``None`` for an empty span; 0 on one node.
    """
    replay, span = schedule.replay, schedule.makespan
    nodes = replay.cluster.node_count
    if span <= 0:
        return None
    if nodes == 1:
        return 0.0
    node, time, share = _dominant_share(schedule)
    previous = np.zeros(len(share))
    same = node[1:] == node[:-1]
    previous[1:][same] = share[:-1][same]
    order = np.argsort(time, kind="stable")
    total = np.cumsum((share - previous)[order])
    squares = np.cumsum((share**2 - previous**2)[order])
    variance = squares / nodes - (total / nodes) ** 2
    spread = np.sqrt(np.where(variance < _SPREAD_FLOOR, 0.0, variance))
    return float((spread[:-1] * np.diff(time[order])).sum()) / span


def service_level(schedule: Schedule) -> Metrics:
    """Over the workflows with a deadline; ``None`` where there are none.

    ``slo_violation_rate`` = share with f > d, ``mean_tardiness`` = mean of max(f - d, 0).
    """
    deadline = schedule.replay.deadline
    bound = np.isfinite(deadline)
    if not bound.any():
        return {"slo_violation_rate": None, "mean_tardiness": None}
    over = (schedule.workflow_finish - deadline)[bound]
    flow = (schedule.workflow_finish - schedule.replay.arrival)[bound]
    late = over > np.maximum(LATE_TOLERANCE * flow, 4 * np.spacing(np.abs(deadline[bound])))
    return {
        "slo_violation_rate": float(late.mean()),
        "mean_tardiness": float(np.where(late, over, 0.0).mean()),
    }


def utilisation(schedule: Schedule) -> Metrics:
    """``utilisation_R`` = sum of demand x held time (transfers included) / (total capacity x makespan)."""
    replay, cluster = schedule.replay, schedule.replay.cluster
    held = (schedule.finish - schedule.start) * schedule.count
    used = (replay.demand[schedule.task] * held[:, None]).sum(axis=0)
    nodes = np.array([group.nodes for group in cluster.groups], np.float64)
    room = (cluster.capacity * nodes[:, None]).sum(axis=0) * schedule.makespan
    return {
        f"utilisation_{r}": _ratio(float(u), float(c)) for r, u, c in zip(cluster.resources, used, room, strict=True)
    }


def decisions(schedule: Schedule) -> Metrics:
    """Counts of the decision log, and the milliseconds the policy took for each decision where measured.

    ``decisions`` counts all, WAIT included; ``wait_actions`` only WAIT; ``truncated_share`` = decisions whose
    candidates were cut / decisions; ``decision_ms_p1`` to ``decision_ms_p99`` are percentiles.
    """
    count = len(schedule.decision_task)
    times = schedule.timings_ms
    return {
        "decisions": float(count),
        "wait_actions": float((schedule.decision_task == WAIT).sum()),
        **{name: float(np.percentile(times, q)) if len(times) else None for name, q in DECISION_QUANTILES.items()},
        "truncated_share": _ratio(float(schedule.truncated_decisions), float(count)),
    }


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def _dominant_share(schedule: Schedule) -> tuple[IntArray, FloatArray, FloatArray]:
    """(node, time, largest share held over resources from then on) after every event, by node, then time."""
    replay, cluster = schedule.replay, schedule.replay.cluster
    room = cluster.capacity[cluster.node_group][schedule.node]
    amount = replay.demand[schedule.task] * schedule.count[:, None]
    share = amount / np.where(room > 0, room, 1.0)
    time, node, level = occupation(schedule.node, schedule.start, schedule.finish, share)
    return node, time, level.max(axis=1)
