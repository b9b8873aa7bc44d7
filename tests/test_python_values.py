"""Values of a wrong type, size or text through the Python API are refused with the name of the field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dagsched
from dagsched import Cluster, NodeGroup, Replay, SimulationOptions, Task, Workflow, Workload, load, simulate, validate
from dagsched.errors import DagschedError
from dagsched.generate import poisson_arrivals, random_workload, with_deadlines

HALF = "\ud800"
NUMBERS: tuple[object, ...] = (
    "3", "x", b"3", None, True, 1j, [1], {}, math.nan, math.inf, -math.inf, -1, 10**400, -(10**400), object(),
    np.float64("nan"), np.bool_(True), np.array([1, 2]), np.array(3j), np.str_("3"), Fraction(1, 3), range(2),
)  # fmt: skip
TEXTS: tuple[object, ...] = ("", None, 3, 1.5, True, b"x", [], ["x"], {}, object(), HALF, np.int64(3), np.array(["x"]))
LISTS: tuple[object, ...] = (None, 3, True, "ab", b"ab", [3], [None], [[]], {"a": 1}, object(), [HALF], np.array([1.5]))
MAPPINGS: tuple[object, ...] = (
    3, True, "cpu", [], ["cpu"], [("cpu", 1)], {3: 1}, {None: 1}, {"": 1}, {HALF: 1}, {"cpu": "1"}, {"cpu": None},
    {"cpu": True}, {"cpu": math.nan}, {"cpu": math.inf}, {"cpu": -1}, {"cpu": 10**400}, {"cpu": 1j}, object(),
)  # fmt: skip

ONE = Workflow.from_tasks("one", [Task("a", 1), Task("b", 2, parents=["a"])])
LOAD = Workload("load", (ONE,))


def task(**fields: Any) -> Workflow:
    return Workflow.from_tasks("w", [Task("a", 1), Task(**{"id": "b", "duration": 1, "parents": ["a"]} | fields)])


def workflow(**fields: Any) -> Workflow:
    return Workflow.from_tasks(**{"name": "w", "tasks": [Task("a", 1)]} | fields)


def arrays(**fields: Any) -> Workflow:
    return dataclasses.replace(ONE, **fields)


def workload(**fields: Any) -> Workload:
    return Workload(**{"name": "load", "workflows": (ONE,)} | fields)


def group(**fields: Any) -> Cluster:
    return Cluster((NodeGroup(**{"name": "g", "nodes": 1, "capacity": {"cpu": 1}} | fields),))


def cluster(**fields: Any) -> Cluster:
    return Cluster(**{"groups": (NodeGroup("g", 1, {"cpu": 1}), NodeGroup("h", 1, {"cpu": 1}))} | fields)


def build(**fields: Any) -> Replay:
    return Replay.build(**{"workload": LOAD} | fields)


def replay(**fields: Any) -> object:
    return dagsched.replay(**{"workload": LOAD, "policy": "fcfs"} | fields)


def compare(**fields: Any) -> object:
    return dagsched.compare_baselines(**{"inputs": LOAD, "policies": ["fcfs"]} | fields)


def save(**fields: Any) -> None:
    dagsched.save(**{"workload": LOAD, "path": "never written"} | fields)


def generated(**fields: Any) -> object:
    return random_workload(**{"kind": "layered", "rng": np.random.default_rng(1), "count": 1} | fields)


def arrived(**fields: Any) -> object:
    return poisson_arrivals(**{"workload": LOAD, "load": 0.5, "seed": 1} | fields)


def due(**fields: Any) -> object:
    return with_deadlines(**{"workload": LOAD, "factor": 1.5, "seed": 1} | fields)


CALLS: tuple[tuple[Callable[..., object], Mapping[str, tuple[object, ...]]], ...] = (
    (
        task,
        {
            "id": TEXTS, "duration": NUMBERS, "estimate": NUMBERS, "instances": NUMBERS, "category": TEXTS,
            "demand": MAPPINGS, "edge_bytes": MAPPINGS, "group_durations": MAPPINGS, "parents": LISTS,
        },
    ),
    (
        workflow,
        {
            "name": TEXTS, "arrival": NUMBERS, "deadline": NUMBERS, "weight": NUMBERS, "tenant": TEXTS,
            "resources": LISTS, "tasks": LISTS,
        },
    ),
    (
        arrays,
        {
            "name": TEXTS, "task_ids": LISTS, "resources": LISTS, "duration": (*NUMBERS, *LISTS), "estimate": LISTS,
            "demand": LISTS, "instances": LISTS, "parent_ptr": LISTS, "parent_idx": LISTS, "parent_bytes": LISTS,
            "category": LISTS, "group_names": LISTS, "group_duration": LISTS,
        },
    ),
    (
        workload,
        {
            "name": TEXTS, "workflows": LISTS, "resources": LISTS, "units": MAPPINGS, "cluster": (*TEXTS, 3),
            "source": TEXTS, "known_makespan": NUMBERS, "rejects": LISTS, "assumed": LISTS,
        },
    ),
    (group, {"name": TEXTS, "nodes": NUMBERS, "capacity": MAPPINGS, "speed": NUMBERS}),
    (
        cluster,
        {"groups": LISTS, "resources": LISTS, "bandwidth": (*NUMBERS, *LISTS), "latency": LISTS, "name": TEXTS},
    ),
    (
        SimulationOptions,
        {"placement": TEXTS, "decision_interval": NUMBERS, "max_wait": NUMBERS, "instances_per_decision": NUMBERS},
    ),
    (build, {"workload": LISTS, "cluster": TEXTS, "seed": NUMBERS, "sigma": NUMBERS, "options": TEXTS}),
    (
        replay,
        {
            "workload": LISTS, "cluster": (*TEXTS, 1.5), "policy": TEXTS, "seed": NUMBERS, "sigma": NUMBERS,
            "placement": TEXTS, "max_wait": NUMBERS, "decision_interval": NUMBERS,
        },
    ),
    (
        compare,
        {
            "inputs": LISTS, "policies": LISTS, "cluster": TEXTS, "replays": NUMBERS, "seed": NUMBERS, "noise": NUMBERS,
            "arrivals": TEXTS, "deadlines": NUMBERS, "objective": TEXTS, "placement": TEXTS, "limit": NUMBERS,
            "decision_interval": NUMBERS, "max_wait": NUMBERS, "jobs": ("2", None, True, 0, -1, 1.5, math.nan, [2]),
        },
    ),
    (load, {"path": (None, 5, b"x", "", [], {}, math.nan)}),
    (validate, {"schedule": (None, 5, "x", LOAD)}),
    (simulate, {"replay": (None, 5, "x", LOAD)}),
    (save, {"path": (None, 5, b"x", ""), "workload": (None, 5, "x", ONE)}),
    (Workflow.from_networkx, {"graph": (None, 5, {}, "x", LOAD)}),
    (generated, {"kind": TEXTS, "rng": NUMBERS, "count": NUMBERS, "tasks": NUMBERS}),
    (arrived, {"workload": LISTS, "load": NUMBERS, "seed": NUMBERS, "cluster": TEXTS}),
    (due, {"workload": LISTS, "factor": NUMBERS, "seed": NUMBERS, "cluster": TEXTS}),
)  # fmt: skip

WORDS = {
    "sigma": "noise",
    "inputs": "",
    "group_durations": "duration on group",
    "factor": "deadlines",
    "workload": "ab: cannot be read",
}
"""What an error says in place of the name of the argument; a file of inputs that is missing is named itself."""


def problem(call: Callable[..., object], field: str, value: object) -> str:
    """What is wrong with the answer, or nothing."""
    try:
        call(**{field: value})
    except DagschedError as error:
        text = str(error)
        if not text.isprintable():
            return f"more than one printable line: {text!r}"
    except TypeError as error:
        text = str(error)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    else:
        return ""
    named = field.rstrip("s").replace("_", " ") in text.replace("_", " ") or WORDS.get(field, "?") in text
    return "" if named else f"does not name the field: {text[:120]}"


@pytest.mark.parametrize(
    ("call", "field"),
    [(call, field) for call, fields in CALLS for field in fields],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_wrong_values_are_named(call: Callable[..., object], field: str) -> None:
    values = dict(CALLS)[call][field]
    found = {repr(value)[:40]: problem(call, field, value) for value in values}
    assert {value: text for value, text in found.items() if text} == {}


MUST_FAIL = (
    (workflow, {"arrival": 10**400}, "arrival is a whole number of 1329 bits, expected a finite number"),
    (workflow, {"name": HALF}, r"name is '\ud800', expected a text that is not empty"),
    (workflow, {"tenant": HALF}, "tenant is"),
    (task, {"id": HALF}, r"id is '\ud800'"),
    (task, {"category": HALF}, "category is"),
    (task, {"demand": {HALF: 1}}, "a name in demand is"),
    (task, {"group_durations": {HALF: 1}}, "a name in group_durations is"),
    (task, {"duration": "3"}, "duration is '3', expected a number"),
    (task, {"duration": np.complex128(3j)}, "duration is np.complex128(3j)"),
    (task, {"parents": "a"}, "parents is 'a', expected a list of ids"),
    (arrays, {"instances": np.array([1.5, 2.0])}, "instances is array([1.5, 2. ]), expected an array of whole numbers"),
    (arrays, {"duration": np.array(["1", "2"])}, "duration is array(['1', '2']"),
    (arrays, {"group_duration": np.array([[1.0], [2.0]])}, "group_duration has shape (2, 1), expected (2, 0)"),
    (workload, {"name": HALF}, "name is"),
    (workload, {"source": HALF}, "source is"),
    (workload, {"workflows": ONE}, "workflows is"),
    (workload, {"units": {"cpu": HALF}}, "units is"),
    (group, {"name": HALF}, "group '\\ud800': the name of a group must be"),
    (group, {"capacity": {HALF: 1}}, "capacity of '\\ud800'"),
    (cluster, {"name": HALF}, "name is"),
    (cluster, {"resources": (HALF,)}, "resources is"),
    (cluster, {"bandwidth": "3"}, "bandwidth must be a number or a square matrix"),
    (compare, {"policies": "fcfs"}, "policies is 'fcfs', expected a list of specs"),
    (compare, {"inputs": 3}, "inputs is 3, expected files, folders or workloads"),
)


@pytest.mark.parametrize(("call", "fields", "message"), MUST_FAIL)
def test_values_that_were_taken_or_crashed_are_refused(
    call: Callable[..., object], fields: Mapping[str, object], message: str
) -> None:
    with pytest.raises(DagschedError) as caught:
        call(**fields)
    assert message in str(caught.value).replace("\\\\", "\\")
    assert str(caught.value).isprintable()


def test_numbers_of_numpy_are_numbers() -> None:
    made = task(duration=np.float32(2), estimate=np.int64(3), instances=np.uint8(4), demand={"cpu": np.array(2.0)})
    assert (made.duration[1], made.estimate[1], made.instances[1], made.demand[1, 0]) == (2, 3, 4, 2)
    assert workflow(arrival=np.float64(2)).arrival == 2
    assert group(speed=np.float32(2), capacity={"cpu": np.int32(4)}).capacity.tolist() == [[4]]
    assert SimulationOptions(max_wait=np.int64(3)).max_wait == 3
