"""Names, order, direction and display of the columns of ``results.csv`` and ``timings.csv``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dagsched.texts import csv_text, digits

KEY_COLUMNS = (
    "workload",
    "workflow_count",
    "task_count",
    "replay",
    "policy",
    "replay_digest",
    "valid",
    "reproducible",
)
"""What a row is about, before the metrics."""

UTILISATION = "utilisation_"
"""Prefix of the one column per resource."""

DECISION_QUANTILES = {
    "decision_ms_p1": 1.0,
    "decision_ms_p25": 25.0,
    "decision_ms_p50": 50.0,
    "decision_ms_p75": 75.0,
    "decision_ms_p99": 99.0,
    "decision_ms_max": 100.0,
}
"""Percentiles of the time a policy takes for a decision, by column."""

TIMING_METRICS = tuple(DECISION_QUANTILES)
"""Measured columns: they differ between runs and so go to ``timings.csv``."""

_BEFORE_UTILISATION = (
    "makespan",
    "lower_bound",
    "ratio_lb",
    "mean_flow_time",
    "p95_flow_time",
    "weighted_flow_time",
    "mean_slowdown",
    "slr",
    "gap_known",
    "mean_wait",
    "p99_wait",
    "longest_wait",
    "load_imbalance",
    "slo_violation_rate",
    "mean_tardiness",
)
_AFTER_UTILISATION = ("decisions", "wait_actions", "truncated_share")

RESULT_METRICS = (*_BEFORE_UTILISATION, *_AFTER_UTILISATION)
"""Reproducible metrics except the ``utilisation_<resource>`` columns, which stand before ``decisions``."""

RESULT_COLUMNS = (*KEY_COLUMNS, *RESULT_METRICS)
"""Columns every ``results.csv`` has; :func:`result_columns` adds the resources."""

_LABELS = {
    "makespan": "completion time",
    "lower_bound": "lower bound",
    "ratio_lb": "completion time / lower bound",
    "mean_flow_time": "mean flow time",
    "p95_flow_time": "95th percentile flow time",
    "weighted_flow_time": "weighted mean flow time",
    "mean_slowdown": "mean slowdown",
    "slr": "completion time / critical path",
    "gap_known": "gap to the best known",
    "mean_wait": "mean wait",
    "p99_wait": "99th percentile wait",
    "longest_wait": "longest wait",
    "load_imbalance": "load imbalance",
    "slo_violation_rate": "SLO violation rate",
    "mean_tardiness": "mean tardiness",
    "decisions": "decisions",
    "wait_actions": "WAIT actions",
    "decision_ms_p50": "median decision time (ms)",
    "decision_ms_p99": "99th percentile decision time (ms)",
    "truncated_share": "share of cut decisions",
}
_NEUTRAL = frozenset({"lower_bound", "decisions", "wait_actions"})
_SHARES = frozenset({"slo_violation_rate", "truncated_share", "gap_known"})
_SECONDS = frozenset(
    {
        "makespan",
        "lower_bound",
        "mean_flow_time",
        "p95_flow_time",
        "weighted_flow_time",
        "mean_wait",
        "p99_wait",
        "longest_wait",
        "mean_tardiness",
    }
)


def result_columns(resources: Sequence[str]) -> tuple[str, ...]:
    """Columns of ``results.csv`` for clusters with these resources, in order."""
    used = tuple(f"{UTILISATION}{resource}" for resource in resources)
    return (*KEY_COLUMNS, *_BEFORE_UTILISATION, *used, *_AFTER_UTILISATION)


def timing_columns() -> tuple[str, ...]:
    """Columns of ``timings.csv``, in order."""
    return ("workload", "replay", "policy", *TIMING_METRICS, "seconds", "simulations", "search")


def direction(metric: str) -> int:
    """-1 where lower is better, 1 where higher is better, 0 where neither."""
    if metric.startswith(UTILISATION):
        return 1
    return 0 if metric in _NEUTRAL else -1


def is_ratio_scale(metric: str) -> bool:
    """Whether policies are compared by log ratio (times, ratios to a bound) rather than by difference (rates)."""
    return not metric.startswith(UTILISATION) and metric not in _SHARES and metric not in ("load_imbalance",)


def metric_label(metric: str) -> str:
    """Words for a metric, such as ``mean flow time``."""
    if metric.startswith(UTILISATION):
        return f"utilisation of {metric.removeprefix(UTILISATION)}"
    return _LABELS.get(metric, metric.replace("_", " "))


def in_seconds(metric: str) -> bool:
    """Whether the metric is a time."""
    return metric in _SECONDS


def csv_cell(value: object) -> str:
    """The text of one CSV cell: numbers in the shortest form that reads back the same, texts never as formulas.

    ``None`` is empty.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    return csv_text(value) if isinstance(value, str) else str(value)


def display(metric: str, value: float | None, *, fixed: bool = False) -> str:
    """A number for people: seconds with a unit, rates in percent, about four digits; a dash where empty.

    ``fixed`` keeps trailing zeros of seconds, for columns of numbers.
    """
    if value is None or math.isnan(value):
        return "–"
    if metric in _SHARES or metric.startswith(UTILISATION):
        return f"{100 * value:.1f}%"
    if metric in _SECONDS:
        return f"{digits(value, fixed=fixed)} s"
    return digits(value)
