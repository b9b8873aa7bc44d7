"""The result of a comparison, its files, and reading them back.

``results.csv`` is byte-reproducible; whatever is measured with a clock goes to ``timings.csv``. All files
appear together, each only when complete.
"""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagsched.evaluate.analysis.effects import Effect, effects, verdict
from dagsched.evaluate.columns import UTILISATION, csv_cell, display, metric_label, result_columns, timing_columns
from dagsched.evaluate.config import CompareConfig, code_digest
from dagsched.evaluate.scenario import cluster_of, nature_of
from dagsched.evaluate.table import ResultTable, Row
from dagsched.files import write_atomic, write_together
from dagsched.frames import data_frame
from dagsched.objective import OBJECTIVES
from dagsched.texts import csv_table, shown_path
from dagsched.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

    from dagsched.evaluate.analysis.contribution import Contribution
    from dagsched.schedule import Schedule

SUMMARY_VERSION = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """A policy that does not apply to a replay (sampling under noise, say): no row, counted and shown."""

    policy: str
    workload: str
    replay: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Every policy on the same replays.

    Attributes:
        config: what was computed.
        workloads: as replayed (merged into one under ``--arrivals``).
        rows: one per workload, replay and policy: the cells of ``results.csv`` by column.
        timings: likewise for ``timings.csv``.
        refusals: replays that a policy refused.
        policy_digests: SHA-256 of the rule file or checkpoint behind a policy, by spec, where there is one.
    """

    config: CompareConfig
    workloads: tuple[Workload, ...]
    rows: tuple[Row, ...]
    timings: tuple[Row, ...]
    refusals: tuple[Refusal, ...]
    policy_digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> ResultTable:
        """The rows as arrays: ``comparison.table.values("makespan")`` is ``[replays, policies]``."""
        return ResultTable.from_rows(self.rows)

    @property
    def verdict(self) -> str:
        """One plain sentence: who wins by the objective, by how much, and how sure that is."""
        return verdict(self.table, self.config.objective)

    @property
    def ranking(self) -> tuple[str, ...]:
        """Policies, best first by the objective."""
        return tuple(effect.policy for effect in effects(self.table, OBJECTIVES[self.config.objective].metric))

    @property
    def contribution(self) -> Contribution | None:
        """What its planners contribute by the objective; ``None`` if it has none."""
        from dagsched.evaluate.analysis.contribution import contribution

        config = self.config
        metric = OBJECTIVES[config.objective].metric
        return contribution(self.table, self.timings, metric, config.objective, config.ablation_base)

    def mean(self, metric: str) -> dict[str, float]:
        """Mean of a metric by policy: over workloads, of the mean over replays."""
        return {effect.policy: effect.mean for effect in effects(self.table, metric)}

    def __repr__(self) -> str:
        replays = len({(row["workload"], row["replay"]) for row in self.rows})
        return f"Comparison({len(self.table.policies)} policies on {replays} replays: {self.verdict})"[:480]

    def _repr_html_(self) -> str:
        """The verdict, and the metric that decides, by policy: what a notebook shows."""
        metric = OBJECTIVES[self.config.objective].metric
        cells = "".join(
            f"<tr><td>{escape(policy)}</td><td style='text-align:right'>{escape(display(metric, mean))}</td></tr>"
            for policy, mean in self.mean(metric).items()
        )
        head = f"<tr><th>policy</th><th>{escape(metric_label(metric))}</th></tr>"
        return f"<p>{escape(self.verdict)}</p><table>{head}{cells}</table>"

    def to_dataframe(self) -> pd.DataFrame:
        """The rows of ``results.csv``: one for each workload, replay and policy.

        Raises:
            ConfigError: if pandas is not installed.
        """
        return data_frame(self.rows)

    def write(self, folder: str | Path) -> None:
        """Write results.csv, timings.csv, summary.json and report.html."""
        write_results(self, Path(folder))


def results_csv(comparison: Comparison) -> str:
    """The text of ``results.csv``."""
    present = {name for row in comparison.rows for name in row}
    resources = [
        resource
        for workload in comparison.workloads
        for resource in cluster_of(workload, comparison.config).resources
        if f"{UTILISATION}{resource}" in present
    ]
    return _csv(result_columns(tuple(dict.fromkeys(resources))), comparison.rows)


def timings_csv(comparison: Comparison) -> str:
    """The text of ``timings.csv``: milliseconds a decision, seconds of the run; a planner's simulations and search."""
    return _csv(timing_columns(), comparison.timings)


def _csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    return csv_table([columns, *([csv_cell(row.get(column)) for column in columns] for row in rows)])


