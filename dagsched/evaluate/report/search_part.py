"""The part of the report about planners: a table of variants, quality against budget, decision times."""

from __future__ import annotations

import math
from collections.abc import Callable

from dagsched.evaluate.analysis.contribution import BudgetPoint, Contribution, Variant
from dagsched.evaluate.analysis.effects import amount_text, effect_text
from dagsched.evaluate.columns import DECISION_QUANTILES, direction, display, metric_label
from dagsched.evaluate.report.charts import ends_of, round_step, scaled
from dagsched.evaluate.report.tables import effect_cell, milliseconds, spec, text
from dagsched.texts import digits

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 1000.0, 340.0, 64.0, 24.0, 16.0, 46.0
_NAMES, _ROW, _BOX, _CAP = 230.0, 30.0, 7.0, 4.0
_LETTERS = 34
_P1, _P25, _P50, _P75, _P99, _MOST = range(len(DECISION_QUANTILES))
_LEAST_MS = 1e-4
"""The clock tells no shorter times apart."""
_MANY_DECADES = 2.5
Scale = Callable[[float], float]


def variant_table(found: Contribution) -> str:
    """One line a variant: what it changes, quality against the planner, decision times, simulations."""
    heads = (
        "<thead><tr><th scope=col>policy</th><th scope=col class=text>what it changes</th>"
        "<th scope=col class=text>search</th><th scope=col>mean</th>"
        "<th scope=col>against the planner <span class=ci>[95% interval]</span></th>"
        "<th scope=col>decision, median</th><th scope=col>decision, 99th percentile</th>"
        "<th scope=col>simulations a second</th><th scope=col>simulations a decision</th></tr></thead>"
    )
    rows = "".join(_row(variant, found) for variant in found.variants)
    return f'<div class="card wide"><div class="scroll"><table>{heads}<tbody>{rows}</tbody></table></div></div>'


