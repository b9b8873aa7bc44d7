"""One task as a person writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Task:
    """One node of a workflow as a person writes it; :class:`Workflow` turns a list of them into arrays.

    Attributes:
        id: unique within its workflow.
        duration: seconds one instance runs on a node of speed 1.
        demand: amount of each resource one instance holds; ``None`` means one core, ``{}`` nothing.
        parents: ids of the tasks that must finish first.
        estimate: seconds the scheduler is told; ``None`` means it knows the duration.
        instances: number of identical units (a Spark stage or an Alibaba task has many).
        edge_bytes: bytes received from a parent, by parent id; absent parents send nothing.
        category: free label, for example the program that runs.
        group_durations: seconds on each node group by name (unrelated machines); groups not named here
            use ``duration / speed``.
    """

    id: str
    duration: float
    demand: Mapping[str, float] | None = None
    parents: Sequence[str] = ()
    estimate: float | None = None
    instances: int = 1
    edge_bytes: Mapping[str, float] = field(default_factory=dict)
    category: str | None = None
    group_durations: Mapping[str, float] = field(default_factory=dict)
