from __future__ import annotations

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import PolicyError
from dagsched.graph import lower_bound, upward_rank
from dagsched.policies.static.listing import ListPlanner
from dagsched.policies.static.optimistic import optimistic_costs
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload

from ..handmade import many_workflows, one_workflow, two_groups

SECONDS = {
    1: (14, 16, 9),
    2: (13, 19, 18),
    3: (11, 13, 19),
    4: (13, 8, 17),
    5: (12, 13, 10),
    6: (13, 16, 9),
    7: (7, 15, 11),
    8: (5, 11, 14),
    9: (18, 12, 20),
    10: (21, 7, 16),
}
TRANSFER = {
    (1, 2): 18,
    (1, 3): 12,
    (1, 4): 9,
    (1, 5): 11,
    (1, 6): 14,
    (2, 8): 19,
    (2, 9): 16,
    (3, 7): 23,
    (4, 8): 27,
    (4, 9): 23,
    (5, 9): 13,
    (6, 8): 15,
    (7, 10): 17,
    (8, 10): 11,
    (9, 10): 13,
}


@pytest.fixture
def paper() -> Replay:
    """Figure 2 and table 1 of Topcuoglu, Hariri and Wu 2002: ten tasks on three processors."""
    tasks = [
        Task(
            str(task),
            float(seconds[0]),
            parents=[str(a) for a, b in TRANSFER if b == task],
            edge_bytes={str(a): float(size) for (a, b), size in TRANSFER.items() if b == task},
            group_durations={f"P{k + 1}": float(s) for k, s in enumerate(seconds)},
        )
        for task, seconds in SECONDS.items()
    ]
    groups = tuple(NodeGroup(f"P{k}", 1, {"cpu": 1}) for k in (1, 2, 3))
    return one_workflow(tasks, Cluster(groups, bandwidth=1.0))


def plan(replay: Replay, kind: str) -> tuple[ListPlanner, dict[int, tuple[int, float]]]:
    """The planner and, by task, (node, start)."""
    planner = ListPlanner(kind, replay)
    found = planner.plan_arrivals(range(len(replay.workflows)), 0.0)
    rows = zip(found.task.tolist(), found.node.tolist(), found.start.tolist(), strict=True)
    return planner, {task: (node, start) for task, node, start in rows}


def random_replay(
    seed: int,
    *,
    transfers: bool = True,
    instances: bool = True,
    workflows: int = 2,
    bulk: bool = False,
    even: bool = False,
) -> Replay:
    """Six nodes in three groups; ``bulk`` allows tasks of many instances and no duration.

    For those the kernel keeps room for all instances of an entry at once, its plain twin for each alone. ``even``:
    four nodes and multiples of 12, so that means are not rounded and ties are ties.
    """
    rng = np.random.default_rng(seed)
    made, unit = [], 12.0 if even else 1.0
    for w in range(workflows):
        tasks: list[Task] = []
        for t in range(int(rng.integers(5, 25))):
            parents = sorted({int(p) for p in rng.integers(0, t, min(t, int(rng.integers(0, 4))))}) if t else []
            rest = rng.random() < 0.1
            seconds = 0.0 if rest else float(rng.choice([0.0, *rng.integers(1, 9, 4)]))
            demand = {} if rest else {"cpu": float(rng.integers(0, 4)), "mem": round(float(rng.uniform(0, 3)), 1)}
            carried = {p: float(rng.integers(0, 9)) for p in parents if seconds and tasks[p].duration}
            tasks.append(
                Task(
                    f"t{t}",
                    seconds * unit,
                    demand,
                    [f"t{p}" for p in parents],
                    instances=int(rng.integers(1, 7))
                    if instances and rng.random() < 0.3 and (seconds or (bulk and not rest))
                    else 1,
                    edge_bytes={f"t{p}": size * unit for p, size in carried.items()},
                )
            )
        made.append(Workflow.from_tasks(f"w{w}", tasks, resources=["cpu", "mem"]))
    groups = (
        NodeGroup("slow", 2, {"cpu": 4, "mem": 4}),
        NodeGroup("fast", 1 if even else 3, {"cpu": 3, "mem": 3}, 2.0),
        NodeGroup("big", 1, {"cpu": 8, "mem": 2.5}, 4.0 if even else 1.5),
    )
    cluster = Cluster(groups, bandwidth=2.0 if transfers else np.inf, latency=0.5 if transfers else 0.0)
    return Replay.build(Workload("random", tuple(made)), cluster)


