"""The rows of ``results.csv`` as a table: replays down, policies across, one array per metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dagsched.errors import ConfigError
from dagsched.evaluate.columns import KEY_COLUMNS, UTILISATION
from dagsched.workflow import FloatArray, IntArray

Row = Mapping[str, object]
"""One row of ``results.csv``: values as texts, numbers or ``None``."""


@dataclass(frozen=True, slots=True, eq=False)
class ResultTable:
    """``C`` replays (cells) of ``W`` workloads under ``P`` policies.

    Attributes:
        policies: ``[P]`` in order of first appearance.
        workloads: ``[W]`` names in order of first appearance.
        workload: ``[C]`` index of each cell's workload.
        replay: ``[C]`` replay numbers as written in the rows.
        task_count, workflow_count: ``[C]``.
        metrics: names of the metrics found, in column order.
        rows: every row by (cell, policy).
    """

    policies: tuple[str, ...]
    workloads: tuple[str, ...]
    workload: IntArray
    replay: tuple[str, ...]
    task_count: IntArray
    workflow_count: IntArray
    metrics: tuple[str, ...]
    rows: Mapping[tuple[int, int], Row] = field(repr=False)

    def __repr__(self) -> str:
        policies = ", ".join(self.policies[:6]) + (", ..." if len(self.policies) > 6 else "")
        return f"ResultTable({len(self.replay)} replays of {len(self.workloads)} workloads; policies: {policies})"

    @classmethod
    def from_rows(cls, rows: Sequence[Row]) -> ResultTable:
        """Arrange rows in any order.

        Raises:
            ConfigError: for no rows, a missing key column or a repeated (workload, replay, policy).
        """
        if not rows:
            raise ConfigError("no results: run a comparison first")
        for column in ("workload", "replay", "policy"):
            if column not in rows[0]:
                raise ConfigError(f"results have no column {column!r}; is this a results.csv of dagsched compare?")
        policies = {p: i for i, p in enumerate(dict.fromkeys(str(row["policy"]) for row in rows))}
        workloads = {w: i for i, w in enumerate(dict.fromkeys(str(row["workload"]) for row in rows))}
        pairs = dict.fromkeys((str(row["workload"]), str(row["replay"])) for row in rows)
        cells = {pair: i for i, pair in enumerate(sorted(pairs, key=lambda pair: workloads[pair[0]]))}
        placed: dict[tuple[int, int], Row] = {}
        for row in rows:
            where = cells[str(row["workload"]), str(row["replay"])], policies[str(row["policy"])]
            if where in placed:
                raise ConfigError(
                    f"results hold workload {row['workload']!r}, replay {row['replay']}, policy {row['policy']!r} twice"
                )
            placed[where] = row
        first = [next(placed[c, p] for p in range(len(policies)) if (c, p) in placed) for c in range(len(cells))]
        names = dict.fromkeys(name for row in rows for name in row if name not in KEY_COLUMNS)
        return cls(
            policies=tuple(policies),
            workloads=tuple(workloads),
            workload=np.array([workloads[pair[0]] for pair in cells], np.int64),
            replay=tuple(pair[1] for pair in cells),
            task_count=np.array([_whole(row.get("task_count")) for row in first], np.int64),
            workflow_count=np.array([_whole(row.get("workflow_count")) for row in first], np.int64),
            metrics=tuple(names),
            rows=placed,
        )

    def values(self, metric: str) -> FloatArray:
        """``[C, P]`` values of one metric, NaN where the cell is empty or the row is missing."""
        values = np.full((len(self.workload), len(self.policies)), math.nan)
        for where, row in self.rows.items():
            values[where] = _number(row.get(metric))
        return values

    def has(self, metric: str) -> bool:
        """Whether any row has a value for this metric."""
        return any(not math.isnan(_number(row.get(metric))) for row in self.rows.values())

    @property
    def utilisation(self) -> tuple[str, ...]:
        """The ``utilisation_<resource>`` columns that hold values, in order."""
        return tuple(m for m in self.metrics if m.startswith(UTILISATION) and self.has(m))

    def select(self, cells: NDArray[np.bool_]) -> ResultTable:
        """The same table with only some cells ``[C]`` (at least one)."""
        return ResultTable.from_rows([row for (cell, _), row in sorted(self.rows.items()) if cells[cell]])


def _number(value: object) -> float:
    if value is None or value == "":
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def _whole(value: object) -> int:
    number = _number(value)
    return int(number) if math.isfinite(number) else 0
