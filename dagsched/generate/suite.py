"""Suites: named families of problems with disjoint training, validation and test parts, as YAML files.

The random numbers of problem ``index`` of a split come from (seed of the suite, split, index) alone, so that problems
can be drawn in any order and by any process. Kinds that draw from files also keep the files' jobs apart by split.
``docs/generators.md`` lists every key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dagsched.cluster import Cluster, cluster_named, default_cluster
from dagsched.declared import MOST_SIGMA, Declared
from dagsched.errors import ConfigError, DagschedError
from dagsched.files import content_digest
from dagsched.generate.arrivals import ArrivalKind, arrive
from dagsched.generate.deadlines import deadlines
from dagsched.generate.kinds import MOST_WORKFLOWS, SPLITS, Split, kind_named, look_again
from dagsched.generate.mix import check_count, check_rng
from dagsched.generate.ranges import check_range, draw
from dagsched.generate.suite_file import (
    apply_change,
    find_suite,
    first_error,
    read_suite,
    resolve_paths,
    unknown_key,
)
from dagsched.objective import ObjectiveName
from dagsched.pydantic_text import for_pydantic
from dagsched.replay import Replay, SimulationOptions
from dagsched.workload import Workload


class Arrivals(BaseModel):
    """How workflows arrive.

    Attributes:
        kind: ``at-once``, ``poisson``, ``bursty`` or ``recorded``.
        load: of the scarcest resource, a number or [least, most] drawn for each replay.
        burst: bursty only: how much faster workflows arrive in a burst than between bursts.
        burst_length: bursty only: mean number of workflows in a burst.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ArrivalKind = "at-once"
    load: Any = None
    burst: float = Field(default=10.0, ge=1, le=1e6)
    burst_length: float = Field(default=10.0, ge=1, le=1e6)

    @model_validator(mode="after")
    def _load_fits(self) -> Arrivals:
        if self.kind in ("poisson", "bursty") and self.load is None:
            raise ValueError(f"load is missing; {self.kind} arrivals need a number such as 0.9, or [least, most]")
        if self.kind == "at-once" and self.load is not None:
            raise ValueError("load has no meaning for at-once arrivals; choose poisson or bursty")
        if self.load is not None:
            with for_pydantic():
                object.__setattr__(self, "load", check_range("load", self.load, at_least=1e-6, at_most=1000))
        return self


