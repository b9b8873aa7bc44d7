"""Every kind of problem that ``dagsched generate`` and the suites know, by name.

Three sorts: one that draws single workflows, of which a workload takes many; one that draws whole problems with their
own cluster; and one that draws from files, in parts that do not overlap for training and for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from dagsched.cluster import Cluster
from dagsched.errors import ConfigError
from dagsched.generate.fork_join import fork_join
from dagsched.generate.layered import layered
from dagsched.generate.mix import TaskMix
from dagsched.generate.pools import build, homog, join
from dagsched.generate.rcpsp import rcpsp
from dagsched.generate.tpch import Profiles, tpch_cluster
from dagsched.generate.tpch_like import tpch_like
from dagsched.workflow import Workflow
from dagsched.workload import Workload

Split = Literal["train", "validation", "confirm", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "confirm", "test")

Draw = Callable[..., Workflow]
"""``draw(rng, name=..., **parameters)``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem.

    Attributes:
        name: as written in a suite or on the command line.
        workflow: draws one workflow.
        problem: draws a whole workload that brings its cluster; then ``workflow`` is ``None``.
        opened: for kinds that draw from files: ``opened(split, **files)`` gives the function that draws one workflow.
        cluster: where workflows of this kind run unless another is given; ``None`` = the shipped default.
    """

    name: str
    workflow: Draw | None = None
    problem: Callable[..., Workload] | None = None
    opened: Callable[..., Draw] | None = None
    cluster: Callable[[], Cluster] | None = None

    @property
    def file_parameters(self) -> tuple[str, ...]:
        """Parameters that say which files to draw from."""
        return () if self.opened is None else tuple(key for key in signature(self.opened).parameters if key != "split")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Every parameter but the files, those of the task mix included."""
        function = self.workflow or self.problem
        if function is None:
            return ()
        known = [key for key in signature(function).parameters if key not in ("rng", "name", "mix")]
        return (*known, *(_mix_keys() if self.takes_mix else ()))

    @property
    def takes_mix(self) -> bool:
        """Whether durations, demands and bytes come from a :class:`TaskMix`."""
        return self.workflow is not None and "mix" in signature(self.workflow).parameters

    def check_parameters(self, given: Mapping[str, Any]) -> None:
        """Refuse unknown parameters.

        Raises:
            ConfigError: naming the parameter, with the closest one that exists.
        """
        known = (*self.file_parameters, *self.parameters)
        for key in given:
            if key not in known:
                close = get_close_matches(key, known, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"expected {', '.join(known) or 'none'}"
                raise ConfigError(f"{self.name} has no parameter {key!r}; {hint}")

    def check_files(self, given: Mapping[str, Any]) -> None:
        """Refuse files that are missing among the parameters or do not exist.

        Raises:
            ConfigError: naming the parameter.
        """
        for key in self.file_parameters:
            default = signature(self.opened).parameters[key].default  # type: ignore[arg-type]
            if key not in given and default is Parameter.empty:
                raise ConfigError(f"{self.name} draws from files of yours, and {key} is missing; add {key}: PATH")
            if key in given and default is Parameter.empty and not Path(str(given[key])).exists():
                raise ConfigError(f"{self.name}: {key} is {str(given[key])!r}, which does not exist")

    def drawer(self, split: Split, files: Mapping[str, Any]) -> Draw:
        """The function that draws one workflow for a split.

        Raises:
            ConfigError: for missing or unreadable files.
        """
        if self.opened is None:
            assert self.workflow is not None
            return self._with_mix if self.takes_mix else self.workflow
        self.check_files(files)
        return self.opened(split, **files)

    def _with_mix(self, rng: np.random.Generator, *, name: str, **parameters: Any) -> Workflow:
        assert self.workflow is not None
        mix = {key: parameters.pop(key) for key in _mix_keys() if key in parameters}
        for key in ("cores", "bytes_per_core"):
            if isinstance(mix.get(key), list):
                mix[key] = tuple(mix[key])
        return self.workflow(rng, name=name, mix=TaskMix(**mix), **parameters)


def _mix_keys() -> tuple[str, ...]:
    return tuple(f.name for f in fields(TaskMix))


def _tpch(split: Split, profiles: str) -> Draw:
    """All splits draw from all queries; as in the published benchmark, what differs is which are merged."""
    del split
    return partial(Profiles.draw, Profiles.read(profiles))


_ALL = (
    Kind("layered", workflow=layered),
    Kind("fork-join", workflow=fork_join),
    Kind("rcpsp", problem=rcpsp),
    Kind("build", problem=build),
    Kind("join", problem=join),
    Kind("homog", problem=homog),
    Kind("tpch-like", workflow=tpch_like, cluster=tpch_cluster),
    Kind("tpch", opened=_tpch, cluster=tpch_cluster),
)
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})


def kind_named(name: str) -> Kind:
    """The kind of a name.

    Raises:
        ConfigError: with the closest name that exists.
    """
    if name in KINDS:
        return KINDS[name]
    close = get_close_matches(str(name), KINDS, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(KINDS)}"
    raise ConfigError(f"kind of workflow {name!r} is not known, {hint}")
