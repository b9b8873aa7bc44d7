"""Generators: shapes, determinism, arrival rates and deadlines worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup, default_cluster
from dagsched.errors import ConfigError
from dagsched.generate import (
    TaskMix,
    deadlines,
    fan_in,
    fork_join,
    layered,
    poisson,
    poisson_arrivals,
    poisson_rate,
    random_workload,
    with_deadlines,
)
from dagsched.replay import Replay
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def depth_of(workflow: Workflow) -> list[int]:
    depth = [0] * len(workflow)
    for task in workflow.topological_order:
        depth[task] = max((depth[p] + 1 for p in workflow.parents(task)), default=0)
    return depth


@pytest.mark.parametrize("seed", range(5))
def test_layered_tasks_lie_in_their_layer(seed: int) -> None:
    workflow = layered(rng(seed), tasks=57, layers=7, max_parents=4, skip=0.3)
    assert len(workflow) == 57
    assert [f"layer-{d + 1}" for d in depth_of(workflow)] == list(workflow.category)
    assert max(depth_of(workflow)) == 6
    assert np.diff(workflow.parent_ptr).max() <= 4
    Replay.build(Workload("w", (workflow,)), default_cluster())  # everything fits the shipped cluster


def test_fork_join_shape() -> None:
    workflow = fork_join(rng(), stages=2, width=3, spread=0)
    rows = [workflow.parents(v).tolist() for v in range(len(workflow))]
    assert rows == [[], [0], [0], [0], [1, 2, 3], [4], [4], [4], [5, 6, 7]]


def test_fan_in_is_ready_all_at_once_with_few_kinds_of_demand() -> None:
    workflow = fan_in(rng(), tasks=2000, ready=1000, kinds=64)
    assert int((np.diff(workflow.parent_ptr) == 0).sum()) == 1000
    assert len(np.unique(workflow.demand, axis=0)) == 64
    Replay.build(Workload("w", (workflow,)), default_cluster())


def test_the_same_seed_gives_the_same_workload_and_more_workflows_keep_the_first() -> None:
    few, many = (random_workload("layered", rng(4), count=count, tasks=20) for count in (3, 9))
    assert [w.digest for w in many.workflows[:3]] == [w.digest for w in few.workflows]
    assert few.workflows[0].name == "layered-001"
    assert random_workload("layered", rng(5), count=3, tasks=20).digest != few.digest


def two_jobs(cpu: float = 2.0) -> Workload:
    def job(name: str, seconds: float) -> Workflow:
        return Workflow.from_tasks(name, [Task("a", seconds, {"cpu": cpu, "memory": 10.0}, instances=3)])

    return Workload("two", (job("a", 10), job("b", 30)))


CLUSTER = Cluster(
    (NodeGroup("slow", 2, {"cpu": 4, "memory": 100}), NodeGroup("fast", 1, {"cpu": 4, "memory": 100}, 3.0))
)


def test_poisson_rate_by_hand() -> None:
    # cpu: supply 2*4*1 + 4*3 = 20; mean area 3 * 2 * 20 = 120; memory: 500 / (3 * 10 * 20 = 600)
    assert poisson_rate(two_jobs(), CLUSTER, 0.9) == pytest.approx(0.9 * 20 / 120)
    assert poisson_rate(two_jobs(0.1), CLUSTER, 0.9) == pytest.approx(0.9 * 500 / 600)


def test_poisson_intervals_have_the_mean_of_the_rate() -> None:
    workload = random_workload("layered", rng(), count=400, tasks=3)
    moved = poisson(workload, default_cluster(), 0.8, rng(1))
    times = [w.arrival for w in moved.workflows]
    mean = 1 / poisson_rate(workload, default_cluster(), 0.8)
    assert times == sorted(times)
    assert times[-1] / len(times) == pytest.approx(mean, rel=4 / math.sqrt(len(times)))
    assert sorted(w.name for w in moved.workflows) == [w.name for w in workload.workflows]
    assert [w.name for w in moved.workflows] != [w.name for w in workload.workflows]


def test_arrivals_and_deadlines_do_not_depend_on_input_order() -> None:
    workload = random_workload("layered", rng(), count=12, tasks=5)
    other = workload.with_workflows(workload.workflows[::-1])

    def facts(given: Workload) -> dict[str, tuple[float, float | None]]:
        dated = with_deadlines(poisson_arrivals(given, 0.7, seed=2), "tight", seed=3)
        return {w.name: (w.arrival, w.deadline) for w in dated.workflows}

    assert facts(workload) == facts(other)


def test_deadlines_by_hand() -> None:
    chain = Workflow.from_tasks(
        "w", [Task("a", 9, {"cpu": 1}, estimate=6), Task("b", 3, {"cpu": 1}, ["a"])], arrival=5.0
    )
    dated = deadlines(Workload("w", (chain,)), CLUSTER, 1.5, rng())
    assert dated.workflows[0].deadline == pytest.approx(5 + 1.5 * (6 + 3) / 3)  # estimates, at speed 3
    tight = [deadlines(Workload("w", (chain,)), CLUSTER, "tight", rng(s)).workflows[0].deadline for s in range(20)]
    assert all(5 + 1.2 * 3 <= d <= 5 + 2 * 3 for d in tight if d is not None)
    assert len(set(tight)) == 20


def test_moving_an_arrival_moves_its_deadline() -> None:
    workload = with_deadlines(two_jobs(), 2.0, cluster=CLUSTER)
    moved = poisson(workload, CLUSTER, 0.5, rng())
    assert sorted(w.deadline - w.arrival for w in moved.workflows if w.deadline is not None) == pytest.approx(
        sorted(w.deadline for w in workload.workflows if w.deadline is not None)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layered(rng(), tasks=0), "tasks is 0, expected a whole number from 1"),
        (lambda: layered(rng(), tasks=5, layers=6), "layers is 6, expected a whole number from 1 to 5"),
        (lambda: layered(rng(), skip=1.5), "skip is 1.5, expected a number >= 0 and <= 1"),
        (lambda: layered(7), "rng is int, expected numpy.random.default_rng"),
        (lambda: fork_join(rng(), width=True), "width is True"),
        (lambda: fork_join(rng(), stages=10**5, width=100), "expected at most 1000000 tasks"),
        (lambda: fan_in(rng(), tasks=10, ready=11), "ready is 11"),
        (lambda: TaskMix(sigma=math.nan), "sigma is nan, expected a number >= 0"),
        (lambda: TaskMix(cores=()), "cores is empty"),
        (lambda: TaskMix(bytes_per_core=(2, 1)), "bytes_per_core is"),
        (lambda: random_workload("pipeline", rng()), "kind of workflow 'pipeline' is not known"),
        (
            lambda: random_workload("layered", rng(), width=3),
            "layered has no parameter 'width', expected tasks, layers",
        ),
        (lambda: poisson_rate(two_jobs(), CLUSTER, 0), "load is 0, expected a number > 0"),
        (
            lambda: poisson_rate(two_jobs(), Cluster.pooled({"cpu": 9}), 1),
            "'memory', which cluster 'pool' does not have",
        ),
        (lambda: with_deadlines(two_jobs(), "loose", cluster=CLUSTER), "deadlines is 'loose', expected 'tight'"),
        (lambda: with_deadlines(two_jobs(), -1, cluster=CLUSTER), "deadlines is -1, expected a number > 0"),
    ],
)
def test_bad_parameters_are_named(call: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        call()
