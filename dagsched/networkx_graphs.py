"""Workflows to and from ``networkx.DiGraph``: every attribute has a meaning or is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagsched.checks import check_type
from dagsched.errors import InvalidWorkflowError, closest
from dagsched.task import Task

if TYPE_CHECKING:
    import networkx as nx

GRAPH_KEYS = ("name", "resources", "arrival", "deadline", "weight", "tenant")
NODE_KEYS = ("duration", "estimate", "demand", "instances", "category", "group_durations")
EDGE_KEYS = ("bytes",)
USUAL_RESOURCES = ("cpu", "memory", "gpu")
"""Names that are taken for resources where the graph has no attribute ``resources``."""


def write_graph(fields: Mapping[str, Any], tasks: Sequence[Task]) -> nx.DiGraph:
    """A graph with these attributes, and its nodes and edges; see :meth:`dagsched.Workflow.to_networkx`."""
    import networkx as nx

    graph = nx.DiGraph(**fields)
    for task in tasks:
        graph.add_node(
            task.id,
            duration=task.duration,
            estimate=task.estimate,
            demand=dict(task.demand or {}),
            instances=task.instances,
            category=task.category,
            group_durations=dict(task.group_durations),
        )
    for task in tasks:
        for parent in task.parents:
            graph.add_edge(parent, task.id, bytes=task.edge_bytes.get(parent, 0.0))
    return graph


def read_graph(graph: nx.DiGraph, name: str | None = None) -> tuple[str, list[Task], dict[str, Any]]:
    """Name, tasks and further fields of a workflow; see :meth:`dagsched.Workflow.from_networkx`."""
    import networkx as nx

    check_type(graph, nx.Graph, "graph")
    attributes = dict(graph.graph)
    title = str(name if name is not None else attributes.get("name") or "workflow")
    if not graph.is_directed() or graph.is_multigraph():
        raise InvalidWorkflowError(f"workflow {title!r}: need a networkx.DiGraph, got {type(graph).__name__}")
    _check_known(f"workflow {title!r}: graph", attributes, GRAPH_KEYS, "known attributes")
    resources = _resources(title, graph, attributes.get("resources"))
    tasks = [_task(title, graph, node, data, resources) for node, data in graph.nodes(data=True)]
    fields = {key: attributes[key] for key in GRAPH_KEYS[1:] if key in attributes}
    return title, tasks, fields


def _resources(title: str, graph: nx.DiGraph, stated: object) -> tuple[str, ...]:
    """What may be a node attribute: the resources that the graph states, else usual names and those of demands."""
    if stated is not None:
        if isinstance(stated, str) or not isinstance(stated, Sequence) or not all(isinstance(r, str) for r in stated):
            raise InvalidWorkflowError(f"workflow {title!r}: resources is {stated!r}, expected a list of names")
        return tuple(stated)
    demands = (data.get("demand") for _, data in graph.nodes(data=True))
    used = (r for demand in demands if isinstance(demand, Mapping) for r in demand if isinstance(r, str))
    return tuple(dict.fromkeys((*USUAL_RESOURCES, *used)))


def _task(title: str, graph: nx.DiGraph, node: Any, data: Mapping[str, Any], resources: Sequence[str]) -> Task:
    where = f"workflow {title!r}, task {str(node)!r}"
    own = [resource for resource in resources if resource not in NODE_KEYS]
    advice = "if it is a resource, name it in graph.graph['resources'] or in the node's demand; known attributes"
    _check_known(where, data, (*NODE_KEYS, *own), advice)
    if "duration" not in data:
        raise InvalidWorkflowError(f"{where}: duration is 'nothing', expected a node attribute 'duration' in seconds")
    given = {key: data[key] for key in NODE_KEYS if data.get(key) is not None}
    amounts = {resource: data[resource] for resource in own if resource in data}
    if amounts:
        demand = given.get("demand", {})
        if not isinstance(demand, Mapping):
            raise InvalidWorkflowError(f"{where}: demand is {demand!r}, expected a mapping from resources to amounts")
        twice = next((resource for resource in amounts if resource in demand), None)
        if twice is not None:
            raise InvalidWorkflowError(f"{where}: {twice} is given as an attribute and in demand; give it once")
        given["demand"] = {**demand, **amounts}
    parents = list(graph.predecessors(node))
    sent = {}
    for parent in parents:
        edge = graph.edges[parent, node]
        advice = "the data on an edge is 'bytes' (in bytes); known attributes"
        _check_known(f"workflow {title!r}, edge {str(parent)!r} -> {str(node)!r}", edge, EDGE_KEYS, advice)
        sent[str(parent)] = edge.get("bytes", 0.0)
    return Task(
        id=str(node),
        parents=tuple(str(parent) for parent in parents),
        edge_bytes=sent,
        **{"duration": data["duration"], **given},
    )


def _check_known(where: str, data: Mapping[Any, Any], known: Iterable[str], otherwise: str) -> None:
    """Refuse an attribute without meaning: ignoring it would schedule something else than the graph says."""
    known = tuple(known)
    for key in data:
        if key not in known:
            hint = closest(key, known, f"{otherwise}: {', '.join(known)}")
            raise InvalidWorkflowError(f"{where}: unknown attribute {key!r}; {hint}")
