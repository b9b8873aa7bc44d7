"""Writes ``dagsched-workload`` version 1: the same workload always gives the same bytes, and nothing is lost."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterator
from typing import Any

from dagsched.checks import as_path, check_type
from dagsched.cluster import Cluster
from dagsched.files import write_atomic
from dagsched.formats.own import FORMAT, VERSION
from dagsched.workflow import Workflow
from dagsched.workload import Workload

_encode = json.JSONEncoder(allow_nan=False).encode


def save(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Write a workload as own JSON, gzip-compressed if the name ends in ``.gz``.

    ``load(path)[0]`` gives back the same digest, cluster, units, rejects and known makespan. The file appears
    under its name only when complete.

    Raises:
        ConfigError: naming the path, if it cannot be written.
    """
    check_type(workload, Workload, "workload")
    content = dumps(workload).encode()
    target = as_path(path)
    write_atomic(target, gzip.compress(content, mtime=0) if target.name.endswith(".gz") else content)


def dumps(workload: Workload) -> str:
    """The text that :func:`save` writes: one line for each task, for readable diffs."""
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "name": workload.name, "source": workload.source}
    header["resources"] = list(workload.resources)
    if workload.units:
        header["units"] = dict(sorted(workload.units.items()))
    if workload.cluster is not None:
        header["cluster"] = _cluster(workload.cluster)
    if workload.known_makespan is not None:
        header["known_makespan"] = workload.known_makespan
    header |= _declared(workload)
    if workload.rejects:
        header["rejects"] = [{"reason": r.reason, "count": r.count, "example": r.example} for r in workload.rejects]
    if workload.assumed:
        header["assumed"] = [{"rule": a.rule, "count": a.count, "example": a.example} for a in workload.assumed]
    lines = [f"{_encode(key)}: {_encode(value)}" for key, value in header.items()]
    workflows = ",\n".join(_workflow(workflow) for workflow in workload.workflows)
    return "{\n" + ",\n".join(lines) + ',\n"workflows": [\n' + workflows + "\n]\n}\n"


def _declared(workload: Workload) -> dict[str, Any]:
    """What is declared; the noise also where tasks state estimates, which are written only if they differ."""
    declared = workload.declared
    header: dict[str, Any] = {}
    if declared.closed is not None:
        header["closed"] = declared.closed
    if declared.objective is not None:
        header["objective"] = declared.objective
    if declared.noise is not None or any(workflow.states_estimates for workflow in workload.workflows):
        noise = workload.nature.noise
        header["noise"] = {"lognormal": noise.sigma} if noise.kind == "lognormal" else noise.kind
    if declared.all_have_deadlines:
        header["all_have_deadlines"] = True
    return header


def _cluster(cluster: Cluster) -> dict[str, Any]:
    """``Cluster.to_dict`` with infinities, which JSON cannot write, as ``null``, and all amounts as floats."""
    value = cluster.to_dict()
    for group in value["groups"]:
        group["capacity"] = {resource: float(amount) for resource, amount in group["capacity"].items()}
        group["speed"] = float(group["speed"])
    bandwidth = value["bandwidth"]
    if isinstance(bandwidth, list):
        value["bandwidth"] = [[None if math.isinf(v) else v for v in row] for row in bandwidth]
    else:
        value["bandwidth"] = None if math.isinf(bandwidth) else bandwidth
    return value


def _workflow(workflow: Workflow) -> str:
    header: dict[str, Any] = {"name": workflow.name}
    if workflow.states_arrival:
        header["arrival"] = workflow.arrival
    if workflow.deadline is not None:
        header["deadline"] = workflow.deadline
    header["weight"] = workflow.weight
    if workflow.tenant:
        header["tenant"] = workflow.tenant
    if workflow.group_names:
        header["groups"] = list(workflow.group_names)
    tasks = ",\n".join(_encode(task) for task in _tasks(workflow))
    return f'{_encode(header)[:-1]}, "tasks": [\n{tasks}\n]}}'


def _tasks(workflow: Workflow) -> Iterator[dict[str, Any]]:
    names, groups = workflow.resources, workflow.group_names
    pointers, parents, sizes = (a.tolist() for a in (workflow.parent_ptr, workflow.parent_idx, workflow.parent_bytes))
    durations, estimates, instances = (a.tolist() for a in (workflow.duration, workflow.estimate, workflow.instances))
    demand, group_duration = workflow.demand.tolist(), workflow.group_duration.tolist()
    for row, task_id in enumerate(workflow.task_ids):
        task: dict[str, Any] = {"id": task_id, "duration": durations[row]}
        if estimates[row] != durations[row]:
            task["estimate"] = estimates[row]
        task["demand"] = {name: amount for name, amount in zip(names, demand[row], strict=True) if amount}
        if instances[row] != 1:
            task["instances"] = instances[row]
        edges = range(pointers[row], pointers[row + 1])
        if edges:
            task["parents"] = [workflow.task_ids[parents[edge]] for edge in edges]
            sent = {workflow.task_ids[parents[edge]]: sizes[edge] for edge in edges if sizes[edge]}
            if sent:
                task["edge_bytes"] = sent
        if workflow.category[row] is not None:
            task["category"] = workflow.category[row]
        if groups:
            given = {g: s for g, s in zip(groups, group_duration[row], strict=True) if not math.isnan(s)}
            if given:
                task["group_durations"] = given
        yield task
