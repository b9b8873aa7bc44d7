"""Search over several nodes, groups, transfers and tasks of many instances."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.policies.sampling.sampler import objective_value
from dagsched.replay import Replay
from dagsched.search.lns_placed import NodeSearch
from dagsched.search.seed_schedules import best_of, follow, roll_out
from dagsched.simulator.validate import validate
from dagsched.task import Task

from ..handmade import one_workflow, two_groups
from ..policies.test_listing import random_replay


def searched(replay: Replay, schedules: int, *, slices: int = 1, objective: str = "makespan") -> NodeSearch:
    known = roll_out(replay, ["heft", "critical-path"], objective=objective)
    search = NodeSearch(
        replay,
        np.array([one.start for one in known]),
        np.array([one.group for one in known]),
        objective=objective,
        bound=-np.inf,
        stream=np.random.SeedSequence(4),
    )
    for k in range(slices):
        search.advance(schedules * (k + 1) // slices, schedules)
    return search


@pytest.mark.parametrize("objective", ["makespan", "flow_time"])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_schedule_is_valid_and_no_longer_than_it_says(seed: int, objective: str) -> None:
    replay = random_replay(seed, transfers=seed % 2 == 0, workflows=3)
    search = searched(replay, 200, objective=objective)
    schedule, finish = follow(replay, search.plan())
    validate(schedule)
    assert objective_value(replay, finish, objective) <= search.value * (1 + 1e-12)


def test_both_tasks_stay_where_the_data_is() -> None:
    """Earliest finish sends the chain's second half to the fast node; with a slow network both belong there."""
    tasks = [
        Task("a", 4.0, {"cpu": 2}),
        Task("b", 5.0, {"cpu": 2}),
        Task("c", 4.0, {"cpu": 2}, ["a"], edge_bytes={"a": 100.0}),
        Task("d", 5.0, {"cpu": 2}, ["b"], edge_bytes={"b": 100.0}),
    ]
    replay = one_workflow(tasks, two_groups(bandwidth=10.0))
    search = searched(replay, 500)
    # either chain alone on the slow node takes 8 or 10 s, all four on the fast one 9 s; the best is 8 beside 5
    assert search.value == pytest.approx(8.0)


def test_slices_change_nothing() -> None:
    replay = random_replay(3, workflows=3)
    whole, cut = searched(replay, 400), searched(replay, 400, slices=29)
    assert whole.schedules == cut.schedules
    for name in ("task", "node", "count", "start"):
        assert getattr(whole.plan(), name).tobytes() == getattr(cut.plan(), name).tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_search_improves_or_keeps_the_best_contained_schedule(seed: int) -> None:
    replay = random_replay(seed + 50, workflows=4)
    best = best_of(roll_out(replay))
    search = searched(replay, 600)
    finish = follow(replay, search.plan())[1]
    assert min(best.value, objective_value(replay, finish, "makespan")) <= best.value
