"""Lists planned anew at every event: the expected remaining time against scipy, what it may see, when it is used."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from scipy.stats import lognorm

from dagsched.cluster import Cluster
from dagsched.policies.registry import make_policy
from dagsched.replay import Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.schedule import WAIT, Schedule
from dagsched.search import reactive_list
from dagsched.search.base_policies import RACED
from dagsched.search.mcts import MctsPolicy
from dagsched.search.race_decider import ListDecider
from dagsched.search.stepwise import StepwiseRun
from dagsched.simulator.stepper import Simulator
from dagsched.simulator.validate import validate
from dagsched.task import Task
from tests.policies.leak import check_leak, decided_before

from ..handmade import one_workflow
from ..policies.test_sampling import random_project

_left = reactive_list.expected_left


@njit
def expected_left(elapsed: float, estimate: float, sigma: float) -> float:
    return _left(elapsed, estimate, sigma)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("elapsed", [1.0, 8.0, 10.0, 13.0])
def test_remaining_time_is_the_mean_of_the_truncated_lognormal(sigma: float, elapsed: float) -> None:
    """A task of 10 s on average that has run for so long; scipy integrates the density beyond."""
    whole = lognorm(sigma, scale=10.0 * math.exp(-0.5 * sigma**2))
    mean = whole.expect(lambda x: x - elapsed, lb=elapsed, conditional=True, epsabs=1e-12)
    assert expected_left(elapsed, 10.0, sigma) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize(
    ("elapsed", "estimate", "sigma", "left"),
    [(0.0, 10.0, 0.5, 10.0), (4.0, 10.0, 0.0, 6.0), (1e9, 10.0, 0.1, 0.0), (2.0, 0.0, 0.3, -2.0)],
)
def test_remaining_time_at_the_edges(elapsed: float, estimate: float, sigma: float, left: float) -> None:
    assert expected_left(elapsed, estimate, sigma) == pytest.approx(left)


def noisy(seed: int, tasks: int = 40, sigma: float = 0.2) -> Replay:
    replay = random_project(seed, tasks)
    return Replay.build(replay.workload, replay.cluster, sigma=sigma, seed=seed)


def run(replay: Replay, spec: str) -> Schedule:
    schedule = simulate(replay, spec)
    validate(schedule)
    return schedule


def searcher(replay: Replay, options: str) -> StepwiseRun:
    """After its first decision."""
    policy = make_policy(f"mcts-rules:{options}")
    assert isinstance(policy, MctsPolicy)
    simulator = Simulator(replay)
    steps = policy.stepwise(simulator, "makespan")
    steps.advance(1)
    return steps


def room_left() -> Replay:
    """Two cores. r (1 s) comes before c (3 s on both), c before d (10 s); f (10 s) is free to start at once.

    Whoever starts f with r makes c wait for it: r 0-1, f 0-10, c 10-13, d 13-23. With room left c runs from 1 to 4,
    then d and f side by side: 14 s.
    """
    tasks = [
        Task("r", 1.0, {"cpu": 1}),
        Task("f", 10.0, {"cpu": 1}),
        Task("c", 3.0, {"cpu": 2}, ["r"]),
        Task("d", 10.0, {"cpu": 1}, ["c"]),
    ]
    return one_workflow(tasks, Cluster.pooled({"cpu": 2}))


@pytest.mark.parametrize("seed", range(5))
def test_room_is_left_for_what_comes_next(seed: int) -> None:
    exact = room_left()
    replay = Replay.build(exact.workload, exact.cluster, sigma=0.05, seed=seed)
    found = run(replay, "mcts-rules:simulations=40")
    assert found.makespan < 17.0
    assert WAIT in found.decision_task.tolist()
    for rule in RACED:
        assert run(replay, rule).makespan > 20.0


def test_what_runs_stays_where_it_is() -> None:
    """In every list what has finished or runs comes first and starts at the present moment."""
    looked = 0
    for seed in range(6):
        made = searcher(noisy(seed), "simulations=20")
        while isinstance(made.decider, ListDecider) and not made.simulator.done:
            made.advance(1)
            rolling = made.decider._rolling
            state, rest = made.simulator.state, rolling._rest
            started = ~np.isnan(state.task["start"][rest.order]) & (rest.pin > 0)
            looked += int(started.sum())
            assert (rolling._population.best_start[started] == rolling._seen).all()
    assert looked > 100


def test_no_decision_depends_on_a_hidden_duration() -> None:
    compared = sum(check_leak(noisy(seed), "mcts-rules:simulations=8", seed) for seed in range(15))
    assert compared > 100


def test_permuted_hidden_durations_change_nothing_before_they_show() -> None:
    compared = 0
    for seed in range(15):
        replay = noisy(seed)
        one = run(replay, "mcts-rules:simulations=8")
        busy = np.flatnonzero(replay.duration[:, 0] > 0)
        duration = replay.duration.copy()
        duration[busy] = duration[np.random.default_rng(seed).permutation(busy)]
        two = simulate(replay.with_durations(duration), "mcts-rules:simulations=8")
        until = min(s.finish[s.finish > s.start].min() for s in (one, two))
        assert decided_before(one, until) == decided_before(two, until)
        compared += len(decided_before(one, until)[0])
    assert compared > 15


def test_same_seed_same_schedule() -> None:
    for seed in range(4):
        one, two = (run(noisy(seed), "mcts-rules:simulations=12:seed=5") for _ in range(2))
        assert one.start.tobytes() == two.start.tobytes()
        assert one.decision_task.tobytes() == two.decision_task.tobytes()


def test_it_pays_on_projects_with_little_noise() -> None:
    """Mean makespan of twenty projects, against the best of the rules on each."""
    best, found = 0.0, 0.0
    for seed in range(20):
        replay = noisy(seed, sigma=0.1)
        best += min(simulate(replay, rule).makespan for rule in RACED)
        found += run(replay, "mcts-rules:simulations=40").makespan
    assert found < best


def test_without_a_budget_it_is_one_of_the_rules() -> None:
    for seed in range(4):
        replay = noisy(seed)
        found = run(replay, "mcts-rules:budget_ms=0")
        assert found.start.tobytes() in [simulate(replay, rule).start.tobytes() for rule in RACED]


def test_a_tiny_budget_gives_legal_actions() -> None:
    for budget in ("budget_ms=0.0001", "budget_ms=0.02", "simulations=1"):
        for seed in range(6):
            run(noisy(seed, sigma=1.0), f"mcts-rules:{budget}")
            run(noisy(seed, tasks=1), f"mcts-rules:{budget}")


@pytest.mark.parametrize(
    "changed",
    [
        lambda replay: (replay.with_options(SimulationOptions(max_wait=5.0)), ""),
        lambda replay: (replay.with_options(SimulationOptions(decision_interval=1.0)), ""),
        lambda replay: (replay, ":wait=0"),
        lambda replay: (replay, ":prior=lft"),
    ],
    ids=["starvation guard", "ticks", "no waiting", "a base by name"],
)
def test_elsewhere_it_is_a_race(changed: object) -> None:
    replay, options = changed(noisy(1))  # type: ignore[operator]
    assert not isinstance(searcher(replay, f"simulations=8{options}").decider, ListDecider)
    run(replay, f"mcts-rules:simulations=8{options}")


def test_much_noise_is_left_to_the_race() -> None:
    """At sigma = 2 estimates mean little; what leaves room for them loses to what starts whatever fits."""
    used = sum(
        isinstance(searcher(noisy(seed, sigma=2.0), "simulations=20").decider, ListDecider) for seed in range(10)
    )
    assert used < 5