def test_upward_ranks_are_the_published_ones(paper: Replay) -> None:
    published = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert upward_rank(paper) == pytest.approx(published, abs=1e-3)


def test_heft_gives_the_published_schedule(paper: Replay) -> None:
    planner, placed = plan(paper, "heft")
    assert planner.finish.max() == 80
    processors = [{task + 1 for task, (node, _) in placed.items() if node == p} for p in range(3)]
    assert processors == [{2, 8}, {4, 6, 9, 10}, {1, 3, 5, 7}]
    assert simulate(paper, "heft").makespan == 80


def test_cpop_gives_the_published_makespan_with_the_critical_path_on_processor_2(paper: Replay) -> None:
    planner, placed = plan(paper, "cpop")
    assert planner.finish.max() == 86
    assert {placed[task - 1][0] for task in (1, 2, 9, 10)} == {1}


def test_optimistic_cost_of_a_chain_counts_the_cheaper_of_moving_and_staying() -> None:
    tasks = [
        Task("a", 1.0, group_durations={"slow": 1.0, "fast": 1.0}),
        Task("b", 9.0, parents=["a"], edge_bytes={"a": 3.0}, group_durations={"slow": 9.0, "fast": 2.0}),
        Task("c", 4.0, parents=["b"], edge_bytes={"b": 1.0}, group_durations={"slow": 4.0, "fast": 5.0}),
    ]
    table = optimistic_costs(one_workflow(tasks, two_groups(bandwidth=1.0)))
    # c: 0. b: staying 4 or moving 1 + 5 from slow; staying 5 or moving 1 + 4 from fast.
    # a from slow: min(9 + 4, 3 + 2 + 5) = 10; from fast: min(2 + 5, 3 + 9 + 4) = 7.
    assert table.tolist() == [[10, 7], [4, 5], [0, 0]]


def test_peft_looks_ahead_where_heft_does_not() -> None:
    """The entry finishes first on the slow node, but all that follows is far faster on the other."""
    tasks = [
        Task("a", 1.0, group_durations={"slow": 1.0, "fast": 2.0}),
        Task("b", 9.0, parents=["a"], edge_bytes={"a": 10.0}, group_durations={"slow": 9.0, "fast": 2.0}),
    ]
    replay = one_workflow(tasks, two_groups(bandwidth=1.0))
    assert plan(replay, "heft")[0].finish.max() == 10
    assert plan(replay, "peft")[0].finish.max() == 4


def test_a_short_task_goes_into_the_gap_before_a_transfer_ends() -> None:
    tasks = [
        Task("a", 2.0, group_durations={"slow": 2.0, "fast": 20.0}),
        Task("b", 8.0, parents=["a"], edge_bytes={"a": 5.0}, group_durations={"slow": 90.0, "fast": 8.0}),
        Task("c", 3.0, group_durations={"slow": 99.0, "fast": 3.0}),
    ]
    _, placed = plan(one_workflow(tasks, two_groups(cpu=1, bandwidth=1.0)), "heft")
    assert placed == {0: (0, 0.0), 1: (1, 7.0), 2: (1, 0.0)}


