"""Thousands of independent tasks that are ready at once, on the default cluster: CPU seconds of a whole schedule."""

from __future__ import annotations

import time

import numpy as np

from dagsched.cluster import default_cluster
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.bench.figure import Figure

BOOKED = ("min-min", "max-min", "sufferage")


def measure() -> list[Figure]:
    """Equal tasks, tasks of own demand, and tasks of many instances."""
    equal = crowd(230_000, lambda k: (2.0, {"cpu": 1.0}))
    found = [Figure(f"equal_230000_{rule}_s", seconds(equal, rule), 20) for rule in ("tetris", *BOOKED)]
    dice = np.random.default_rng(0)
    pairs = dice.uniform([0.1, 0.1], [4.0, 8.0], (10_000, 2))
    own = {
        "one_resource": crowd(10_000, lambda k: (10.0, {"cpu": 1 + k / 10_000})),
        "seven_durations": crowd(10_000, lambda k: (1.0 + k % 7, {"cpu": 1 + k / 10_000})),
        "two_resources": crowd(10_000, lambda k: (10.0, {"cpu": pairs[k, 0], "memory": pairs[k, 1]})),
    }
    for name, replay in own.items():
        found += [Figure(f"own_10000_{name}_{rule}_s", seconds(replay, rule), 10) for rule in ("tetris", *BOOKED)]
    lengths = dice.uniform(1, 100, 3_000)
    mixed = crowd(3_000, lambda k: (lengths[k], {"cpu": pairs[k, 0], "memory": pairs[k, 1]}))
    found += [Figure(f"own_3000_own_durations_{rule}_s", seconds(mixed, rule)) for rule in BOOKED]
    many = crowd(15, lambda k: (lengths[k], {"cpu": pairs[k, 0], "memory": pairs[k, 1]}), instances=1_000)
    found += [Figure(f"own_15_of_1000_instances_{rule}_s", seconds(many, rule), 5) for rule in BOOKED]
    return found


def crowd(count: int, made, instances: int = 1) -> Replay:  # type: ignore[no-untyped-def]
    """One workflow of ``count`` tasks; ``made`` gives the duration and demand of the k-th."""
    tasks = []
    for k in range(count):
        duration, demand = made(k)
        amounts = {name: float(amount) for name, amount in demand.items()}
        tasks.append(Task(f"t{k}", float(duration), amounts, instances=instances))
    return Replay.build(Workload("crowd", (Workflow.from_tasks("w", tasks),)), default_cluster())


def seconds(replay: Replay, rule: str) -> float:
    """CPU seconds of one schedule, compiled."""
    simulate(crowd(2, lambda k: (1.0, {"cpu": 1.0})), rule)
    began = time.process_time()
    simulate(replay, rule)
    return time.process_time() - began