def summary(comparison: Comparison, command: str) -> dict[str, Any]:
    """What ``summary.json`` holds: verdict, settings, inputs, means with intervals, provenance."""
    config, table = comparison.config, comparison.table
    found = {metric: effects(table, metric) for metric in table.metrics if table.has(metric)}
    return {
        "summary_version": SUMMARY_VERSION,
        "objective": config.objective,
        "verdict": comparison.verdict,
        "ablation_base": config.ablation_base,
        "ranking": list(comparison.ranking),
        "policies": {policy: _policy_summary(policy, found) for policy in table.policies},
        "refusals": [asdict(refusal) for refusal in comparison.refusals],
        "rows": {"results.csv": len(comparison.rows), "timings.csv": len(comparison.timings)},
        "provenance": provenance(comparison, command),
    }


def _policy_summary(policy: str, found: Mapping[str, Sequence[Effect]]) -> dict[str, Any]:
    """Mean and effect against the best policy, by metric."""
    result: dict[str, Any] = {}
    for metric, effects_of_metric in found.items():
        effect = next(e for e in effects_of_metric if e.policy == policy)
        entry: dict[str, Any] = {"mean": effect.mean, "replays": effect.cells, "against": effect.reference}
        if effect.interval is not None:
            entry["effect"] = "log ratio" if effect.relative else "difference"
            entry |= {"value": effect.interval.mean, "low": effect.interval.low, "high": effect.interval.high}
            entry["p_value"] = effect.p_value
        result[metric] = entry
    return result


def provenance(comparison: Comparison, command: str) -> dict[str, Any]:
    """Digests, versions and the command: what one needs to get the same numbers again."""
    config = comparison.config
    clusters: Counter[str] = Counter()
    described: dict[str, dict[str, Any]] = {}
    for workload in comparison.workloads:
        description = cluster_of(workload, config).to_dict()
        key = json.dumps(description, sort_keys=True)
        clusters[key] += 1
        described[key] = description
    return {
        "command": command,
        "dagsched": metadata.version("dagsched"),
        "code_digest": code_digest(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: metadata.version(name) for name in ("numpy", "numba", "scipy")},
        "config_digest": config.digest,
        "seed": config.seed,
        "replays": config.replay_count,
        "noise": config.noise,
        "arrivals": None if config.load is None else f"poisson:{config.load:g}",
        "deadlines": config.deadlines,
        "options": {key: str(value) for key, value in asdict(config.options).items()},
        "validated": config.validate,
        "policies": [{"name": policy, "digest": digest} for policy, digest in comparison.policy_digests.items()],
        "clusters": [
            {"name": described[key]["name"], "workloads": count, "description": described[key]}
            for key, count in clusters.items()
        ],
        "workloads": [
            {
                "name": workload.name,
                "source": workload.source,
                "digest": workload.digest,
                "workflows": len(workload.workflows),
                "tasks": workload.task_count,
                "declared": str(nature_of(workload, config)),
                "rejects": [asdict(reject) for reject in workload.rejects],
                "assumed": [asdict(assumption) for assumption in workload.assumed],
            }
            for workload in comparison.workloads
        ],
    }


def command_line() -> str:
    """The command that is running, as one would type it."""
    import shlex

    program = Path(sys.argv[0]).name
    if program == "__main__.py":
        return shown_path(shlex.join(["dagsched", *sys.argv[1:]]))
    return (
        shown_path(shlex.join([program, *sys.argv[1:]])) if program == "dagsched" else "dagsched.compare_baselines(...)"
    )


def json_text(value: object) -> str:
    """Strict JSON: numbers that JSON does not have become null."""
    return json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def write_results(comparison: Comparison, folder: Path, drawn: Sequence[Schedule] = ()) -> None:
    """Write all files of a comparison; the report draws the schedules ``drawn``.

    Raises:
        ConfigError: naming the file that cannot be written.
    """
    about = summary(comparison, command_line())
    report = render(comparison.rows, comparison.timings, about, drawn)
    write_together(
        {
            folder / "timings.csv": timings_csv(comparison),
            folder / "report.html": report,
            folder / "summary.json": json_text(about),
            folder / "results.csv": results_csv(comparison),  # last: without it nothing is rendered
        }
    )


def render(rows: Sequence[Row], timings: Sequence[Row], about: Mapping[str, Any], drawn: Sequence[Schedule]) -> str:
    """The HTML report."""
    from dagsched.evaluate.report import build_report, render_report

    data = build_report(
        rows, drawn, about["provenance"], about["objective"], timings=timings, refusals=about.get("refusals", ()),
        ablation_base=about.get("ablation_base"),
    )  # fmt: skip
    return render_report(data)


def render_again(folder: Path) -> Path:
    """Render report.html from results.csv, timings.csv and summary.json, without Gantt charts (no schedules there).

    Raises:
        ConfigError: if the folder holds no comparison or the report cannot be written.
    """
    from dagsched.evaluate.read_results import read_comparison

    rows, timings, about = read_comparison(folder)
    path = folder / "report.html"
    write_atomic(path, render(rows, timings, about, ()))
    return path
