"""Steps per second of the environment on workflows of 100 tasks: base rule's action, seconds of one core."""

from __future__ import annotations

import time

from dagsched.env import BatchedWorkflows, WorkflowEnv
from tests.bench.data import four_groups, layered
from tests.bench.figure import Figure

TARGET = 20_000
ROUNDS = 7


def steps_per_second(kind: str) -> float:
    """Best of some rounds of 30 episodes: reset, steps and the metrics at the end included."""
    env = WorkflowEnv(workload=layered(100, seed=1), cluster=four_groups(), observation=kind)
    env.reset()
    best = 0.0
    for _ in range(ROUNDS):
        steps, began = 0, time.process_time()
        for _ in range(30):
            _, info = env.reset()
            over = False
            while not over:
                _, _, over, _, info = env.step(info["action_mask"].argmax())
                steps += 1
        best = max(best, steps / (time.process_time() - began))
    return best


def batched_steps_per_second(kind: str, count: int = 64) -> float:
    """Best of some rounds of 100 steps of all rows."""
    batch = BatchedWorkflows(count, workload=layered(100, seed=1), cluster=four_groups(), observation=kind)
    batch.reset()
    best = 0.0
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(100):
            batch.step(batch.mask.argmax(axis=1))
        best = max(best, 100 * count / (time.process_time() - began))
    return best


def measure() -> list[Figure]:
    """Both observations, one episode at a time and 64."""
    figures = []
    for kind in ("flat", "graph"):
        note = f"100 tasks, 4 groups, {kind} observation, own arrays"
        figures.append(Figure(f"env_steps_per_second_{kind}", steps_per_second(kind), TARGET, "higher", note))
        note = f"the same, 64 episodes in one batch, {kind} observation"
        figures.append(Figure(f"env_batched_steps_per_second_{kind}", batched_steps_per_second(kind), note=note))
    return figures
