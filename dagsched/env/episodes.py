"""Where episodes come from: workloads, fixed replays, or a suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dagsched.cluster import Cluster, cluster_named
from dagsched.declared import NOTHING, Declared
from dagsched.errors import ConfigError
from dagsched.generate.suite import SPLITS, Split, Suite
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay, SimulationOptions
from dagsched.workload import Workload

TRAINING = 2**31
"""Numbers of training problems that a suite is asked for."""


class EpisodeSource(Protocol):
    """Replays by number."""

    @property
    def objective(self) -> ObjectiveName:
        """What counts unless the user says otherwise."""
        ...

    @property
    def size(self) -> int:
        """Replays are numbered from 0 to ``size - 1``."""
        ...

    def replay(self, index: int, rng: np.random.Generator) -> Replay:
        """One replay; ``rng`` draws what the number leaves open (the noise)."""
        ...

    def room(self) -> tuple[int, int]:
        """Most tasks and edges of a replay, as far as known beforehand; (0, 0) = not known."""
        ...


def draw(source: EpisodeSource, rng: np.random.Generator, index: int | None = None) -> Replay:
    """Replay ``index``, or one drawn uniformly.

    Raises:
        ConfigError: for an index the source does not have.
    """
    if index is None:
        index = int(rng.integers(source.size))
    whole = isinstance(index, int | np.integer) and not isinstance(index, bool)
    if not whole or not 0 <= index < source.size:
        raise ConfigError(f"index is {index!r}, expected a whole number from 0 to {source.size - 1}")
    return source.replay(int(index), rng)


class WorkloadEpisodes:
    """Given workloads and replays, in the order given; a replay without noise is built once."""

    def __init__(
        self,
        given: Sequence[Workload | Replay],
        cluster: Cluster | None = None,
        noise: float = 0.0,
        options: SimulationOptions | None = None,
        declared: Declared | None = None,
    ) -> None:
        if not given:
            raise ConfigError("workload: is empty; give at least one file, Workload or Replay")
        self._given, self._cluster, self._noise, self._options = list(given), cluster, noise, options
        self._declared = declared or NOTHING
        found = {g.objective if isinstance(g, Replay) else g.nature_under(self._declared).objective for g in given}
        self.objective: ObjectiveName = found.pop() if len(found) == 1 else "makespan"
        self._built: dict[int, Replay] = {k: r for k, r in enumerate(given) if isinstance(r, Replay)}

    @property
    def size(self) -> int:
        """Number of workloads and replays."""
        return len(self._given)

    def replay(self, index: int, rng: np.random.Generator) -> Replay:
        """See :class:`EpisodeSource`."""
        given = self._given[index]
        if isinstance(given, Replay) or index in self._built:
            return self._built[index]
        seed = int(rng.integers(2**63)) if self._noise else 0
        replay = Replay.build(
            given, self._cluster, seed=seed, sigma=self._noise, options=self._options, declared=self._declared
        )
        if not self._noise:
            self._built[index] = replay
        return replay

    def room(self) -> tuple[int, int]:
        """Largest numbers over what was given."""
        workflows = [g.workflows for g in self._given]
        tasks = max(sum(len(w) for w in several) for several in workflows)
        return tasks, max(sum(len(w.parent_idx) for w in several) for several in workflows)


class SuiteEpisodes:
    """One split of a suite, noise and deadlines included."""

    def __init__(self, suite: Suite, split: Split) -> None:
        if split not in SPLITS:
            raise ConfigError(f"split is {split!r}, expected one of {', '.join(SPLITS)}")
        self._suite, self._split = suite, split
        self.objective: ObjectiveName = suite.objective

    @property
    def size(self) -> int:
        """Number of problems of the split."""
        return self._suite.size(self._split) or TRAINING

    def replay(self, index: int, rng: np.random.Generator) -> Replay:
        """See :class:`EpisodeSource`."""
        del rng
        return self._suite.replay(self._split, index)

    def room(self) -> tuple[int, int]:
        """Not known: problems are drawn."""
        return 0, 0


def open_source(
    workload: Any,
    suite: Any,
    split: Split,
    cluster: Any,
    noise: float,
    options: SimulationOptions | None,
    declared: Declared | None = None,
) -> EpisodeSource:
    """The source of the given settings (see :class:`dagsched.env.settings.Settings`).

    Raises:
        ConfigError: for settings that do not go together, or an unknown suite or cluster.
        FormatError: for a file that cannot be read.
    """
    if workload is None:
        said = declared or NOTHING
        own = (("cluster", cluster), ("noise", noise or said.noise), ("closed", said.closed), ("simulation", options))
        for name, value in own:
            if value is not None and value != 0:
                raise ConfigError(f"{name} has no meaning with a suite, which has its own; change it in the suite")
        if not isinstance(suite, Suite | str | Path):
            raise ConfigError(f"suite is {suite!r:.80}, expected a name, a path or a Suite")
        return SuiteEpisodes(suite if isinstance(suite, Suite) else Suite.load(suite), split)
    if suite is not None:
        raise ConfigError("workload and suite are both given; give one of them")
    given = _opened(workload)
    return WorkloadEpisodes(given, cluster_named(cluster), noise, options, declared)


def _opened(workload: Any) -> list[Workload | Replay]:
    from dagsched.formats import load

    if isinstance(workload, Workload | Replay):
        return [workload]
    if isinstance(workload, str | Path):
        return list(load(workload))
    if not isinstance(workload, Sequence):
        raise ConfigError(f"workload is {workload!r:.80}, expected a path, a Workload, a Replay, or a list of these")
    return [part for entry in workload for part in _opened(entry)]