def budget_chart(found: Contribution) -> str:
    """The planner at several budgets (log scale) against the base policy, which is a horizontal line."""
    points = found.points
    rule = None if found.rule is None or found.rule.interval is None else found.rule
    levels = [0.0] + ([scaled(rule.interval.mean, rule)] if rule is not None and rule.interval is not None else [])
    ends = [end for point in points for end in ends_of(point.effect)] + levels
    low, high = min(ends), max(ends)
    margin = 0.08 * (high - low) or 0.01
    low, high = low - margin, high + margin

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    x = _log_scale(points[0].budget / 1.4, points[-1].budget * 1.4, _LEFT, _WIDTH - _RIGHT)
    relative = points[0].effect.relative
    parts = []
    step = round_step(high - low)
    for k in range(math.ceil(low / step), math.floor(high / step) + 1):
        at = y(k * step)
        parts.append(f'<line class="rule" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{at:.1f}" y2="{at:.1f}"/>')
        label = text(_amount(k * step, found.metric, relative=relative))
        parts.append(f'<text x="{_LEFT - 8:g}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for kind, level in zip(("level", "level rule"), levels, strict=False):
        at = y(level)
        parts.append(f'<line class="{kind}" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{at:.1f}" y2="{at:.1f}"/>')
    path = "L".join(f"{x(p.budget):.1f} {y(_at(p)):.1f}" for p in points)
    parts.append(f'<path class="trend" d="M{path}"/>')
    for point in points:
        parts.append(_point(point, found, x(point.budget), y))
        where = f'x="{x(point.budget):.1f}" y="{_HEIGHT - _BOTTOM + 18:g}"'
        parts.append(f'<text {where} text-anchor="middle">{digits(point.budget)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    caption = text(f"budget: {found.unit} (log scale)")
    parts.append(f'<text x="{middle:g}" y="{_HEIGHT - 5:g}" text-anchor="middle">{caption}</text>')
    kind = "base policy" if found.is_base else "best policy without search"
    legend = [
        '<li><b class="line" style="background:var(--accent)"></b>the planner by its budget, with 95% intervals</li>',
        f'<li><b class="line" style="background:var(--muted)"></b>{kind}: {text(str(found.base))}</li>',
    ]
    if rule is not None:
        shown = f"best rule: {rule.policy}, {effect_text(rule, found.metric, interval=False)}"
        legend.append(f'<li><b class="line" style="background:var(--bad)"></b>{text(shown)}</li>')
    better = "higher is better" if direction(found.metric) > 0 else "lower is better"
    title = f"Quality against budget: {metric_label(found.metric)} relative to {found.base}"
    return _figure(title, better, _HEIGHT, parts, legend)


def time_chart(found: Contribution) -> str:
    """Times of single decisions, one box a planner, on a log scale."""
    shown = [variant for variant in found.variants if variant.measured]
    times = [max(t, _LEAST_MS) for variant in shown for t in variant.decision_ms]
    low, high = min(times) / 1.25, max(times) * 1.25
    x = _log_scale(low, high, _NAMES, _WIDTH - _RIGHT)
    floor = _TOP + _ROW * len(shown)
    parts = []
    for mark in _log_marks(low, high):
        at = x(mark)
        parts.append(f'<line class="rule" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP:g}" y2="{floor:.1f}"/>')
        parts.append(f'<text x="{at:.1f}" y="{floor + 18:.1f}" text-anchor="middle">{digits(mark)} ms</text>')
    for row, variant in enumerate(shown):
        parts.append(_box(variant, _TOP + _ROW * (row + 0.5), x))
    middle = (_NAMES + _WIDTH - _RIGHT) / 2
    caption = "log scale; box: middle half, line: median, whiskers: 1st to 99th percentile, dot: longest"
    parts.append(f'<text x="{middle:g}" y="{floor + 40:.1f}" text-anchor="middle">{caption}</text>')
    return _figure("Decision times", "means over workloads of each percentile", floor + 46, parts, [])


def _row(variant: Variant, found: Contribution) -> str:
    own = variant.policy == found.planner
    effect = '<span class="tag best">the planner</span>' if own else effect_cell(variant.effect, found.metric)
    mean = display(found.metric, variant.effect.mean, fixed=True)
    cells = [mean, effect, *(milliseconds(variant.decision_ms[k]) for k in (_P50, _P99))]
    cells += ["–" if math.isnan(n) else digits(n) for n in (variant.rate, variant.each)]
    numbers = "".join(f"<td>{cell}</td>" for cell in cells)
    change = "" if own else variant.change
    return (
        f'<tr{" class=best" if own else ""}><th scope=row class="name">{spec(variant.policy)}</th>'
        f'<td class="text">{text(change)}</td><td class="text">{text(variant.searches)}</td>{numbers}</tr>'
    )


def _point(point: BudgetPoint, found: Contribution, x: float, y: Scale) -> str:
    """Whisker, dot and what one sees when pointing at it."""
    effect, marks = point.effect, []
    interval = effect.interval
    if interval is not None and interval.low is not None and interval.high is not None:
        low, high = y(scaled(interval.low, effect)), y(scaled(interval.high, effect))
        marks.append(f'<line class="err" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>')
        marks += [
            f'<line class="err" x1="{x - _CAP:.1f}" x2="{x + _CAP:.1f}" y1="{end:.1f}" y2="{end:.1f}"/>'
            for end in (low, high)
        ]
    own = " own" if point.policy == found.planner else ""
    title = text(f"{point.policy}: {effect_text(effect, found.metric)}")
    marks.append(
        f'<circle class="point{own}" cx="{x:.1f}" cy="{y(_at(point)):.1f}" r="5"><title>{title}</title></circle>'
    )
    return "".join(marks)


def _box(variant: Variant, middle: float, x: Scale) -> str:
    at = [x(max(t, _LEAST_MS)) for t in variant.decision_ms]
    top, high = middle - _BOX, 2 * _BOX
    words = variant.change if len(variant.change) <= _LETTERS else f"{variant.change[: _LETTERS - 1]}…"
    title = text(f"{variant.policy}: median {milliseconds(variant.decision_ms[_P50])}")
    return (
        f"<g><title>{title}</title>"
        f'<text x="{_NAMES - 12:g}" y="{middle + 4:.1f}" text-anchor="end">{text(words)}</text>'
        f'<line class="err" x1="{at[_P1]:.1f}" x2="{at[_P99]:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>'
        f'<rect class="box" x="{at[_P25]:.1f}" y="{top:.1f}" width="{max(at[_P75] - at[_P25], 1):.1f}" '
        f'height="{high:g}"/>'
        f'<line class="middle" x1="{at[_P50]:.1f}" x2="{at[_P50]:.1f}" y1="{top:.1f}" y2="{top + high:.1f}"/>'
        f'<circle class="far" cx="{at[_MOST]:.1f}" cy="{middle:.1f}" r="2.5"/></g>'
    )


def _at(point: BudgetPoint) -> float:
    interval = point.effect.interval
    return 0.0 if interval is None else scaled(interval.mean, point.effect)


def _amount(value: float, metric: str, *, relative: bool) -> str:
    """A mark of the axis, at which a share is signed percent."""
    if relative:
        shown = f"{abs(100 * value):.3g}%"
        return shown if shown == "0%" else f"{'+' if value > 0 else '−'}{shown}"
    return amount_text(value, metric, relative=False)


def _log_scale(low: float, high: float, left: float, right: float) -> Scale:
    span = math.log(high / low)
    return lambda value: left + (right - left) * math.log(value / low) / span


def _log_marks(low: float, high: float) -> list[float]:
    """Powers of ten within the range; also 2 and 5 times these where the range is short."""
    wide = math.log10(high / low) > _MANY_DECADES
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [factor * 10.0**power for power in powers for factor in ((1.0,) if wide else (1.0, 2.0, 5.0))]
    return [mark for mark in marks if low <= mark <= high]


def _figure(title: str, note: str, height: float, parts: list[str], legend: list[str]) -> str:
    picture = f'<svg viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="{text(title)}">{"".join(parts)}</svg>'
    key = f'<ul class="legend">{"".join(legend)}</ul>' if legend else ""
    return (
        f'<div class="card"><h3>{text(title)} <span class="ci">{text(note)}</span></h3>'
        f'<div class="scroll"><div class="chart">{picture}</div></div>{key}</div>'
    )
