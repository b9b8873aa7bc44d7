"""What ``dagsched compare`` prints: head tables, verdict, rejects, refusals, clusters and files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from dagsched.cli.console import plural
from dagsched.cli.inspect import describe_cluster, print_assumed, print_rejects
from dagsched.texts import shown_path

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dagsched.evaluate.results import Comparison
    from dagsched.evaluate.table import ResultTable
    from dagsched.workload import Workload

_MAX_RESOURCES = 2


def print_comparison(comparison: Comparison, loaded: list[Workload], out: Path | None, console: Console) -> None:
    """Everything a person wants to know at once."""
    from rich.columns import Columns
    from rich.text import Text

    from dagsched.evaluate.analysis.effects import head_metrics

    table = comparison.table
    metrics = head_metrics(table, comparison.config.objective, resources=_MAX_RESOURCES)
    tables = [head for metric in metrics if (head := _head(table, metric)) is not None]
    console.print(Columns(tables, padding=(1, 4)))
    _print_contribution(comparison, console)
    console.print()
    console.print(Text(comparison.verdict, style="bold"))
    _print_scope(comparison, console)
    _print_refusals(comparison, console)
    print_rejects(console, [reject for workload in loaded for reject in workload.rejects])
    print_assumed(console, [assumption for workload in loaded for assumption in workload.assumed])
    if out is not None:
        files = "report.html, results.csv, timings.csv, summary.json"
        more = " and schedules/" if comparison.config.save_schedules else ""
        console.print(f"Written to {shown_path(out)}: {files}{more}", markup=False, soft_wrap=True)


def _head(table: ResultTable, metric: str) -> Table | None:
    from rich.table import Table
    from rich.text import Text

    from dagsched.evaluate.analysis.effects import amount_text, effects
    from dagsched.evaluate.columns import display, metric_label

    standings = effects(table, metric)
    if not standings:
        return None
    label = metric_label(metric)
    grid = Table(title=Text(f"{label[0].upper()}{label[1:]}", "bold"), title_justify="left", box=None)
    grid.pad_edge = False
    grid.add_column("policy", overflow="fold")  # long specs are folded, numbers never cut
    grid.add_column("mean", justify="right", no_wrap=True)
    grid.add_column(Text(f"against {standings[0].reference} [95% interval]"), overflow="fold")
    for standing in standings:
        interval = standing.interval
        best = standing.policy == standing.reference
        if interval is not None and interval.mean == 0 and interval.low == interval.high:
            best = True  # an exact tie on every replay
        effect = "best" if best else ""
        if interval is not None and not best:
            low, high = interval.low, interval.high
            effect = amount_text(interval.mean, metric, relative=standing.relative)
            if low is not None and high is not None:
                ends = (amount_text(end, metric, relative=standing.relative) for end in (low, high))
                effect += f" [{', '.join(ends)}]".replace(" points", "")
        grid.add_row(
            Text(f"{'* ' if best else '  '}{standing.policy}"),
            display(metric, standing.mean),
            Text(effect),
            style="bold green" if best else None,
        )
    return grid


def _print_contribution(comparison: Comparison, console: Console) -> None:
    """What search contributes: the planners against the first one, with their decision times and simulations."""
    from rich.table import Table
    from rich.text import Text

    from dagsched.evaluate.analysis.effects import amount_text, interval_text
    from dagsched.evaluate.columns import DECISION_QUANTILES, metric_label
    from dagsched.texts import digits

    found = comparison.contribution
    if found is None:
        return
    title = Text(f"What search contributes: {metric_label(found.metric)} against {found.planner}", "bold")
    grid = Table(title=title, title_justify="left", box=None)
    grid.pad_edge = False
    grid.add_column("variant", overflow="fold")
    grid.add_column(Text("[95% interval]"), no_wrap=True)
    for head in ("ms p50", "ms p99", "simulations/s"):
        grid.add_column(head, justify="right", no_wrap=True)
    columns = list(DECISION_QUANTILES)
    for variant in found.variants:
        own = variant.policy == found.planner
        effect, shown = variant.effect, ""
        if not own and effect.interval is not None:
            amount = amount_text(effect.interval.mean, found.metric, relative=effect.relative)
            shown = f"{amount} {interval_text(effect, found.metric)}"
        times = (variant.decision_ms[columns.index(f"decision_ms_p{q}")] for q in (50, 99))
        grid.add_row(
            Text(f"{variant.change}: {variant.policy}" if variant.policy == found.base else variant.change),
            Text(shown),
            *("" if number != number else digits(number) for number in (*times, variant.rate)),
            style="bold" if own else None,
        )
    console.print()
    console.print(grid)


def _print_scope(comparison: Comparison, console: Console) -> None:
    """How much was run, where, and whether it was checked."""
    from dagsched.evaluate.scenario import cluster_of, nature_of

    config = comparison.config
    replays = len(comparison.workloads) * config.replay_count
    checked = "every schedule passed the validator" if config.validate else "schedules were not validated"
    console.print(
        f"{plural(len(comparison.workloads), 'workload')}, {plural(replays, 'replay')}, "
        f"{len(config.policies)} policies; {checked}.",
        markup=False,
    )
    if len(config.policies) > 1:
        console.print("Differences are paired by replay; in % they are geometric means of ratios.")
    natures = Counter(str(nature_of(workload, config)) for workload in comparison.workloads)
    for text, count in natures.items():
        share = f" ({count:,} of {len(comparison.workloads):,} workloads)" if len(natures) > 1 else ""
        console.print(f"Declared: {text}{share}.", markup=False, highlight=False)
    if config.replays > 1 and not config.is_random:
        console.print("Nothing is random here, so each workload was replayed once.")
    used = Counter(describe_cluster(cluster_of(workload, config)) for workload in comparison.workloads)
    names = list(used)
    for text in names[:3]:
        share = f", for {used[text]:,} of {len(comparison.workloads):,} workloads" if len(names) > 1 else ""
        console.print(f"Cluster {text}{share}.", markup=False)
    if len(names) > 3:
        console.print(f"{len(names) - 3:,} more clusters; summary.json lists them.")


def _print_refusals(comparison: Comparison, console: Console) -> None:
    """Policies that do not apply to some replays, with the reason."""
    counts = Counter((refusal.policy, refusal.reason) for refusal in comparison.refusals)
    for (policy, reason), number in counts.items():
        console.print(f"Skipped: {policy} on {plural(number, 'replay')}: {reason}", markup=False)
