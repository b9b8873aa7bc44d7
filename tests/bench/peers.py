"""HEFT and Min-Min against anrg-saga (SAGA) on the same 1,000-task, 32-node instances in the same run."""

from __future__ import annotations

import logging
import time
from statistics import mean

import numpy as np

from dagsched.cluster import Cluster, NodeGroup
from dagsched.replay import Replay
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.bench.figure import Figure, Skip

NODES, TASKS, INSTANCES, ROUNDS = 32, 1000, 3, 5


def instance(seed: int, *, tasks: int = TASKS, nodes: int = NODES) -> tuple[Workload, Cluster]:
    """One entry, one exit, layers of about 30 between, data on every edge; one task at a time on a node."""
    rng = np.random.default_rng(seed)
    width = max(2, round(tasks**0.5))
    parents: list[np.ndarray] = [np.zeros(0, np.int64)]
    layer_before = np.array([0])
    inner = tasks - 2
    for begin in range(1, inner + 1, width):
        layer = np.arange(begin, min(begin + width, inner + 1))
        for _ in layer:
            count = min(int(rng.integers(1, 4)), len(layer_before))
            parents.append(np.sort(rng.choice(layer_before, count, replace=False)))
        layer_before = layer
    without_child = np.setdiff1d(np.arange(1, inner + 1), np.concatenate(parents))
    parents.append(without_child)
    pointers = np.zeros(tasks + 1, np.int64)
    np.cumsum([len(row) for row in parents], out=pointers[1:])
    duration = rng.uniform(1, 20, tasks)
    workflow = Workflow(
        name="peer",
        task_ids=tuple(f"t{i}" for i in range(tasks)),
        resources=("cpu",),
        duration=duration,
        estimate=duration,
        demand=np.ones((tasks, 1)),
        instances=np.ones(tasks, np.int64),
        parent_ptr=pointers,
        parent_idx=np.concatenate(parents).astype(np.int64),
        parent_bytes=rng.uniform(1, 20, int(pointers[-1])),
    )
    speed = rng.uniform(0.5, 2, nodes)
    bandwidth = rng.uniform(0.5, 2, (nodes, nodes))
    bandwidth = np.triu(bandwidth, 1) + np.triu(bandwidth, 1).T + np.eye(nodes)
    groups = tuple(NodeGroup(f"n{i}", 1, {"cpu": 1}, float(speed[i])) for i in range(nodes))
    return Workload("peer", (workflow,)), Cluster(groups, bandwidth=bandwidth, name="peer")


def to_saga(workload: Workload, cluster: Cluster):  # type: ignore[no-untyped-def]
    """The same instance as SAGA's (Network, TaskGraph): speeds divide costs, link speeds divide sizes."""
    from saga import Network, TaskGraph

    workflow = workload.workflows[0]
    ids = workflow.task_ids
    names = [group.name for group in cluster.groups]
    links = [
        (names[i], names[j], float(cluster.bandwidth[i, j]))
        for i in range(len(names))
        for j in range(i + 1, len(names))
    ]
    network = Network.create(zip(names, cluster.speed.tolist(), strict=True), links)
    children = np.repeat(np.arange(len(workflow)), np.diff(workflow.parent_ptr))
    edges = [
        (ids[p], ids[c], float(size))
        for p, c, size in zip(workflow.parent_idx, children, workflow.parent_bytes, strict=True)
    ]
    graph = TaskGraph.create(zip(ids, workflow.duration.tolist(), strict=True), edges)
    return network, graph


def measure() -> list[Figure]:
    """Seconds and makespans of both, per rule, over the same instances."""
    try:
        from saga.schedulers import HeftScheduler, MinMinScheduler
    except ImportError as error:
        raise Skip(f"anrg-saga is not installed ({error}); pip install -e '.[bench]'") from None
    logging.getLogger().setLevel(logging.ERROR)
    from dagsched.run_policy import simulate, warmup

    warmup()
    figures = []
    for rule, scheduler in (("heft", HeftScheduler), ("min-min", MinMinScheduler)):
        ours_s, theirs_s, ours, theirs = [], [], [], []
        for seed in range(INSTANCES):
            workload, cluster = instance(seed)
            network, graph = to_saga(workload, cluster)
            began = time.perf_counter()
            peer = scheduler().schedule(network, graph)
            theirs_s.append(time.perf_counter() - began)
            theirs.append(float(peer.makespan))
            best = np.inf
            for _ in range(ROUNDS):
                replay = Replay.build(workload, cluster)  # fresh: nothing of the ranks is cached
                began = time.perf_counter()
                schedule = simulate(replay, rule)
                best = min(best, time.perf_counter() - began)
            ours_s.append(best)
            ours.append(schedule.makespan)
        key = rule.replace("-", "_")
        ratio = mean(o / t for o, t in zip(ours, theirs, strict=True))
        figures += [
            Figure(f"{key}_seconds", mean(ours_s), note=f"{TASKS} tasks x {NODES} nodes, best of {ROUNDS}"),
            Figure(f"{key}_saga_seconds", mean(theirs_s), note="anrg-saga, same instances, same run"),
            Figure(f"{key}_speedup_over_saga", mean(theirs_s) / mean(ours_s), 50, "higher"),
            Figure(f"{key}_makespan", mean(ours), note="mean over the instances"),
            Figure(f"{key}_saga_makespan", mean(theirs)),
            Figure(f"{key}_makespan_over_saga", ratio, 1.0, "lower", "mean of the ratios"),
        ]
    return figures
