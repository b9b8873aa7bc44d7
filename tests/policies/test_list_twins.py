"""HEFT, CPoP and PEFT against the papers in plain Python, on graphs where a wrong path or tie would show."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup, default_cluster
from dagsched.errors import DagschedError, InvalidReplayError
from dagsched.formats.loading import load
from dagsched.graph import mean_estimate, mean_transfer, upward_rank
from dagsched.policies.static.listing import ListPlanner
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate
from dagsched.task import Task
from dagsched.workflow import Workflow, child_rows
from dagsched.workload import Workload

from ..data import data_files, needs_data
from ..handmade import one_workflow
from ..twin import lists
from .test_listing import random_replay

KINDS = {"heft": lists.heft, "cpop": lists.cpop, "peft": lists.peft}
SIZES = ((1, 1), (1, 2), (2, 2), (1, 1, 2), (1, 3), (2, 1, 1), (1,), (3,))


def drawn_edges(rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
    """Chains that join and part, with up to three edges more that skip tasks."""
    edges = {(t - 1 if rng.random() < 0.6 else int(rng.integers(0, t)), t) for t in range(1, count) for _ in range(2)}
    for _ in range(int(rng.integers(1, 4))):
        a, b = sorted(rng.choice(count, 2, replace=False).tolist())
        edges.add((a, b))
    return sorted(edges)


def drawn_workflow(rng: np.random.Generator, name: str, groups: int, *, rough: bool) -> Workflow:
    """Three to ten tasks, some of them milestones or of several instances; few distinct numbers unless rough."""

    def amount(least: int) -> float:
        return float(rng.uniform(least, 60)) if rough else 12.0 * int(rng.integers(0, 4))

    edges, tasks, resting = drawn_edges(rng, count := int(rng.integers(3, 11))), [], set()
    for t in range(count):
        parents = [f"t{a}" for a, b in edges if b == t]
        if rng.random() < 0.1:
            resting.add(f"t{t}")
            tasks.append(Task(f"t{t}", 0.0, {}, parents))
            continue
        seconds = [amount(1) for _ in range(groups)]
        tasks.append(
            Task(
                f"t{t}",
                seconds[0],
                {"cpu": float(rng.integers(1, 3))},
                parents,
                edge_bytes={parent: amount(0) for parent in parents if parent not in resting},
                group_durations={f"g{g}": s for g, s in enumerate(seconds)},
                instances=int(rng.integers(1, 4)) if rng.random() < 0.15 and all(seconds) else 1,
            )
        )
    return Workflow.from_tasks(name, tasks)


def drawn_replay(seed: int, *, rough: bool) -> Replay:
    """One to three workflows on one to three groups; some groups hold only tasks of one core.

    The even ones have multiples of 12 seconds and at most 4 nodes, so that no mean is rounded and ties abound.
    """
    rng = np.random.default_rng([seed, rough])
    sizes = SIZES[int(rng.integers(0, len(SIZES)))]
    groups = tuple(NodeGroup(f"g{g}", n, {"cpu": float(rng.integers(1 if g else 2, 4))}) for g, n in enumerate(sizes))
    slow = rng.random() < 0.8
    cluster = Cluster(
        groups, bandwidth=1.0 if slow else np.inf, latency=float(rng.choice([0.0, 12.0])) if slow else 0.0
    )
    made = [drawn_workflow(rng, f"w{k}", len(sizes), rough=rough) for k in range(int(rng.choice([1, 1, 2, 3])))]
    return Replay.build(Workload("drawn", tuple(made)), cluster)


def assert_as_the_paper_says(kind: str, replay: Replay) -> None:
    found = ListPlanner(kind, replay).plan_arrivals(range(len(replay.workflows)), 0.0)
    rows = zip(found.task.tolist(), found.node.tolist(), found.count.tolist(), found.start.tolist(), strict=True)
    single = sorted((t, n, s) for t, n, count, s in rows for _ in range(count))
    twin = sorted(KINDS[kind](replay))
    assert [row[:2] for row in single] == [row[:2] for row in twin]
    assert [row[2] for row in single] == pytest.approx([row[2] for row in twin], rel=1e-9)


@pytest.mark.parametrize("rough", [False, True], ids=["ties", "rough"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_plans_are_those_of_the_papers_on_200_graphs_with_shortcuts(kind: str, rough: bool) -> None:
    for seed in range(200):
        replay = drawn_replay(seed, rough=rough)
        assert_as_the_paper_says(kind, replay)
        validate(simulate(replay, kind))


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("seed", range(12))
def test_plans_are_those_of_the_papers_with_two_resources_and_many_instances(kind: str, seed: int) -> None:
    assert_as_the_paper_says(kind, random_replay(seed, transfers=seed % 3 > 0, even=True))


def test_the_drawn_graphs_have_shortcuts_that_look_as_good_by_priority() -> None:
    """What the walk by priority would take; without such graphs the tests above would prove nothing of CPoP's path."""
    tempting = 0
    for seed in range(200):
        replay = drawn_replay(seed, rough=False)
        twin = lists.Lists(replay)
        for workflow in range(len(replay.workflows)):
            path = twin.critical_path(workflow)
            later = {task: path[k + 2 :] for k, task in enumerate(path)}
            tempting += any(child in later[task] for task in path for child in twin.children[task])
    assert tempting > 80


