"""Draws a workflow task by task, for generators whose tasks are of known types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dagsched.errors import ConfigError
from dagsched.generate.mix import MAX_TASKS, RESOURCES
from dagsched.workflow import FloatArray, Workflow


class Drawing:
    """Tasks in the order in which they are added; ids are ``t1``, ``t2``, ..."""

    def __init__(self) -> None:
        self.categories: list[str] = []
        self.seconds: list[float] = []
        self.demand: list[tuple[float, float]] = []
        self.parents: list[list[int]] = []
        self.sent: list[list[float]] = []

    def add(
        self,
        category: str,
        seconds: float,
        parents: Sequence[int] = (),
        *,
        receives: float = 0.0,
        cores: float = 1.0,
        memory: float = 1e9,
    ) -> int:
        """Add one task that receives as many bytes from each parent; returns its number."""
        self.categories.append(category)
        self.seconds.append(float(seconds))
        self.demand.append((cores, memory))
        self.parents.append(sorted(parents))
        self.sent.append([float(receives)] * len(parents))
        return len(self.categories) - 1

    def workflow(self, name: str) -> Workflow:
        """The finished workflow."""
        count = len(self.categories)
        duration: FloatArray = np.array(self.seconds, np.float64)
        return Workflow(
            name=name,
            task_ids=tuple(f"t{task + 1}" for task in range(count)),
            resources=RESOURCES,
            duration=duration,
            estimate=duration,
            demand=np.array(self.demand, np.float64),
            instances=np.ones(count, np.int64),
            parent_ptr=np.concatenate([[0], np.cumsum([len(row) for row in self.parents])]).astype(np.int64),
            parent_idx=np.array([parent for row in self.parents for parent in row], np.int64),
            parent_bytes=np.array([sent for row in self.sent for sent in row], np.float64),
            category=tuple(self.categories),
        )


def check_total(what: str, tasks: float) -> None:
    """Raise :class:`ConfigError` for more tasks than a workflow may have."""
    if tasks > MAX_TASKS:
        raise ConfigError(f"{what} gives {tasks:g} tasks, expected at most {MAX_TASKS} in all")


def varied(rng: np.random.Generator, seconds: float, spread: float) -> float:
    """A lognormal duration of the given mean; ``spread`` is the sigma of its logarithm."""
    return float(seconds * np.exp(spread * rng.standard_normal() - spread**2 / 2))
