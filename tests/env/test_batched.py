"""Batched episodes are the same episodes."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.env import BatchedWorkflows, WorkflowEnv
from dagsched.errors import ConfigError, PolicyError
from tests.bench.data import four_groups, layered
from tests.handmade import random_replay


def first(mask: np.ndarray) -> np.ndarray:
    return mask.argmax(axis=1)


@pytest.mark.parametrize("kind", ["flat", "graph"])
def test_each_row_equals_an_environment_of_its_own(kind: str) -> None:
    replay = random_replay(3, tasks=15)
    batch = BatchedWorkflows(3, workload=replay, observation=kind, objective="slo")
    env = WorkflowEnv(workload=replay, observation=kind, objective="slo")
    observation = batch.reset()
    alone, _ = env.reset()
    ended = 0
    for _ in range(200):
        for name, array in observation.items():
            want = alone if kind == "flat" else alone[name]
            assert all(np.array_equal(row, want) for row in array)
        assert all(np.array_equal(row, env.action_masks()) for row in batch.mask)
        action = int(env.action_masks().argmax())
        observation, reward, done = batch.step([action] * 3)
        alone, wanted, over, _, _ = env.step(action)
        assert (reward == wanted).all()
        assert (done == over).all()
        if over:
            assert batch.finished == dict.fromkeys(range(3), env.schedule().makespan)
            alone, _ = env.reset()
            ended += 1
    assert ended >= 2


def test_rows_draw_their_own_replays_from_the_seed() -> None:
    def makespans(seed: int) -> list[float]:
        batch = BatchedWorkflows(4, seed=seed, workload=layered(25, seed=1), cluster=four_groups(), noise=0.4)
        batch.reset()
        found: list[float] = []
        while len(found) < 8:
            batch.step(first(batch.mask))
            found += batch.finished.values()
        return found

    assert makespans(1) == makespans(1)
    assert makespans(1) != makespans(2)
    assert len(set(makespans(1))) > 4


def test_wrong_use_is_named() -> None:
    batch = BatchedWorkflows(2, workload=random_replay(1))
    with pytest.raises(ConfigError, match="2 actions for 0 episodes; call reset"):
        batch.step([0, 0])
    batch.reset()
    with pytest.raises(PolicyError, match="action 63 is not legal"):
        batch.step([0, 63])
    with pytest.raises(ConfigError, match="max_steps has no meaning"):
        BatchedWorkflows(2, max_steps=4)
    with pytest.raises(ConfigError, match="count is 0"):
        BatchedWorkflows(0)
