"""How policies differ on one metric, and the plain sentence that says who wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dagsched.evaluate.columns import direction, is_ratio_scale, metric_label
from dagsched.evaluate.statistics import (
    TIE_TOLERANCE,
    Interval,
    compare_values,
    holm,
    paired_bootstrap,
    wilcoxon_p,
    workload_means,
)
from dagsched.evaluate.table import ResultTable
from dagsched.objective import OBJECTIVES
from dagsched.texts import digits
from dagsched.workflow import FloatArray

SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class Effect:
    """One policy against a reference on the replays that both finished.

    Attributes:
        policy, reference: specs.
        mean: the policy's own mean: over workloads, of the mean over replays.
        cells: replays with a value of this policy.
        relative: whether ``interval`` is about log ratios; else about differences.
        interval: of the paired effect, positive where the policy's value is larger; ``None`` for the reference
            itself or without common replays.
        p_value: Wilcoxon, adjusted by Holm over all policies; NaN for the reference.
    """

    policy: str
    reference: str
    mean: float
    cells: int
    relative: bool
    interval: Interval | None
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether both the interval and the adjusted test exclude no effect."""
        return self.interval is not None and self.interval.excludes_zero and self.p_value < SIGNIFICANCE


def best_policy(table: ResultTable, metric: str) -> str | None:
    """The policy with the best mean on the replays common to those policies that finished most replays.

    Means are over workloads, of log values where these are compared by ratio. ``None`` if nothing has a value.
    """
    values = table.values(metric)
    finished = (~np.isnan(values)).sum(axis=0)
    if not finished.any():
        return None
    contenders = np.flatnonzero(finished == finished.max())
    common = ~np.isnan(values[:, contenders]).any(axis=1)
    if not common.any():
        contenders, common = contenders[:1], ~np.isnan(values[:, contenders[0]])
    scores = values[np.ix_(common, contenders)]
    if is_relative(metric, scores):
        scores = np.log(np.where(scores > 0, scores, 1.0))
    means = np.array([workload_means(column, table.workload[common]).mean() for column in scores.T])
    best = means.max() if direction(metric) > 0 else means.min()
    near = np.abs(means - best) <= 1e-9 * np.maximum(1.0, np.abs(best))
    return table.policies[int(contenders[np.argmax(near)])]


@lru_cache(maxsize=256)
def effects(table: ResultTable, metric: str, reference: str | None = None, *, seed: int = 0) -> tuple[Effect, ...]:
    """Every policy against ``reference`` (by default the best one), the best mean first; empty without values."""
    values = table.values(metric)
    reference = reference or best_policy(table, metric)
    if reference is None:
        return ()
    base = values[:, table.policies.index(reference)]
    relative = is_relative(metric, values)
    found = []
    for index, policy in enumerate(table.policies):
        own = values[:, index]
        known = ~np.isnan(own)
        both = known & ~np.isnan(base)
        mean = float(workload_means(own[known], table.workload[known]).mean()) if known.any() else math.nan
        interval, p_value = None, math.nan
        if policy != reference and both.any():
            effect = _paired(own[both], base[both], relative=relative)
            interval = paired_bootstrap(effect, table.workload[both], seed=seed)
            p_value = wilcoxon_p(effect, table.workload[both])
        found.append(Effect(policy, reference, mean, int(known.sum()), relative, interval, p_value))
    adjusted = holm([effect.p_value for effect in found])
    found = [replace(effect, p_value=p) for effect, p in zip(found, adjusted, strict=True)]
    sign = -direction(metric) or 1
    return tuple(sorted(found, key=lambda e: _sort_key(e, sign)))


def head_metrics(table: ResultTable, objective: str, *, resources: int = 1) -> tuple[str, ...]:
    """What is shown first: the objective's metric, completion time, gap to the best known, SLO violation rate,
    utilisation (of cpu, else of the first so many resources) and mean wait, as far as there are values.
    """
    used = table.utilisation
    shown = ("utilisation_cpu",) if "utilisation_cpu" in used else used[:resources]
    metrics = ("makespan", "gap_known", "slo_violation_rate", *shown, "mean_wait")
    if OBJECTIVES[objective].metric not in metrics:
        metrics = (OBJECTIVES[objective].metric, *metrics)
    return tuple(metric for metric in metrics if table.has(metric))


