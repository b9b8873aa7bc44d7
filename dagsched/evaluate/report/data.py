"""What the report shows, as plain values: computed by ``build.py``, drawn by ``page.py``."""

from __future__ import annotations

from dataclasses import dataclass

from dagsched.draw.gantt import GanttChart
from dagsched.evaluate.analysis.contribution import Contribution
from dagsched.evaluate.analysis.effects import Effect
from dagsched.workflow import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class HeadTable:
    """One metric, the best policy first."""

    metric: str
    rows: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadTable:
    """Means over replays ``[W, P]`` of the objective's metric, columns in ranking order."""

    metric: str
    policies: tuple[str, ...]
    workloads: tuple[str, ...]
    task_counts: tuple[int, ...]
    replays: tuple[int, ...]
    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Dolan-More: ``[P, K]`` share of replays within each factor ``[K]`` of the best.

    Where the metric has no ratios (``relative`` is false), ``factors`` are differences from the best.
    """

    metric: str
    relative: bool
    policies: tuple[str, ...]
    factors: FloatArray
    shares: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """``[P, P, 3]`` wins, ties and losses of the row against the column."""

    metric: str
    policies: tuple[str, ...]
    counts: IntArray


@dataclass(frozen=True, slots=True)
class Slice:
    """The ranking within a part of the workloads."""

    name: str
    cells: int
    rows: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Gantt:
    """A drawn schedule; ``measured`` is the objective's value, in words, unless that is the completion time."""

    workload: str
    policy: str
    role: str
    makespan: float
    measured: str
    begin: float
    horizon: float
    chart: GanttChart
    titles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a policy is from the best of a replay, and its decision times.

    ``iqm`` (interquartile mean) and ``worst`` are ratios, or differences if the metric has none.
    """

    policy: str
    iqm: float
    worst: float
    best_share: float
    decision_ms: float | None
    decision_ms_p99: float | None


@dataclass(frozen=True, slots=True)
class Spreads:
    """How steady the policies are on one metric, best first; ``relative``: by ratio, else by difference."""

    metric: str
    relative: bool
    rows: tuple[Spread, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReportData:
    """The content of one report.

    Attributes:
        title: heading.
        verdict: plain sentence: who wins.
        objective: ``makespan``, ``flow_time`` or ``slo``.
        scope: counts such as ``38 workloads``.
        reference: the policy that everything is compared with.
        heads: the head tables that have values.
        missing: head tables without values, with the reason.
        bars: the objective's effects, best first.
        search: what the planners contribute; ``None`` without planners.
        workloads, profile, matrix: per workload and pairwise; by the objective's metric.
        spreads: how steady each policy is.
        slices: rankings within parts; empty if there is one part only.
        gantts: best and worst policy on one replay; may be empty.
        provenance: (label, value) pairs.
        rejects: (workload, reason, count, example) of records left out while reading.
        assumed: (workload, rule, count, example) of values that were read by a rule.
        refusals: (policy, reason, replays) that were skipped.
        invalid: (policy, workload, replay) whose schedule failed the validator.
    """

    title: str
    verdict: str
    objective: str
    scope: tuple[str, ...]
    reference: str
    heads: tuple[HeadTable, ...]
    missing: tuple[tuple[str, str], ...]
    bars: HeadTable
    search: Contribution | None
    workloads: WorkloadTable
    profile: Profile
    matrix: Matrix
    spreads: Spreads
    slices: tuple[Slice, ...]
    gantts: tuple[Gantt, ...]
    provenance: tuple[tuple[str, str], ...]
    rejects: tuple[tuple[str, str, int, str], ...]
    assumed: tuple[tuple[str, str, int, str], ...]
    refusals: tuple[tuple[str, str, int], ...]
    invalid: tuple[tuple[str, str, str], ...]
