"""What random tasks look like: durations, demands and bytes on edges, independent of the graph's shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dagsched.checks import as_number
from dagsched.cluster import Cluster
from dagsched.errors import ConfigError
from dagsched.texts import described
from dagsched.workflow import FloatArray, IntArray, Workflow
from dagsched.workload import Workload

RESOURCES = ("cpu", "memory")
UNITS = {"cpu": "cores", "memory": "bytes"}
MAX_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class TaskMix:
    """Distributions of the tasks of a generated workflow.

    Attributes:
        median_seconds: median duration on a node of speed 1; durations are lognormal.
        sigma: spread of the logarithm of the duration; 0 makes all tasks equally long.
        cores: core counts, drawn with equal chance.
        bytes_per_core: (least, most) memory for each core, uniform.
        mean_bytes: mean bytes on an edge (exponential); 0 = no data.

    Raises:
        ConfigError: naming the parameter.
    """

    median_seconds: float = 30.0
    sigma: float = 1.0
    cores: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    bytes_per_core: tuple[float, float] = (1e9, 4e9)
    mean_bytes: float = 50e6

    def __post_init__(self) -> None:
        check_number("median_seconds", self.median_seconds, more_than=0)
        check_number("sigma", self.sigma, at_least=0, at_most=10)
        check_number("mean_bytes", self.mean_bytes, at_least=0)
        for name in ("cores", "bytes_per_core"):
            if not isinstance(getattr(self, name), tuple | list):
                raise ConfigError(f"{name} is {getattr(self, name)!r}, expected several numbers")
        if not self.cores:
            raise ConfigError("cores is empty, expected at least one core count")
        for count in self.cores:
            check_number("cores", count, more_than=0)
        for amount in self.bytes_per_core:
            check_number("bytes_per_core", amount, at_least=0)
        if len(self.bytes_per_core) != 2 or not 0 <= self.bytes_per_core[0] <= self.bytes_per_core[1] < math.inf:
            raise ConfigError(
                f"bytes_per_core is {self.bytes_per_core!r}, expected (least, most) with 0 <= least <= most"
            )

    def workflow(
        self, name: str, parents: list[list[int]], categories: list[str], rng: np.random.Generator
    ) -> Workflow:
        """A workflow of the given shape: ``parents[v]`` are indices below ``v``; task ids are ``t1``, ``t2``, ..."""
        count = len(parents)
        pointers: IntArray = np.concatenate([[0], np.cumsum([len(row) for row in parents])]).astype(np.int64)
        edges = np.array([parent for row in parents for parent in row], np.int64)
        seconds = self.median_seconds * np.exp(self.sigma * rng.standard_normal(count))
        cores = rng.choice(np.array(self.cores, np.float64), count)
        memory = np.round(cores * rng.uniform(*self.bytes_per_core, count))
        sent: FloatArray = (
            np.round(rng.exponential(self.mean_bytes, len(edges))) if self.mean_bytes else np.zeros(len(edges))
        )
        return Workflow(
            name=name,
            task_ids=tuple(f"t{task + 1}" for task in range(count)),
            resources=RESOURCES,
            duration=seconds,
            estimate=seconds,
            demand=np.column_stack([cores, memory]),
            instances=np.ones(count, np.int64),
            parent_ptr=pointers,
            parent_idx=edges,
            parent_bytes=sent,
            category=tuple(categories),
        )


def check_number(
    name: str,
    value: object,
    *,
    more_than: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> None:
    """Raise :class:`ConfigError` unless ``value`` is a finite number in the range."""
    number = as_number(value)
    if number is None or not math.isfinite(number) or not (more_than < number and at_least <= number <= at_most):
        bounds = [f"> {more_than:g}"] if more_than > -math.inf else [f">= {at_least:g}"] if at_least > -math.inf else []
        bounds += [f"<= {at_most:g}"] if at_most < math.inf else []
        raise ConfigError(f"{name} is {described(value)}, expected a number {' and '.join(bounds)}".rstrip())


def check_count(name: str, value: object, least: int = 1, most: int = MAX_TASKS) -> None:
    """Raise :class:`ConfigError` unless ``value`` is a whole number from ``least`` to ``most``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:  # type: ignore[operator]
        raise ConfigError(f"{name} is {described(value)}, expected a whole number from {least} to {most}")


def check_rng(rng: object) -> None:
    """Raise :class:`ConfigError` unless ``rng`` is a NumPy generator."""
    if not isinstance(rng, np.random.Generator):
        raise ConfigError(f"rng is {type(rng).__name__}, expected numpy.random.default_rng(seed)")


def check_seed(seed: object) -> np.random.Generator:
    """A NumPy generator from a seed; raises :class:`ConfigError` unless it is a whole number >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed is {described(seed)}, expected a whole number >= 0")
    return np.random.default_rng(int(seed))


def check_workload(workload: object, cluster: object) -> None:
    """Raise :class:`ConfigError` unless a function was given a workload, and a cluster or none."""
    if not isinstance(workload, Workload):
        raise ConfigError(f"workload is {described(workload)}, expected a Workload")
    if cluster is not None and not isinstance(cluster, Cluster):
        raise ConfigError(f"cluster is {described(cluster)}, expected a Cluster or None")
