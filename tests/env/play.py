"""Ways to play an episode to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dagsched.env import WorkflowEnv
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.simulator import validate

Chooser = Callable[[WorkflowEnv, Any], int]


def first(env: WorkflowEnv, _observation: Any) -> int:
    """The legal action of largest base priority."""
    return int(env.action_masks().argmax())


def at_random(seed: int, *, patience: float = 1.0) -> Chooser:
    """A legal action, WAIT with ``patience`` times the chance of a task."""
    rng = np.random.default_rng(seed)

    def choose(env: WorkflowEnv, _observation: Any) -> int:
        weight = env.action_masks().astype(float)
        if weight.sum() > 1:
            weight[-1] *= patience
        return int(rng.choice(len(weight), p=weight / weight.sum()))

    return choose


def play(env: WorkflowEnv, choose: Chooser = first, **reset: Any) -> tuple[Schedule, list[float], list[dict[str, Any]]]:
    """(validated schedule, rewards, infos) of one episode; checks every observation against the space."""
    observation, info = env.reset(**reset)
    assert env.observation_space.contains(observation)
    rewards, infos = [], [info]
    over = False
    while not over:
        observation, reward, over, _, info = env.step(choose(env, observation))
        assert env.observation_space.contains(observation)
        assert env.action_masks().any()
        rewards.append(reward)
        infos.append(info)
    schedule = env.schedule()
    validate(schedule)
    return schedule, rewards, infos


def env_of(replay: Replay, **options: Any) -> WorkflowEnv:
    return WorkflowEnv(workload=replay, **options)
