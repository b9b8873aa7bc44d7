"""Tasks and workflows: the immutable, validated problem description every other module trusts."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dagsched.checks import as_list, as_names, as_number, is_array, is_name, is_text
from dagsched.errors import InvalidWorkflowError
from dagsched.frozen import restore
from dagsched.networkx_graphs import GRAPH_KEYS, read_graph, write_graph
from dagsched.task import Task
from dagsched.texts import described, one_line

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DEFAULT_DEMAND: Mapping[str, float] = {"cpu": 1.0}
MAX_INSTANCES = 2**40
MAX_COLUMNS = 256
"""Most resources, and most named node groups, of a workflow: each is a column of a dense array over all tasks."""

_MAX_DIGITS = 1000
_DIGITS = re.compile(r"(\d+)")


def _value(digits: str) -> int:
    """The number; those too long for Python to convert are all alike and then compare as text."""
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


@lru_cache(maxsize=1 << 16)
def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts ``t2`` before ``t10``: runs of digits compare as numbers.

    Total and deterministic: equal numbers written differently (``01`` and ``1``) fall back to the text.
    """
    parts = tuple((0, _value(p), p) if p.isdecimal() else (1, 0, p) for p in _DIGITS.split(text) if p)
    return (*parts, (2, 0, text))


_SCALARS = frozenset(("name", "arrival", "deadline", "weight", "tenant", "states_arrival"))


