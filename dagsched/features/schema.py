"""What every learned policy sees: names, order, units and meaning of the features, under one hash.

Times are divided by the *scale*: the mean critical path (estimates, seconds) of the workflows that have arrived.
A batch thus has one scale; a stream never looks ahead. The *bound* is the most that the unstarted arrived work
needs: max(largest bottom level of a ready task, unstarted work of one resource / total capacity). ``level`` is
the largest bottom level of any arrived task. Work of a resource is demand x estimate x instances / total capacity:
seconds that the whole cluster would need. In workflows of more than 20,000 tasks descendants are not searched: their
work and number count as 0. Everything reads estimates only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

VERSION = 2
CLIP = 5.0
"""Standard deviations at which normalised features are clipped."""
MOST_CANDIDATES = 64
TYPES = 3
"""Resources with columns of their own, in the order in which their work lies in the graphs (earliest first)."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: ``unit`` is what a value of one means; models choose a ``block``."""

    name: str
    unit: str
    meaning: str
    block: str = "base"
    """``base``, ``typed``, ``workflow`` or ``khop``."""
    version: int = 1
    """To be raised when what is computed changes: models that read the feature are then refused, others are not."""


TASK_FEATURES: tuple[Feature, ...] = (
    # fixed once the workflow has arrived, up to the scale
    Feature("estimate", "scale", "estimate on the fastest group that can hold the task"),
    Feature("mean_level", "scale", "longest path to an exit on mean estimates (the critical-path rule)"),
    Feature("bottom", "scale", "bottom level: longest path to an exit, own estimate included"),
    Feature("path_after", "scale", "bottom level without the own estimate (minus latest finish, up to the path's end)"),
    Feature("path", "scale", "critical path of the workflow"),
    Feature("slack", "scale", "critical path - top level - bottom level"),
    Feature("tail", "scale", "max(path_after, work of all descendants on one resource / its total capacity)"),
    Feature("child_work", "scale", "sum of the children's estimates"),
    Feature("area", "scale", "largest demand share x estimate, of one instance"),
    Feature("share", "largest node", "largest demand / capacity of the largest node over resources"),
    Feature("mean_share", "largest node", "mean demand / capacity of the largest node over resources"),
    Feature("children", "log(1 + n)", "number of children"),
    Feature("descendants", "share", "distinct descendants / other tasks of the workflow"),
    Feature("depth", "share", "top level / critical path"),
    Feature("instances", "log(1 + n)", "instances in all"),
    # change with the state
    Feature("bottom_level", "level", "bottom level / largest bottom level of all arrived tasks"),
    Feature(
        "below", "share", "area, all instances, of the task and its descendants / the largest of all arrived tasks"
    ),
    Feature("share_x_level", "largest node x level", "share x bottom_level"),
    Feature("bottom_bound", "bound", "bottom level / bound"),
    Feature("hinge_25", "bound", "max(0, bottom level / bound - 0.25)"),
    Feature("hinge_50", "bound", "max(0, bottom level / bound - 0.5)"),
    Feature("hinge_75", "bound", "max(0, bottom level / bound - 0.75)"),
    Feature("share_x_progress", "largest node", "share x progress (see the global feature)"),
    Feature("bottom_x_progress", "level", "bottom_level x progress"),
    Feature("estimate_x_progress", "scale", "estimate x progress"),
    Feature("left", "scale", "estimates of the workflow's unstarted instances, summed"),
    Feature("some_left", "share", "the same x, as x / (1 + x)"),
    Feature("criticality", "share", "bottom level / largest one of a ready task of its workflow; 1 if that is 0"),
    Feature("age", "scale", "now - ready time"),
    Feature("workflow_age", "scale", "now - arrival of the workflow"),
    Feature("weight", "log", "logarithm of the workflow's weight"),
    Feature("laxity", "scale", "(deadline - now - bottom level), clipped to [-5, 5]; 5 without a deadline"),
    Feature("urgency", "scale", "max(0, 1 - laxity)"),
    Feature("lost", "0 or 1", "laxity below 0: this path ends after the deadline even if it starts now"),
    Feature("deadline", "scale", "deadline - now, clipped to [-50, 50]; 50 without a deadline"),
    Feature("detour", "scale", "finish on the node the placement rule picks (data awaited) - (now + estimate)"),
    Feature("demand_free", "share", "largest demand / free amount on that node over resources"),
    Feature("leftover", "share", "mean (free - demand) / capacity of that node over resources, 0 for one it lacks"),
    Feature("alignment", "share", "sum over resources of demand x free / capacity^2 on that node"),
    Feature("outlasts", "scale", "that finish - next expected completion of running work; 0 with nothing running"),
    Feature("blocks", "largest node", "share, if some ready task of longer bottom level does not fit now"),
    Feature("blocks_long", "scale", "estimate, if some ready task of longer bottom level does not fit now"),
    Feature("unlocks", "log(1 + n)", "children that wait for this task alone (of the first 32)"),
    Feature("unlocks_bottom", "bound", "largest bottom level of these children"),
    Feature("join_most", "share", "largest 1 / unfinished parents over the children (the first 32)"),
    Feature("join_sum", "count", "sum of 1 / unfinished parents over the children (the first 32)"),
    Feature(
        "load_demand", "share", "sum over resources of load x demand share; load = unstarted work / capacity / bound"
    ),
    Feature("load_tail", "scale", "sum over resources of load x work of descendants / total capacity"),
    Feature("free_demand", "share", "sum over resources of the cluster's free share x demand share"),
    # typed: what lies below the task, by resource
    Feature(
        "starve_demand",
        "share",
        "sum over resources of starvation x demand share; starvation = load / (1 + demand of ready work / capacity)",
        "typed",
    ),
    Feature("starve_tail", "scale", "sum over resources of starvation x descendants' work / capacity", "typed"),
    Feature("starve_near", "share", "sum over resources of starvation x nearness of work on it", "typed"),
    Feature("starve_child", "share", "sum over resources of starvation x the children's mean demand", "typed"),
    # workflow: what is left of the task's workflow, in room and not only in time
    Feature("left_work", "scale", "sum over resources of load x the workflow's unstarted work", "workflow"),
    Feature("some_left_work", "share", "the same x, as x / (1 + x)", "workflow"),
    Feature("left_bound", "bound", "the same in units of the bound", "workflow"),
    Feature("left_path", "scale", "largest bottom level of a ready task of the workflow", "workflow"),
    Feature("begun", "share", "fully started tasks of the workflow, milestones left out, / its tasks", "workflow"),
    *(Feature(f"demand_{k}", "largest node", f"demand share of type {k}", "typed") for k in range(1, TYPES + 1)),
    *(Feature(f"tail_{k}", "scale", f"descendants' work / capacity of type {k}", "typed") for k in range(1, TYPES + 1)),
    *(
        Feature(
            f"near_{k}", "share", f"largest demand share of type {k} below: own as is, halved each step down", "typed"
        )
        for k in range(1, TYPES + 1)
    ),
    # khop: fixed aggregations over neighbours, the control of a graph network
    Feature("child_estimate", "scale", "mean estimate of the children", "khop"),
    Feature("child_bottom", "scale", "mean bottom level of the children", "khop"),
    Feature("child_share", "largest node", "mean share of the children", "khop"),
    Feature("child_parents", "log(1 + n)", "mean over the children of their number of parents, as logarithms", "khop"),
    Feature("grandchild_estimate", "scale", "mean over children of their child_estimate", "khop"),
    Feature("grandchild_share", "largest node", "mean over children of their child_share", "khop"),
    Feature("grandchild_parents", "log(1 + n)", "mean over children of their child_parents", "khop"),
    Feature(
        "sibling_estimate", "scale", "mean estimate of the children's other parents, once for each shared child", "khop"
    ),
    Feature(
        "sibling_share",
        "largest node",
        "mean share of the children's other parents, once for each shared child",
        "khop",
    ),
)

