"""Compiled replays: decisions per second, growth with tasks and nodes; critical-path rule, one core."""

from __future__ import annotations

import time

from dagsched.cluster import Cluster
from dagsched.policies.registry import make_policy
from dagsched.replay import Replay
from dagsched.simulator import Simulator, warmup
from dagsched.workload import Workload
from tests.bench.data import forty_groups, four_groups, layered, wide
from tests.bench.figure import Figure

MANY = 2**62
RULE = "critical-path"


def seconds_per_decision(workload: Workload, cluster: Cluster, *, budget: float = 2.0, least: int = 5) -> float:
    """Best time of one compiled run, begin to end, divided by its decisions (WAIT included).

    Preparing the policy is left out: a planner or a trainer prepares once and replays many times.
    """
    replay = Replay.build(workload, cluster)
    policy = make_policy(RULE)
    simulator = Simulator(replay)
    best = float("inf")
    end = time.perf_counter() + budget
    runs = 0
    while runs < least or time.perf_counter() < end:
        simulator.reset()
        run = policy.begin(simulator)
        began = time.perf_counter()
        run(MANY)
        best = min(best, time.perf_counter() - began)
        runs += 1
    assert simulator.done
    return best / len(simulator.schedule(RULE).decision_task)


def measure() -> list[Figure]:
    """Decisions per second at 100 and 1,000 tasks on 4 groups."""
    warmup()
    figures = []
    for tasks, target in ((100, 10e6), (1000, 3e6)):
        rate = 1 / seconds_per_decision(layered(tasks, seed=1), four_groups())
        note = f"{RULE}, 4 groups, 14 nodes, cpu + memory, best run"
        figures.append(Figure(f"decisions_per_second_{tasks}_tasks", rate, target, "higher", note))
    return figures


def measure_growth() -> list[Figure]:
    """Seconds per decision at 100,000 tasks, half of them ready at once, over that at 1,000."""
    warmup()
    small = seconds_per_decision(wide(1_000, seed=1), four_groups())
    large = seconds_per_decision(wide(100_000, seed=1), four_groups(), least=3)
    return [
        Figure("seconds_per_decision_1k_wide", small),
        Figure("seconds_per_decision_100k_wide", large),
        Figure("growth_100k_over_1k", large / small, 5, "lower", "50,000 ready at once, 64 demand vectors"),
    ]


def measure_nodes() -> list[Figure]:
    """Seconds per decision on 2,000 nodes over that on 40 nodes, both in 40 groups."""
    warmup()
    workload = layered(1_000, seed=1, width=0.2)
    few = seconds_per_decision(workload, forty_groups(1))
    many = seconds_per_decision(workload, forty_groups(50))
    return [
        Figure("seconds_per_decision_40_nodes", few),
        Figure("seconds_per_decision_2000_nodes", many),
        Figure("growth_2000_over_40_nodes", many / few, 2, "lower", "40 groups each, 1,000 tasks"),
    ]
