"""Benchmark data and generated instances."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from dagsched.cluster import Cluster, NodeGroup
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.bench.figure import Skip

ROOT = Path(__file__).resolve().parents[2]


def data_path(relative: str) -> Path:
    """A file or folder of the benchmark data (``DAGSCHED_DATA``, default ``../shared/data``)."""
    path = Path(os.environ.get("DAGSCHED_DATA", ROOT.parent / "shared" / "data")) / relative
    if not path.exists():
        raise Skip(f"{path} is missing; set DAGSCHED_DATA")
    return path


def four_groups(scale: int = 1) -> Cluster:
    """4 groups of different speed and size, cpu and memory; ``14 x scale`` nodes."""
    return Cluster(
        (
            NodeGroup("small", 6 * scale, {"cpu": 8, "memory": 32}, 1.0),
            NodeGroup("large", 4 * scale, {"cpu": 16, "memory": 64}, 1.0),
            NodeGroup("fast", 2 * scale, {"cpu": 16, "memory": 64}, 1.6),
            NodeGroup("highmem", 2 * scale, {"cpu": 32, "memory": 256}, 0.8),
        ),
        name="four-groups",
    )


def four_pools() -> Cluster:
    """The same 4 groups with all their nodes' resources pooled in one node each."""
    groups = [
        NodeGroup(g.name, 1, {r: g.nodes * amount for r, amount in g.capacity.items()}, g.speed)
        for g in four_groups().groups
    ]
    return Cluster(tuple(groups), name="four-pools")


def forty_groups(nodes_per_group: int) -> Cluster:
    """40 groups with speeds from 0.6 to 1.4; cpu and memory."""
    groups = tuple(
        NodeGroup(f"g{i}", nodes_per_group, {"cpu": 8 + 8 * (i % 3), "memory": 32 + 32 * (i % 4)}, 0.6 + 0.02 * i)
        for i in range(40)
    )
    return Cluster(groups, name="forty-groups")


def layered(tasks: int, *, seed: int, width: float = 0.1, demands: int = 12) -> Workload:
    """A random layered DAG: layers about ``width * tasks`` wide, one to three parents in the layer before."""
    rng = np.random.default_rng(seed)
    layer = max(2, round(width * tasks))
    parents: list[np.ndarray] = []
    for task in range(tasks):
        begin = (task // layer) * layer
        if begin == 0:
            parents.append(np.zeros(0, np.int64))
            continue
        count = min(int(rng.integers(1, 4)), layer)
        parents.append(np.sort(rng.choice(np.arange(begin - layer, begin), count, replace=False)))
    return workload_of("layered", parents, rng, demands)


def wide(tasks: int, *, seed: int, demands: int = 64) -> Workload:
    """Half of the tasks ready at once, the other half after one of them each; 64 distinct demand vectors."""
    rng = np.random.default_rng(seed)
    half = tasks // 2
    parents = [np.zeros(0, np.int64)] * half
    parents += [np.array([p]) for p in rng.integers(0, half, tasks - half)]
    return workload_of("wide", parents, rng, demands)


def workload_of(name: str, parents: list[np.ndarray], rng: np.random.Generator, demands: int) -> Workload:
    """Tasks with lognormal durations and one of ``demands`` demand vectors each."""
    count = len(parents)
    vectors = np.column_stack([rng.integers(1, 9, 4 * demands), rng.integers(1, 33, 4 * demands)])
    vectors = rng.permutation(np.unique(vectors, axis=0))[:demands]
    assert len(vectors) == demands
    pointers = np.zeros(count + 1, np.int64)
    np.cumsum([len(row) for row in parents], out=pointers[1:])
    duration = rng.lognormal(1.2, 0.8, count) + 0.5
    edges = int(pointers[-1])
    workflow = Workflow(
        name=name,
        task_ids=tuple(f"t{i}" for i in range(count)),
        resources=("cpu", "memory"),
        duration=duration,
        estimate=duration,
        demand=vectors[rng.integers(0, demands, count)].astype(np.float64),
        instances=np.ones(count, np.int64),
        parent_ptr=pointers,
        parent_idx=np.concatenate(parents).astype(np.int64),
        parent_bytes=np.zeros(edges),
    )
    return Workload(name, (workflow,))
