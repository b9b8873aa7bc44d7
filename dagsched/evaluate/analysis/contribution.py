"""What search contributes: every planner of a comparison against the first one, its budgets, its speed.

Computed from the rows of results.csv and timings.csv alone, so that a stored comparison shows the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dagsched.evaluate.analysis.ablation import budget_of, describe, first_planner, infer_base, is_budget_of, is_planner
from dagsched.evaluate.analysis.effects import Effect, effects
from dagsched.evaluate.columns import DECISION_QUANTILES
from dagsched.evaluate.statistics import workload_means
from dagsched.evaluate.table import ResultTable, Row

_RULES = ("rule", "list")


@dataclass(frozen=True, slots=True)
class Variant:
    """One planner, or the base policy, of a comparison.

    Attributes:
        policy: spec.
        change: what it changes in the planner that the others are compared with, in words.
        effect: against that planner.
        decision_ms: percentiles in the order of ``DECISION_QUANTILES``, means over workloads; NaN where not measured.
        rate: simulations per second of the whole run; NaN for the base and where not measured.
        each: simulations per decision; likewise.
        searches: kind of search, with numbers of replays if there were several (``list 3, race 1``); empty: base.
    """

    policy: str
    change: str
    effect: Effect
    decision_ms: tuple[float, ...]
    rate: float
    each: float
    searches: str = ""

    @property
    def measured(self) -> bool:
        """Whether its decisions were timed."""
        return not any(math.isnan(time) for time in self.decision_ms)


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """The planner at one budget: ``effect`` is against the base of the curve."""

    policy: str
    budget: float
    effect: Effect


@dataclass(frozen=True, slots=True)
class Contribution:
    """What search contributes, by one metric.

    Attributes:
        metric: of the objective.
        planner: what the variants are compared with.
        variants: base policy, planner, then the others in order of the comparison.
        base: policy that the curve's effects are against: the base policy or, if it was not run, the best other one.
        is_base: whether it is the base policy.
        unit: of the budgets, in words.
        points: by budget, ascending; fewer than two are no curve.
        rule: the best classic rule against ``base``; ``None`` if there is no other.
    """

    metric: str
    planner: str
    variants: tuple[Variant, ...]
    base: str | None
    is_base: bool
    unit: str
    points: tuple[BudgetPoint, ...]
    rule: Effect | None


def contribution(
    table: ResultTable, timings: Sequence[Row], metric: str, objective: str, base: str | None = None
) -> Contribution | None:
    """What the planners of a comparison contribute; ``None`` without planners or anything to compare them with.

    Args:
        table: rows of results.csv.
        timings: rows of timings.csv.
        metric: of the objective.
        objective: ``makespan``, ``flow_time`` or ``slo``.
        base: the planner's base policy, if known; else it is guessed from its options.
    """
    planner = first_planner(table.policies)
    if planner is None or len(table.policies) < 2 or not table.has(metric):
        return None
    base = base if base in table.policies else infer_base(table.policies, objective)
    against = {effect.policy: effect for effect in effects(table, metric, planner)}
    others = [policy for policy in table.policies if is_planner(policy) and policy != planner]
    shown = [*([base] if base is not None else []), planner, *others]
    clock = ResultTable.from_rows(timings) if timings else None
    variants = tuple(_variant(policy, planner, against[policy], table, clock) for policy in shown)
    searchless = [policy for policy in table.policies if not is_planner(policy)]
    start = base or next((e.policy for e in effects(table, metric) if e.policy in searchless), None)
    relative = {effect.policy: effect for effect in effects(table, metric, start)} if start else {}
    unit, amount = budget_of(planner)
    points = [
        BudgetPoint(policy, budget_of(policy)[1], relative[policy])
        for policy in (planner, *others)
        if amount > 0 and start and is_budget_of(policy, planner) and relative[policy].interval is not None
    ]
    return Contribution(
        metric=metric,
        planner=planner,
        variants=variants,
        base=start,
        is_base=base is not None,
        unit=unit,
        points=tuple(sorted((p for p in points if p.budget > 0), key=lambda point: point.budget)),
        rule=next((e for e in relative.values() if e.policy != start and _is_rule(e.policy)), None),
    )


def _variant(policy: str, planner: str, effect: Effect, table: ResultTable, clock: ResultTable | None) -> Variant:
    unknown = tuple(math.nan for _ in DECISION_QUANTILES)
    change = describe(planner, policy)
    if clock is None or policy not in clock.policies:
        return Variant(policy, change, effect, unknown, math.nan, math.nan)
    column = clock.policies.index(policy)
    times = tuple(_mean(clock, name, column) for name in DECISION_QUANTILES)
    simulations = _sum(clock, "simulations", policy)
    return Variant(
        policy,
        change,
        effect,
        times,
        _ratio(simulations, _sum(clock, "seconds", policy)),
        _ratio(simulations, _sum(table, "decisions", policy)),
        _searches(clock, column),
    )


def _searches(clock: ResultTable, column: int) -> str:
    words = [row.get("search") for (_, policy), row in sorted(clock.rows.items()) if policy == column]
    counts = Counter(str(word) for word in words if word)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))


def _mean(clock: ResultTable, name: str, column: int) -> float:
    values = clock.values(name)[:, column]
    known = values == values
    return float(workload_means(values[known], clock.workload[known]).mean()) if known.any() else math.nan


def _sum(table: ResultTable, name: str, policy: str) -> float:
    values = table.values(name)[:, table.policies.index(policy)]
    known = values[values == values]
    return float(known.sum()) if len(known) else math.nan


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else math.nan


def _is_rule(policy: str) -> bool:
    from dagsched.policies.info import parse_spec
    from dagsched.policies.registry import list_policies

    if ".py:" in policy:
        return True
    kinds = {info.name: info.kind for info in list_policies()}
    return kinds.get(parse_spec(policy)[0]) in _RULES