@dataclass(frozen=True, slots=True, eq=False)
class Workflow:
    """A named DAG of ``T`` tasks in arrays, validated once at construction.

    Build one with :meth:`from_tasks` or :meth:`from_networkx`; the constructor takes finished arrays and
    checks them all the same. Parents are stored in compressed sparse rows by child.

    Attributes:
        name: unique within a workload.
        task_ids: ``[T]`` unique ids.
        resources: ``[R]`` resource names, the columns of ``demand``.
        duration: ``[T]`` seconds on a node of speed 1.
        estimate: ``[T]`` seconds the scheduler is told.
        demand: ``[T, R]`` per instance.
        instances: ``[T]`` identical units per task.
        parent_ptr, parent_idx: ``[T + 1]``, ``[E]`` parents of task ``v`` are
            ``parent_idx[parent_ptr[v]:parent_ptr[v + 1]]``.
        parent_bytes: ``[E]`` bytes on each edge.
        category: ``[T]`` labels or ``None``.
        group_names, group_duration: ``[K]``, ``[T, K]`` seconds on named node groups, NaN where not given.
        arrival: seconds at which the workflow becomes known.
        deadline: absolute seconds, or ``None`` for no objective.
        weight: positive importance in weighted metrics.
        tenant: free label of the owner.
        states_arrival: whether ``arrival`` is said by the source, not just the default; true wherever it is not 0.
        states_estimates: whether the source gives some task an estimate; true wherever one differs from its duration.

    Raises:
        InvalidWorkflowError: naming workflow, task and field.
    """

    name: str
    task_ids: tuple[str, ...]
    resources: tuple[str, ...]
    duration: FloatArray
    estimate: FloatArray
    demand: FloatArray
    instances: IntArray
    parent_ptr: IntArray
    parent_idx: IntArray
    parent_bytes: FloatArray
    category: tuple[str | None, ...] = ()
    group_names: tuple[str, ...] = ()
    group_duration: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    arrival: float = 0.0
    deadline: float | None = None
    weight: float = 1.0
    tenant: str = ""
    states_arrival: bool = False
    states_estimates: bool = False
    topological_order: IntArray = field(init=False, repr=False)

    __setstate__ = restore

    def __post_init__(self) -> None:
        _freeze_arrays(self)
        _check_attributes(self)
        _check_tasks(self)
        _check_edges(self)
        object.__setattr__(self, "states_arrival", bool(self.states_arrival or self.arrival != 0))
        told = self.states_estimates or not np.array_equal(self.estimate, self.duration)
        object.__setattr__(self, "states_estimates", bool(told))
        object.__setattr__(self, "topological_order", _read_only(_topological_order(self)))

    def __len__(self) -> int:
        return len(self.task_ids)

    @property
    def edge_count(self) -> int:
        """Number of precedence edges."""
        return len(self.parent_idx)

    @property
    def milestone(self) -> NDArray[np.bool_]:
        """``[T]`` tasks of zero duration and zero demand: they run on no node and start by themselves."""
        resting: NDArray[np.bool_] = (self.duration == 0) & (self.estimate == 0) & ~self.demand.any(axis=1)
        if self.group_names:
            resting &= ~(np.nan_to_num(self.group_duration) > 0).any(axis=1)
        return resting

    def parents(self, task: int) -> IntArray:
        """Indices of the parents of task index ``task``."""
        return self.parent_idx[self.parent_ptr[task] : self.parent_ptr[task + 1]]

    @classmethod
    def from_tasks(
        cls,
        name: str,
        tasks: Iterable[Task],
        *,
        resources: Sequence[str] | None = None,
        arrival: float | None = None,
        deadline: float | None = None,
        weight: float = 1.0,
        tenant: str = "",
    ) -> Workflow:
        """Build a workflow from tasks in any order.

        ``resources`` fixes the columns of the demand matrix; by default they are the names used, in order
        of first appearance; an ``arrival`` of ``None`` is 0 s and counts as not stated (:mod:`dagsched.declared`).
        Raises :class:`InvalidWorkflowError` for anything inconsistent.
        """
        tasks = _checked_tasks(name, tasks)
        index = _index_of_ids(name, [task.id for task in tasks])
        columns = _resource_columns(name, tasks, resources)
        group_names = tuple(dict.fromkeys(group for task in tasks for group in task.group_durations))
        if len(group_names) > MAX_COLUMNS:
            raise InvalidWorkflowError(
                f"workflow {name!r}: names {len(group_names)} groups, at most {MAX_COLUMNS} work"
            )
        demand = np.zeros((len(tasks), len(columns)))
        group_duration = np.full((len(tasks), len(group_names)), math.nan)
        parent_ptr = np.zeros(len(tasks) + 1, np.int64)
        parent_idx: list[int] = []
        parent_bytes: list[float] = []
        for row, task in enumerate(tasks):
            for resource, amount in (DEFAULT_DEMAND if task.demand is None else task.demand).items():
                value = amount if type(amount) is float else _number(name, task.id, "demand of", amount, resource)
                demand[row, columns[resource]] = value
            for group, seconds in task.group_durations.items():
                value = _number(name, task.id, "duration on group", seconds, group)
                if math.isnan(value):
                    raise _task_error(name, task.id, f"duration on group {group}", seconds, "a number >= 0")
                group_duration[row, group_names.index(group)] = value
            if task.parents or task.edge_bytes:
                _append_parents(name, task, index, parent_idx, parent_bytes)
            parent_ptr[row + 1] = len(parent_idx)
        duration = [
            t.duration if type(t.duration) is float else _number(name, t.id, "duration", t.duration) for t in tasks
        ]
        estimate = [
            d if t.estimate is None else _number(name, t.id, "estimate", t.estimate)
            for t, d in zip(tasks, duration, strict=True)
        ]
        return cls(
            name=name,
            task_ids=tuple(index),
            resources=tuple(columns),
            duration=np.array(duration, np.float64),
            estimate=np.array(estimate, np.float64),
            demand=demand,
            instances=np.array([_whole(name, t.id, "instances", t.instances) for t in tasks], np.int64),
            parent_ptr=parent_ptr,
            parent_idx=np.array(parent_idx, np.int64),
            parent_bytes=np.array(parent_bytes, np.float64),
            category=tuple(task.category for task in tasks),
            group_names=group_names,
            group_duration=group_duration,
            arrival=0.0 if arrival is None else arrival,
            deadline=deadline,
            weight=weight,
            tenant=tenant,
            states_arrival=arrival is not None,
            states_estimates=any(task.estimate is not None for task in tasks),
        )

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The workflow as :class:`Task` values again (built on each call)."""
        return tuple(self._task(row) for row in range(len(self)))

    def _task(self, row: int) -> Task:
        begin, end = self.parent_ptr[row], self.parent_ptr[row + 1]
        parents = tuple(self.task_ids[p] for p in self.parent_idx[begin:end])
        sent = zip(parents, self.parent_bytes[begin:end].tolist(), strict=True)
        seconds = zip(self.group_names, self.group_duration[row].tolist(), strict=True)
        same = self.estimate[row] == self.duration[row]
        return Task(
            id=self.task_ids[row],
            duration=float(self.duration[row]),
            demand={r: d for r, d in zip(self.resources, self.demand[row].tolist(), strict=True) if d},
            parents=parents,
            estimate=None if same else float(self.estimate[row]),
            instances=int(self.instances[row]),
            edge_bytes={parent: size for parent, size in sent if size},
            category=self.category[row],
            group_durations={group: s for group, s in seconds if not math.isnan(s)},
        )

    def with_(self, **changes: Any) -> Workflow:
        """A copy with some attributes replaced (``arrival``, ``deadline``, ``weight``, ``name``, ...)."""
        if not changes.keys() <= _SCALARS:
            return replace(self, **changes)
        if "arrival" in changes:
            changes = {"states_arrival": True, **changes}
        copied = object.__new__(type(self))  # the arrays are checked already: a stream renews thousands of arrivals
        for name in type(self).__slots__:
            object.__setattr__(copied, name, changes[name] if name in changes else getattr(self, name))
        _check_attributes(copied)
        return copied

    def with_resources(self, resources: Sequence[str]) -> Workflow:
        """The same workflow with its demand columns in the given order; new resources get demand 0.

        Raises :class:`InvalidWorkflowError` if a resource with demand would be dropped.
        """
        if tuple(resources) == self.resources:
            return self
        demand = np.zeros((len(self), len(resources)))
        for column, resource in enumerate(self.resources):
            if resource in resources:
                demand[:, list(resources).index(resource)] = self.demand[:, column]
            elif self.demand[:, column].any():
                row = int(np.argmax(self.demand[:, column] > 0))
                raise InvalidWorkflowError(
                    f"workflow {self.name!r}, task {self.task_ids[row]!r}: demands {resource!r}, "
                    f"but only {', '.join(resources)} exist; add the resource or drop the demand"
                )
        return replace(self, resources=tuple(resources), demand=demand)

    def digest_into(self, digest: Any) -> None:
        """Feed the canonical content into a hashlib object."""
        header = [self.name, *self.resources, *self.group_names, self.tenant]
        for text in (*header, *self.task_ids, *(c or "" for c in self.category)):
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(4, "little") + encoded)
        deadline = math.inf if self.deadline is None else self.deadline
        for array in (
            np.array([self.arrival, deadline, self.weight, len(self)]),
            self.duration,
            self.estimate,
            self.demand,
            self.instances,
            self.parent_ptr,
            self.parent_idx,
            self.parent_bytes,
            self.group_duration,
        ):
            digest.update(np.ascontiguousarray(array).tobytes())

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical content, 64 hex digits."""
        digest = hashlib.sha256()
        self.digest_into(digest)
        return digest.hexdigest()

    def __repr__(self) -> str:
        due = "" if self.deadline is None else f", deadline {self.deadline:g} s"
        edges = len(self.parent_idx)
        return f"Workflow({self.name!r}, {len(self)} tasks, {edges} edges, arrival {self.arrival:g} s{due})"

    def plot(self) -> Figure:
        """The graph as a matplotlib figure; ``dagsched.draw.dag.save_dag`` writes it to a file."""
        drawing = import_module("dagsched.draw.dag")  # by name: pictures stand above
        return cast("Figure", drawing.dag_figure(self))

    def to_networkx(self) -> nx.DiGraph:
        """A ``networkx.DiGraph`` with the task fields as node attributes and ``bytes`` on edges.

        Round trip: ``Workflow.from_networkx(w.to_networkx())`` has the same digest.
        """
        stated = [key for key in GRAPH_KEYS if key != "arrival" or self.states_arrival]
        return write_graph({key: getattr(self, key) for key in stated}, self.tasks)

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph, *, name: str | None = None) -> Workflow:
        """Read a ``networkx.DiGraph``: nodes need ``duration``; the other fields of :class:`Task` are optional.

        Node labels become ids by ``str``. A node attribute that bears the name of a resource is the demand of one
        instance (``cpu=4`` is ``demand={"cpu": 4}``): the names in the graph's attribute ``resources``, else ``cpu``,
        ``memory``, ``gpu`` and those in any node's ``demand``. Edges may have ``bytes``, the graph ``name``,
        ``resources``, ``arrival``, ``deadline``, ``weight`` and ``tenant``.

        Raises:
            InvalidWorkflowError: for an undirected graph, a missing duration, an attribute that has no meaning here
                (with a suggestion), or anything inconsistent.
        """
        title, tasks, fields = read_graph(graph, name)
        return cls.from_tasks(title, tasks, **fields)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _freeze_arrays(workflow: Workflow) -> None:
    """Own, read-only, contiguous copies, so that a caller's later edit cannot invalidate the checks."""
    for what in ("task_ids", "resources", "category", "group_names"):
        value = getattr(workflow, what)
        names = as_list(value) if what == "category" else as_names(value)
        if names is None:
            raise InvalidWorkflowError(
                f"workflow {described(workflow.name)}: {what} is {described(value)}, expected a list of names"
            )
        if type(value) is not tuple:
            object.__setattr__(workflow, what, tuple(names))
    count = len(workflow.task_ids)
    edges = len(workflow.parent_idx) if is_array(workflow.parent_idx) and workflow.parent_idx.ndim else 0
    shapes = {
        "duration": (np.float64, (count,)),
        "estimate": (np.float64, (count,)),
        "demand": (np.float64, (count, len(workflow.resources))),
        "instances": (np.int64, (count,)),
        "parent_ptr": (np.int64, (count + 1,)),
        "parent_idx": (np.int64, (edges,)),
        "parent_bytes": (np.float64, (edges,)),
        "group_duration": (np.float64, (count, len(workflow.group_names))),
    }
    for name, (dtype, shape) in shapes.items():
        array = getattr(workflow, name)
        if name == "group_duration" and not workflow.group_names and is_array(array) and array.size == 0:
            array = np.zeros(shape)
        whole = dtype is np.int64
        if not is_array(array, whole=whole) and not (is_array(array) and array.size == 0):
            raise InvalidWorkflowError(
                f"workflow {described(workflow.name)}: {name} is {described(array)}, expected an array of "
                f"{'whole ' if whole else ''}numbers"
            )
        if array.shape != shape:
            raise InvalidWorkflowError(
                f"workflow {described(workflow.name)}: {name} has shape {array.shape}, expected {shape}"
            )
        if array.dtype != dtype or array.flags.writeable or not array.flags.c_contiguous:
            array = np.array(array, dtype, order="C")
            if dtype is np.float64:
                array += 0.0  # -0.0 becomes 0.0: equal workflows have equal digests
            object.__setattr__(workflow, name, _read_only(array))
    if not workflow.category:
        object.__setattr__(workflow, "category", (None,) * count)


