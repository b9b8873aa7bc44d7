"""Where training gets its replays: suites, mixed by weight, or the user's own trace split by time.

Replay ``index`` of a split is the same whoever asks, in whatever order. Different run seeds train on different
replays and share those of validation and confirmation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dagsched.cluster import cluster_named
from dagsched.declared import Declared
from dagsched.errors import ConfigError
from dagsched.formats import load
from dagsched.generate.suite import Split, Suite
from dagsched.learn.config_sections import TraceSection
from dagsched.learn.train_config import TrainConfig
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay
from dagsched.workflow import Workflow
from dagsched.workload import Workload

_DOMAIN = 0x54524E
TRACE_SHARES: dict[Split, tuple[float, float]] = {
    "train": (0.0, 0.7), "validation": (0.7, 0.8), "confirm": (0.8, 0.9), "test": (0.9, 1.0),
}  # fmt: skip
MIN_PIECES = 10
"""Pieces a trace needs, so that no split is empty."""


class InstanceSource(Protocol):
    """Replays by split and index."""

    name: str
    objective: ObjectiveName
    origin: str
    """Synthetic or recorded: where its problems come from, for cards."""
    left_out: int
    """Workflows of a trace that fill no window."""

    def replay(self, split: Split, index: int) -> Replay:
        """One replay with every outcome drawn."""
        ...

    def size(self, split: Split) -> int | None:
        """How many there are; ``None`` = no end."""
        ...

    def describe(self) -> dict[str, Any]:
        """Name, digest and sizes, for cards and run folders."""
        ...


class SuiteInstances:
    """Suites mixed by weight.

    Raises:
        ConfigError: if they have different objectives.
    """

    def __init__(self, suites: Sequence[Suite], weights: Sequence[float], seed: int) -> None:
        objectives = sorted({suite.objective for suite in suites})
        if len(objectives) > 1:
            raise ConfigError(f"suite: the objectives differ ({', '.join(objectives)}); train one model for each")
        self._suites, self._seed = tuple(suites), seed
        self._share = np.cumsum(weights) / np.sum(weights)
        self.name = "+".join(suite.name for suite in suites)
        self.objective: ObjectiveName = objectives[0]
        self.origin = "; ".join(dict.fromkeys(f"{suite.name}: {suite.origin}" for suite in suites))
        self.left_out = 0

    def replay(self, split: Split, index: int) -> Replay:
        """Training draws a suite by weight; the other splits take the suites in turns."""
        if split != "train":
            suite, place = self._places(split)[index]
            return suite.replay(split, place)
        rng = np.random.default_rng(np.random.SeedSequence([self._seed, index], spawn_key=(_DOMAIN,)))
        suite = self._suites[int(np.searchsorted(self._share, rng.random(), side="right"))]
        return suite.replay("train", int(rng.integers(2**31)))

    def size(self, split: Split) -> int | None:
        """Sum over the suites."""
        return None if split == "train" else len(self._places(split))

    def describe(self) -> dict[str, Any]:
        """Each suite with its digest."""
        return {"suites": [{"name": suite.name, "digest": suite.digest} for suite in self._suites]}

    def _places(self, split: Split) -> list[tuple[Suite, int]]:
        sizes = [suite.size(split) or 0 for suite in self._suites]
        turns = range(max(sizes))
        return [(s, k) for k in turns for s, size in zip(self._suites, sizes, strict=True) if k < size]


class TraceInstances:
    """A recorded trace cut into pieces in order of time: the first 70% train, then 10% for each other split.

    A trace of one stream is cut into windows of consecutive workflows, which keep their arrivals; several workloads
    are one piece each, in the order of the files.

    Raises:
        ConfigError: if there are too few pieces.
    """

    def __init__(self, workloads: Sequence[Workload], settings: TraceSection, seed: int, name: str) -> None:
        pieces = list(workloads) if len(workloads) >= MIN_PIECES else _windows(workloads, settings.window)
        if len(pieces) < MIN_PIECES:
            raise ConfigError(
                f"trace: gives {len(pieces)} instances of {settings.window} workflows, at least {MIN_PIECES} are "
                "needed for training, validation and tests; lower trace.window or give a longer trace"
            )
        self.name, self._pieces, self._seed = name, pieces, seed
        self.origin = f"{name}: a trace"
        self.left_out = sum(len(w.workflows) for w in workloads) - sum(len(piece.workflows) for piece in pieces)
        self._cluster = cluster_named(settings.cluster)
        self.objective: ObjectiveName = settings.objective or _objective(pieces)
        self._declared = Declared(objective=self.objective)

    def replay(self, split: Split, index: int) -> Replay:
        """Training goes round its pieces, in an order of its own for each seed."""
        first, last = self._range(split)
        if split == "train":
            epoch, place = divmod(index, last - first)
            order = np.random.default_rng([_DOMAIN, self._seed, epoch]).permutation(last - first)
            index = int(order[place])
        return Replay.build(self._pieces[first + index], self._cluster, declared=self._declared)

    def size(self, split: Split) -> int | None:
        """Pieces of a split; training has no end, it repeats."""
        first, last = self._range(split)
        return None if split == "train" else last - first

    def describe(self) -> dict[str, Any]:
        """Digest of the trace and pieces of each split."""
        digest = hashlib.sha256("".join(piece.digest for piece in self._pieces).encode()).hexdigest()
        return {"trace": self.name, "digest": digest, "pieces": {s: list(self._range(s)) for s in TRACE_SHARES}}

    def _range(self, split: Split) -> tuple[int, int]:
        low, high = TRACE_SHARES[split]
        return round(low * len(self._pieces)), round(high * len(self._pieces))


def _windows(workloads: Sequence[Workload], window: int) -> list[Workload]:
    pieces: list[Workload] = []
    for workload in workloads:
        ordered: list[Workflow] = sorted(workload.workflows, key=lambda w: w.arrival)
        for number, first in enumerate(range(0, len(ordered), window)):
            part = tuple(ordered[first : first + window])
            if len(part) == window or not first:
                pieces.append(
                    Workload(
                        f"{workload.name}-{number}",
                        part,
                        units=workload.units,
                        cluster=workload.cluster,
                        declared=workload.declared,
                    )
                )
    return pieces


def _objective(pieces: Sequence[Workload]) -> ObjectiveName:
    """What the trace declares, or follows from what it states; flow time if its workloads differ."""
    found = {piece.nature.objective for piece in pieces}
    return found.pop() if len(found) == 1 else "flow_time"


def open_source(config: TrainConfig, trace: str | Path | None = None) -> InstanceSource:
    """The suites of a configuration, or a trace instead.

    Raises:
        ConfigError: for unknown suites, different objectives or too short a trace.
        FormatError: if the trace cannot be read.
    """
    if trace is None:
        suites = []
        for k, share in enumerate(config.suites):
            try:
                suites.append(Suite.load(share.suite, share.changes))
            except ConfigError as error:
                raise ConfigError(f"suite{'' if len(config.suites) == 1 else f'.{k}'}: {error}") from None
        return SuiteInstances(suites, [share.weight for share in config.suites], config.seed)
    return TraceInstances(load(trace), config.trace, config.seed, Path(trace).name)


def replays_of(source: InstanceSource, split: Split, wanted: int) -> list[Replay]:
    """The first ``wanted`` replays of a split, or all if there are fewer."""
    size = source.size(split)
    return [source.replay(split, k) for k in range(wanted if size is None else min(wanted, size))]
