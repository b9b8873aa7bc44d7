"""Compiled replays: decisions per second, growth with tasks and nodes; critical-path rule, one core."""

from __future__ import annotations

import time

import numpy as np
from numba import njit

from dagsched.cluster import Cluster
from dagsched.policies.registry import make_policy
from dagsched.policies.runners import PriorityPolicy, new_buckets
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator import Simulator, kernel
from dagsched.workload import Workload
from tests.bench.data import forty_groups, four_groups, four_pools, layered, wide
from tests.bench.figure import Figure

MANY = 2**62
RULE = "critical-path"


@njit(nogil=True)
def replay_many(problem, state, truth, buckets, times):  # type: ignore[no-untyped-def]
    """The same replay ``times`` over, all inside compiled code, as a planner or a trainer would run it."""
    for _ in range(times):
        kernel.reset(problem, state)
        kernel.reset_buckets(buckets)
        kernel.run_by_priority(problem, state, truth, buckets, MANY)


def seconds_per_decision(workload: Workload, cluster: Cluster, *, rounds: int = 7) -> float:
    """Best of ``rounds`` of about 0.2 s each, divided by all decisions (WAIT included)."""
    replay = Replay.build(workload, cluster)
    schedule = simulate(replay, RULE)
    simulator = Simulator(replay)
    while len(simulator.state.alloc) < len(schedule.task) + simulator.problem.node_group.size:
        simulator.grow()
    policy = make_policy(RULE)
    assert isinstance(policy, PriorityPolicy)
    assert policy.key is not None
    buckets = new_buckets(simulator.problem, policy.key(replay, simulator.problem))
    arguments = simulator.problem, simulator.state, simulator.truth, buckets
    replay_many(*arguments, 1)
    assert simulator.done
    assert np.array_equal(simulator.schedule(RULE).start, schedule.start)
    began = time.perf_counter()
    replay_many(*arguments, 1)
    times = max(1, round(0.2 / (time.perf_counter() - began)))
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        replay_many(*arguments, times)
        best = min(best, (time.perf_counter() - began) / times)
    return best / len(schedule.decision_task)


def measure() -> list[Figure]:
    """Decisions per second at 100 and 1,000 tasks on 4 groups, of several nodes each and of one node each."""
    figures = []
    clusters = (("", four_groups(), "14 nodes"), ("_pooled", four_pools(), "one node a group"))
    for suffix, cluster, nodes in clusters:
        for tasks, target in ((100, 10e6), (1000, 3e6)):
            rate = 1 / seconds_per_decision(layered(tasks, seed=1), cluster)
            note = f"{RULE}, 4 groups, {nodes}, cpu + memory"
            figures.append(Figure(f"decisions_per_second_{tasks}_tasks{suffix}", rate, target, "higher", note))
    return figures


def measure_growth() -> list[Figure]:
    """Seconds per decision at 100,000 tasks, half of them ready at once, over that at 1,000."""
    small = seconds_per_decision(wide(1_000, seed=1), four_groups())
    large = seconds_per_decision(wide(100_000, seed=1), four_groups(), rounds=3)
    return [
        Figure("seconds_per_decision_1k_wide", small),
        Figure("seconds_per_decision_100k_wide", large),
        Figure("growth_100k_over_1k", large / small, 5, "lower", "50,000 ready at once, 64 demand vectors"),
    ]


def measure_nodes() -> list[Figure]:
    """Seconds per decision on 2,000 nodes over that on 40 nodes, both in 40 groups."""
    workload = layered(1_000, seed=1, width=0.2)
    few = seconds_per_decision(workload, forty_groups(1))
    many = seconds_per_decision(workload, forty_groups(50))
    return [
        Figure("seconds_per_decision_40_nodes", few),
        Figure("seconds_per_decision_2000_nodes", many),
        Figure("growth_2000_over_40_nodes", many / few, 2, "lower", "40 groups each, 1,000 tasks"),
    ]
