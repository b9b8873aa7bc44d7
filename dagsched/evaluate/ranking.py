"""Who is best, by how much, and whether the difference is more than luck.

A head table shows each policy's mean and its paired effect against the best policy of that table, with a 95%
bootstrap interval: log ratios (shown as percent) for times, differences (in points) for rates. Every workload
counts the same; policies that refused some replay are not ranked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dagsched.evaluate.columns import direction, is_ratio_scale, metric_label
from dagsched.evaluate.config import Objective
from dagsched.evaluate.statistics import Interval, holm, paired_bootstrap, wilcoxon_p, workload_means
from dagsched.evaluate.table import ResultTable
from dagsched.workflow import FloatArray, IntArray

OBJECTIVE_METRIC: dict[Objective, str] = {
    "makespan": "makespan",
    "flow_time": "mean_flow_time",
    "slo": "slo_violation_rate",
}
MEAN_UTILISATION = "utilisation_all"
"""Stands for the mean over resources where no resource is called cpu."""

HEAD_TITLES = {
    "makespan": "Completion time",
    "slo_violation_rate": "SLO violation rate",
    "utilisation_cpu": "Utilisation (cpu)",
    MEAN_UTILISATION: "Utilisation (mean over resources)",
    "mean_wait": "Mean wait of a task",
}
SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class Standing:
    """One policy in a head table.

    Attributes:
        policy: spec.
        mean: mean over workloads of the mean over replays, in the metric's unit.
        effect: log ratio or difference against the best policy; ``None`` for the best itself, or where nothing
            can be compared (only zeros).
        p_value: Wilcoxon signed rank against the best, adjusted for all policies (Holm).
        best: whether its mean effect is the best; exact ties are all best.
    """

    policy: str
    mean: float
    effect: Interval | None
    p_value: float
    best: bool


@dataclass(frozen=True, slots=True)
class HeadTable:
    """All ranked policies by one metric, best first.

    Attributes:
        metric: column, or ``MEAN_UTILISATION``.
        title: for people.
        is_ratio: effects are log ratios, else differences.
        standings: best first.
        left_out: policies without a row for every replay.
    """

    metric: str
    title: str
    is_ratio: bool
    standings: tuple[Standing, ...]
    left_out: tuple[str, ...]


def head_tables(table: ResultTable) -> tuple[HeadTable, ...]:
    """Completion time, SLO violation rate, utilisation and mean wait, where there are values."""
    used = "utilisation_cpu" if "utilisation_cpu" in table.utilisation else MEAN_UTILISATION
    metrics = ("makespan", "slo_violation_rate", used, "mean_wait")
    return tuple(head for metric in metrics if (head := head_table(table, metric)) is not None)


def metric_values(table: ResultTable, metric: str) -> FloatArray:
    """``[C, P]`` values of a column, or the mean over all utilisation columns."""
    if metric != MEAN_UTILISATION:
        return table.values(metric)
    columns = [table.values(name) for name in table.utilisation]
    if not columns:
        return np.full((len(table.workload), len(table.policies)), math.nan)
    stacked = np.stack(columns)
    known = ~np.isnan(stacked)
    total = np.where(known, stacked, 0.0).sum(axis=0)
    return np.asarray(np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), math.nan))


def head_table(table: ResultTable, metric: str) -> HeadTable | None:
    """The standings by one metric; ``None`` where no replay has a value."""
    values = metric_values(table, metric)
    cells = ~np.isnan(values).all(axis=1)
    if not cells.any():
        return None
    values, workload = values[cells], table.workload[cells]
    complete = ~np.isnan(values).any(axis=0)
    if not complete.any():
        complete[:] = True
        values = np.where(np.isnan(values), np.nanmean(values), values)
    names = [policy for policy, whole in zip(table.policies, complete, strict=True) if whole]
    values = values[:, complete]
    ratio, sign = is_ratio_scale(metric), direction(metric)
    means = np.array([workload_means(values[:, p], workload).mean() for p in range(len(names))])
    scale, usable = _scale(values, ratio)
    score = np.array([workload_means(scale[:, p], workload[usable]).mean() for p in range(len(names))])
    best = int(np.argmax(np.round(sign * score, 12)))
    effects = [_effect(scale, workload[usable], p, best) for p in range(len(names))]
    tests = [math.nan if p == best else _test(scale, workload[usable], p, best) for p in range(len(names))]
    adjusted = holm(tests)
    tied = [p == best or (e is not None and e.mean == 0 and e.low in (None, 0.0)) for p, e in enumerate(effects)]
    standings = [
        Standing(names[p], float(means[p]), None if p == best else effects[p], adjusted[p], tied[p])
        for p in range(len(names))
    ]
    order = sorted(range(len(names)), key=lambda p: (-float(sign * score[p]), p != best, p))
    left_out = tuple(policy for policy, whole in zip(table.policies, complete, strict=True) if not whole)
    title = HEAD_TITLES.get(metric, metric_label(metric).capitalize())
    return HeadTable(metric, title, ratio, tuple(standings[p] for p in order), left_out)


def _scale(values: FloatArray, ratio: bool) -> tuple[FloatArray, IntArray]:
    """Values on the scale on which effects add up, and the replays (indices) that have one.

    Ratios to zero have no logarithm: a replay counts only if all policies are above zero on it; if none is,
    differences are taken instead.
    """
    everything = np.arange(len(values))
    if not ratio:
        return values, everything
    positive = (values > 0).all(axis=1)
    if not positive.any():
        return np.zeros_like(values), everything
    return np.log(values[positive]), everything[positive]


def _effect(scale: FloatArray, workload: IntArray, policy: int, best: int) -> Interval:
    return paired_bootstrap(scale[:, policy] - scale[:, best], workload)


def _test(scale: FloatArray, workload: IntArray, policy: int, best: int) -> float:
    return wilcoxon_p(scale[:, policy] - scale[:, best], workload)


def effect_text(effect: Interval | None, *, is_ratio: bool) -> str:
    """``+3.1% [1.0, 5.2]`` for a log ratio, ``+2.0 points [0.5, 3.1]`` for a difference of rates."""
    if effect is None:
        return ""

    def size(value: float) -> float:
        return 100 * (math.expm1(value) if is_ratio else value)

    unit = "%" if is_ratio else " pt"
    text = f"{size(effect.mean):+.1f}{unit}"
    if effect.low is None or effect.high is None:
        return text
    return f"{text} [{size(effect.low):+.1f}, {size(effect.high):+.1f}]"


def verdict(table: ResultTable, objective: Objective) -> str:
    """One plain sentence: who wins by the objective, by how much, over how many workloads and replays."""
    head = head_table(table, OBJECTIVE_METRIC[objective])
    if head is None:
        return f"Nobody wins: no replay has a value of {metric_label(OBJECTIVE_METRIC[objective])}."
    what = metric_label(head.metric)
    where = _count(len(table.workloads), "workload")
    if len(table.workload) > len(table.workloads):
        where += f" ({len(table.workload):,} replays)"
    first, *others = head.standings
    if not others:
        return f"{first.policy} is the only policy ranked, over {where}."
    equal = [s.policy for s in others if not _differs(s)]
    if len(table.workload) == 1:
        tied = [s.policy for s in head.standings if s.best]
        if len(tied) > 1:
            return f"{_names(tied)} tie for the best {what} on the only replay; one replay shows no significance."
        gap = effect_text(others[0].effect, is_ratio=head.is_ratio)
        return (
            f"{first.policy} has the best {what} on the only replay, {others[0].policy} follows ({gap}); "
            f"one replay shows no significance."
        )
    if not equal:
        gap = effect_text(others[0].effect, is_ratio=head.is_ratio)
        return (
            f"{first.policy} wins: the best {what} over {where}, significantly ahead of {others[0].policy} ({gap}) "
            f"and all others."
        )
    behind = len(others) - len(equal)
    rest = f"; it is significantly ahead of the other {behind}" if behind else ""
    if len(equal) == 1 and others[0].policy == equal[0]:
        gap = f" ({effect_text(others[0].effect, is_ratio=head.is_ratio)})"
    else:
        gap = ""
    return (
        f"No clear winner: {first.policy} has the best {what} over {where}, but no significant difference from "
        f"{_names(equal)}{gap}{rest}."
    )


def _differs(standing: Standing) -> bool:
    """Significantly worse than the best: the interval excludes zero and the adjusted test agrees."""
    effect = standing.effect
    return effect is not None and effect.excludes_zero and standing.p_value < SIGNIFICANT


def _names(names: list[str]) -> str:
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
