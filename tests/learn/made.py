"""Made-up replays and trajectories, so that networks and losses can be tested without a simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dagsched.cluster import Cluster
from dagsched.features import schema
from dagsched.replay import Replay
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload


@dataclass
class Made:
    """The fields of a recorded trajectory."""

    replay: Replay
    row_ptr: Any
    task: Any
    workflow: Any
    started: Any
    x: Any
    z: Any
    g: Any
    q: Any
    action: Any
    time: Any
    reward: Any
    start_order: Any
    cost: float = 1.0
    seed: int = 0
    can_wait: Any = field(default=None)


@dataclass
class Plain:
    """A normaliser that changes nothing."""

    task_mean: Any = field(default_factory=lambda: np.zeros(len(schema.TASK_FEATURES)))
    task_std: Any = field(default_factory=lambda: np.ones(len(schema.TASK_FEATURES)))
    global_mean: Any = field(default_factory=lambda: np.zeros(len(schema.GLOBAL_FEATURES)))
    global_std: Any = field(default_factory=lambda: np.ones(len(schema.GLOBAL_FEATURES)))
    group_mean: Any = field(default_factory=lambda: np.zeros(len(schema.GROUP_FEATURES)))
    group_std: Any = field(default_factory=lambda: np.ones(len(schema.GROUP_FEATURES)))
    node_mean: Any = field(default_factory=lambda: np.zeros(len(schema.NODE_FEATURES)))
    node_std: Any = field(default_factory=lambda: np.ones(len(schema.NODE_FEATURES)))


def made_replay(sizes: tuple[int, ...] = (7, 4), seed: int = 0, edges: float = 0.3) -> Replay:
    rng = np.random.default_rng(seed)
    workflows = []
    for w, size in enumerate(sizes):
        tasks = [
            Task(
                f"{k}", float(rng.uniform(1, 9)), {"cpu": 1}, parents=[f"{p}" for p in range(k) if rng.random() < edges]
            )
            for k in range(size)
        ]
        workflows.append(Workflow.from_tasks(f"w{w}", tasks))
    return Replay.build(Workload("made", tuple(workflows)), Cluster.pooled({"cpu": 2.0}))


def made_trajectory(
    replay: Replay, decisions: int = 6, seed: int = 0, groups: int = 2, columns: int = 0, wait: bool = False
) -> Made:
    """Random rows, summaries, rewards and start order; no schedule behind them."""
    rng = np.random.default_rng(seed)
    tasks = len(replay)
    counts = rng.integers(2, min(6, tasks) + 1, decisions)
    rows = int(counts.sum())
    task = np.concatenate([rng.choice(tasks, n, replace=False) for n in counts])
    workflow = replay.workflow_of[task]
    sizes = np.diff(replay.workflow_ptr)
    order = np.lexsort((rng.random(tasks), replay.workflow_of))
    columns = columns or len(schema.columns(("base",)))
    return Made(
        replay=replay,
        row_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        task=task.astype(np.int64),
        workflow=workflow.astype(np.int64),
        started=(rng.random(rows) * sizes[workflow]).astype(np.int64),
        x=rng.normal(size=(rows, columns)).astype(np.float32),
        z=rng.normal(size=rows),
        g=rng.normal(size=(decisions, len(schema.GLOBAL_FEATURES))).astype(np.float32),
        q=rng.normal(size=(decisions, groups, len(schema.GROUP_FEATURES))).astype(np.float32),
        action=(rng.random(decisions) * (counts + wait)).astype(np.int64),
        time=np.sort(rng.uniform(0, 10, decisions)),
        reward=-rng.uniform(0, 1, decisions),
        start_order=order.astype(np.int64),
        cost=float(rng.uniform(1, 2)),
        seed=seed,
    )
