"""Schedules in the formats of others: WfFormat 1.5 with an execution section, and Chrome trace events (Perfetto)."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from dagsched.schedule import Schedule
from dagsched.version import VERSION
from dagsched.workflow import FloatArray, IntArray

_FORBIDDEN = re.compile(r"[^0-9a-zA-Z_.-]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 2.5e11


def lanes(start: FloatArray, finish: FloatArray) -> IntArray:
    """``[A]`` smallest free lane of each half-open interval, so that no two on a lane overlap.

    Intervals are served in order of start, then index.
    """
    lane = np.zeros(len(start), np.int64)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    used = 0
    for row in np.argsort(start, kind="stable").tolist():
        while busy and busy[0][0] <= start[row]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane[row] = heapq.heappop(free)
        else:
            lane[row] = used
            used += 1
        heapq.heappush(busy, (float(finish[row]), int(lane[row])))
    return lane


def trace_events(schedule: Schedule) -> dict[str, Any]:
    """Chrome trace-event JSON, microseconds; loads in https://ui.perfetto.dev and chrome://tracing.

    One process per node (pid = node + 1) with as many threads as run side by side, then one process with a
    slice for each workflow from arrival to finish. Time spent waiting for data is a slice inside the task's.
    """
    replay = schedule.replay
    events: list[dict[str, Any]] = []
    for node, name in enumerate(replay.cluster.node_names):
        rows = np.flatnonzero(schedule.node == node) if len(schedule.node) else np.zeros(0, np.int64)
        lane = lanes(schedule.start[rows], schedule.finish[rows])
        events += _names(node + 1, f"node {name}", [f"lane {i}" for i in range(int(lane.max(initial=-1)) + 1)])
        for row, thread in zip(rows.tolist(), lane.tolist(), strict=True):
            events += _task_events(schedule, row, node + 1, thread + 1)
    pid = replay.cluster.node_count + 1
    finish = schedule.workflow_finish
    lane = lanes(replay.arrival, finish)
    events += _names(pid, "workflows", [f"lane {i}" for i in range(int(lane.max()) + 1)])
    for index, workflow in enumerate(replay.workflows):
        span = _slice(workflow.name, "workflow", pid, int(lane[index]) + 1, workflow.arrival, float(finish[index]))
        late = bool(finish[index] > replay.deadline[index])
        events.append({**span, "args": {"tasks": len(workflow), "deadline": workflow.deadline, "late": late}})
    return {
        "displayTimeUnit": "ms",
        "otherData": {"policy": schedule.policy, "replay_digest": replay.digest, "workload": replay.workload.name},
        "traceEvents": events,
    }


def _task_events(schedule: Schedule, row: int, pid: int, tid: int) -> list[dict[str, Any]]:
    replay, task = schedule.replay, int(schedule.task[row])
    workflow, task_id = replay.task_name(task)
    start, execution = float(schedule.start[row]), float(schedule.execution[row])
    demand = dict(zip(replay.cluster.resources, replay.demand[task].tolist(), strict=True))
    args = {
        "workflow": workflow,
        "instances": int(schedule.count[row]),
        "ready_s": float(schedule.ready[task]),
        "demand_per_instance": demand,
    }
    whole = _slice(f"{workflow} / {task_id}", "task", pid, tid, start, float(schedule.finish[row]))
    events = [{**whole, "args": args}]
    if execution > start:
        events.append(_slice("waiting for data", "transfer", pid, tid, start, execution))
    return events


def _slice(name: str, category: str, pid: int, tid: int, start: float, finish: float) -> dict[str, Any]:
    begin = _microseconds(start)
    duration = round(_microseconds(finish) - begin, 3)
    return {"name": name, "cat": category, "ph": "X", "pid": pid, "tid": tid, "ts": begin, "dur": max(duration, 0.0)}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _names(pid: int, process: str, threads: Sequence[str]) -> list[dict[str, Any]]:
    named = [
        {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": process}},
        {"name": "process_sort_index", "ph": "M", "pid": pid, "tid": 0, "args": {"sort_index": pid}},
    ]
    for tid, name in enumerate(threads, 1):
        named.append({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}})
    return named


def wfformat(schedule: Schedule) -> dict[str, Any]:
    """A WfFormat 1.5 document of the workload with this schedule as its execution.

    Several workflows become one document whose ids start with the workflow's name. A task's runtime spans from its
    first execution to its last finish. Dates count from 1970-01-01, the simulated zero. Characters that the
    published schema forbids in ids become ``_``.
    """
    replay = schedule.replay
    ids = _safe_ids(schedule)
    nodes = [name.replace("/", "-") for name in replay.cluster.node_names]
    children = [
        replay.child_idx[a:b].tolist() for a, b in zip(replay.child_ptr[:-1], replay.child_ptr[1:], strict=True)
    ]
    parents = [
        replay.parent_idx[a:b].tolist() for a, b in zip(replay.parent_ptr[:-1], replay.parent_ptr[1:], strict=True)
    ]
    tasks: list[dict[str, Any]] = [
        {
            "name": replay.task_name(task)[1],
            "id": ids[task],
            "parents": [ids[p] for p in parents[task]],
            "children": [ids[c] for c in children[task]],
        }
        for task in range(len(replay))
    ]
    files = []
    edge_child = np.repeat(np.arange(len(replay)), np.diff(replay.parent_ptr))
    for child, parent, size in zip(edge_child, replay.parent_idx, replay.parent_bytes, strict=True):
        if size > 0:
            name = f"{ids[parent]}.to.{ids[child]}"
            files.append({"id": name, "sizeInBytes": round(float(size))})
            tasks[parent].setdefault("outputFiles", []).append(name)
            tasks[child].setdefault("inputFiles", []).append(name)
    return {
        "name": replay.workload.name,
        "schemaVersion": "1.5",
        "runtimeSystem": {"name": "dagsched", "version": VERSION},
        "workflow": {
            "specification": {"tasks": tasks, "files": files},
            "execution": {
                "makespanInSeconds": schedule.makespan,
                "executedAt": _date(replay.first_arrival),
                "tasks": _executed(schedule, ids, nodes),
                "machines": [
                    _machine(nodes[node], dict(zip(replay.cluster.resources, capacity.tolist(), strict=True)))
                    for node, capacity in enumerate(replay.cluster.capacity[replay.cluster.node_group])
                ],
            },
        },
    }


def _executed(schedule: Schedule, ids: Sequence[str], nodes: Sequence[str]) -> list[dict[str, Any]]:
    replay = schedule.replay
    begin = np.where(replay.milestone, schedule.ready, np.inf)
    np.minimum.at(begin, schedule.task, schedule.execution)
    finish = schedule.task_finish
    used: list[dict[str, None]] = [{} for _ in ids]
    for task, node in zip(schedule.task.tolist(), schedule.node.tolist(), strict=True):
        used[task][nodes[node]] = None
    resources = replay.cluster.resources
    executed = []
    for task, task_id in enumerate(ids):
        row: dict[str, Any] = {
            "id": task_id,
            "runtimeInSeconds": float(finish[task] - begin[task]),
            "executedAt": _date(float(begin[task])),
        }
        demand = dict(zip(resources, replay.demand[task].tolist(), strict=True))
        if demand.get("cpu", 0) >= 1:
            row["coreCount"] = demand["cpu"]
        if demand.get("memory", 0) > 0:
            row["memoryInBytes"] = demand["memory"]
        if used[task]:
            row["machines"] = list(used[task])
        executed.append(row)
    return executed


def _machine(name: str, capacity: dict[str, float]) -> dict[str, Any]:
    machine: dict[str, Any] = {"nodeName": name}
    if capacity.get("cpu", 0) >= 1:
        machine["cpu"] = {"coreCount": int(capacity["cpu"])}
    if capacity.get("memory", 0) >= 1:
        machine["memoryInBytes"] = int(capacity["memory"])
    return machine


def _safe_ids(schedule: Schedule) -> list[str]:
    replay = schedule.replay
    several = len(replay.workflows) > 1
    ids: dict[str, None] = {}
    for task in range(len(replay)):
        workflow, task_id = replay.task_name(task)
        base = _FORBIDDEN.sub("_", f"{workflow}.{task_id}" if several else task_id)
        name, number = base, 2
        while name in ids:
            name, number = f"{base}_{number}", number + 1
        ids[name] = None
    return list(ids)


def _date(seconds: float) -> str:
    return (_EPOCH + timedelta(seconds=min(max(seconds, 0.0), _LATEST))).isoformat()