class MixtureEntry(BaseModel):
    """One component of the mixture; further keys are parameters of its kind.

    Attributes:
        kind: a name of :data:`~dagsched.generate.kinds.KINDS`.
        weight: chance relative to the other entries.
        count: number of workflows, or [least, most].
        cluster: where problems of this entry run; by default the suite's, else the problem's own.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    kind: str
    weight: float = Field(default=1.0, gt=0, le=1e9)
    count: Any = 1
    cluster: Any = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the kind, ranges not yet drawn."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _parameters_exist(self) -> MixtureEntry:
        with for_pydantic():
            kind = kind_named(self.kind)
            kind.check_parameters(self.parameters)
            look_again(kind, self.parameters)
            count = check_range("count", self.count, at_least=1, at_most=MOST_WORKFLOWS)
            ends = count["one-of"] if isinstance(count, dict) else count if isinstance(count, list) else [count]
            if not all(isinstance(end, int) for end in ends):
                raise ConfigError(f"count is {self.count!r}, expected a whole number or [least, most]")
            if kind.problem is not None and count != 1:
                raise ConfigError(f"count is {count!r}, but {self.kind} is a whole problem by itself; leave count out")
            object.__setattr__(self, "count", count)
            for key, value in self.parameters.items():
                (self.model_extra or {})[key] = value if key in kind.file_parameters else check_range(key, value)
            cluster_named(self.cluster)
        return self


class Suite(BaseModel):
    """A family of problems; see the module.

    Attributes:
        name: label used in tables.
        objective: which metric decides what "best" means; declared of every problem.
        closed: whether everything is known at the start; by default where all workflows arrive at once.
        mixture: what a problem can be; one entry is drawn for each problem.
        cluster: a shipped name, a file, a mapping with groups, or ``None``: the problem's own.
        arrivals: how the workflows arrive.
        deadlines: a factor of the critical path, ``tight``, or ``None``.
        noise: sigma of the lognormal error of the estimates, or [least, most].
        options: placement and decision times.
        validation, confirm, test: sizes of the splits; training is unlimited.
        seed: of every random number.
        about: what the suite is for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(min_length=1)
    about: str = ""
    objective: ObjectiveName = "makespan"
    closed: bool | None = None
    mixture: tuple[MixtureEntry, ...] = Field(min_length=1)
    cluster: Any = None
    arrivals: Arrivals = Arrivals()
    deadlines: float | Literal["tight"] | None = None
    noise: Any = 0.0
    options: SimulationOptions = SimulationOptions()
    validation: int = Field(default=100, ge=1, le=10**6)
    confirm: int = Field(default=100, ge=1, le=10**6)
    test: int = Field(default=100, ge=1, le=10**6)
    seed: int = Field(default=0, ge=0, lt=2**63)

    @field_validator("noise")
    @classmethod
    def _noise_fits(cls, value: Any) -> Any:
        with for_pydantic():
            return check_range("noise", value, at_least=0, at_most=MOST_SIGMA)

    @field_validator("deadlines", mode="after")
    @classmethod
    def _deadlines_fit(cls, value: Any) -> Any:
        if value is not None and value != "tight" and (isinstance(value, bool) or not 0 < value < 1e6):
            raise ValueError(f"deadlines is {value!r}, expected 'tight' or a factor > 0 of the critical path")
        return value

    @field_validator("cluster")
    @classmethod
    def _cluster_exists(cls, value: Any) -> Any:
        with for_pydantic():
            cluster_named(value)
        return value

    @field_validator("options", mode="before")
    @classmethod
    def _options_fit(cls, value: Any) -> Any:
        known = [f.name for f in fields(SimulationOptions)]
        if not isinstance(value, Mapping):
            return value
        for key in value:
            if key not in known:
                raise ValueError(unknown_key(str(key), known))
        with for_pydantic():
            return SimulationOptions(**value)

    @classmethod
    def load(cls, path: str | Path, changes: Sequence[str] = ()) -> Suite:
        """Read a suite file, or a shipped one by its name (``workloads/build.yaml``, ``build``).

        Args:
            path: file, or name of a shipped suite.
            changes: ``key=value`` replacements such as ``noise=0.1`` or ``mixture.0.profiles=DIR``.

        Raises:
            ConfigError: in one line: file, field, what was found, what was expected.
        """
        file = find_suite(path)
        data = read_suite(file)
        for change in changes:
            apply_change(data, change)
        resolve_paths(data, file.parent)
        return cls.from_dict(data, where=str(file))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "suite") -> Suite:
        """A suite from the mapping that its file holds.

        Raises:
            ConfigError: in one line: ``where``, field, what was found, what was expected.
        """
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            raise ConfigError(
                f"{where}: {first_error(error, {'': list(cls.model_fields), 'arrivals': list(Arrivals.model_fields)})}"
            ) from None

    @property
    def digest(self) -> str:
        """SHA-256 of the resolved suite and of the files it draws from, for checkpoints and reports."""
        digest = hashlib.sha256(self.model_dump_json().encode())
        for file in self._files():
            digest.update(content_digest(file).encode())
        return digest.hexdigest()

    @property
    def origin(self) -> str:
        """Whether its problems are synthetic or drawn from recorded files, with the kinds: for cards."""
        sides: dict[str, list[str]] = {}
        for entry in self.mixture:
            side = "synthetic" if kind_named(entry.kind).opened is None else "drawn from recorded files"
            if entry.kind not in sides.setdefault(side, []):
                sides[side].append(entry.kind)
        return " and ".join(f"{side} ({', '.join(kinds)})" for side, kinds in sides.items())

    def _files(self) -> list[Path]:
        """Files and folders that the suite names, its own clusters among them, in order."""
        named = [self.cluster]
        for entry in self.mixture:
            named.append(entry.cluster)
            named += [entry.parameters.get(key) for key in kind_named(entry.kind).file_parameters]
        return [Path(value) for value in named if isinstance(value, str | Path) and Path(value).exists()]

    def size(self, split: Split) -> int | None:
        """Number of problems of a split; ``None`` for training, which never ends."""
        _check_split(split)
        return None if split == "train" else int(getattr(self, split))

    def replay(self, split: Split, index: int) -> Replay:
        """Problem ``index`` of a split with every outcome drawn; the same on every machine and in any order.

        Raises:
            ConfigError: for an unknown split or an index beyond it.
        """
        size = self.size(split)
        check_count("index", index, 0, 2**31 if size is None else size - 1)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(SPLITS.index(split), int(index))))
        try:
            workload, cluster = self._draw(rng, split)
            workload = replace(workload, name=f"{self.name}-{split}-{index}")
            sigma = float(draw(self.noise, rng))
            seed = int(rng.integers(2**63))
            return Replay.build(workload, cluster, seed=seed, sigma=sigma, options=self.options)
        except DagschedError as error:
            raise ConfigError(f"suite {self.name!r}, {split} {index}: {error}") from None

    def sample(self, rng: np.random.Generator) -> tuple[Workload, Cluster]:
        """A training problem from the caller's generator: arrivals and deadlines applied, durations as estimated."""
        check_rng(rng)
        return self._draw(rng, "train")

    def _draw(self, rng: np.random.Generator, split: Split) -> tuple[Workload, Cluster]:
        """Each part has its own generator, so that a longer workload leaves arrivals and deadlines as they are."""
        made, timed, due = (np.random.default_rng(rng.integers(2**63, size=2)) for _ in range(3))
        weights = np.array([entry.weight for entry in self.mixture])
        chosen = self.mixture[int(np.searchsorted(np.cumsum(weights), made.random() * weights.sum(), side="right"))]
        workload, cluster = self._problem(chosen, made, split)
        load = None if self.arrivals.load is None else float(draw(self.arrivals.load, timed))
        workload = arrive(
            workload,
            cluster,
            self.arrivals.kind,
            load,
            timed,
            burst=self.arrivals.burst,
            burst_length=self.arrivals.burst_length,
        )
        if self.deadlines is not None:
            workload = deadlines(workload, cluster, self.deadlines, due)
        return workload.declare(Declared(closed=self.closed, objective=self.objective)), cluster

    def _problem(self, entry: MixtureEntry, rng: np.random.Generator, split: Split) -> tuple[Workload, Cluster]:
        count = int(draw(entry.count, rng))
        workload = kind_named(entry.kind).workload(rng, count=count, split=split, parameters=entry.parameters)
        cluster = cluster_named(entry.cluster) or cluster_named(self.cluster) or workload.cluster or default_cluster()
        return replace(workload, name=self.name, cluster=cluster), cluster


def _check_split(split: object) -> None:
    if split not in SPLITS:
        raise ConfigError(f"split is {split!r}, expected one of {', '.join(SPLITS)}")


__all__ = ["SPLITS", "Arrivals", "MixtureEntry", "Split", "Suite", "find_suite"]
