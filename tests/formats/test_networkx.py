"""Graphs of networkx: every attribute has a meaning or is refused."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest

from dagsched import Cluster, Workload, replay, validate
from dagsched.errors import InvalidWorkflowError
from dagsched.generate import random_workload
from dagsched.task import Task
from dagsched.workflow import Workflow


def join(node: dict[str, Any] | None = None, edge: dict[str, Any] | None = None, **graph: Any) -> nx.DiGraph:
    made = nx.DiGraph(**graph)
    made.add_node("a", duration=1, **(node or {}))
    made.add_node("b", duration=1, **(node or {}))
    made.add_node("c", duration=1)
    made.add_edge("a", "c", **(edge or {}))
    made.add_edge("b", "c", **(edge or {}))
    return made


def test_attributes_that_name_a_resource_are_demands() -> None:
    """Tasks a and b of 4 cores each cannot run at once on 4 cores: 3 s, not 2."""
    workflow = Workflow.from_networkx(join({"cpu": 4}))
    assert workflow.demand.tolist() == [[4], [4], [1]]
    schedule = replay(Workload("nx", (workflow,)), Cluster.pooled({"cpu": 4}), policy="heft")
    validate(schedule)
    assert schedule.makespan == 3


@pytest.mark.parametrize(
    ("node", "graph"),
    [
        ({"cpu": 2, "memory": 5e9}, {}),
        ({"demand": {"cpu": 2, "memory": 5e9}}, {}),
        ({"demand": {"memory": 5e9}, "cpu": 2}, {}),
        ({"cpu": 2, "memory": 5e9}, {"resources": ["cpu", "memory"]}),
    ],
)
def test_demands_may_be_attributes_or_a_mapping(node: dict[str, Any], graph: dict[str, Any]) -> None:
    workflow = Workflow.from_networkx(join(node, **graph))
    columns = dict(zip(workflow.resources, workflow.demand.T.tolist(), strict=True))
    assert columns == {"cpu": [2, 2, 1], "memory": [5e9, 5e9, 0]}


def test_resources_of_any_name_are_attributes_once_the_graph_names_them() -> None:
    workflow = Workflow.from_networkx(join({"licence": 1, "cpu": 1}, resources=("licence", "cpu")))
    assert workflow.demand.tolist() == [[1, 1], [1, 1], [0, 1]]
    with pytest.raises(
        InvalidWorkflowError, match=r"task 'a': unknown attribute 'licence'; if it is a resource, name it"
    ):
        Workflow.from_networkx(join({"licence": 1}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edge": {"weight": 100}}, r"edge 'a' -> 'c': unknown attribute 'weight'; the data on an edge is 'bytes'"),
        ({"edge": {"byte": 100}}, r"edge 'a' -> 'c': unknown attribute 'byte'; did you mean 'bytes'"),
        ({"node": {"weight": 1}}, r"task 'a': unknown attribute 'weight'"),
        ({"node": {"durations": 1}}, r"task 'a': unknown attribute 'durations'; did you mean 'duration'"),
        ({"node": {"memroy": 1}}, r"task 'a': unknown attribute 'memroy'; did you mean 'memory'"),
        ({"dedline": 9}, r"graph: unknown attribute 'dedline'; did you mean 'deadline'"),
        ({"node": {"cpu": 1, "demand": {"cpu": 1}}}, r"task 'a': cpu is given as an attribute and in demand"),
        ({"node": {"cpu": 1, "demand": 3}}, r"task 'a': demand is 3, expected a mapping"),
        ({"node": {"cpu": "4"}}, r"task 'a': demand of cpu is '4', expected a number"),
        ({"node": {"cpu": -4}}, r"task 'a': demand of cpu is -4.0, expected a finite number >= 0"),
        ({"resources": "cpu"}, r"resources is 'cpu', expected a list of names"),
    ],
)
def test_attributes_without_meaning_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidWorkflowError, match=message):
        Workflow.from_networkx(join(**given))


def test_a_graph_from_a_workflow_gives_the_workflow_back() -> None:
    import numpy as np

    made = random_workload("layered", np.random.default_rng(1), count=1, tasks=30).workflows[0]
    rich = Workflow.from_tasks(
        "rich",
        [
            Task("a", 2, demand={"cpu": 2, "duration": 1}, estimate=3, instances=4, category="x"),
            Task("b", 1, parents=["a"], edge_bytes={"a": 7}, group_durations={"g": 2}),
        ],
        arrival=2,
        deadline=50,
        weight=3,
        tenant="t",
    )
    for workflow in (made, rich, Workflow.from_tasks("none", [Task("a", 1, demand={})])):
        assert Workflow.from_networkx(workflow.to_networkx()).digest == workflow.digest
