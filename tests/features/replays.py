"""Random replays with one to six resources, some of which a group or the whole cluster lacks."""

from __future__ import annotations

import math

import numpy as np

from dagsched.cluster import Cluster, NodeGroup
from dagsched.declared import EXACT, Declared
from dagsched.replay import Replay, SimulationOptions
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.twin.replays import Dice, NumpyDice, draw_options, draw_task

RESOURCES = ("cpu", "mem", "gpu", "disk", "net", "tpu")


def draw_wide_cluster(dice: Dice, *, pooled: bool = False) -> Cluster:
    resources = RESOURCES[: dice.whole(1, 6)]
    groups = []
    for g in range(1 if pooled else dice.whole(1, 4)):
        capacity = {r: dice.pick((0.0, 1.0, 2.0, 4.0, 8.0)) for r in resources[1:]}
        capacity["cpu"] = dice.pick((1.0, 2.0, 4.0, 8.0))
        groups.append(NodeGroup(f"g{g}", 1 if pooled else dice.whole(1, 4), capacity, dice.pick((0.7, 1.0, 1.3, 3.0))))
    count = len(groups)
    bandwidth, latency = np.full((count, count), math.inf), np.zeros((count, count))
    if dice.whole(0, 1):
        for a in range(count):
            for b in range(count):
                bandwidth[a, b] = dice.pick((1.0, 4.0, 16.0, math.inf))
                latency[a, b] = dice.whole(0, 4) / 4
    return Cluster(tuple(groups), resources, bandwidth=bandwidth, latency=latency)


def draw_wide(
    seed: int,
    *,
    tasks: int = 30,
    workflows: int = 4,
    batch: bool | None = None,
    exact: bool | None = None,
    pooled: bool = False,
    due: bool | None = None,
    options: SimulationOptions | None = None,
) -> Replay:
    """A random replay of at most ``tasks`` tasks; times are sevenths, so that sums round and ties are rare.

    ``due``: whether workflows have deadlines; by default some do.
    """
    dice = NumpyDice(seed)
    cluster = draw_wide_cluster(dice, pooled=pooled)
    batch = dice.whole(0, 1) == 0 if batch is None else batch
    exact = dice.whole(0, 1) == 0 if exact is None else exact
    count = dice.whole(1, workflows)
    made = []
    for w in range(count):
        resting: set[int] = set()
        rows = [
            draw_task(dice, number, cluster, resting, rough=True, tenths=False, exact=exact)
            for number in range(dice.whole(1, max(1, tasks // count)))
        ]
        arrival = 1.0 if batch else dice.whole(0, 60) / 7
        late = arrival + dice.whole(1, 200) / 7
        made.append(
            Workflow.from_tasks(
                f"w{w}",
                rows,
                resources=cluster.resources,
                arrival=arrival,
                deadline=late if due or (due is None and dice.whole(0, 1)) else None,
                weight=dice.pick((1.0, 2.0, 0.5, 3.7)),
            )
        )
    return Replay.build(
        Workload("wide", tuple(made), declared=Declared(closed=batch, noise=EXACT if exact else None)),
        cluster,
        seed=dice.whole(0, 1000),
        sigma=0.0 if exact else dice.pick((0.0, 0.25, 1.0)),
        options=options or draw_options(dice),
    )
