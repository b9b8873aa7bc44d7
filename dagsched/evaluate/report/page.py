"""Puts the report together: one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

from dagsched.evaluate.columns import in_seconds, metric_label
from dagsched.evaluate.report.charts import effect_bars, profile_chart
from dagsched.evaluate.report.data import ReportData
from dagsched.evaluate.report.gantt_svg import gantt_figure
from dagsched.evaluate.report.search_part import budget_chart, time_chart, variant_table
from dagsched.evaluate.report.style import CSS
from dagsched.evaluate.report.tables import (
    head_table,
    matrix_table,
    missing_table,
    plain_table,
    slice_table,
    spread_table,
    text,
    workload_table,
)

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_MONOSPACED = ("command", "digest", "code digest", "config digest", "workloads")


def render_report(data: ReportData) -> str:
    """The page as one text. The same data gives the same bytes; everything from outside is escaped."""
    several = len(data.bars.rows) > 1
    parts = [
        _heads(data),
        _bars(data) if several else "",
        _search(data),
        _spreads(data),
        _profile(data) if several else "",
        _matrix(data) if several else "",
        _slices(data),
        _workloads(data),
        _gantts(data),
        _skips(data),
        _provenance(data),
    ]
    first, _, rest = data.verdict.partition(". ")
    more = f'<p class="more">{text(rest)}</p>' if rest else ""
    chips = "".join(f"<li>{text(entry)}</li>" for entry in data.scope)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{text(data.title)}</title>'
        f'<link rel="icon" href="data:,"><style>{CSS}</style></head>\n<body><header><h1>{text(data.title)}</h1>'
        f'<p class="verdict">{text(first.removesuffix("."))}.</p>{more}<ul class="chips">{chips}</ul>{_alert(data)}'
        "</header>\n<main>"
        + "\n".join(part for part in parts if part)
        + "</main>\n<footer>Made by dagsched. Every policy met the same replays; means are over workloads, of the mean "
        "over their replays; intervals resample workloads, then replays. docs/metrics.md has the formulas."
        "</footer></body></html>\n"
    )


def _section(title: str, lead: str, body: str) -> str:
    return f'<section><h2>{text(title)}</h2><p class="lead">{text(lead)}</p>{body}</section>'


def _alert(data: ReportData) -> str:
    if not data.invalid:
        return ""
    policy, workload, replay = data.invalid[0]
    first = f"the first: {policy} on {workload}, replay {replay}"
    return f'<p class="alert">{len(data.invalid):,} schedules failed the validator ({text(first)}).</p>'


def _heads(data: ReportData) -> str:
    tables = [head_table(head) for head in data.heads if head.rows]
    tables += [missing_table(metric, reason) for metric, reason in data.missing]
    lead = (
        "Means, and paired differences from the best policy of each table. Times differ in percent (geometric mean of "
        "ratios), rates in percentage points. Grey: the 95% interval includes zero, or the test (Wilcoxon, adjusted by "
        "Holm) is not below 0.05; the difference may be chance."
    )
    return _section("At a glance", lead, f'<div class="grid">{"".join(tables)}</div>')


def _bars(data: ReportData) -> str:
    name = metric_label(data.bars.metric)
    lead = f"Difference from {data.reference} on the same replays, with 95% intervals; the bar starts at no difference."
    return _section(f"How far behind: {name}", lead, effect_bars(data.bars))


def _search(data: ReportData) -> str:
    found = data.search
    if found is None:
        return ""
    lead = (
        f"Every planner on the same replays, by {metric_label(found.metric)} against {found.planner}. Grey as above: "
        "it may be chance. Simulations a second are those of the whole run, its overhead included; a decision "
        "is a started task or a WAIT. Where whole schedules are searched (plan), the first decision takes all the time."
    )
    parts = [variant_table(found)]
    if len(found.points) > 1:
        parts.append(budget_chart(found))
    if any(variant.measured for variant in found.variants):
        parts.append(time_chart(found))
    return _section("What search contributes", lead, f'<div class="stack">{"".join(parts)}</div>')


def _spreads(data: ReportData) -> str:
    metric = data.spreads.metric
    if data.spreads.relative:
        how = "as a ratio (1 is the best)"
    elif in_seconds(metric):
        how = "as a difference in seconds (0 is the best; a time is zero somewhere, so there are no ratios)"
    else:
        how = "as a difference in percentage points (0 is the best)"
    lead = (
        f"Distance in {metric_label(metric)} to the best policy of each replay, {how}: how often a policy is the best "
        "(ties count), the mean of the middle half of its replays, and its worst replay."
    )
    return _section("How steady", lead, spread_table(data.spreads))


def _profile(data: ReportData) -> str:
    lead = (
        "The share of replays on which a policy comes this close to the best of the replay; higher is better. "
        "Curves may coincide."
    )
    return _section("Performance profile", lead, profile_chart(data.profile))


def _matrix(data: ReportData) -> str:
    lead = (
        f"Replays that the row wins / ties / loses against the column, by {metric_label(data.matrix.metric)}. "
        "Blue: the row wins more; orange: it loses more."
    )
    return _section("Win, tie, loss", lead, matrix_table(data.matrix))


def _slices(data: ReportData) -> str:
    if not data.slices:
        return ""
    lead = "Difference from the best policy of each part (replays in brackets); grey as above: it may be chance."
    policies = [effect.policy for effect in data.bars.rows]
    return _section("By kind of workload", lead, slice_table(data.slices, data.bars.metric, policies))


def _workloads(data: ReportData) -> str:
    name = metric_label(data.workloads.metric)
    many = " Means over replays." if max(data.workloads.replays) > 1 else ""
    unit = " in seconds" if in_seconds(data.workloads.metric) else ""
    lead = f"{name[:1].upper()}{name[1:]}{unit}; policies from best to worst, the best of each row marked.{many}"
    return _section("Every workload", lead, workload_table(data.workloads))


def _gantts(data: ReportData) -> str:
    if not data.gantts:
        return ""
    lead = (
        "One band per node; a block is as high as the largest share of the node it holds, and wide enough to be seen. "
        "The dashed line is the end of the last task. Both charts have the same time axis."
    )
    if len(data.gantts) > 1:
        lead = f"The best and the worst policy by {metric_label(data.bars.metric)} over all replays. {lead}"
    if len(data.gantts) == 1:
        lead = lead.rsplit(" Both", 1)[0]
    title = "Best and worst on one replay" if len(data.gantts) > 1 else "One schedule"
    return _section(title, lead, "".join(gantt_figure(gantt) for gantt in data.gantts))


def _skips(data: ReportData) -> str:
    parts = []
    if data.refusals:
        lead = "These policies do not apply to some replays, which have no row for them."
        table = plain_table(("policy", "reason", "replays"), data.refusals, numbers=(2,))
        parts.append(_section("Skipped runs", lead, table))
    if data.rejects:
        lead = "Records that could not be used, by reason."
        table = plain_table(("workload", "reason", "count", "first"), data.rejects, numbers=(2,))
        parts.append(_section("Left out while reading", lead, table))
    if data.assumed:
        lead = "Values that cannot be meant as stated, and how they were read."
        table = plain_table(("workload", "rule", "count", "first"), data.assumed, numbers=(2,))
        parts.append(_section("Read by a rule", lead, table))
    return "".join(parts)


def _provenance(data: ReportData) -> str:
    if not data.provenance:
        return ""
    entries = []
    for label, value in data.provenance:
        kind = ' class="mono"' if label in _MONOSPACED else ""
        lines = value.split("\n")
        shown = text(value)
        if len(lines) > 6:
            rest = text("\n".join(lines[6:]))
            head = text("\n".join(lines[:6]))
            shown = f"{head}<details><summary>{len(lines) - 6:,} more</summary>{rest}</details>"
        entries.append(f"<dt>{text(label)}</dt><dd{kind}>{shown}</dd>")
    lead = "What one needs to get the same numbers again."
    return _section("Provenance", lead, f'<div class="card"><dl>{"".join(entries)}</dl></div>')
