"""Workflows drawn from recorded files, in parts that no two splits share; durations may be redrawn by task type."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from dagsched.cluster import Cluster
from dagsched.declared import EXACT, NoiseModel, common
from dagsched.errors import ConfigError
from dagsched.generate.mix import check_count, check_number, check_rng
from dagsched.workflow import FloatArray, Workflow, natural_key

SHARES = {"train": 0.5, "validation": 0.125, "confirm": 0.125, "test": 0.25}
"""How the workflows of a file are shared out."""

_MANY = 100
_LEAST = 5
"""Tasks of a type from which its spread is taken; rarer types take the spread within types of the workflow."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The part of some files that one split may draw from, in order of arrival.

    Attributes:
        workflows: with distinct names, as recorded.
        cluster: the one that comes with the files, if all agree.
        noise: what holds of the estimates in all files.
    """

    workflows: tuple[Workflow, ...]
    cluster: Cluster | None = None
    noise: NoiseModel = EXACT

    @classmethod
    def read(
        cls,
        path: str | Path,
        split: Literal["train", "validation", "confirm", "test"],
        *,
        by: Literal["name", "time", "none"] = "name",
    ) -> Trace:
        """Read any file or folder that ``dagsched.load`` reads, and keep the part of a split.

        Args:
            path: file or folder.
            split: which part.
            by: ``name``: by a hash of the workflow's name, so that a job stays in its part when the file grows (below
                100 workflows by the rank of the hash, so that no part is empty); ``time``: training comes first, test
                last; ``none``: every split draws from all workflows.

        Raises:
            ConfigError: for an unknown ``by``, or too few workflows to share out.
            FormatError: for an unreadable file.
        """
        from dagsched.formats import load

        if by not in ("name", "time", "none"):
            raise ConfigError(f"by is {by!r}, expected name, time or none")
        workloads = load(path)
        counts = Counter(w.name for workload in workloads for w in workload.workflows)
        workflows = [
            w if counts[w.name] == 1 else w.with_(name=f"{workload.name}/{w.name}")
            for workload in workloads
            for w in workload.workflows
        ]
        workflows.sort(key=lambda w: (w.arrival, natural_key(w.name)))
        if by != "none" and len(workflows) < len(SHARES):
            raise ConfigError(
                f"{path}: holds {len(workflows)} workflows, too few to share out among {', '.join(SHARES)}; give at "
                f"least {len(SHARES)}, or by: none to let every split draw from all"
            )
        kept = workflows if by == "none" else [workflows[k] for k in _part([w.name for w in workflows], split, by)]
        clusters = [workload.cluster for workload in workloads]
        own = [None if cluster is None else cluster.to_dict() | {"name": ""} for cluster in clusters]
        noise = common([w.nature for w in workloads], [w.declared for w in workloads]).noise
        return cls(tuple(kept), clusters[0] if all(other == own[0] for other in own) else None, noise or EXACT)

    def window(self, rng: np.random.Generator, count: int) -> list[Workflow]:
        """``count`` workflows that follow each other, with their recorded arrivals, from a random start.

        Raises:
            ConfigError: if the part holds fewer.
        """
        check_rng(rng)
        check_count("count", count, 1, len(self.workflows))
        first = int(rng.integers(len(self.workflows) - count + 1))
        return list(self.workflows[first : first + count])

    def sample(self, rng: np.random.Generator, count: int) -> list[Workflow]:
        """``count`` workflows drawn with replacement, numbered so that names differ."""
        check_rng(rng)
        digits = max(3, len(str(count)))
        chosen = rng.integers(len(self.workflows), size=count).tolist()
        return [
            self.workflows[k].with_(name=f"{number:0{digits}d}-{self.workflows[k].name}")
            for number, k in enumerate(chosen, 1)
        ]


def resampled(workflow: Workflow, rng: np.random.Generator, *, spread: float = 1.0) -> Workflow:
    """The same graph with durations redrawn by task type (``category``).

    A duration becomes that of a random task of the same type times lognormal noise of mean 1: a smoothed bootstrap on
    the logarithm, whose bandwidth is Silverman's 1.06 sd n^(-1/5) (1986). Types of fewer than 5 tasks, for which no
    spread can be told, take the pooled spread within types, at least 0.1. Tasks of zero seconds stay so; estimates are
    the new durations; durations by group change by the same factor; demands and bytes stay as recorded.

    Args:
        workflow: as recorded.
        rng: source of all randomness.
        spread: factor on the noise of the bootstrap.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_number("spread", spread, at_least=0, at_most=10)
    types: dict[str | None, list[int]] = {}
    for task, category in enumerate(workflow.category):
        if workflow.duration[task] > 0:
            types.setdefault(category, []).append(task)
    logs: FloatArray = np.log(np.maximum(workflow.duration, 1e-9))
    wide = [rows for rows in types.values() if len(rows) >= _LEAST]
    squares = [float(((logs[rows] - logs[rows].mean()) ** 2).sum()) for rows in wide]
    freedom = sum(len(rows) - 1 for rows in wide)
    pooled = max(0.1, (sum(squares) / freedom) ** 0.5) if freedom else 0.3
    duration = workflow.duration.copy()
    for rows in types.values():
        sd = float(logs[rows].std(ddof=1)) if len(rows) >= _LEAST else pooled
        width = spread * 1.06 * sd * len(rows) ** -0.2
        drawn = logs[rng.choice(rows, len(rows))] + width * rng.standard_normal(len(rows)) - width**2 / 2
        duration[rows] = np.exp(drawn)
    factor = np.divide(duration, workflow.duration, out=np.ones(len(duration)), where=workflow.duration > 0)
    return workflow.with_(
        duration=duration, estimate=duration, group_duration=workflow.group_duration * factor[:, None]
    )