def shortcut(middle: str, last: str) -> list[Task]:
    """a -> middle -> last, and an edge from a to last; mean costs 2.5, 7, 2.5, transfers 10, 10 and 1 s."""

    def task(name: str, p0: float, p1: float, **more: object) -> Task:
        return Task(name, p0, group_durations={"P0": p0, "P1": p1}, **more)

    return [
        task("a", 2.0, 3.0),
        task(middle, 9.0, 5.0, parents=["a"], edge_bytes={"a": 10.0}),
        task(last, 2.0, 3.0, parents=["a", middle], edge_bytes={"a": 1.0, middle: 10.0}),
    ]


TWO = Cluster((NodeGroup("P0", 1, {"cpu": 1}), NodeGroup("P1", 1, {"cpu": 1})), bandwidth=1.0)


@pytest.mark.parametrize(("middle", "last"), [("b", "c"), ("c", "b")])
def test_cpop_walks_the_longest_path_whatever_the_ids(middle: str, last: str) -> None:
    """All three tasks are critical (2.5 + 10 + 7 + 10 + 2.5 s), on P1: 3 + 5 + 3; by the shortcut c ends at 13."""
    replay = one_workflow(shortcut(middle, last), TWO)
    schedule = simulate(replay, "cpop")
    validate(schedule)
    assert schedule.makespan == 11
    path = ListPlanner("cpop", replay).critical_path(np.arange(3))
    assert [replay.task_name(task)[1] for task in path.tolist()] == ["a", middle, last]


def test_priorities_that_differ_by_rounding_alone_are_ties() -> None:
    """Both chains take 0.6 s. As floats 0.1 + 0.2 is more than 0.3, which put z, third of its chain, before t.

    One core. All priorities are 0.6 and the ranks p 0.6, q 0.5, z 0.3, s 0.6, t 0.3: larger rank, then id.
    """
    tasks = [
        Task("p", 0.1),
        Task("q", 0.2, parents=["p"]),
        Task("z", 0.3, parents=["q"]),
        Task("s", 0.3),
        Task("t", 0.3, parents=["s"]),
    ]
    replay = one_workflow(tasks, Cluster.pooled({"cpu": 1}))
    found = ListPlanner("cpop", replay).plan_arrivals([0], 0.0)
    assert [replay.task_name(task)[1] for task in found.task.tolist()] == ["p", "s", "q", "t", "z"]


def test_the_mean_of_equal_transfers_is_that_transfer() -> None:
    """12 bytes at 1 byte/s take 12 s; ten pairs of nodes of a tenth each used to make 11.999999999999998."""
    groups = tuple(NodeGroup(f"g{k}", n, {"cpu": 1}) for k, n in enumerate((2, 1, 1)))
    tasks = [Task("a", 1.0), Task("b", 1.0, parents=["a"], edge_bytes={"a": 12.0})]
    replay = one_workflow(tasks, Cluster(groups, bandwidth=1.0, latency=0.001))
    assert mean_transfer(replay).tolist() == [12.001]


def path_length(replay: Replay, path: list[int]) -> float:
    """Seconds of a path with mean costs and mean transfers."""
    child_ptr, child_idx, edge = child_rows(replay.parent_ptr, replay.parent_idx)
    transfer, total = mean_transfer(replay)[edge], float(mean_estimate(replay)[path].sum())
    for a, b in pairwise(path):
        children = child_idx[child_ptr[a] : child_ptr[a + 1]].tolist()
        total += float(transfer[child_ptr[a] + children.index(b)])
    return total


SLOW = Cluster(
    (NodeGroup("a", 2, {"cpu": 16, "memory": 1e13}), NodeGroup("b", 4, {"cpu": 8, "memory": 1e13}, 2.0)),
    bandwidth=1e7,
    latency=0.1,
    name="slow",
)


@needs_data
@pytest.mark.parametrize("name", ["default", "small", "slow"])
def test_the_path_of_cpop_is_the_critical_path_of_every_recorded_workflow(name: str) -> None:
    cluster = SLOW if name == "slow" else default_cluster(name)
    seen = 0
    for file in data_files("wfinstances/*/*.json"):
        try:
            workloads = load(file)
        except DagschedError:  # a recorded cycle; the readers' own tests say so
            continue
        for workload in workloads:
            try:
                replay = Replay.build(workload, cluster)
            except InvalidReplayError:  # a task larger than any node
                continue
            planner = ListPlanner("cpop", replay)
            for first, last in zip(replay.workflow_ptr[:-1], replay.workflow_ptr[1:], strict=True):
                path = planner.critical_path(np.arange(first, last)).tolist()
                assert path_length(replay, path) == pytest.approx(upward_rank(replay)[first:last].max(), rel=1e-9)
                seen += 1
    assert seen > 50