def _task_error(workflow: str, task: str, what: str, found: object, expected: str) -> InvalidWorkflowError:
    return InvalidWorkflowError(
        f"workflow {workflow!r}, task {task!r}: {one_line(what)} is {described(found)}, expected {expected}"
    )


def _number(workflow: str, task: str, what: str, value: object, of: str = "") -> float:
    number = as_number(value)
    if number is None:
        raise _task_error(workflow, task, f"{what} {of}".rstrip(), value, "a number")
    return number


def _whole(workflow: str, task: str, what: str, value: object) -> int:
    if type(value) is int and 1 <= value <= MAX_INSTANCES:
        return value
    number = as_number(value)
    if number is None or not 1 <= number <= MAX_INSTANCES or number != int(number):
        raise _task_error(workflow, task, what, value, f"a whole number from 1 to {MAX_INSTANCES}")
    return int(number)


def _checked_tasks(workflow: str, tasks: object) -> list[Task]:
    """The tasks as a list; each must be a task whose demand, parents and the like are of the right kind."""
    checked = as_list(tasks, Task)
    if checked is None:
        raise InvalidWorkflowError(f"workflow {workflow!r}: tasks is {described(tasks)}, expected a list of Task")
    known: set[str] = set()
    for task in checked:
        for what in ("demand", "edge_bytes", "group_durations"):
            value = getattr(task, what)
            if type(value) is not dict and not isinstance(value, Mapping) and not (what == "demand" and value is None):
                raise _task_error(workflow, task.id, what, value, "a mapping from names to numbers")
            if what != "edge_bytes" and value and not known.issuperset(value):
                for name in value:
                    if not is_name(name):
                        raise _task_error(workflow, task.id, f"a name in {what}", name, "a text that is not empty")
                known.update(value)
        if type(task.parents) not in (tuple, list) and as_list(task.parents) is None:
            raise _task_error(workflow, task.id, "parents", task.parents, "a list of ids")
    return checked


