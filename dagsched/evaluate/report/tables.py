"""The tables of the report as HTML. Every text from outside goes through :func:`text`."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dagsched.evaluate.analysis.effects import Effect, amount_text, interval_text, is_tie
from dagsched.evaluate.columns import direction, display, metric_label
from dagsched.evaluate.report.data import HeadTable, Matrix, Slice, Spreads, WorkloadTable
from dagsched.evaluate.statistics import compare_values
from dagsched.texts import digits
from dagsched.workflow import FloatArray

_OPEN_ROWS = 20
_HEAD_ROWS = 12
_MOST_ROWS = 1000


def text(value: object) -> str:
    """A text from anywhere, safe inside HTML and attributes; control characters become spaces."""
    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in str(value))
    return html.escape(plain.encode("utf-8", "replace").decode("utf-8"), quote=True)


def spec(policy: str) -> str:
    """A policy's spec as safe text that breaks between options, if it must."""
    return text(policy).replace(":", ":<wbr>")


def head_table(head: HeadTable) -> str:
    """One metric: mean, and effect against the best with its interval."""
    fixed = any(not effect.mean.is_integer() for effect in head.rows)
    rows = [_head_row(effect, head.metric, fixed=fixed) for effect in head.rows]
    reference = spec(head.rows[0].reference)
    top = (
        f"<thead><tr><th scope=col>policy</th><th scope=col>mean</th>"
        f"<th scope=col>against {reference} <span class=ci>[95% interval]</span></th></tr></thead>"
    )
    title = metric_label(head.metric)
    better = "higher is better" if direction(head.metric) > 0 else "lower is better"
    return (
        f'<section class="card head"><h3>{text(title[:1].upper() + title[1:])} <span class="ci">{better}</span></h3>'
        f"{_folded(top, rows, _HEAD_ROWS, 'policies')}</section>"
    )


def missing_table(metric: str, reason: str) -> str:
    """A head table without values."""
    title = metric_label(metric)
    return (
        f'<section class="card"><h3>{text(title[:1].upper() + title[1:])}</h3>'
        f'<p class="lead">Not measured: {text(reason)}.</p></section>'
    )


def effect_cell(effect: Effect, metric: str) -> str:
    """``+3.1% [+1.0, +5.2]``, grey where the difference may be chance."""
    if effect.policy == effect.reference:
        return '<span class="tag best">best</span>'
    interval = effect.interval
    if interval is None:
        return '<span class="none">–</span>'
    if is_tie(effect):
        return '<span class="tag">tie</span>'
    shown = text(amount_text(interval.mean, metric, relative=effect.relative))
    quiet = "" if effect.significant else ' class="none"'
    return f'<span{quiet}>{shown}</span> <span class="ci">{text(interval_text(effect, metric))}</span>'


def workload_table(table: WorkloadTable) -> str:
    """Means of every workload and policy, the best of each row marked; folded beyond 20 rows."""
    heads = "".join(f"<th scope=col>{spec(policy)}</th>" for policy in table.policies)
    top = f"<thead><tr><th scope=col>workload</th><th scope=col>tasks</th>{heads}</tr></thead>"
    fixed = bool((table.values % 1 > 0).any())
    rows = []
    for row, name in enumerate(table.workloads[:_MOST_ROWS]):
        values = table.values[row]
        best = _best_columns(table.metric, values)
        pairs = zip(values.tolist(), best.tolist(), strict=True)
        cells = "".join(_value_cell(table.metric, v, marked=b, fixed=fixed) for v, b in pairs)
        times = f' <span class="ci">× {table.replays[row]}</span>' if table.replays[row] > 1 else ""
        tasks = f"{table.task_counts[row]:,}"
        rows.append(f'<tr><th scope=row class="name">{text(name)}{times}</th><td>{tasks}</td>{cells}</tr>')
    cut = len(table.workloads) - len(rows)
    note = f'<p class="lead">{cut:,} more workloads are in results.csv.</p>' if cut > 0 else ""
    return f'<div class="card wide">{_folded(top, rows, _OPEN_ROWS, "workloads")}{note}</div>'


def spread_table(spreads: Spreads) -> str:
    """Typical and worst distance to the best, and decision times where measured."""
    timed = any(s.decision_ms is not None for s in spreads.rows)
    more = "<th scope=col>decision, median</th><th scope=col>99th percentile</th>" if timed else ""
    top = (
        "<thead><tr><th scope=col>policy</th><th scope=col>best on</th><th scope=col>typical (IQM)</th>"
        f"<th scope=col>worst</th>{more}</tr></thead>"
    )
    rows = []
    for s in spreads.rows:
        clock = "".join(f"<td>{milliseconds(v)}</td>" for v in (s.decision_ms, s.decision_ms_p99)) if timed else ""
        share = "–" if math.isnan(s.best_share) else f"{100 * s.best_share:.0f}%"
        rows.append(
            f'<tr><th scope=row class="name">{spec(s.policy)}</th><td>{share}</td>'
            f"<td>{_distance(s.iqm, spreads)}</td><td>{_distance(s.worst, spreads)}</td>{clock}</tr>"
        )
    return f'<div class="card">{_folded(top, rows, _OPEN_ROWS, "policies")}</div>'


