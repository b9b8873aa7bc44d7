"""No observation, mask or reward knows what has not shown yet (semantics.md, "Leak test")."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from dagsched.env import WorkflowEnv
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from tests.env.play import play
from tests.policies.leak import decided_before, first_difference, other_future
from tests.twin import NumpyDice, draw_replay

RULES = ("critical-path", "cp+demand+work", "edf")


class Diary:
    """Chooses by a hash of all that it sees, so that any difference shows in the decisions; keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, bytes]] = []

    def __call__(self, env: WorkflowEnv, observation: Any) -> int:
        arrays = observation.values() if isinstance(observation, dict) else [observation]
        mask = env.action_masks()
        content = b"".join(array.tobytes() for array in arrays) + mask.tobytes()
        self.seen.append((env._running().simulator.now, content))
        legal = np.flatnonzero(mask)
        return int(legal[hashlib.sha256(content).digest()[0] % len(legal)])


def observe(
    replay: Replay, observation: str, rule: str, objective: str
) -> tuple[Schedule, list[tuple[float, bytes]], list[float], list[dict[str, Any]]]:
    env = WorkflowEnv(
        workload=replay, observation=observation, base=rule, max_tasks=150, max_edges=600, objective=objective
    )  # fmt: skip
    diary = Diary()
    schedule, rewards, infos = play(env, diary)
    return schedule, diary.seen, rewards, infos


def told(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in info.items()}


def compare(replay: Replay, observation: str, rule: str, seed: int, objective: str = "slo") -> int:
    rng = np.random.default_rng(seed)
    one, seen_one, rewards_one, infos_one = observe(replay, observation, rule, objective)
    moments = np.unique(np.concatenate([one.decision_time, one.finish]))
    now = float(rng.choice(moments[: max(1, len(moments) // 2)]))
    other = other_future(replay, one, now, seed)
    two, seen_two, rewards_two, infos_two = observe(other, observation, rule, objective)
    until = first_difference(replay, other, one, two)
    assert until > now
    assert decided_before(one, until) == decided_before(two, until)
    before, after = ([entry for entry in seen if entry[0] < until] for seen in (seen_one, seen_two))
    assert [time for time, _ in before] == [time for time, _ in after]
    assert before == after, "an observation depends on what shows only later"
    known = max(len(before) - 1, 0)
    assert rewards_one[:known] == rewards_two[:known]
    # infos of the reset and of every step that ended before; the reset's comes first
    assert [told(info) for info in infos_one[: known + 1]] == [told(info) for info in infos_two[: known + 1]]
    return len(before)


@pytest.mark.parametrize("objective", ["slo", "makespan", "flow_time"])
def test_no_reward_or_info_depends_on_what_shows_later(objective: str) -> None:
    compared = 0
    for seed in range(20):
        for kind in ({}, {"batch": False, "exact": False, "rough": True}, {"batch": True, "closed": False}):
            compared += compare(draw_replay(NumpyDice(seed), **kind), "flat", "critical-path", seed, objective)
    assert compared > 300


@pytest.mark.parametrize("observation", ["flat", "graph"])
@pytest.mark.parametrize("rule", RULES)
def test_no_observation_depends_on_hidden_durations_or_later_arrivals(observation: str, rule: str) -> None:
    compared = 0
    for seed in range(30):
        compared += compare(draw_replay(NumpyDice(seed)), observation, rule, seed)
        compared += compare(draw_replay(NumpyDice(seed), batch=False, exact=False, rough=True), observation, rule, seed)
    assert compared > 300


@pytest.mark.slow
@pytest.mark.parametrize("observation", ["flat", "graph"])
def test_no_observation_depends_on_the_future_on_many_replays(observation: str) -> None:
    for seed in range(2000, 2300):
        compare(draw_replay(NumpyDice(seed), rough=seed % 2 == 0), observation, RULES[seed % 3], seed)


def test_the_comparison_notices_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    original = WorkflowEnv._observation

    def leaking(self: WorkflowEnv) -> Any:
        observation = original(self)
        observation[-1] = np.float32(self.replay.duration.sum() % 1)
        return observation

    monkeypatch.setattr(WorkflowEnv, "_observation", leaking)
    caught = 0
    for seed in range(20):
        try:
            compare(draw_replay(NumpyDice(seed)), "flat", "critical-path", seed)
        except AssertionError:
            caught += 1
    assert caught > 10
