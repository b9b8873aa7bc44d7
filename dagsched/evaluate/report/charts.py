"""The charts of the report: bars with intervals (HTML) and the performance profile (SVG)."""

from __future__ import annotations

import math

import numpy as np

from dagsched.draw.gantt import colour_of
from dagsched.evaluate.analysis.effects import Effect, amount_text, interval_text
from dagsched.evaluate.columns import metric_label
from dagsched.evaluate.report.data import HeadTable, Profile
from dagsched.evaluate.report.tables import spec, text

_COLOURED = 8
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 1000.0, 380.0, 52.0, 16.0, 14.0, 44.0


def effect_bars(head: HeadTable) -> str:
    """One line a policy: effect against the best as a bar from zero, with its 95% interval."""
    ends = [end for e in head.rows for end in ends_of(e)]
    low, high = _domain(ends)
    rows = [_bar(effect, head.metric, low, high) for effect in head.rows]
    return f'<div class="card"><div class="bars">{"".join(rows)}</div></div>'


def profile_chart(profile: Profile) -> str:
    """Dolan-More profile with a legend in ranking order."""
    first, last = float(profile.factors[0]), float(profile.factors[-1])

    def x(factor: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (factor - first) / (last - first)

    least = math.floor(4 * float(profile.shares.min())) / 4
    least = min(least, 0.75)

    def y(share: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share) / (1 - least)

    parts = []
    for part in range(5):
        share = least + part * (1 - least) / 4
        at = y(share)
        parts.append(f'<line class="rule" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8:g}" y="{at + 4:.1f}" text-anchor="end">{100 * share:.3g}%</text>')
    for excess in round_marks(last - first):
        shown = f"+{100 * excess:.3g}%" if profile.relative else amount_text(excess, profile.metric, relative=False)
        label = text(shown if excess else "best")
        anchor = "end" if x(first + excess) > _WIDTH - 30 else "middle"
        parts.append(f'<text x="{x(first + excess):.1f}" y="{_HEIGHT - 24:g}" text-anchor="{anchor}">{label}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    caption = f"at most this much worse than the best {metric_label(profile.metric)} of the replay"
    parts.append(f'<text x="{middle:g}" y="{_HEIGHT - 5:g}" text-anchor="middle">{text(caption)}</text>')
    legend = []
    for index in reversed(range(len(profile.policies))):
        points = _steps([x(f) for f in profile.factors.tolist()], [y(s) for s in profile.shares[index].tolist()])
        strong = index < _COLOURED
        look = f'class="curve" stroke="{colour_of(index)}"' if strong else 'class="curve other"'
        name = text(profile.policies[index])
        parts.append(f'<path {look} d="{points}"><title>{name}</title></path>')
        if strong:
            legend.append(f'<li><b class="line" style="background:{colour_of(index)}"></b>{name}</li>')
    if len(profile.policies) > _COLOURED:
        legend.insert(0, '<li><b class="line" style="background:var(--muted);opacity:.45"></b>others</li>')
    picture = (
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="Performance profile">{"".join(parts)}</svg>'
    )
    return (
        f'<div class="card"><div class="scroll"><div class="chart">{picture}</div></div>'
        f'<ul class="legend">{"".join(reversed(legend))}</ul></div>'
    )


def round_marks(span: float) -> list[float]:
    """About six round numbers from 0 to ``span``."""
    step = round_step(span)
    return [step * k for k in range(int(span / step + 1e-9) + 1)]


def round_step(span: float) -> float:
    """A round number, about six of which make up ``span``."""
    rough = span / 6
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)


def _steps(xs: list[float], ys: list[float]) -> str:
    """A right-continuous step path; runs of equal height are one line."""
    path = [f"M{xs[0]:.1f} {ys[0]:.1f}"]
    path += [f"H{xs[k]:.1f}V{ys[k]:.1f}" for k in range(1, len(xs)) if ys[k] != ys[k - 1]]
    path.append(f"H{xs[-1]:.1f}")
    return "".join(path)


def ends_of(effect: Effect) -> list[float]:
    """Mean and ends of the interval as shares or differences; empty without a paired effect."""
    interval = effect.interval
    if interval is None:
        return []
    ends = (interval.mean, interval.low, interval.high)
    return [scaled(end, effect) for end in ends if end is not None and math.isfinite(end)]


def scaled(amount: float, effect: Effect) -> float:
    """A log ratio as share, a difference as it is."""
    return math.expm1(min(amount, 50.0)) if effect.relative else amount


def _domain(ends: list[float]) -> tuple[float, float]:
    """From the least to the largest end, 0 included; far outliers are cut so that the rest stays readable."""
    if not ends:
        return 0.0, 1.0
    reach = float(np.quantile(np.abs(ends), 0.85)) * 2.5
    low, high = min(0.0, *ends), max(0.0, *ends)
    if reach > 0:
        low, high = max(low, -reach), min(high, reach)
    if high - low <= 0:
        return 0.0, 1.0
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def _bar(effect: Effect, metric: str, low: float, high: float) -> str:
    def place(value: float) -> float:
        return 100 * min(max((value - low) / (high - low), 0.0), 1.0)

    best = effect.policy == effect.reference
    zero = place(0.0)
    marks = [f'<i class="zero" style="left:{zero:.2f}%"></i>']
    note = '<span class="tag best">best</span>' if best else '<span class="none">no common replays</span>'
    interval = effect.interval
    if best:
        marks.append(f'<i class="dot" style="left:{zero:.2f}%"></i>')
    elif interval is not None:
        mean = place(scaled(interval.mean, effect))
        left, width = min(zero, mean), abs(mean - zero)
        marks.append(f'<i class="fill" style="left:{left:.2f}%;width:{width:.2f}%"></i>')
        note = text(amount_text(interval.mean, metric, relative=effect.relative))
        if interval.low is not None and interval.high is not None:
            a, b = place(scaled(interval.low, effect)), place(scaled(interval.high, effect))
            marks.append(f'<i class="whisk" style="left:{a:.2f}%;width:{b - a:.2f}%"></i>')
            marks += [f'<i class="cap" style="left:{end:.2f}%"></i>' for end in (a, b)]
            note += f' <span class="ci">{text(interval_text(effect, metric))}</span>'
        marks.append(f'<i class="dot" style="left:{mean:.2f}%"></i>')
    return (
        f'<div class="bar{" isbest" if best else ""}"><div class="who">{spec(effect.policy)}</div>'
        f'<div class="track">{"".join(marks)}</div><div class="num">{note}</div></div>'
    )
