"""Gantt charts of the report as SVG, on one time axis so that two policies compare at a glance."""

from __future__ import annotations

import math

import numpy as np

from dagsched.draw.gantt import LEAST_WIDTH, colour_of
from dagsched.evaluate.report.charts import round_marks
from dagsched.evaluate.report.data import Gantt
from dagsched.evaluate.report.tables import text
from dagsched.texts import digits

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 1000.0, 96.0, 12.0, 6.0, 26.0
_TITLED = 1500
_LEAST_HEIGHT = 0.6
_LEGEND = 14


def gantt_figure(gantt: Gantt) -> str:
    """One schedule: heading, picture, legend and note."""
    role = f' <span class="tag{" best" if gantt.role == "best" else ""}">{gantt.role}</span>' if gantt.role else ""
    measured = f"{gantt.measured}, " if gantt.measured else ""
    note = f'<p class="lead">{text(gantt.chart.note)}</p>' if gantt.chart.note else ""
    return (
        f'<div class="card gantt"><h3>{text(gantt.policy)}{role} <span class="ci">'
        f"{text(measured)}completion time {text(digits(gantt.makespan))} s, on {text(gantt.workload)}</span></h3>"
        f'<div class="scroll"><div class="chart">{_picture(gantt)}</div></div>{_legend(gantt)}{note}</div>'
    )


def _picture(gantt: Gantt) -> str:
    chart = gantt.chart
    bands = max(1, len(chart.nodes))
    band = float(np.clip(280 / bands, 7.0, 44.0)) if bands > 1 else 240.0
    height = _TOP + bands * band + _BOTTOM
    span = max(gantt.horizon - gantt.begin, 1e-12)
    scale = (_WIDTH - _LEFT - _RIGHT) / span
    parts = []
    every = max(1, math.ceil(13 / band))
    for row, name in enumerate(chart.nodes):
        top = _TOP + row * band
        parts.append(f'<line class="rule" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{top:.1f}" y2="{top:.1f}"/>')
        if row % every == 0:
            label = name if len(name) <= 13 else f"{name[:6]}…{name[-6:]}"
            parts.append(f'<text x="{_LEFT - 8:g}" y="{top + band / 2 + 4:.1f}" text-anchor="end">{text(label)}</text>')
    floor = _TOP + bands * band
    parts.append(f'<line class="axis" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{floor:.1f}" y2="{floor:.1f}"/>')
    for tick in round_marks(span):
        at = _LEFT + tick * scale
        anchor = "end" if at > _WIDTH - 40 else "middle"
        label = f"{digits(tick)} s"
        parts.append(f'<text x="{at:.1f}" y="{floor + 17:.1f}" text-anchor="{anchor}">{label}</text>')
    parts.append(_blocks(gantt, band, scale))
    end = _LEFT + gantt.makespan * scale
    parts.append(f'<line class="end" x1="{end:.1f}" x2="{end:.1f}" y1="{_TOP:g}" y2="{floor:.1f}"/>')
    label = text(f"Gantt chart of {gantt.policy}: finished after {digits(gantt.makespan)} s")
    return f'<svg viewBox="0 0 {_WIDTH:g} {height:.1f}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _blocks(gantt: Gantt, band: float, scale: float) -> str:
    """Rectangles grouped by colour, with a title each while there are few."""
    chart = gantt.chart
    room = band - (2.0 if len(chart.nodes) > 1 else 0.0)
    left = _LEFT + (chart.start - gantt.begin) * scale
    least = LEAST_WIDTH * (_WIDTH - _LEFT - _RIGHT)
    wide = (chart.finish - chart.start) * scale
    narrow = wide < least
    wide = np.maximum(wide, least)
    top = _TOP + (chart.node + 1) * band - (1.0 if len(chart.nodes) > 1 else 0.0) - chart.high * room
    high = np.maximum((chart.high - chart.low) * room, _LEAST_HEIGHT)
    titled = len(chart.allocation) <= _TITLED
    groups = []
    kinds = np.unique(np.column_stack([chart.colour, narrow]), axis=0).tolist()
    for colour, short in kinds:
        rows = np.flatnonzero((chart.colour == colour) & (narrow == short)).tolist()
        if titled:
            shapes = "".join(
                f'<rect x="{left[k]:.1f}" y="{top[k]:.1f}" width="{wide[k]:.1f}" height="{high[k]:.1f}">'
                f"<title>{text(gantt.titles[k])}</title></rect>"
                for k in rows
            )
        else:
            outline = "".join(f"M{left[k]:.1f} {top[k]:.1f}h{wide[k]:.1f}v{high[k]:.1f}h-{wide[k]:.1f}z" for k in rows)
            shapes = f'<path d="{outline}"/>'
        edge = f' stroke="{colour_of(colour)}"' if short else ""
        groups.append(f'<g fill="{colour_of(colour)}"{edge}>{shapes}</g>')
    fine = " fine" if len(high) and float(np.median(high)) < 4 else ""
    return f'<g class="blocks{fine}">{"".join(groups)}</g>'


def _legend(gantt: Gantt) -> str:
    chart = gantt.chart
    used = np.unique(chart.colour).tolist()
    if len(used) < 2:
        return ""
    items = [f'<li><b style="background:{colour_of(c)}"></b>{text(chart.labels[c][:60])}</li>' for c in used[:_LEGEND]]
    if len(used) > _LEGEND:
        items.append(f'<li class="none">and {len(used) - _LEGEND:,} more</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'