def _part(names: Sequence[str], split: str, by: str) -> list[int]:
    """Positions of the names that belong to a split, ascending."""
    ends = np.cumsum(list(SHARES.values()))
    which = list(SHARES).index(split)
    if by == "name" and len(names) >= _MANY:
        shares = [_hash(name) / 2**64 for name in names]
        return [k for k, share in enumerate(shares) if int(np.searchsorted(ends[:-1], share, side="right")) == which]
    order = list(range(len(names)))
    if by == "name":
        order.sort(key=lambda k: (_hash(names[k]), names[k]))
    # every split gets one, the rest is shared out
    rest = len(names) - len(SHARES)
    borders = [0, *(round(float(end) * rest) + k + 1 for k, end in enumerate(ends))]
    return sorted(order[borders[which] : borders[which + 1]])


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def draw_wfcommons(rng: np.random.Generator, trace: Trace, count: int, *, spread: float = 1.0) -> list[Workflow]:
    """Recorded workflows drawn with replacement, their durations redrawn by task type (:func:`resampled`).

    Args:
        rng: source of all randomness.
        trace: the part of a split.
        count: how many.
        spread: factor on the noise of the bootstrap.

    Raises:
        ConfigError: naming the parameter.
    """
    return draw_trace(rng, trace, count, redraw=True, spread=spread)


def draw_trace(
    rng: np.random.Generator,
    trace: Trace,
    count: int,
    *,
    order: Literal["random", "window"] = "random",
    redraw: bool = False,
    spread: float = 1.0,
) -> list[Workflow]:
    """Workflows of any recorded file, as they are.

    Args:
        rng: source of all randomness.
        trace: the part of a split.
        count: how many.
        order: ``random`` with replacement, or a ``window`` of workflows that follow each other in time.
        redraw: redraw the durations (:func:`resampled`).
        spread: factor on the noise of the bootstrap.

    Raises:
        ConfigError: naming the parameter.
    """
    if order not in ("random", "window"):
        raise ConfigError(f"order is {order!r}, expected random or window")
    if not isinstance(redraw, bool):
        raise ConfigError(f"redraw is {redraw!r}, expected true or false")
    chosen = trace.window(rng, count) if order == "window" else trace.sample(rng, count)
    if not redraw:
        return chosen
    return [resampled(w, stream, spread=spread) for w, stream in zip(chosen, rng.spawn(count), strict=True)]
