"""Search on one pooled node: optima of small problems, reproducible whatever the slices, valid schedules."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dagsched.graph import lower_bound
from dagsched.policies.sampling import sgs
from dagsched.policies.sampling.sampler import plan_from_starts, pooled_problem
from dagsched.replay import Replay
from dagsched.search.lns_pooled import Neighbourhood
from dagsched.search.seed_schedules import follow
from dagsched.simulator.validate import validate
from dagsched.workflow import FloatArray

from ..policies.test_sampling import random_project


def searched(
    replay: Replay, schedules: int, *, slices: int = 1, objective: str = "makespan", seed: int = 0
) -> Neighbourhood:
    bound = lower_bound(replay) if objective == "makespan" else -math.inf
    stream = np.random.SeedSequence(seed)
    search = Neighbourhood(replay, np.zeros((1, len(replay))), objective=objective, bound=bound, stream=stream)
    for k in range(slices):
        search.advance(schedules * (k + 1) // slices, schedules)
    return search


def best_over_all_lists(replay: Replay) -> float:
    """Least makespan of serial generation over every order of the tasks."""
    count = len(replay)
    problem = pooled_problem(replay, np.arange(count))
    work = sgs.new_work(count, replay.demand.shape[1])
    start, finish = np.empty(count), np.empty(count)

    def length(order: tuple[int, ...]) -> float:
        return float(sgs.serial(np.array(order, np.float64), problem, work, 0.0, start, finish))

    return min(length(order) for order in itertools.permutations(range(count)))


@pytest.mark.parametrize("seed", range(12))
def test_a_generous_budget_finds_the_optimum_of_a_small_problem(seed: int) -> None:
    replay = random_project(seed, tasks=6 + seed % 2)
    assert searched(replay, 3000).value == best_over_all_lists(replay)


@pytest.mark.parametrize("objective", ["makespan", "flow_time"])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_schedule_is_valid_and_as_long_as_it_says(seed: int, objective: str) -> None:
    replay = random_project(seed, tasks=40)
    search = searched(replay, 300, objective=objective)
    schedule, finish = follow(replay, plan_from_starts(replay, search.start))
    validate(schedule)
    assert finish.max() <= search.value


def test_slices_change_nothing() -> None:
    replay = random_project(3, tasks=60)
    whole, cut = searched(replay, 900), searched(replay, 900, slices=37)
    assert whole.start.tobytes() == cut.start.tobytes()
    assert whole.schedules == cut.schedules


def test_seeds_differ_and_repeat() -> None:
    replay = random_project(5, tasks=80)
    first, again, other = (starts(replay, seed) for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def starts(replay: Replay, seed: int) -> FloatArray:
    return searched(replay, 200, seed=seed).start


def test_it_never_generates_more_schedules_than_the_limit() -> None:
    replay = random_project(8, tasks=60)
    for limit in (1, 2, 3, 50):
        assert searched(replay, limit).schedules <= limit


def test_search_ends_at_the_bound() -> None:
    from dagsched.cluster import Cluster
    from dagsched.task import Task

    from ..handmade import one_workflow

    replay = one_workflow([Task("a", 3.0, {"cpu": 1}), Task("b", 3.0, {"cpu": 1})], Cluster.pooled({"cpu": 2}))
    search = searched(replay, 1000)
    assert (search.value, search.schedules) == (3.0, 1)
