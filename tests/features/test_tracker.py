from __future__ import annotations

import numpy as np
import pytest

from dagsched.features.kernel import ARRIVED_WORK, STARTED, UNSTARTED, reset_tracker
from dagsched.policies.registry import make_policy
from dagsched.replay import Replay
from dagsched.simulator import Simulator, validate
from dagsched.task import Task
from tests.features.replays import draw_wide
from tests.features.watch import Watch, play
from tests.handmade import one_workflow, two_groups


def assert_same(found: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]) -> None:
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(500, 530))
def test_a_tracker_that_catches_up_at_any_moment_sees_what_one_sees_that_never_looked_away(seed: int) -> None:
    replay = draw_wide(seed)
    every, some, simulator = Watch(replay), Watch(replay), Simulator(replay)
    rng = np.random.default_rng(seed)
    for _ in play(simulator, seed):
        wanted = every.observe(simulator)
        assert_same(every.observe(simulator), wanted)  # looking twice changes nothing
        assert_same(every.fresh().observe(simulator), wanted)
        if rng.random() < 0.2:
            assert_same(some.observe(simulator), wanted)
    validate(simulator.schedule("random"))


@pytest.mark.parametrize("rule", ["fcfs", "srw", "min-min", "heft"])
def test_the_tracker_follows_decisions_of_any_rule(rule: str) -> None:
    for seed in range(540, 546):
        replay = draw_wide(seed)
        watch, simulator = Watch(replay), Simulator(replay)
        run = make_policy(rule).begin(simulator)
        while not simulator.done:
            run.advance(1 + seed % 3)
            if not simulator.done and len(simulator.eligible()):
                assert_same(watch.observe(simulator), watch.fresh().observe(simulator))
        validate(simulator.schedule(rule))


def started_in_full(simulator: Simulator) -> set[int]:
    """Tasks, milestones apart, that have no unstarted instance left."""
    over = (simulator.state.task["unstarted"] == 0) & ~simulator.replay.milestone
    return set(np.flatnonzero(over).tolist())


@pytest.mark.parametrize("seed", range(550, 560))
def test_tasks_are_listed_once_each_when_they_have_fully_started(seed: int) -> None:
    replay = draw_wide(seed)
    watch, simulator = Watch(replay), Simulator(replay)
    listed: list[int] = []
    for _ in play(simulator, seed):
        watch.observe(simulator)
        order = watch.tracker.order[: watch.tracker.counter[STARTED]].tolist()
        assert order[: len(listed)] == listed
        assert len(set(order)) == len(order)
        assert set(order) == started_in_full(simulator)
        per_workflow = np.bincount(replay.workflow_of[order], minlength=len(replay.workflows))
        np.testing.assert_array_equal(watch.tracker.started, per_workflow)
        listed = order
    validate(simulator.schedule("random"))


def test_work_left_over_by_rounding_counts_as_none() -> None:
    """With a share of 1e-16 left the load of a resource nobody waits for would be anything."""
    reached = 0
    for seed in range(560, 600):
        replay = draw_wide(seed, batch=True)
        watch, simulator = Watch(replay), Simulator(replay)
        for _ in play(simulator, seed):
            watch.observe(simulator)
            left = simulator.state.task["unstarted"] * ~replay.milestone
            work = watch.constants.work * left[:, None]
            for r in range(work.shape[1]):
                if not work[:, r].any():
                    assert watch.tracker.resource[UNSTARTED, r] == 0
                    reached += watch.tracker.resource[ARRIVED_WORK, r] > 0
        validate(simulator.schedule("random"))
    assert reached > 20


def test_a_reset_tracker_sees_the_second_run_as_it_saw_the_first() -> None:
    for seed in range(600, 606):
        replay = draw_wide(seed)
        watch, simulator = Watch(replay), Simulator(replay)
        first = [watch.observe(simulator) for _ in play(simulator, seed)]
        validate(simulator.schedule("random"))
        simulator.reset()
        reset_tracker(watch.tracker)
        for wanted, _ in zip(first, play(simulator, seed), strict=True):
            assert_same(watch.observe(simulator), wanted)


def wide_open(count: int) -> Replay:
    return one_workflow([Task(f"{k}", 1.0 + k, {"cpu": 1}) for k in range(count)], two_groups())


@pytest.mark.parametrize("most", [1, 7, 20, 50])
def test_observe_shows_the_first_eligible_tasks_in_order_and_counts_all(most: int) -> None:
    replay = wide_open(20)
    watch, simulator = Watch(replay, most=most), Simulator(replay)
    for _ in play(simulator, 1):
        candidates = watch.observe(simulator)[0]
        able = simulator.eligible()
        assert watch.count == len(able)
        assert candidates.tolist() == able[:most].tolist()
    validate(simulator.schedule("random"))
