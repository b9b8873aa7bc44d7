"""The task records of the own JSON format, turned into arrays in one pass and checked by hand on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dagsched.errors import closest
from dagsched.formats.source import Source, finite
from dagsched.texts import shorten
from dagsched.workflow import MAX_COLUMNS, MAX_INSTANCES

TASK_KEYS = (
    "id",
    "duration",
    "estimate",
    "demand",
    "instances",
    "parents",
    "edge_bytes",
    "category",
    "group_durations",
)
_TASK_KEY_SET = frozenset(TASK_KEYS)


def known_keys(source: Source, where: str, record: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse keys that do not exist, with a suggestion."""
    for key in record:
        if key not in known:
            hint = closest(key, known, f"known keys: {', '.join(known)}")
            source.refuse(f"{where + ': ' if where else ''}unknown key {shorten(key)}; {hint}")


def few(source: Source, where: str, key: str, names: list[str]) -> list[str]:
    """Every name is a column of a dense array over all tasks, so that a hostile file could ask for terabytes."""
    if len(names) > MAX_COLUMNS:
        source.fail(where, f"number of {key}", len(names), f"at most {MAX_COLUMNS}")
    return names


class Columns:
    """Turns the task records of one workflow into the arrays of :class:`Workflow`, one pass over them."""

    def __init__(
        self, source: Source, where: str, tasks: list[Any], resources: Sequence[str], groups: list[str] | None
    ) -> None:
        self.source, self.where, self.tasks = source, where, tasks
        self.column = {name: column for column, name in enumerate(resources)}
        self.index: dict[str, int] = {}
        self.group = {
            name: column for column, name in enumerate(groups or few(source, where, "groups", self._groups_used()))
        }

    def _groups_used(self) -> list[str]:
        used: dict[str, None] = {}
        for task in self.tasks:
            given = task.get("group_durations") if isinstance(task, dict) else None
            if isinstance(given, dict):
                used.update(dict.fromkeys(given))
        return list(used)

    def arrays(self) -> dict[str, Any]:
        """Keyword arguments of :class:`Workflow`."""
        count = len(self.tasks)
        self._read_ids()
        demand = np.zeros((count, len(self.column)))
        group_duration = np.full((count, len(self.group)), math.nan)
        duration, estimate, instances, pointers = [], [], [], [0]
        parents: list[int] = []
        sizes: list[float] = []
        for row, task in enumerate(self.tasks):
            seconds = self._amount(task, "duration", task.get("duration"))
            told = task.get("estimate")
            duration.append(seconds)
            estimate.append(seconds if told is None else self._amount(task, "estimate", told))
            instances.append(self._instances(task))
            self._fill(task, "demand", demand[row], self.column, {"cpu": 1.0})
            if "group_durations" in task:
                self._fill(task, "group_durations", group_duration[row], self.group, {})
            self._append_parents(task, parents, sizes)
            pointers.append(len(parents))
        return {
            "task_ids": tuple(self.index),
            "duration": np.array(duration, np.float64),
            "estimate": np.array(estimate, np.float64),
            "demand": demand,
            "instances": np.array(instances, np.int64),
            "parent_ptr": np.array(pointers, np.int64),
            "parent_idx": np.array(parents, np.int64),
            "parent_bytes": np.array(sizes, np.float64),
            "category": tuple(self._category(task) for task in self.tasks),
            "group_names": tuple(self.group),
            "group_duration": group_duration,
        }

    def _read_ids(self) -> None:
        for row, task in enumerate(self.tasks):
            if not isinstance(task, dict):
                self.source.fail(self.where, f"tasks[{row}]", task, "an object")
            identifier = task.get("id")
            if not isinstance(identifier, str) or not identifier:
                self.source.fail(f"{self.where}, tasks[{row}]", "id", identifier, "a text that is not empty")
            if not task.keys() <= _TASK_KEY_SET:
                known_keys(self.source, self._place(task), task, TASK_KEYS)
            if identifier in self.index:
                self.source.refuse(f"{self._place(task)}: the id is used twice; ids must be unique in a workflow")
            self.index[identifier] = row

    def _place(self, task: Mapping[str, Any]) -> str:
        return f"{self.where}, task {shorten(task.get('id'))}"

    def _amount(self, task: Mapping[str, Any], what: str, value: object) -> float:
        if type(value) is float and 0 <= value < math.inf:
            return value
        number = finite(value)
        if number is None or number < 0:
            self.source.fail(self._place(task), what, value, "a finite number >= 0")
        return number

    def _instances(self, task: Mapping[str, Any]) -> int:
        value = task.get("instances", 1)
        if type(value) is not int or not 1 <= value <= MAX_INSTANCES:
            self.source.fail(self._place(task), "instances", value, f"a whole number from 1 to {MAX_INSTANCES}")
        return value

    def _category(self, task: Mapping[str, Any]) -> str | None:
        value = task.get("category")
        if value is not None and not isinstance(value, str):
            self.source.fail(self._place(task), "category", value, "a text")
        return value

    def _fill(
        self, task: Mapping[str, Any], key: str, row: Any, columns: Mapping[str, int], default: Mapping[str, float]
    ) -> None:
        values = task.get(key, default)
        if not isinstance(values, dict):
            self.source.fail(self._place(task), key, values, "an object that maps names to numbers")
        for name, value in values.items():
            if name not in columns:
                self.source.fail(self._place(task), f"a name in {key}", name, f"one of {', '.join(columns)}")
            if type(value) is float and 0 <= value < math.inf:  # the usual case, without wording an error
                row[columns[name]] = value
            else:
                row[columns[name]] = self._amount(task, f"{key} {shorten(name)}", value)

    def _append_parents(self, task: Mapping[str, Any], parents: list[int], sizes: list[float]) -> None:
        names = task.get("parents", ())
        sent = task.get("edge_bytes")
        if not isinstance(names, list | tuple):
            self.source.fail(self._place(task), "parents", names, "a list of task ids")
        for name in names:
            found = self.index.get(name) if isinstance(name, str) else None
            if found is None:
                self.source.fail(self._place(task), "parent", name, "the id of a task of this workflow")
            parents.append(found)
        if sent is None:
            sizes.extend([0.0] * len(names))
            return
        if not isinstance(sent, dict):
            self.source.fail(self._place(task), "edge_bytes", sent, "an object that maps parents to bytes")
        known = set(names)
        for name in sent:
            if name not in known:
                self.source.fail(self._place(task), "a name in edge_bytes", name, "one of its parents")
        sizes.extend(self._amount(task, f"bytes from {shorten(name)}", sent.get(name, 0.0)) for name in names)
