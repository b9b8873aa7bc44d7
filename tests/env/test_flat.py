"""The flat observation against plain numpy, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched import graph
from dagsched.env import WorkflowEnv, flat_names
from dagsched.replay import Replay, SimulationOptions
from dagsched.simulator.observation import ObservedState
from tests.bench.data import forty_groups, layered
from tests.env.play import at_random, play
from tests.handmade import random_replay
from tests.twin import NumpyDice, draw_replay

NAMES = flat_names()


def squash(x: float) -> float:
    return x / (1 + x)


def part(observation: np.ndarray, prefix: str, name: str) -> float:
    return float(observation[NAMES.index(f"{prefix} {name}")])


def check_groups(replay: Replay, state: ObservedState, observation: np.ndarray) -> None:
    cluster = replay.cluster
    ready = np.flatnonzero(
        ~np.isnan(state.ready_time) & (state.unstarted > 0) & ~replay.milestone[: len(state.unstarted)]
    )
    seconds = np.where(replay.can_hold, replay.estimate, np.inf)[ready]
    best = seconds.argmin(axis=1) if len(ready) else np.zeros(0, int)
    rows = np.minimum(np.arange(len(cluster.groups)), 31)
    for row in range(32):
        nodes = rows[state.node_group] == row
        free, room = state.free[nodes].sum(axis=0), state.capacity[nodes].sum(axis=0)
        known = [r in cluster.resources for r in ("cpu", "memory")]
        memory = cluster.resources.index("memory") if known[1] else 1 if len(cluster.resources) > 1 else -1
        for name, column in (("free_cpu", 0), ("free_memory", memory)):
            want = (
                0.0 if not nodes.any() else 1.0 if column < 0 else free[column] / room[column] if room[column] else 0.0
            )
            assert part(observation, f"group {row}", name) == pytest.approx(want, abs=1e-6)
        assert part(observation, f"group {row}", "nodes") == pytest.approx(nodes.mean(), abs=1e-6)
        queue = int((rows[best] == row).sum())
        assert part(observation, f"group {row}", "queue") == pytest.approx(squash(np.log1p(queue)), abs=1e-6)


def check_tasks(env: WorkflowEnv, replay: Replay, state: ObservedState, observation: np.ndarray) -> None:
    episode = env._running()
    shown = [episode.task_of(k) for k in range(min(len(state.eligible), 64))]
    arrived = replay.arrival <= state.now
    scale = max(graph.critical_path(replay, realised=False)[arrived].mean(), 1e-9)
    largest = state.capacity.max(axis=0)
    for k, task in enumerate(shown):
        share = max(d / c for d, c in zip(state.demand[task], largest, strict=True) if c > 0)
        laxity = np.clip((state.deadline[task] - state.now - state.bottom_level[task]) / scale, -5, 5)
        want = {
            "bottom_level": state.bottom_level[task] / max(state.bottom_level.max(), 1e-12),
            "share": share,
            "estimate": squash(state.fastest[task] / scale),
            "laxity": (laxity + 5) / 10,
        }
        for name, value in want.items():
            assert part(observation, f"task {k}", name) == pytest.approx(value, abs=1e-6), (k, name)
    assert not observation[4 * len(shown) : 4 * 64].any()


def check_extras(env: WorkflowEnv, state: ObservedState, observation: np.ndarray) -> None:
    replay, now = env.replay, state.now
    arrived = replay.arrival <= now
    scale = max(graph.critical_path(replay, realised=False)[arrived].mean(), 1e-9)
    ends = [state.finished[replay.workflow_of[: len(state.finished)] == w] for w in np.flatnonzero(arrived)]
    over = [w for w, end in enumerate(ends) if not np.isnan(end).any() and np.isfinite(replay.deadline[w])]
    late = [ends[w].max() > replay.deadline[w] for w in over]
    begun = ~np.isnan(state.started) & ~replay.milestone[: len(state.started)]
    wait = (state.started - state.ready_time)[begun]
    want = {
        "violation_rate": np.mean(late) if late else 0.0,
        "mean_wait": squash(wait.mean() / scale) if len(wait) else 0.0,
        "can_wait": float(len(state.running_task) > 0),
        "cut": 1 - min(len(state.eligible), 64) / max(len(state.eligible), 1),
    }
    for name, value in want.items():
        assert observation[NAMES.index(name)] == pytest.approx(value, abs=1e-6), name


@pytest.mark.parametrize("seed", range(15))
def test_every_number_is_what_its_name_says(seed: int) -> None:
    options = SimulationOptions(decision_interval=(0.0, 2.0)[seed % 2])
    replay = draw_replay(NumpyDice(seed), rough=True, options=options) if seed else random_replay(0, tasks=20)
    choose = at_random(seed)

    def check(env: WorkflowEnv, observation: np.ndarray) -> int:
        episode = env._running()
        if not episode.done:
            state = episode.simulator.observe()
            check_groups(replay, state, observation)
            check_tasks(env, replay, state, observation)
            check_extras(env, state, observation)
        return choose(env, observation)

    play(WorkflowEnv(workload=replay), check)


def test_groups_beyond_32_share_the_last_row() -> None:
    replay = Replay.build(layered(40, seed=1), forty_groups(2))

    def check(env: WorkflowEnv, observation: np.ndarray) -> int:
        check_groups(replay, env._running().simulator.observe(), observation)
        return int(env.action_masks().argmax())

    play(WorkflowEnv(workload=replay), check)


def test_names_are_unique_and_as_many_as_numbers() -> None:
    assert len(set(NAMES)) == len(NAMES) == 64 * 4 + 32 * 4 + 16 + 4 + 10 * 3
    assert WorkflowEnv().observation_space.shape == (len(NAMES),)
