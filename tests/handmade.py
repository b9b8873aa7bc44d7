"""Small replays and a slow, obvious list scheduler, so that tests of the evaluation need no simulator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dagsched.cluster import Cluster, NodeGroup
from dagsched.declared import EXACT, Declared
from dagsched.replay import Replay, SimulationOptions
from dagsched.schedule import Schedule
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload


def one_workflow(tasks: Sequence[Task], cluster: Cluster, **options: object) -> Replay:
    return Replay.build(
        Workload("hand", (Workflow.from_tasks("w", tasks),)), cluster, options=SimulationOptions(**options)
    )


def many_workflows(workflows: Sequence[Workflow], cluster: Cluster, known: float | None = None) -> Replay:
    """Estimates are declared exact where none is given."""
    noise = None if any(workflow.states_estimates for workflow in workflows) else EXACT
    made = Workload("hand", tuple(workflows), known_makespan=known, declared=Declared(noise=noise))
    return Replay.build(made, cluster)


def two_groups(cpu: float = 2, speed: float = 2.0, bandwidth: float = math.inf, latency: float = 0.0) -> Cluster:
    """Node 0 is slow, node 1 is ``speed`` times as fast."""
    groups = (NodeGroup("slow", 1, {"cpu": cpu}), NodeGroup("fast", 1, {"cpu": cpu}, speed))
    return Cluster(groups, bandwidth=bandwidth, latency=latency)


def schedule_of(
    replay: Replay, rows: Sequence[tuple[float, ...]], ready: Sequence[float], **fields: object
) -> Schedule:
    """Rows of (task, node, count, start, finish[, execution]) in order of start; every row is one decision."""
    table = [(*row, row[3])[:6] for row in rows]
    task, node, count, start, finish, execution = (np.array(c) for c in zip(*table, strict=True))
    pairs = list(dict.fromkeys(zip(start.tolist(), task.tolist(), strict=True)))
    values = {
        "decision_time": np.array([p[0] for p in pairs], np.float64),
        "decision_task": np.array([p[1] for p in pairs], np.int64),
        **fields,
    }
    return Schedule(
        replay=replay,
        policy="hand",
        task=task.astype(np.int64),
        node=node.astype(np.int64),
        count=count.astype(np.int64),
        start=start.astype(np.float64),
        finish=finish.astype(np.float64),
        execution=execution.astype(np.float64),
        ready=np.array(ready, np.float64),
        **values,
    )


def changed(schedule: Schedule, **arrays: object) -> Schedule:
    """Other decisions name no nodes and counts unless these are given, too."""
    if "decision_task" in arrays or "decision_time" in arrays:
        unknown = np.zeros(0, np.int64)
        arrays = {"decision_node": unknown, "decision_count": unknown, **arrays}
    return replace(schedule, **{k: np.array(v) if not isinstance(v, int | str) else v for k, v in arrays.items()})


def edited(schedule: Schedule, field: str, row: int, value: float) -> Schedule:
    """The same schedule with one array entry replaced."""
    array = getattr(schedule, field).copy()
    array[row] = value
    return replace(schedule, **{field: array})


def list_schedule(replay: Replay, order: Sequence[int] | None = None) -> Schedule:
    """Start ready tasks in the given priority order, instances on the first nodes with room, at every event."""
    cluster = replay.cluster
    group = cluster.node_group
    free = cluster.capacity[group].copy()
    left, finish, ready = replay.instances.copy(), np.full(len(replay), np.nan), np.full(len(replay), np.nan)
    placed: list[list[tuple[float, int, int]]] = [[] for _ in range(len(replay))]
    rows, running = [], []
    rank = list(range(len(replay))) if order is None else list(order)
    times = sorted(set(replay.arrival.tolist()))
    while times:
        now = times.pop(0)
        again = True
        while again:
            again = False
            for row in [r for r in running if r[4] == now]:
                running.remove(row)
                free[row[1]] += row[2] * replay.demand[row[0]]
                if not left[row[0]] and not any(r[0] == row[0] for r in running):
                    finish[row[0]] = now
            for task in rank:
                if not np.isnan(ready[task]) or replay.arrival[replay.workflow_of[task]] > now:
                    continue
                parents = replay.parent_idx[replay.parent_ptr[task] : replay.parent_ptr[task + 1]]
                if not np.isnan(finish[parents]).any():
                    ready[task] = now
                    again = True
                    if replay.milestone[task]:
                        finish[task] = now
            for task in rank:
                if np.isnan(ready[task]) or replay.milestone[task] or not left[task]:
                    continue
                for node in range(len(group)):
                    count = 0
                    while left[task] and (replay.demand[task] <= free[node] + 1e-9).all():
                        free[node] -= replay.demand[task]
                        left[task] -= 1
                        count += 1
                    if count:
                        begin = max([now, *_inputs(replay, placed, task, group[node])])
                        end = begin + replay.duration[task, group[node]]
                        row = (task, node, count, now, end, begin)
                        rows.append(row)
                        running.append(row)
                        placed[task].append((end, int(group[node]), count))
                        times = sorted({*times, end} - {now})
                        again = again or end == now
    return schedule_of(replay, rows, ready)


def _inputs(replay: Replay, placed: list[list[tuple[float, int, int]]], task: int, group: int) -> list[float]:
    moments = []
    for edge in range(replay.parent_ptr[task], replay.parent_ptr[task + 1]):
        parent = replay.parent_idx[edge]
        for end, source, count in placed[parent]:
            seconds = 0.0
            if source != group:
                size = replay.parent_bytes[edge] * count / replay.instances[parent]
                seconds = replay.cluster.latency[source, group] + size / replay.cluster.bandwidth[source, group]
            moments.append(end + seconds)
    return moments


def random_replay(seed: int, tasks: int = 40, workflows: int = 3, **options: object) -> Replay:
    """Random layered workflows with several instances, transfers, deadlines and milestones on two groups."""
    rng = np.random.default_rng(seed)
    made = []
    for w in range(workflows):
        rows = []
        for t in range(tasks):
            parents = tuple(f"t{p}" for p in sorted(set(rng.integers(0, t, min(t, 2)).tolist()))) if t else ()
            rest = t % 11 == 7
            carried = {} if rest else {p: float(rng.integers(0, 50)) for p in parents if int(p[1:]) % 11 != 7}
            instances = int(rng.integers(1, 6))
            rows.append(
                Task(
                    f"t{t}",
                    0.0 if rest or t % 13 == 5 else float(rng.integers(1, 20)),
                    {} if rest else {"cpu": float(rng.integers(1, 4)), "memory": float(rng.integers(0, 9))},
                    parents,
                    instances=1 if rest else instances,
                    edge_bytes=carried,
                )
            )
        arrival = float(rng.integers(0, 30))
        made.append(Workflow.from_tasks(f"w{w}", rows, arrival=arrival, deadline=arrival + 150.0, weight=w + 1.0))
    groups = (NodeGroup("a", 2, {"cpu": 4, "memory": 16}), NodeGroup("b", 1, {"cpu": 8, "memory": 20}, 2.0))
    cluster = Cluster(groups, bandwidth=10.0, latency=0.5)
    made_of = Workload("random", tuple(made), declared=Declared(noise=EXACT))
    return Replay.build(made_of, cluster, options=SimulationOptions(**options))
