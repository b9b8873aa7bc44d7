"""A synthetic stand-in for TPC-H queries on Spark: random query shapes with statistics like the Decima profiles'.

Nothing of the profiles is copied: a query is a random join tree over tables of six sizes, with shuffles of 200 tasks,
a chain of aggregations and a small last stage. Over the 154 queries (22 x 7 data sizes) of the published batches
(``tpch-batch``), weighted as there, and 3,000 of these, mean and (median):

    =========================  ===============  ===============
    figure                     profiles         stand-in
    =========================  ===============  ===============
    stages of a query          9.3 (8)          8.8 (7)
    depth (edges)              4.9 (5)          4.6 (4)
    scans                      3.6 (3)          3.5 (3)
    critical path, s           4.67 (4.48)      4.14 (4.00)
    work, executor-seconds     900 (485)        1041 (497)
    scan: seconds              2.46 (2.54)      2.47 (2.55)
    scan: executors            72 (9)           84 (12)
    shuffle: seconds           0.23 (0.12)      0.22 (0.11)
    =========================  ===============  ===============

The profiles: Mao et al. 2019, "Learning scheduling algorithms for data processing clusters" (SIGCOMM).
"""

from __future__ import annotations

import numpy as np

from dagsched.generate.mix import check_number, check_rng
from dagsched.generate.tpch import query_workflow
from dagsched.workflow import Workflow

GIGABYTES = (2, 5, 10, 20, 50, 80, 100)
SHUFFLE = 200
"""Spark's default number of shuffle partitions."""

_TABLES = (593, 133, 91, 19, 2)
"""Executors that a scan asks for at 100 GB, one for each partition; proportional to the data, at least 2."""
_RESULT = (1, 2, 3, 5, 6, 8, 11, 46, 176)
_RESULT_CHANCE = (0.48, 0.08, 0.10, 0.09, 0.08, 0.04, 0.03, 0.05, 0.05)
"""Executors of the last stage."""
_FIRST = (0.80, 0.05, 0.08, 0.07, 0.00)
_OTHERS = (0.12, 0.20, 0.07, 0.26, 0.35)
"""Chance of each table for the first scan, nearly always of the large one, and for the others."""


def tpch_like(rng: np.random.Generator, *, gigabytes: float | None = None, name: str = "tpch-like") -> Workflow:
    """One random query; demand is in ``executors``, one for each task of a stage.

    Args:
        rng: source of all randomness.
        gigabytes: size of the data; by default drawn from 2, 5, 10, 20, 50, 80 and 100.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    if gigabytes is not None:
        check_number("gigabytes", gigabytes, at_least=1, at_most=900)
    size = float(rng.choice(GIGABYTES)) if gigabytes is None else float(gigabytes)
    query = _Query(size, rng)
    scans = 1 + min(7, int(rng.exponential(3.25)))
    open_stages = [query.scan() for _ in range(scans)]
    while len(open_stages) > 1:
        inputs = min(len(open_stages), 3 if rng.random() < 0.06 else 2)
        chosen = [open_stages.pop(int(rng.integers(len(open_stages)))) for _ in range(inputs)]
        open_stages.append(query.shuffle(sorted(chosen)))
    last = open_stages[0]
    for _ in range(int(rng.choice([0, 1, 2, 3, 4], p=[0.25, 0.27, 0.28, 0.14, 0.06]))):
        last = query.aggregate(last)
    query.result(last)
    return query_workflow(name, query.seconds, query.executors, query.parents)


class _Query:
    """The stages of one query as they are drawn; durations of a query share a factor."""

    def __init__(self, size: float, rng: np.random.Generator) -> None:
        self.size, self.rng = size, rng
        self.slow = float(rng.lognormal(0.0, 0.3))
        self.seconds: list[float] = []
        self.executors: list[int] = []
        self.parents: list[list[int]] = []
        self.rows: list[float] = []

    def scan(self) -> int:
        """Reads a table, and in a few queries aggregates it at once."""
        chance = _OTHERS if self.seconds else _FIRST
        executors = max(2, round(float(self.rng.choice(_TABLES, p=chance)) * self.size / 100))
        if executors == 2:
            seconds = self.rng.triangular(0.08, 1.5, 3.4)
        else:
            seconds = np.clip(self.rng.normal(2.9, 0.65), 1.2, 5.5)
        stage = self._add(seconds, executors, [], executors)
        return self.aggregate(stage) if self.rng.random() < 0.13 else stage

    def shuffle(self, inputs: list[int]) -> int:
        """Joins two or three stages; longer with more data."""
        rows = max(self.rows[stage] for stage in inputs)
        seconds = (0.115 + 0.0012 * rows) * self.slow * self.rng.lognormal(0.0, 0.65)
        return self._add(seconds, SHUFFLE, inputs, rows * float(self.rng.uniform(0.05, 1.0)))

    def aggregate(self, stage: int) -> int:
        """Groups one stage."""
        rows = self.rows[stage]
        seconds = (0.045 + 0.0008 * rows) * self.slow * self.rng.lognormal(0.0, 0.5)
        return self._add(seconds, SHUFFLE, [stage], 0.15 * rows)

    def result(self, stage: int) -> int:
        """The last stage: few tasks."""
        executors = int(self.rng.choice(_RESULT, p=_RESULT_CHANCE))
        return self._add(0.2 * float(self.rng.lognormal(0.0, 0.3)), executors, [stage], 1.0)

    def _add(self, seconds: float, executors: int, parents: list[int], rows: float) -> int:
        self.seconds.append(round(float(seconds), 6))
        self.executors.append(executors)
        self.parents.append(parents)
        self.rows.append(rows)
        return len(self.seconds) - 1
