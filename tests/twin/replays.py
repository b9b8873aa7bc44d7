"""Random replays that touch everything a replay can hold, drawn from numpy or from hypothesis.

Exact replays use numbers whose sums and quotients have no rounding (quarters, powers of two), so that the
order of additions cannot matter and the twin can be obvious. Rough ones have times that round; demands in
tenths round as well, and then the twin's sums of free amounts may break ties between nodes another way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from hypothesis import strategies as st

from dagsched.cluster import Cluster, NodeGroup
from dagsched.declared import EXACT, Declared
from dagsched.replay import PLACEMENTS, Replay, SimulationOptions
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload

T = TypeVar("T")
RESOURCES = ("cpu", "mem", "gpu")


class Dice(Protocol):
    def whole(self, low: int, high: int) -> int: ...

    def pick(self, values: Sequence[T]) -> T: ...


class NumpyDice:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def pick(self, values: Sequence[T]) -> T:
        return values[self.whole(0, len(values) - 1)]


class HypothesisDice:
    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def whole(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def pick(self, values: Sequence[T]) -> T:
        return self.draw(st.sampled_from(values))


def draw_cluster(dice: Dice, *, rough: bool = False) -> Cluster:
    resources = RESOURCES[: dice.whole(1, 3)]
    groups = []
    for g in range(dice.whole(1, 4)):
        capacity = {r: dice.pick((0.0, 1.0, 2.0, 4.0, 8.0)) for r in resources[1:]}
        capacity["cpu"] = dice.pick((1.0, 2.0, 4.0, 8.0))
        speed = dice.pick((0.7, 1.0, 1.3, 3.0) if rough else (0.5, 1.0, 2.0, 4.0))
        groups.append(NodeGroup(f"g{g}", dice.whole(1, 5 if g == 0 else 2), capacity, speed))
    count = len(groups)
    slow = dice.pick((False, True, True))
    bandwidth, latency = np.full((count, count), math.inf), np.zeros((count, count))
    if slow:
        for a in range(count):
            for b in range(count):
                bandwidth[a, b] = dice.pick((1.0, 4.0, 16.0, math.inf))
                latency[a, b] = dice.whole(0, 4) / 4
    return Cluster(tuple(groups), resources, bandwidth=bandwidth, latency=latency)


def draw_task(
    dice: Dice, number: int, cluster: Cluster, resting: set[int], *, rough: bool, tenths: bool, exact: bool
) -> Task:
    most = min(number, 3)
    first = max(0, number - 8)
    parents = sorted({dice.whole(first, number - 1) for _ in range(dice.whole(0, most))}) if number else []
    ids = tuple(f"t{p}" for p in parents)
    if dice.whole(0, 11) == 0:
        resting.add(number)
        return Task(f"t{number}", 0.0, {}, ids)
    home = dice.pick(cluster.groups)
    demand = {}
    for r in cluster.resources:
        room = float(home.capacity.get(r, 0.0))
        step = 10 if tenths else 4
        if room > 0 and dice.whole(0, 3):
            demand[r] = room * dice.whole(1, step) / step
    limit = 60 if rough else 40
    seconds = dice.whole(1, limit) / (7 if rough else 4) if dice.whole(0, 7) else 0.0
    if seconds == 0.0 and not demand:
        demand = {"cpu": home.capacity["cpu"]}
    estimate = None
    if not exact and dice.whole(0, 1):
        estimate = dice.whole(1, limit) / (7 if rough else 4)
    own = {}
    if (exact or estimate is None) and dice.whole(0, 4) == 0:
        own = {g.name: dice.whole(0, 20) / 4 for g in cluster.groups if dice.whole(0, 1)}
    carried = {f"t{p}": float(dice.whole(1, 64)) for p in parents if p not in resting and dice.whole(0, 1)}
    return Task(
        f"t{number}",
        seconds,
        demand,
        ids,
        estimate=estimate,
        instances=dice.pick((1, 1, 1, 2, 3, 7)),
        edge_bytes=carried,
        group_durations=own,
    )


def draw_options(dice: Dice) -> SimulationOptions:
    return SimulationOptions(
        placement=dice.pick(("earliest-finish", *PLACEMENTS)),
        decision_interval=dice.pick((0.0, 0.0, 0.0, 0.75, 2.0, 5.0)),
        max_wait=dice.pick((math.inf, math.inf, math.inf, 0.0, 2.0, 6.0)),
        instances_per_decision=dice.pick((0, 0, 0, 1, 2)),
    )


def draw_replay(
    dice: Dice,
    *,
    tasks: int = 40,
    rough: bool = False,
    tenths: bool = False,
    batch: bool | None = None,
    exact: bool | None = None,
    options: SimulationOptions | None = None,
    closed: bool | None = None,
) -> Replay:
    """A random replay of at most ``tasks`` tasks; ``batch`` and ``exact`` are drawn where not given.

    A batch is declared closed unless ``closed`` says otherwise, and exact estimates are declared exact.
    """
    cluster = draw_cluster(dice, rough=rough)
    if batch is None:
        batch = dice.whole(0, 2) == 0
    if exact is None:
        exact = dice.whole(0, 1) == 0
    count = dice.whole(1, 4)
    workflows = []
    for w in range(count):
        size = dice.whole(1, max(1, tasks // count))
        resting: set[int] = set()
        rows = [
            draw_task(dice, number, cluster, resting, rough=rough, tenths=tenths, exact=exact) for number in range(size)
        ]
        arrival = 1.0 if batch else dice.whole(0, 60) / 4
        deadline = dice.pick((None, arrival + dice.whole(1, 200) / 4))
        weight = dice.pick((1.0, 1.0, 2.0, 0.5))
        workflows.append(
            Workflow.from_tasks(
                f"w{w}", rows, resources=cluster.resources, arrival=arrival, deadline=deadline, weight=weight
            )
        )
    declared = Declared(closed=batch if closed is None else closed, noise=EXACT if exact else None)
    sigma = 0.0 if exact else dice.pick((0.0, 0.25, 1.0))
    return Replay.build(
        Workload("drawn", tuple(workflows), declared=declared),
        cluster,
        seed=dice.whole(0, 1000),
        sigma=sigma,
        options=options or draw_options(dice),
    )