def _index_of_ids(workflow: str, ids: Sequence[str]) -> dict[str, int]:
    index: dict[str, int] = {}
    for row, task_id in enumerate(ids):
        if not is_name(task_id):
            raise _task_error(workflow, str(task_id), "id", task_id, "a text that is not empty")
        if task_id in index:
            raise InvalidWorkflowError(
                f"workflow {workflow!r}, task {task_id!r}: the id is used twice; ids must be unique in a workflow"
            )
        index[task_id] = row
    return index


def _resource_columns(workflow: str, tasks: Sequence[Task], resources: Sequence[str] | None) -> dict[str, int]:
    used = dict.fromkeys(r for t in tasks for r in (DEFAULT_DEMAND if t.demand is None else t.demand))
    given = tuple(used) if resources is None else as_names(resources)
    if given is None:
        raise InvalidWorkflowError(
            f"workflow {workflow!r}: resources is {described(resources)}, expected a list of names"
        )
    resources = given
    columns = {resource: column for column, resource in enumerate(resources)}
    if len(columns) != len(resources):
        raise InvalidWorkflowError(f"workflow {workflow!r}: resources {list(resources)} repeat a name")
    if len(columns) > MAX_COLUMNS:
        raise InvalidWorkflowError(f"workflow {workflow!r}: has {len(columns)} resources, at most {MAX_COLUMNS} work")
    if used.keys() <= columns.keys():
        return columns
    for task in tasks:
        for resource in DEFAULT_DEMAND if task.demand is None else task.demand:
            if resource not in columns:
                raise _task_error(workflow, task.id, "demanded resource", resource, f"one of {list(columns)}")
    return columns