def verdict(table: ResultTable, objective: str, *, seed: int = 0) -> str:
    """One or two plain sentences: who wins for the objective, by how much, and how sure that is."""
    metric = OBJECTIVES[objective].metric
    found = effects(table, metric, seed=seed)
    if not found:
        reason = "no workflow has a deadline" if objective == "slo" else "no replay has a value"
        return f"No verdict on {metric_label(metric)}: {reason}."
    best, rivals = found[0], [e for e in found[1:] if e.interval is not None]
    if not rivals:
        return f"Only {best.policy} has results, so there is nothing to compare it with."
    runner_up = rivals[0]
    name = metric_label(metric)
    if all(is_tie(e) for e in rivals) and best.cells:
        return f"All {len(rivals) + 1} policies tie on {name}{_scope(runner_up)}."
    if runner_up.interval is not None and runner_up.interval.low is None:
        if is_tie(runner_up):
            also = [best.policy, *(e.policy for e in rivals if is_tie(e))]
            return f"{_listing(also)} share the best {name} on this single replay, which allows no confidence interval."
        how = effect_text(runner_up, metric, interval=False)
        return (
            f"{best.policy} has the best {name} on this single replay ({runner_up.policy}, next, is at {how}); "
            f"one replay allows no confidence interval, so run more workloads or --replays."
        )
    ties = [best.policy, *(e.policy for e in rivals if is_tie(e))]
    if len(ties) > 1:
        near = next(e for e in rivals if not is_tie(e))
        chance = "" if near.significant else ", which is not significant"
        return (
            f"{_listing(ties)} tie exactly on {name}{_scope(runner_up)}; the nearest other, {near.policy}, is at "
            f"{effect_text(near, metric)}{chance}.{_doubt(near)}"
        )
    close = [e for e in rivals if not e.significant]
    if not close:
        how = effect_text(runner_up, metric)
        return f"{best.policy} wins on {name}: {runner_up.policy}, next, is at {how}{_scope(runner_up)}."
    others = _listing([e.policy for e in close])
    sentence = f"No significant difference in {name} between {best.policy} (best mean) and {others}"
    beaten = len(rivals) - len(close)
    if beaten:
        sentence += (
            f"; {best.policy} beats the other {beaten}" if beaten > 1 else f"; {best.policy} beats the other one"
        )
    nearest = effect_text(close[0], metric)
    return f"{sentence}{_scope(runner_up)}. The nearest, {close[0].policy}, is at {nearest}.{_doubt(close[0])}"


def _doubt(effect: Effect) -> str:
    """Why an effect whose interval excludes zero is not significant; empty for any other."""
    if effect.significant or effect.interval is None or not effect.interval.excludes_zero:
        return ""
    return " That interval is all on one side, but the signed-rank test needs more workloads or --replays."


def effect_text(effect: Effect, metric: str, *, interval: bool = True) -> str:
    """Such as ``+3.1% (95% interval +1.0% to +5.2%)``: how far a policy is from the reference."""
    if effect.interval is None:
        return ""
    text = amount_text(effect.interval.mean, metric, relative=effect.relative)
    if not interval or effect.interval.low is None or effect.interval.high is None:
        return text
    low = amount_text(effect.interval.low, metric, relative=effect.relative)
    return f"{text} (95% interval {low} to {amount_text(effect.interval.high, metric, relative=effect.relative)})"


def amount_text(amount: float, metric: str, *, relative: bool) -> str:
    """A log ratio as signed percent, a difference of rates in percentage points, of others in their unit."""
    if relative:
        percent = 100 * math.expm1(amount) if amount < 700 else math.inf
        return _signed(percent, f"{abs(percent):.1f}" if abs(percent) < 1000 else digits(abs(percent)), "%")
    if metric == "load_imbalance" or is_ratio_scale(metric):
        return _signed(amount, digits(abs(amount)), " s" if is_ratio_scale(metric) else "")
    return _signed(amount, f"{abs(100 * amount):.1f}", " points")


def interval_text(effect: Effect, metric: str) -> str:
    """Such as ``[+1.0, +5.2]``: the ends of the interval in the unit of :func:`amount_text`; empty without one."""
    interval = effect.interval
    if interval is None or interval.low is None or interval.high is None:
        return ""
    ends = (amount_text(end, metric, relative=effect.relative) for end in (interval.low, interval.high))
    return f"[{', '.join(end.removesuffix('%').removesuffix(' points').removesuffix(' s') for end in ends)}]"


def is_tie(effect: Effect) -> bool:
    """Whether policy and reference have the same value on every common replay."""
    return (
        effect.interval is not None
        and abs(effect.interval.mean) <= TIE_TOLERANCE
        and effect.interval.low in (None, effect.interval.high)
    )


def _signed(value: float, text: str, unit: str) -> str:
    if not float(text.replace(",", "")):
        return f"{text}{unit}"
    return f"{'+' if value > 0 else '−'}{text}{unit}"


def is_relative(metric: str, values: FloatArray) -> bool:
    """Log ratios need positive values; a metric with zeros (waits) is compared by difference."""
    return is_ratio_scale(metric) and not (values[~np.isnan(values)] <= 0).any()


def _paired(own: FloatArray, base: FloatArray, *, relative: bool) -> FloatArray:
    tied = compare_values(own, base) == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.log(own / base) if relative else own - base
    return np.where(tied, 0.0, effect)


def _sort_key(effect: Effect, sign: int) -> tuple[int, float]:
    """The reference, then the others by paired effect, then those without common replays."""
    if effect.policy == effect.reference:
        return 0, 0.0
    if effect.interval is None:
        return 2, 0.0
    return 1, sign * effect.interval.mean


def _scope(effect: Effect) -> str:
    interval = effect.interval
    if interval is None or interval.unit == "none":
        return " on this single replay"
    if interval.unit == "replays":
        return f", over {interval.count} replays of one workload"
    return f", over {interval.count} workloads"


def _listing(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= 5 else [*names[:4], f"{len(names) - 4} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