GLOBAL_FEATURES: tuple[Feature, ...] = (
    Feature("progress", "share", "unstarted / arrived work, each summed over resources"),
    Feature("bound_scale", "log(1 + scale)", "bound"),
    Feature("path_bound", "share", "largest bottom level of a ready task / bound"),
    Feature("free", "share", "mean over resources of the cluster's free share; 0 for one it lacks"),
    Feature("free_least", "share", "least free share over resources"),
    Feature("load_spread", "share", "least over largest load of a resource; 1 without work"),
    Feature("ready", "log(1 + n)", "ready tasks"),
    Feature("eligible", "log(1 + n)", "eligible tasks"),
    Feature("running", "log(1 + n)", "running allocations"),
    Feature("queue", "log(1 + scale)", "work of ready tasks / capacity, largest over resources"),
    Feature("next_completion", "scale", "seconds to the next expected completion; 0 with nothing running"),
    Feature("blocked_bottom", "bound", "largest bottom level of a ready task that does not fit"),
    Feature("active", "log(1 + n)", "workflows with a ready task"),
    Feature("late", "share", "workflows past their deadline among these"),
    Feature("mean_age", "scale", "mean waiting time of ready tasks"),
    Feature("arrival_gap", "scale", "mean seconds between arrivals so far"),
)