def test_instances_fill_the_nodes_one_by_one() -> None:
    """Five instances of 6 s (3 s on the fast node), two at a time; at 6 s all ends tie, lower node first."""
    replay = one_workflow([Task("a", 6.0, instances=5)], two_groups())
    found = ListPlanner("heft", replay).plan_arrivals([0], 0.0)
    rows = set(zip(found.node.tolist(), found.count.tolist(), found.start.tolist(), strict=True))
    assert rows == {(1, 2, 0.0), (0, 2, 0.0), (1, 1, 3.0)}


def test_later_arrivals_are_planned_around_earlier_plans() -> None:
    first = Workflow.from_tasks("first", [Task("a", 4.0), Task("b", 4.0, parents=["a"])])
    second = Workflow.from_tasks("second", [Task("c", 3.0, {"cpu": 2})], arrival=1.0)
    replay = many_workflows([first, second], Cluster.pooled({"cpu": 2}))
    planner = ListPlanner("heft", replay)
    assert planner.plan_arrivals([0], 0.0).start.tolist() == [0, 4]
    assert planner.plan_arrivals([1], 1.0).start.tolist() == [8]
    assert simulate(replay, "heft").makespan == 11


def test_each_workflow_of_a_batch_gets_its_own_critical_node() -> None:
    workflows = [Workflow.from_tasks(f"w{k}", [Task("a", 5.0), Task("b", 5.0, parents=["a"])]) for k in range(3)]
    replay = many_workflows(workflows, Cluster((NodeGroup("n", 3, {"cpu": 1}),)))
    assert plan(replay, "cpop")[0].finish.max() == 10


def test_milestones_take_no_place_and_pass_on_the_time() -> None:
    tasks = [Task("a", 3.0), Task("b", 0.0, {}, ["a"]), Task("c", 2.0, parents=["b"])]
    planner, placed = plan(one_workflow(tasks, Cluster.pooled({"cpu": 1})), "heft")
    assert placed == {0: (0, 0.0), 2: (0, 3.0)}
    assert planner.finish.tolist() == [3, 3, 5]


@pytest.mark.parametrize("kind", ["heft", "cpop", "peft"])
@pytest.mark.parametrize("seed", range(100, 112))
def test_simulated_plans_are_valid_and_never_late(kind: str, seed: int) -> None:
    replay = random_replay(seed, workflows=4, bulk=True)
    planner = plan(replay, kind)[0]
    schedule = simulate(replay, kind)
    validate(schedule)
    assert (schedule.task_finish <= planner.finish * (1 + 1e-9)).all()


def test_profiles_keep_working_over_thousands_of_bookings() -> None:
    """Enough tasks on one node that its profile moves and grows in the pool several times."""
    rng = np.random.default_rng(3)
    tasks = [
        Task(str(t), float(rng.uniform(1, 9)), {"cpu": float(rng.integers(1, 4)), "mem": float(rng.uniform(0, 2))})
        for t in range(3000)
    ]
    groups = (NodeGroup("a", 1, {"cpu": 16, "mem": 8}), NodeGroup("b", 2, {"cpu": 4, "mem": 4}))
    replay = one_workflow(tasks, Cluster(groups))
    schedule = simulate(replay, "heft")
    validate(schedule)
    assert schedule.makespan < 1.1 * lower_bound(replay)


def test_estimates_alone_decide() -> None:
    replay = random_replay(7)
    other = replay.with_durations(replay.duration[:, ::-1] * 3 + 1)
    for kind in ("heft", "cpop", "peft"):
        assert plan(replay, kind)[1] == plan(other, kind)[1]


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(PolicyError, match="heft, cpop, peft"):
        ListPlanner("hefty", random_replay(0))


def test_entries_come_in_topological_order() -> None:
    replay = one_workflow(
        [Task("z", 0.0, parents=["y"]), Task("y", 0.0, parents=["x"]), Task("x", 0.0)], Cluster.pooled({"cpu": 1})
    )
    found = ListPlanner("heft", replay).plan_arrivals([0], 0.0)
    names = [replay.task_name(task)[1] for task in found.task.tolist()]
    assert names == ["x", "y", "z"]