def _append_parents(
    workflow: str, task: Task, index: Mapping[str, int], parent_idx: list[int], parent_bytes: list[float]
) -> None:
    for parent in task.parents:
        if not isinstance(parent, str) or parent not in index:
            raise InvalidWorkflowError(
                f"workflow {workflow!r}, task {task.id!r}: parent {described(parent)} is not a task of this workflow"
            )
        parent_idx.append(index[parent])  # a parent listed twice is found by _check_edges
    if not task.edge_bytes:
        parent_bytes.extend([0.0] * len(task.parents))
        return
    for parent in task.parents:
        size = task.edge_bytes.get(parent, 0.0)
        parent_bytes.append(size if type(size) is float else _number(workflow, task.id, "bytes from", size, parent))
    known = set(task.parents)
    for parent in task.edge_bytes:
        if parent not in known:
            raise InvalidWorkflowError(
                f"workflow {workflow!r}, task {task.id!r}: edge_bytes names {described(parent)}, which is not a parent"
            )


def _check_attributes(workflow: Workflow) -> None:
    def fail(what: str, found: object, expected: str) -> InvalidWorkflowError:
        return InvalidWorkflowError(
            f"workflow {described(workflow.name)}: {what} is {described(found)}, expected {expected}"
        )

    if not is_name(workflow.name):
        raise fail("name", workflow.name, "a text that is not empty")
    if not workflow.task_ids:
        raise InvalidWorkflowError(f"workflow {workflow.name!r}: has no tasks; a workflow needs at least one")
    for what in ("arrival", "weight", "deadline"):
        value = getattr(workflow, what)
        if what == "deadline" and value is None:
            continue
        number = as_number(value)
        if number is None or not math.isfinite(number):
            raise fail(what, value, "a finite number")
        object.__setattr__(workflow, what, number)
    if workflow.arrival < 0:
        raise fail("arrival", workflow.arrival, "a number >= 0")
    if workflow.weight <= 0:
        raise fail("weight", workflow.weight, "a number > 0")
    if not is_text(workflow.tenant):
        raise fail("tenant", workflow.tenant, "a text")
    if len(set(workflow.resources)) != len(workflow.resources):
        raise fail("resources", list(workflow.resources), "names without repetition")
    if len(workflow.category) != len(workflow.task_ids):
        raise fail("category", len(workflow.category), f"one label for each of {len(workflow.task_ids)} tasks")


