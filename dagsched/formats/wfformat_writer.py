"""Writes a workflow as WfFormat 1.5, so that WfCommons and other simulators can read it.

WfFormat knows cores, memory and files, but no instances, estimates, arrivals, deadlines or other resources: a
workflow whose tasks need one of the former three kinds, or hold no core, is refused; arrival, deadline, weight and
tenant are left out. Bytes on an edge become one file between the two tasks.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from dagsched.errors import ConfigError
from dagsched.files import write_atomic
from dagsched.formats.wfformat import RESOURCES
from dagsched.workflow import Workflow, child_rows


def save_wfformat(workflow: Workflow, path: str | os.PathLike[str]) -> None:
    """Write one workflow as WfFormat 1.5; reading it back gives the same tasks, demands and edges.

    Raises:
        ConfigError: if WfFormat cannot express the workflow, or the file cannot be written.
    """
    write_atomic(os.fspath(path), json.dumps(to_wfformat(workflow), indent=1, allow_nan=False) + "\n")


def to_wfformat(workflow: Workflow) -> dict[str, Any]:
    """The WfFormat 1.5 document of a workflow; same errors as :func:`save_wfformat`."""
    _check_expressible(workflow)
    ids = workflow.task_ids
    child_ptr, child_idx, edge = child_rows(workflow.parent_ptr, workflow.parent_idx)
    sent = [k for k in range(workflow.edge_count) if workflow.parent_bytes[k] > 0]
    file_of = {k: f"edge_{number}" for number, k in enumerate(sent)}
    tasks, runs = [], []
    for task, identifier in enumerate(ids):
        incoming = range(workflow.parent_ptr[task], workflow.parent_ptr[task + 1])
        outgoing = range(child_ptr[task], child_ptr[task + 1])
        tasks.append(
            {
                "name": workflow.category[task] or identifier,
                "id": identifier,
                "parents": [ids[workflow.parent_idx[k]] for k in incoming],
                "children": [ids[child_idx[k]] for k in outgoing],
                "inputFiles": [file_of[k] for k in incoming if k in file_of],
                "outputFiles": [file_of[int(edge[k])] for k in outgoing if int(edge[k]) in file_of],
            }
        )
        demand = dict(zip(workflow.resources, workflow.demand[task].tolist(), strict=True))
        run = {"id": identifier, "runtimeInSeconds": float(workflow.duration[task])}
        if demand.get("cpu", 0.0) != 1.0:
            run["coreCount"] = demand.get("cpu", 0.0)
        if demand.get("memory", 0.0):
            run["memoryInBytes"] = demand["memory"]
        runs.append(run)
    specification: dict[str, Any] = {"tasks": tasks}
    if sent:
        specification["files"] = [{"id": file_of[k], "sizeInBytes": _whole(workflow.parent_bytes[k])} for k in sent]
    return {
        "name": workflow.name,
        "description": "Written by dagsched",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": specification,
            "execution": {
                "makespanInSeconds": _critical_path(workflow),
                "executedAt": "1970-01-01T00:00:00Z",
                "tasks": runs,
            },
        },
    }


def _check_expressible(workflow: Workflow) -> None:
    others = [r for c, r in enumerate(workflow.resources) if r not in RESOURCES and workflow.demand[:, c].any()]
    problem = (
        f"demands {others[0]!r}"
        if others
        else "has tasks of several instances"
        if (workflow.instances > 1).any()
        else "has estimates that differ from durations"
        if not np.array_equal(workflow.estimate, workflow.duration)
        else "has durations by node group"
        if workflow.group_names
        else "has tasks that hold no core"
        if not (workflow.with_resources([*RESOURCES, *others]).demand[:, 0] > 0).all()
        else ""
    )
    if problem:
        raise ConfigError(f"workflow {workflow.name!r}: {problem}, which WfFormat cannot express; save it as own JSON")


def _critical_path(workflow: Workflow) -> float:
    """Seconds below which no run can have taken: WfFormat wants a makespan, and nothing has run."""
    finish = np.zeros(len(workflow))
    for task in workflow.topological_order:
        parents = workflow.parents(task)
        finish[task] = workflow.duration[task] + (finish[parents].max() if len(parents) else 0.0)
    return float(finish.max())


def _whole(size: float) -> float | int:
    """WfFormat sizes are integers; a fraction of a byte is kept as it is rather than lost."""
    return int(size) if float(size).is_integer() else float(size)