GROUP_FEATURES: tuple[Feature, ...] = (
    Feature("nodes", "share", "nodes of the group / nodes of the cluster"),
    Feature("speed", "fastest group", "speed / largest speed"),
    Feature("free", "share", "mean free share of the group over resources; 1 for one it lacks"),
    Feature("free_least", "share", "least free share over the resources it has"),
    Feature("largest_free", "share", "largest free amount on one node / largest node, least over the resources it has"),
    Feature("capacity", "largest node", "mean over resources of node capacity / largest node"),
    Feature("idle", "share", "nodes of the group with nothing running"),
)

NODE_FEATURES: tuple[str, ...] = (
    "estimate", "bottom", "path_after", "slack", "tail", "child_work", "share", "mean_share", "children",
    "descendants", "depth", "instances",
    *(f"{what}_{k}" for what in ("demand", "tail", "near") for k in range(1, TYPES + 1)),
)  # fmt: skip
"""Columns of ``TASK_FEATURES`` that feed the graph encoder, as they are when the workflow arrives."""

TASK_NAMES: tuple[str, ...] = tuple(feature.name for feature in TASK_FEATURES)
GLOBAL_NAMES: tuple[str, ...] = tuple(feature.name for feature in GLOBAL_FEATURES)
GROUP_NAMES: tuple[str, ...] = tuple(feature.name for feature in GROUP_FEATURES)


def columns(blocks: Sequence[str]) -> tuple[int, ...]:
    """Places in ``TASK_FEATURES`` of the features of the given blocks."""
    return tuple(k for k, feature in enumerate(TASK_FEATURES) if feature.block in blocks)


def to_dict() -> dict[str, object]:
    """The whole schema, for ``schema.json``."""
    return {
        "version": VERSION,
        "clip": CLIP,
        "most_candidates": MOST_CANDIDATES,
        "task": [_described(feature) for feature in TASK_FEATURES],
        "global": [_described(feature) for feature in GLOBAL_FEATURES],
        "group": [_described(feature) for feature in GROUP_FEATURES],
        "node": list(NODE_FEATURES),
    }


def _described(feature: Feature) -> dict[str, object]:
    found = asdict(feature)
    if feature.version == 1:  # schemas from before versions stay the same text
        del found["version"]
    return found


def schema_hash() -> str:
    """SHA-256 of the schema: models and inputs of different hashes do not fit together."""
    return hashlib.sha256(json.dumps(to_dict(), sort_keys=True).encode()).hexdigest()
