"""Every kind of problem that ``dagsched generate`` and the suites know, by name.

Three sorts: one that draws single workflows, of which a workload takes many; one that draws whole problems with their
own cluster; and one that draws from files, in parts that do not overlap for training and for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from dagsched.cluster import Cluster
from dagsched.declared import EXACT, Declared, NoiseModel
from dagsched.errors import ConfigError, closest
from dagsched.files import exists, stamp
from dagsched.generate.fork_join import fork_join
from dagsched.generate.layered import layered
from dagsched.generate.linear_algebra import cholesky, lu, qr
from dagsched.generate.mix import UNITS, TaskMix, check_count, check_rng
from dagsched.generate.pipelines import pipelines
from dagsched.generate.pools import build, homog, join
from dagsched.generate.ranges import check_range, draw_parameters
from dagsched.generate.rcpsp import rcpsp
from dagsched.generate.science import cybershake_like, epigenomics_like, montage_like
from dagsched.generate.tpch import Profiles, draw_queries, tpch_cluster
from dagsched.generate.tpch_like import tpch_like
from dagsched.generate.traces import Trace, draw_trace, draw_wfcommons
from dagsched.texts import described
from dagsched.workflow import Workflow
from dagsched.workload import Workload

Split = Literal["train", "validation", "confirm", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "confirm", "test")

MOST_WORKFLOWS = 100_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem; exactly one of ``workflow``, ``problem`` and ``drawn`` is given.

    Attributes:
        name: as written in a suite or on the command line.
        workflow: ``workflow(rng, name=..., **parameters)`` draws one workflow.
        problem: ``problem(rng, **parameters)`` draws a whole workload that brings its cluster.
        drawn: ``drawn(rng, opened, count, **parameters)`` draws workflows from opened files.
        opened: ``opened(split, **files)`` reads the files for ``drawn``.
        cluster: where workflows of this kind run unless another is given; ``None`` = the shipped default.
    """

    name: str
    workflow: Callable[..., Workflow] | None = None
    problem: Callable[..., Workload] | None = None
    drawn: Callable[..., list[Workflow]] | None = None
    opened: Callable[..., Any] | None = None
    cluster: Callable[[], Cluster] | None = None

    @property
    def file_parameters(self) -> tuple[str, ...]:
        """Parameters that say which files to draw from."""
        return () if self.opened is None else tuple(signature(self.opened).parameters)[1:]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Every parameter but the files, those of the task mix included."""
        known = [key for key in self._signature if key not in ("rng", "opened", "trace", "count", "name", "mix")]
        return (*known, *(_MIX if "mix" in self._signature else ()))

    @property
    def _signature(self) -> Mapping[str, Parameter]:
        function = self.workflow or self.problem or self.drawn
        assert function is not None
        return signature(function).parameters

    def check_parameters(self, given: Mapping[str, Any]) -> None:
        """Refuse unknown parameters, and files that are missing or do not exist.

        Raises:
            ConfigError: naming the parameter, with the closest one that exists.
        """
        known = (*self.file_parameters, *self.parameters)
        for key in given:
            if key not in known and not (key == "mix" and key in self._signature):
                hint = closest(key, known, f"expected {', '.join(known) or 'none'}")
                raise ConfigError(f"{self.name} has no parameter {key!r}, {hint}")
        for key in self.file_parameters:
            assert self.opened is not None
            if signature(self.opened).parameters[key].default is not Parameter.empty:
                continue
            if key not in given:
                raise ConfigError(f"{self.name} draws from files of yours, and {key} is missing; add {key}: PATH")
            if not exists(Path(str(given[key]))):
                raise ConfigError(f"{self.name}: {key} is {str(given[key])!r}, which does not exist; give a path")

    def workload(
        self, rng: np.random.Generator, *, count: int = 1, split: Split = "train", parameters: Mapping[str, Any]
    ) -> Workload:
        """A workload of this kind; ranges among the parameters are drawn for each workflow.

        Workflow ``i`` has its own stream, spawned from ``rng``: asking for more leaves the first ones as they were.
        Whole problems come with their cluster, as do kinds with a cluster of their own.

        Raises:
            ConfigError: for an unknown parameter, or one out of range.
        """
        check_rng(rng)
        check_count("count", count, 1, MOST_WORKFLOWS)
        self.check_parameters(parameters)
        files = {key: parameters[key] for key in self.file_parameters if key in parameters}
        others = {key: check_range(key, value) for key, value in parameters.items() if key not in files}
        if self.problem is not None:
            if count != 1:
                raise ConfigError(f"count is {count}, but {self.name} is a whole problem by itself; leave count out")
            return self.problem(rng, **draw_parameters(others, rng))
        cluster = self.cluster() if self.cluster else None
        opened = None
        if self.drawn is not None:
            opened = _opened(self.name, split, tuple(sorted(files.items())))
            workflows = self.drawn(rng, opened, count, **draw_parameters(others, rng))
            cluster = cluster or getattr(opened, "cluster", None)
        else:
            digits = max(3, len(str(count)))
            workflows = [
                self._one(stream, f"{self.name}-{number:0{digits}d}", draw_parameters(others, stream))
                for number, stream in enumerate(rng.spawn(count), 1)
            ]
        used = {resource for workflow in workflows for resource in workflow.resources}
        given = ", ".join(f"{key}={value}" for key, value in parameters.items())
        return Workload(
            name=self.name,
            workflows=tuple(workflows),
            units={resource: unit for resource, unit in UNITS.items() if resource in used},
            cluster=cluster,
            source=f"generated: {self.name}({given}), {count} workflows",
            declared=Declared(noise=self._noise(opened, others)),
        )

    def _noise(self, opened: Any, parameters: Mapping[str, Any]) -> NoiseModel:
        """Generated and redrawn durations are known exactly; recorded ones as far as their source says."""
        as_recorded = isinstance(opened, Trace) and self.drawn is draw_trace and not parameters.get("redraw")
        return opened.noise if as_recorded else EXACT

    def _one(self, rng: np.random.Generator, name: str, parameters: dict[str, Any]) -> Workflow:
        assert self.workflow is not None
        mix = {key: parameters.pop(key) for key in _MIX if key in parameters and "mix" in self._signature}
        if not isinstance(parameters.get("mix", TaskMix()), TaskMix):
            raise ConfigError(f"mix is {parameters['mix']!r}, expected a TaskMix; or give its fields one by one")
        for key in ("cores", "bytes_per_core"):
            if isinstance(mix.get(key), list):
                mix[key] = tuple(mix[key])
        return self.workflow(rng, name=name, **({"mix": TaskMix(**mix)} if mix else {}), **parameters)


_MIX = tuple(f.name for f in fields(TaskMix))


_seen: dict[tuple[tuple[str, Any], ...], tuple[object, ...]] = {}


def look_again(kind: Kind, parameters: Mapping[str, Any]) -> None:
    """Files that have changed since they were read are read again, also by other suites that draw from them.

    Asked once a suite is made, not at every draw: what a training run draws from does not change under it.
    """
    files = tuple(sorted((key, value) for key, value in parameters.items() if key in kind.file_parameters))
    now = tuple(stamp(value) for _, value in files if isinstance(value, str | Path))
    if _seen.get(files) != now:
        _opened.cache_clear()
        _seen[files] = now


@lru_cache(maxsize=64)
def _opened(kind: str, split: Split, files: tuple[tuple[str, Any], ...]) -> Any:
    """Files are read once; :func:`look_again` has them read anew."""
    opened = KINDS[kind].opened
    assert opened is not None
    return opened(split, **dict(files))


def _profiles(split: Split, profiles: str) -> Profiles:
    """All splits draw from all queries; as in the published benchmark, what differs is which are merged."""
    del split
    return Profiles.read(profiles)


def _trace(split: Split, path: str, by: Any = "name") -> Trace:
    return Trace.read(path, split, by=by)


_ALL = (
    Kind("layered", workflow=layered),
    Kind("fork-join", workflow=fork_join),
    Kind("pipelines", workflow=pipelines),
    Kind("cholesky", workflow=cholesky),
    Kind("lu", workflow=lu),
    Kind("qr", workflow=qr),
    Kind("montage-like", workflow=montage_like),
    Kind("epigenomics-like", workflow=epigenomics_like),
    Kind("cybershake-like", workflow=cybershake_like),
    Kind("tpch-like", workflow=tpch_like, cluster=tpch_cluster),
    Kind("tpch", drawn=draw_queries, opened=_profiles, cluster=tpch_cluster),
    Kind("wfcommons", drawn=draw_wfcommons, opened=_trace),
    Kind("trace", drawn=draw_trace, opened=_trace),
    Kind("rcpsp", problem=rcpsp),
    Kind("build", problem=build),
    Kind("join", problem=join),
    Kind("homog", problem=homog),
)
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})


def kind_named(name: str) -> Kind:
    """The kind of a name.

    Raises:
        ConfigError: with the closest name that exists.
    """
    if isinstance(name, str) and name in KINDS:
        return KINDS[name]
    hint = closest(name, KINDS, f"expected one of {', '.join(KINDS)}")
    raise ConfigError(f"kind of workflow {described(name)} is not known, {hint}")
