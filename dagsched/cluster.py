"""Clusters: groups of identical nodes, their capacities and speeds, and the network between groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagsched.checks import as_list, as_matrix, as_names, as_number, is_name, is_text
from dagsched.errors import ConfigError, InvalidClusterError, closest
from dagsched.files import exists, is_file, stamp
from dagsched.shipped import shipped
from dagsched.texts import described, shown_path
from dagsched.yaml_text import read_yaml

MAX_GROUPS = 1024
"""Bandwidth and latency are dense matrices over the groups."""


MOST_CAPACITY = 1e30


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """``nodes`` identical machines.

    Attributes:
        name: unique within the cluster.
        nodes: number of machines, at least 1.
        capacity: amount of each resource on one machine; resources not named have 0.
        speed: a task of duration d runs d / speed seconds here.
    """

    name: str
    nodes: int
    capacity: Mapping[str, float]
    speed: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Node groups and the network between them.

    Attributes:
        groups: ``G`` groups; nodes are numbered group by group.
        resources: ``[R]`` names, by default in order of first appearance.
        bandwidth: ``[G, G]`` bytes/s between groups, ``inf`` = free. A scalar stands for all pairs.
        latency: ``[G, G]`` seconds between groups. A scalar stands for all pairs. The diagonals do not
            count: data is at once available within a group.
        name: label used in tables.

    Raises:
        InvalidClusterError: naming group and field.
    """

    groups: tuple[NodeGroup, ...]
    resources: tuple[str, ...] = ()
    bandwidth: NDArray[np.float64] = field(default_factory=lambda: np.array(math.inf))
    latency: NDArray[np.float64] = field(default_factory=lambda: np.array(0.0))
    name: str = "cluster"

    def __post_init__(self) -> None:
        self._check_kinds()
        object.__setattr__(self, "groups", tuple(self.groups))
        resources = self.resources or tuple(dict.fromkeys(r for g in self.groups for r in g.capacity))
        object.__setattr__(self, "resources", tuple(resources))
        self._check_groups()
        for what, least in (("bandwidth", "> 0"), ("latency", ">= 0")):
            matrix = self._matrix(what)
            bad = np.isnan(matrix) | (matrix < 0) | ((matrix == 0) if what == "bandwidth" else np.isinf(matrix))
            if (bad & ~np.eye(len(self.groups), dtype=bool)).any():
                raise InvalidClusterError(f"cluster {self.name!r}: {what} must be {least} between all groups")
            matrix.setflags(write=False)
            object.__setattr__(self, what, matrix)

    def _matrix(self, what: str) -> NDArray[np.float64]:
        count = len(self.groups)
        matrix = as_matrix(getattr(self, what))
        if matrix is None:
            raise InvalidClusterError(f"cluster {self.name!r}: {what} must be a number or a square matrix")
        if matrix.ndim == 0:
            matrix = np.full((count, count), float(matrix))
        if matrix.shape != (count, count):
            raise InvalidClusterError(
                f"cluster {self.name!r}: {what} has shape {matrix.shape}, expected one row and column for each of "
                f"{count} groups"
            )
        return matrix

    def _check_kinds(self) -> None:
        """Refuse values of a wrong kind by the name of their field."""
        if not is_text(self.name):
            raise InvalidClusterError(f"cluster: name is {described(self.name)}, expected a text")
        if as_list(self.groups, NodeGroup) is None:
            found = described(self.groups)
            raise InvalidClusterError(f"cluster {self.name!r}: groups is {found}, expected a list of NodeGroup")
        if as_names(self.resources) is None:
            found = described(self.resources)
            raise InvalidClusterError(f"cluster {self.name!r}: resources is {found}, expected a list of names")
        for group in self.groups:
            where = f"cluster {self.name!r}, group {described(group.name)}"
            if not isinstance(group.capacity, Mapping):
                found = described(group.capacity)
                raise InvalidClusterError(f"{where}: capacity is {found}, expected a mapping from resources to amounts")
            for resource, amount in group.capacity.items():
                if not is_name(resource):
                    found = described(resource)
                    raise InvalidClusterError(f"{where}: capacity of {found}, expected the name of a resource")
                if as_number(amount) is None:
                    found = described(amount)
                    raise InvalidClusterError(f"{where}: capacity of {resource} is {found}, expected a number >= 0")

    def _check_groups(self) -> None:
        if not self.groups:
            raise InvalidClusterError(f"cluster {self.name!r}: has no groups; a cluster needs at least one")
        if not self.resources:
            raise InvalidClusterError(f"cluster {self.name!r}: has no resources; give the groups a capacity")
        if len(self.groups) > MAX_GROUPS:
            raise InvalidClusterError(
                f"cluster {self.name!r}: has {len(self.groups)} groups, at most {MAX_GROUPS} work"
            )
        if len(set(self.resources)) != len(self.resources):
            raise InvalidClusterError(f"cluster {self.name!r}: resources {list(self.resources)} repeat a name")
        names = [group.name for group in self.groups]
        for group in self.groups:
            where = f"cluster {self.name!r}, group {described(group.name)}"
            if not is_name(group.name) or names.count(group.name) > 1:
                raise InvalidClusterError(f"{where}: the name of a group must be a unique text that is not empty")
            if isinstance(group.nodes, bool) or not isinstance(group.nodes, int) or not 1 <= group.nodes <= 10**6:
                raise InvalidClusterError(
                    f"{where}: nodes is {described(group.nodes)}, expected a whole number from 1 to 1000000"
                )
            if not _positive(group.speed):
                raise InvalidClusterError(f"{where}: speed is {described(group.speed)}, expected a finite number > 0")
            for resource, amount in group.capacity.items():
                if resource not in self.resources:
                    raise InvalidClusterError(f"{where}: capacity of {resource!r}, but resources are {self.resources}")
                if amount != 0 and not (_positive(amount) and amount <= MOST_CAPACITY):
                    raise InvalidClusterError(f"{where}: capacity of {resource} is {amount!r}, expected a number >= 0")

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickle through the constructor: the arrays come back read-only, which compiled code is specialised for."""
        return Cluster, (self.groups, self.resources, self.bandwidth, self.latency, self.name)

    @property
    def node_count(self) -> int:
        """Number of nodes over all groups."""
        return sum(group.nodes for group in self.groups)

    @property
    def node_group(self) -> NDArray[np.int64]:
        """``[N]`` group index of each node."""
        return np.repeat(np.arange(len(self.groups)), [group.nodes for group in self.groups])

    @property
    def capacity(self) -> NDArray[np.float64]:
        """``[G, R]`` capacity of one node of each group."""
        return np.array([[float(g.capacity.get(r, 0.0)) for r in self.resources] for g in self.groups])

    @property
    def speed(self) -> NDArray[np.float64]:
        """``[G]`` speed of each group."""
        return np.array([float(group.speed) for group in self.groups])

    @property
    def node_names(self) -> tuple[str, ...]:
        """``[N]`` such as ``fast/0``."""
        return tuple(f"{group.name}/{i}" for group in self.groups for i in range(group.nodes))

    def __repr__(self) -> str:
        few = ", ".join(f"{group.nodes} {group.name}" for group in self.groups[:6])
        more = f" and {len(self.groups) - 6} more groups" if len(self.groups) > 6 else ""
        return f"Cluster({self.name!r}, {self.node_count} nodes: {few}{more}; {', '.join(self.resources[:6])})"

    @classmethod
    def pooled(cls, capacity: Mapping[str, float], *, name: str = "pool") -> Cluster:
        """One node that holds all of every resource, as in RCPSP."""
        return cls((NodeGroup("pool", 1, dict(capacity)),), name=name)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Cluster:
        """Read a cluster description; see ``docs/workflow-model.md`` for the keys.

        Raises:
            ConfigError: if the file is missing or is not YAML.
            InvalidClusterError: naming file, group and field.
        """
        path = Path(path)
        data = read_yaml(path, "cluster file")
        try:
            return cls.from_dict(data, name=shown_path(path.stem))
        except InvalidClusterError as error:
            raise InvalidClusterError(f"{shown_path(path)}: {error}") from None
        except (ValueError, OverflowError):
            raise InvalidClusterError(f"{shown_path(path)}: holds a number too large to count with") from None

    @classmethod
    def from_dict(cls, data: Any, *, name: str = "cluster") -> Cluster:
        """Build from the mapping that a cluster YAML file holds (inverse of :meth:`to_dict`)."""
        _check_keys(data, "cluster", ("groups",), ("name", "resources", "units", "bandwidth", "latency"))
        if not isinstance(data["groups"], list):
            raise InvalidClusterError("cluster: groups must be a list of groups")
        groups = []
        for entry in data["groups"]:
            _check_keys(entry, "group", ("name", "capacity"), ("nodes", "speed"))
            if not isinstance(entry["capacity"], dict):
                raise InvalidClusterError(f"group {entry['name']!r}: capacity must map resources to amounts")
            for resource in entry["capacity"]:
                if resource is None or isinstance(resource, bool):  # what YAML makes of null, yes and on
                    raise InvalidClusterError(
                        f"group {entry['name']!r}: capacity of {resource!r}; put the name of a resource into quotes"
                    )
            capacity = {str(r): _amount(entry["name"], r, a) for r, a in entry["capacity"].items()}
            speed = _amount(entry["name"], "speed", entry.get("speed", 1.0))
            groups.append(NodeGroup(str(entry["name"]), entry.get("nodes", 1), capacity, speed))
        resources = data.get("resources") or ()
        if isinstance(resources, str) or not isinstance(resources, Sequence):
            raise InvalidClusterError("cluster: resources must be a list of names")
        return cls(
            tuple(groups),
            tuple(str(r) for r in resources),
            bandwidth=_unlimited(data.get("bandwidth", math.inf)),
            latency=data.get("latency", 0.0),
            name=str(data.get("name", name)),
        )

    def to_dict(self) -> dict[str, Any]:
        """The mapping a cluster YAML or JSON file holds; ``from_dict`` reads it back."""
        return {
            "name": self.name,
            "resources": list(self.resources),
            "groups": [
                {"name": g.name, "nodes": g.nodes, "capacity": dict(g.capacity), "speed": g.speed} for g in self.groups
            ],
            "bandwidth": _scalar_or_rows(self.bandwidth),
            "latency": _scalar_or_rows(self.latency),
        }


def _unlimited(value: Any) -> Any:
    """JSON writes infinity as ``Infinity``, which YAML takes for a text."""
    if isinstance(value, list):
        return [_unlimited(entry) for entry in value]
    return math.inf if value == "Infinity" else value


@cache
def default_cluster(name: str = "default") -> Cluster:
    """A cluster that ships with the package: ``default`` (14 nodes in 4 groups) or ``alibaba`` (96-core nodes)."""
    return Cluster.from_yaml(shipped(f"workloads/clusters/{name}.yaml"))


def cluster_named(value: Cluster | Mapping[str, Any] | str | Path | None) -> Cluster | None:
    """A cluster as it is, by a shipped name, from a file or a mapping; ``None`` and ``own`` = the workload's own.

    Raises:
        ConfigError: for a name that is not shipped, or an unreadable file.
        InvalidClusterError: naming group and field.
    """
    if value is None or value == "own":
        return None
    if isinstance(value, Cluster):
        return value
    if isinstance(value, Mapping):
        return Cluster.from_dict(dict(value))
    path = Path(str(value))
    if path.suffix not in (".yaml", ".yml") and not exists(path):
        names = sorted(file.stem for file in shipped("workloads/clusters").glob("*.yaml"))
        if str(value) in names:
            return default_cluster(str(value))
        hint = closest(value, names, f"shipped clusters: {', '.join(names)}")
        raise ConfigError(f"cluster is {str(value)!r}, expected a file or the name of a shipped one; {hint}")
    return _unchanged(path, stamp(path) if is_file(path) else ())


@lru_cache(maxsize=64)
def _unchanged(path: Path, _stamp: tuple[object, ...]) -> Cluster:
    """A file is read again only after it has changed: suites ask for theirs at every draw."""
    return Cluster.from_yaml(path)


def _positive(value: object) -> bool:
    number = as_number(value)
    return number is not None and 0 < number < math.inf


def _amount(group: object, what: object, value: object) -> float:
    """YAML reads ``16e9`` as a text (it wants ``16.0e+9``), so texts that are numbers are taken as numbers."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidClusterError(f"group {group!r}: {what} is {value!r}, expected a number") from None


def _check_keys(data: object, what: str, required: Sequence[str], optional: Sequence[str]) -> None:
    if not isinstance(data, dict):
        raise InvalidClusterError(f"{what}: expected a mapping with {', '.join(required)}, found {type(data).__name__}")
    for key in required:
        if key not in data:
            raise InvalidClusterError(f"{what}: key {key!r} is missing")
    for key in data:
        if key not in (*required, *optional):
            known = (*required, *optional)
            hint = closest(key, known, f"known keys: {', '.join(known)}")
            raise InvalidClusterError(f"{what}: unknown key {key!r}; {hint}")


def _scalar_or_rows(matrix: NDArray[np.float64]) -> float | list[list[float]]:
    values = np.unique(matrix)
    return float(values[0]) if len(values) == 1 else matrix.tolist()