def matrix_table(matrix: Matrix) -> str:
    """Wins, ties and losses of the row against the column, tinted by the balance."""
    heads = "".join(f'<th scope=col title="{text(p)}">{n}</th>' for n, p in enumerate(matrix.policies, 1))
    rows = []
    for row, policy in enumerate(matrix.policies):
        cells = []
        for column, other in enumerate(matrix.policies):
            wins, ties, losses = (int(n) for n in matrix.counts[row, column])
            total = wins + ties + losses
            if row == column or not total:
                cells.append('<td class="cell none">·</td>')
                continue
            balance = (wins - losses) / total
            tint = f"rgba(var({'--win' if balance > 0 else '--loss'}),{0.5 * abs(balance):.2f})"
            title = text(f"{policy} against {other}: {wins} wins, {ties} ties, {losses} losses")
            score = "\u2009/\u2009".join(str(n) for n in (wins, ties, losses))
            cells.append(f'<td class="cell" style="background:{tint}" title="{title}">{score}</td>')
        rows.append(f'<tr><th scope=row class="name">{row + 1}. {spec(policy)}</th>{"".join(cells)}</tr>')
    return (
        f'<div class="card"><div class="scroll"><table class="matrix"><thead><tr><th scope=col>row against column</th>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def slice_table(slices: Sequence[Slice], metric: str, policies: Sequence[str]) -> str:
    """Effects against the best of each slice, one column a slice."""
    heads = "".join(f'<th scope=col>{text(s.name)} <span class="ci">({s.cells:,})</span></th>' for s in slices)
    rows = []
    for policy in policies:
        cells = []
        for part in slices:
            effect = next((e for e in part.rows if e.policy == policy), None)
            if effect is None or (effect.interval is None and effect.policy != effect.reference):
                cells.append('<td class="none">–</td>')
            elif effect.interval is None or is_tie(effect):
                cells.append('<td class="best">best</td>')
            else:
                shown = amount_text(effect.interval.mean, metric, relative=effect.relative)
                quiet = "" if effect.significant else ' class="none"'
                cells.append(f"<td{quiet}>{text(shown)}</td>")
        rows.append(f'<tr><th scope=row class="name">{spec(policy)}</th>{"".join(cells)}</tr>')
    top = f"<thead><tr><th scope=col>policy</th>{heads}</tr></thead>"
    return f'<div class="card">{_folded(top, rows, _OPEN_ROWS, "policies")}</div>'


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    """Rows of texts; the columns in ``numbers`` are right-aligned."""
    top = "".join(f'<th scope=col class="{"" if i in numbers else "text"}">{text(h)}</th>' for i, h in enumerate(heads))
    body = [
        "<tr>"
        + "".join(f'<td class="{"" if i in numbers else "text"}">{text(v)}</td>' for i, v in enumerate(row))
        + "</tr>"
        for row in rows[:_MOST_ROWS]
    ]
    return f'<div class="card">{_folded(f"<thead><tr>{top}</tr></thead>", body, _OPEN_ROWS, "rows")}</div>'


def _head_row(effect: Effect, metric: str, *, fixed: bool) -> str:
    best = effect.policy == effect.reference
    return (
        f'<tr{" class=best" if best else ""}><th scope=row class="name">{spec(effect.policy)}</th>'
        f"<td>{display(metric, effect.mean, fixed=fixed)}</td><td>{effect_cell(effect, metric)}</td></tr>"
    )


def _best_columns(metric: str, values: FloatArray) -> NDArray[np.bool_]:
    best = np.zeros(len(values), np.bool_)
    known = ~np.isnan(values)
    if known.any():
        top = values[known].max() if direction(metric) > 0 else values[known].min()
        best[known] = compare_values(values[known], top) == 0
    return best


def _value_cell(metric: str, value: float, *, marked: bool, fixed: bool) -> str:
    if math.isnan(value):
        return '<td class="none">–</td>'
    return f"<td{' class=best' if marked else ''}>{display(metric, value, fixed=fixed).removesuffix(' s')}</td>"


def _distance(value: float, spreads: Spreads) -> str:
    if math.isnan(value):
        return "–"
    if not spreads.relative:
        return text(amount_text(value * -(direction(spreads.metric) or -1), spreads.metric, relative=False))
    return f"{value:.3f}×" if value < 100 else f"{digits(value)}×"


def milliseconds(value: float | None) -> str:
    """With the unit; a dash where nothing was measured."""
    return "–" if value is None or math.isnan(value) else f"{digits(value)} ms"


def _folded(top: str, rows: Sequence[str], shown: int, what: str) -> str:
    """A table in its own scroller; rows beyond ``shown`` fold away."""

    def table(part: Sequence[str]) -> str:
        return f'<div class="scroll"><table>{top}<tbody>{"".join(part)}</tbody></table></div>'

    if len(rows) <= shown + 2:
        return table(rows)
    rest = rows[shown:]
    return f"{table(rows[:shown])}<details><summary>{len(rest):,} more {what}</summary>{table(rest)}</details>"
