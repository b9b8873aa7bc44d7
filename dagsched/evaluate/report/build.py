"""Computes everything a report shows from rows of results and a few schedules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dagsched.draw.gantt import gantt_chart
from dagsched.errors import ConfigError
from dagsched.evaluate.analysis.contribution import contribution
from dagsched.evaluate.analysis.effects import effects, head_metrics, is_relative, verdict
from dagsched.evaluate.columns import direction, display, metric_label
from dagsched.evaluate.report.data import (
    Gantt,
    HeadTable,
    Matrix,
    Profile,
    ReportData,
    Slice,
    Spread,
    Spreads,
    WorkloadTable,
)
from dagsched.evaluate.report.provenance import assumed_rows, provenance_pairs, reject_rows
from dagsched.evaluate.statistics import (
    differences_to_best,
    interquartile_mean,
    performance_profile,
    ratios_to_best,
    size_class,
    slices,
    win_tie_loss,
    workload_means,
)
from dagsched.evaluate.table import ResultTable, Row
from dagsched.objective import OBJECTIVES, ObjectiveName
from dagsched.schedule import Schedule
from dagsched.workflow import FloatArray

_FACTORS = 121
_SLICE_COLUMNS = ("load", "noise")


def build_report(
    rows: Sequence[Row],
    schedules: Sequence[Schedule] = (),
    provenance: Mapping[str, object] | None = None,
    objective: ObjectiveName = "makespan",
    *,
    title: str = "Scheduler comparison",
    timings: Sequence[Row] = (),
    refusals: Sequence[Mapping[str, object]] = (),
    ablation_base: str | None = None,
) -> ReportData:
    """Compute everything a report shows.

    Args:
        rows: rows of ``results.csv``.
        schedules: schedules to draw as Gantt charts, best policy first, all on one replay.
        provenance: labels and values, shown flattened; ``workloads[*].rejects`` feed the table of rejects.
        objective: ``makespan``, ``flow_time`` or ``slo``.
        title: heading of the page.
        timings: rows of ``timings.csv``.
        refusals: entries with ``policy`` and ``reason``: replays that a policy refused.
        ablation_base: policy that the first planner starts from, if known.

    Raises:
        ConfigError: for no rows, rows that are no results or an unknown objective.
    """
    if objective not in OBJECTIVES:
        raise ConfigError(f"objective is {objective!r}, expected one of {', '.join(OBJECTIVES)}")
    table = ResultTable.from_rows(rows)
    sentence = verdict(table, objective)
    metric = OBJECTIVES[objective].metric
    if not table.has(metric):
        metric = next((m for m in ("makespan", *table.metrics) if table.has(m)), "makespan")
    ranking = effects(table, metric)
    order = tuple(effect.policy for effect in ranking) or table.policies
    heads = tuple(HeadTable(m, effects(table, m)) for m in head_metrics(table, objective))
    about = dict(provenance or {})
    return ReportData(
        title=title,
        verdict=sentence,
        objective=objective,
        scope=_scope(table),
        reference=order[0],
        heads=heads,
        missing=() if table.has("slo_violation_rate") else (("slo_violation_rate", "no workflow has a deadline"),),
        bars=HeadTable(metric, ranking),
        search=contribution(table, timings, metric, objective, ablation_base),
        workloads=_workload_table(table, metric, order),
        profile=_profile(table, metric, order),
        matrix=_matrix(table, metric, order),
        spreads=_spreads(table, metric, order, timings),
        slices=_slices(table, metric),
        gantts=_gantts(schedules, table, metric),
        provenance=provenance_pairs(about),
        rejects=reject_rows(about),
        assumed=assumed_rows(about),
        refusals=tuple(
            (p, r, n) for (p, r), n in Counter((str(e["policy"]), str(e["reason"])) for e in refusals).items()
        ),
        invalid=tuple(
            (str(row["policy"]), str(row["workload"]), str(row["replay"]))
            for row in rows
            if str(row.get("valid", "true")).lower() in ("false", "0")
        ),
    )


def _scope(table: ResultTable) -> tuple[str, ...]:
    def count(number: int, what: str) -> str:
        return f"{number:,} {what}{'' if number == 1 else 's'}"

    first = np.unique(table.workload, return_index=True)[1]
    replays = len(table.workload)
    return (
        count(len(table.workloads), "workload"),
        *((count(replays, "replay"),) if replays > len(table.workloads) else ()),
        count(int(table.workflow_count[first].sum()), "workflow"),
        count(int(table.task_count[first].sum()), "task"),
        f"{len(table.policies)} policies" if len(table.policies) > 1 else "1 policy",
    )


def _columns(table: ResultTable, order: Sequence[str]) -> list[int]:
    return [table.policies.index(policy) for policy in order]


def _distances(table: ResultTable, metric: str, order: Sequence[str]) -> tuple[FloatArray, bool]:
    """(``[C, P]`` distance to the best of each replay, whether as ratio): rates and times with zeros have none."""
    values = table.values(metric)[:, _columns(table, order)]
    relative = is_relative(metric, values)
    return (ratios_to_best if relative else differences_to_best)(values, direction(metric) or -1), relative


def _workload_table(table: ResultTable, metric: str, order: tuple[str, ...]) -> WorkloadTable:
    values = table.values(metric)[:, _columns(table, order)]
    means = np.full((len(table.workloads), len(order)), math.nan)
    for workload in range(len(table.workloads)):
        for column in range(len(order)):
            own = values[table.workload == workload, column]
            own = own[~np.isnan(own)]
            if len(own):
                means[workload, column] = own.mean()
    first = np.unique(table.workload, return_index=True)[1]
    counts = tuple(int(n) for n in table.task_count[first])
    replays = tuple(int(n) for n in np.bincount(table.workload))
    return WorkloadTable(metric, order, table.workloads, counts, replays, means)


def _profile(table: ResultTable, metric: str, order: tuple[str, ...]) -> Profile:
    distances, relative = _distances(table, metric, order)
    finite = distances[np.isfinite(distances)]
    far = float(np.quantile(finite, 0.98)) if len(finite) else 0.0
    if relative:
        factors = np.linspace(1.0, float(np.clip(far, 1.02, 4.0)), _FACTORS)
    else:
        factors = np.linspace(0.0, far or float(finite.max(initial=0.0)) or 0.01, _FACTORS)
    return Profile(metric, relative, order, factors, performance_profile(distances, factors))


def _matrix(table: ResultTable, metric: str, order: tuple[str, ...]) -> Matrix:
    return Matrix(metric, order, win_tie_loss(table.values(metric)[:, _columns(table, order)], direction(metric) or -1))


def _spreads(table: ResultTable, metric: str, order: tuple[str, ...], timings: Sequence[Row]) -> Spreads:
    distances, relative = _distances(table, metric, order)
    clock = ResultTable.from_rows(timings) if timings else None
    found = []
    for column, policy in enumerate(order):
        own = distances[:, column]
        known = own[~np.isnan(own)]
        finite = known[np.isfinite(known)]
        found.append(
            Spread(
                policy,
                interquartile_mean(finite),
                float(finite.max()) if len(finite) else math.nan,
                float((known == (1 if relative else 0)).mean()) if len(known) else math.nan,
                _time(clock, policy, "decision_ms_p50"),
                _time(clock, policy, "decision_ms_p99"),
            )
        )
    return Spreads(metric, relative, tuple(found))


def _time(clock: ResultTable | None, policy: str, column: str) -> float | None:
    if clock is None or policy not in clock.policies:
        return None
    values = clock.values(column)[:, clock.policies.index(policy)]
    known = ~np.isnan(values)
    return float(workload_means(values[known], clock.workload[known]).mean()) if known.any() else None


def _slices(table: ResultTable, metric: str) -> tuple[Slice, ...]:
    found = []
    order = np.argsort(table.task_count, kind="stable")
    labels = [size_class(int(count)) for count in table.task_count]
    names = tuple(dict.fromkeys(labels[cell] for cell in order.tolist()))
    masks = slices(labels)
    for name in names if masks else ():
        part = table.select(masks[name])
        found.append(Slice(name, int(masks[name].sum()), effects(part, metric)))
    for column in _SLICE_COLUMNS:
        if column in table.metrics:
            values = [str(table.rows[min(k for k in table.rows if k[0] == c)].get(column)) for c in range(len(labels))]
            for value, mask in slices(values).items():
                found.append(Slice(f"{column} {value}", int(mask.sum()), effects(table.select(mask), metric)))
    return tuple(found)


def _gantts(schedules: Sequence[Schedule], table: ResultTable, metric: str) -> tuple[Gantt, ...]:
    if not schedules:
        return ()
    begin = min(schedule.replay.first_arrival for schedule in schedules)
    horizon = max(float(schedule.task_finish.max()) for schedule in schedules)
    drawn = []
    for number, schedule in enumerate(schedules):
        replay, chart = schedule.replay, gantt_chart(schedule)
        titles = []
        for row in chart.allocation.tolist():
            workflow, task_id = replay.task_name(int(schedule.task[row]))
            count = int(schedule.count[row])
            many = f", {count} instances" if count > 1 else ""
            titles.append(f"{workflow} / {task_id}{many}: {schedule.start[row]:.6g} to {schedule.finish[row]:.6g} s")
        role = (
            "" if len(schedules) == 1 else ("best" if number == 0 else "worst" if number == len(schedules) - 1 else "")
        )
        measured = _measured(table, metric, replay.workload.name, schedule.policy)
        drawn.append(
            Gantt(
                replay.workload.name,
                schedule.policy,
                role,
                schedule.makespan,
                measured,
                begin,
                horizon,
                chart,
                tuple(titles),
            )
        )
    return tuple(drawn)


def _measured(table: ResultTable, metric: str, workload: str, policy: str) -> str:
    """``mean flow time 12 s``: the objective on the first replay, which is drawn; empty for the completion time."""
    if metric == "makespan" or policy not in table.policies:
        return ""
    column = table.policies.index(policy)
    for cell, number in enumerate(table.replay):
        if number == "0" and table.workloads[table.workload[cell]] == workload:
            return f"{metric_label(metric)} {display(metric, float(table.values(metric)[cell, column]))}"
    return ""
