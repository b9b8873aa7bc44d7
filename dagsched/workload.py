"""A workload: workflows that share resource names, with a record of where they came from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dagsched.checks import as_list, as_names, as_number, is_text
from dagsched.cluster import Cluster
from dagsched.declared import NOTHING, Declared, Nature, resolve
from dagsched.errors import InvalidWorkflowError
from dagsched.texts import described
from dagsched.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Rejects:
    """Records of a trace that were left out for one reason.

    Attributes:
        reason: what was wrong, the same text for every such record.
        count: how many records.
        example: the first such record (file, line or job name).
    """

    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """Values of a file that state nothing usable and were read by a rule of its format (0 cores as one core).

    Attributes:
        rule: what was found and how it was read, the same text for every such value.
        count: how many values.
        example: the first such value (file, line, job or task).
    """

    rule: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Ordered workflows over common resources.

    Attributes:
        name: short label used in tables.
        workflows: at least one, with distinct names; demand columns are aligned with ``resources``.
        resources: names, by default the union over the workflows in order of appearance.
        units: unit of a resource by name, for display.
        cluster: the machine that belongs to the problem (PSPLIB, tpch-batch, STG), or ``None``.
        source: path or description of the origin.
        known_makespan: a published best makespan that feeds only the metric ``gap_known``.
        rejects: records left out while reading.
        assumed: values that were read by a rule because what the file states cannot be meant.
        declared: what the source says of closedness, objective and noise.

    Raises:
        InvalidWorkflowError: for no workflows, a repeated workflow name, or a workflow without deadline where all are
            declared to have one.
    """

    name: str
    workflows: tuple[Workflow, ...]
    resources: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    cluster: Cluster | None = None
    source: str = ""
    known_makespan: float | None = None
    rejects: tuple[Rejects, ...] = ()
    assumed: tuple[Assumption, ...] = ()
    declared: Declared = NOTHING

    def __post_init__(self) -> None:
        self._check_kinds()
        if not self.workflows:
            raise InvalidWorkflowError(
                f"workload {described(self.name)}: has no workflows; a workload needs at least one"
            )
        seen: set[str] = set()
        for workflow in self.workflows:
            if workflow.name in seen:
                raise InvalidWorkflowError(
                    f"workload {described(self.name)}: two workflows are named {described(workflow.name)}"
                )
            seen.add(workflow.name)
            if self.declared.all_have_deadlines and workflow.deadline is None:
                raise InvalidWorkflowError(
                    f"workload {self.name!r}: declared that all have deadlines, but workflow {workflow.name!r} has none"
                )
        resources = self.resources or tuple(dict.fromkeys(r for w in self.workflows for r in w.resources))
        object.__setattr__(self, "resources", tuple(resources))
        object.__setattr__(self, "workflows", tuple(w.with_resources(resources) for w in self.workflows))

    def _check_kinds(self) -> None:
        """Refuse values of a wrong kind by the name of their field."""
        makespan = as_number(self.known_makespan)
        units = self.units
        usual = isinstance(units, Mapping) and all(is_text(name) and is_text(unit) for name, unit in units.items())
        for what, right, expected in (
            ("name", is_text(self.name), "a text"),
            ("workflows", as_list(self.workflows, Workflow) is not None, "a list of Workflow"),
            ("resources", as_names(self.resources) is not None, "a list of names"),
            ("units", usual, "a mapping from resources to texts"),
            ("cluster", self.cluster is None or isinstance(self.cluster, Cluster), "a Cluster or None"),
            ("source", is_text(self.source), "a text"),
            ("known_makespan", self.known_makespan is None or (makespan is not None and 0 <= makespan < math.inf),
             "a finite number >= 0 or None"),
            ("rejects", as_list(self.rejects, Rejects) is not None, "a list of Rejects"),
            ("assumed", as_list(self.assumed, Assumption) is not None, "a list of Assumption"),
        ):  # fmt: skip
            if not right:
                found = described(getattr(self, what))
                raise InvalidWorkflowError(f"workload {described(self.name)}: {what} is {found}, expected {expected}")
        object.__setattr__(self, "known_makespan", makespan)

    def __repr__(self) -> str:
        cluster = "" if self.cluster is None else f", on {self.cluster!r}"
        return f"Workload({self.name!r}, {len(self.workflows)} workflows, {self.task_count} tasks{cluster})"

    @property
    def task_count(self) -> int:
        """Number of tasks over all workflows."""
        return sum(len(workflow) for workflow in self.workflows)

    @property
    def nature(self) -> Nature:
        """Closedness, objective and noise, as declared or as follows from what the source states."""
        return self.nature_under(NOTHING)

    def nature_under(self, given: Declared) -> Nature:
        """The same where a caller declares something too, which goes first."""
        return resolve(
            given.over(self.declared),
            states_arrivals=any(workflow.states_arrival for workflow in self.workflows),
            states_estimates=any(workflow.states_estimates for workflow in self.workflows),
        )

    def declare(self, given: Declared) -> Workload:
        """The same workload with these declarations before its own."""
        return replace(self, declared=given.over(self.declared))

    @property
    def digest(self) -> str:
        """SHA-256 over the workflows in order; name, source, rejects, assumptions and declarations do not count."""
        digest = hashlib.sha256()
        for workflow in self.workflows:
            workflow.digest_into(digest)
        return digest.hexdigest()

    def with_workflows(self, workflows: Sequence[Workflow]) -> Workload:
        """The same workload with other workflows (new arrivals, deadlines, a subset)."""
        return replace(self, workflows=tuple(workflows))