def _check_tasks(workflow: Workflow) -> None:
    label = next((label for label in workflow.category if label is not None and not is_text(label)), None)
    if label is not None:
        raise InvalidWorkflowError(
            f"workflow {workflow.name!r}: category is {described(label)}, expected a text or None for each task"
        )
    _index_of_ids(workflow.name, workflow.task_ids)
    usual = all(_are_amounts(array) for array in (workflow.duration, workflow.estimate, workflow.demand))
    counted = workflow.instances.min() >= 1 and workflow.instances.max() <= MAX_INSTANCES
    if usual and counted and not workflow.group_names:
        return

    def check(what: str, array: NDArray[Any], bad: NDArray[np.bool_], expected: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise _task_error(workflow.name, workflow.task_ids[row], what, array[row].item(), expected)

    finite = "a finite number >= 0"
    for what in ("duration", "estimate"):
        array = getattr(workflow, what)
        check(what, array, ~(np.isfinite(array) & (array >= 0)), finite)
    for column, resource in enumerate(workflow.resources):
        array = workflow.demand[:, column]
        check(f"demand of {resource}", array, ~(np.isfinite(array) & (array >= 0)), finite)
    for column, group in enumerate(workflow.group_names):
        array = workflow.group_duration[:, column]
        check(f"duration on group {group}", array, np.isinf(array) | (array < 0), finite)
    bad_count = (workflow.instances < 1) | (workflow.instances > MAX_INSTANCES)
    check("instances", workflow.instances, bad_count, f"a whole number from 1 to {MAX_INSTANCES}")


def _are_amounts(array: FloatArray) -> bool:
    """Whether all are finite and >= 0 (a NaN makes the comparison false)."""
    return array.size == 0 or bool(array.min() >= 0 and array.max() < math.inf)


def _check_edges(workflow: Workflow) -> None:
    pointers, parents = workflow.parent_ptr, workflow.parent_idx
    if pointers[0] != 0 or pointers[-1] != len(parents) or (pointers[1:] < pointers[:-1]).any():
        raise InvalidWorkflowError(f"workflow {workflow.name!r}: parent_ptr is not a valid row pointer")
    if not len(parents):
        return
    if parents.min() < 0 or parents.max() >= len(workflow):
        raise InvalidWorkflowError(f"workflow {workflow.name!r}: parent_idx points outside the workflow")
    children = np.repeat(np.arange(len(workflow)), np.diff(pointers))
    pairs = np.sort(children * len(workflow) + parents)
    repeated = pairs[:-1] == pairs[1:]
    if repeated.any():
        child, parent = divmod(int(pairs[:-1][repeated][0]), len(workflow))
        raise InvalidWorkflowError(
            f"workflow {workflow.name!r}, task {workflow.task_ids[child]!r}: "
            f"parent {workflow.task_ids[parent]!r} is listed twice"
        )
    size = workflow.parent_bytes
    bad = ~(np.isfinite(size) & (size >= 0))
    if bad.any():
        edge = int(np.argmax(bad))
        source = workflow.task_ids[parents[edge]]
        raise _task_error(
            workflow.name, workflow.task_ids[children[edge]], f"bytes from {source}", size[edge].item(), "a number >= 0"
        )
    if not size.any():
        return
    milestone = workflow.milestone
    carried = (size > 0) & (milestone[parents] | milestone[children])
    if carried.any():
        edge = int(np.argmax(carried))
        raise InvalidWorkflowError(
            f"workflow {workflow.name!r}: edge {workflow.task_ids[parents[edge]]!r} -> "
            f"{workflow.task_ids[children[edge]]!r} carries {size[edge]:g} bytes, but one end is a milestone (zero "
            f"duration, zero demand), which runs on no node; connect the tasks directly or set the bytes to 0"
        )


def _topological_order(workflow: Workflow) -> IntArray:
    """Kahn's algorithm, first in first out; raises with the ids along one cycle if there is one."""
    count = len(workflow)
    remaining = np.diff(workflow.parent_ptr).tolist()
    pointers, children = (a.tolist() for a in child_rows(workflow.parent_ptr, workflow.parent_idx)[:2])
    order = [task for task in range(count) if not remaining[task]]
    for task in order:
        for child in children[pointers[task] : pointers[task + 1]]:
            remaining[child] -= 1
            if not remaining[child]:
                order.append(child)
    if len(order) < count:
        raise InvalidWorkflowError(f"workflow {workflow.name!r}: contains a cycle: {_cycle(workflow, remaining)}")
    return np.array(order, np.int64)


def _cycle(workflow: Workflow, remaining: Sequence[int]) -> str:
    """One cycle, in the direction of the edges: every unfinished task has an unfinished parent."""
    task = next(t for t, left in enumerate(remaining) if left)
    position: dict[int, int] = {}
    path: list[int] = []
    while task not in position:
        position[task] = len(path)
        path.append(task)
        task = next(int(p) for p in workflow.parents(task) if remaining[p])
    cycle = [workflow.task_ids[t] for t in reversed(path[position[task] :])]
    shown = cycle if len(cycle) <= 12 else [*cycle[:10], "...", cycle[-1]]
    return " -> ".join([*shown, cycle[0]])


def child_rows(parent_ptr: IntArray, parent_idx: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Transpose parents-by-child rows into children-by-parent rows.

    Returns ``(child_ptr [T + 1], child_idx [E], edge [E])``: ``edge[k]`` is the position in ``parent_idx``
    of the edge that ``child_idx[k]`` stands for. Children of a task come in ascending order.
    """
    count = len(parent_ptr) - 1
    edge = np.argsort(parent_idx, kind="stable")
    child_of = np.repeat(np.arange(count, dtype=np.int64), np.diff(parent_ptr))
    pointers = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(parent_idx, minlength=count), out=pointers[1:])
    return pointers, child_of[edge], edge.astype(np.int64)
