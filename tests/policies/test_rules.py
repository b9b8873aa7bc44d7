"""Each rule on a case small enough to work out by hand."""

from __future__ import annotations

import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.replay import Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.simulator import validate
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.handmade import one_workflow, two_groups
from tests.simulator.test_hand_worked import decisions, rows, run, stream
from tests.twin import NumpyDice, draw_replay

ONE = Cluster.pooled({"cpu": 1})


def order(replay: Replay, rule: str) -> list[str]:
    """Task ids in the order in which they are started, waits left out."""
    return [name for _, name in decisions(run(replay, rule)) if name != "WAIT"]


def independent(*seconds: float) -> Replay:
    """Tasks a, b, c, ... of the given durations on one cpu."""
    return one_workflow([Task("abcdefgh"[k], s) for k, s in enumerate(seconds)], ONE)


# --- directions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "expected"), [("sjf", "bca"), ("ljf", "acb")])
def test_sjf_runs_the_shortest_and_ljf_the_longest_first(rule: str, expected: str) -> None:
    assert order(independent(5, 1, 3), rule) == list(expected)


def test_fcfs_runs_what_became_ready_first() -> None:
    # c waits for a, so it is ready at 1; b is ready at 0.
    tasks = [Task("a", 1), Task("b", 1), Task("c", 5, parents=("a",))]
    assert order(one_workflow(tasks, ONE), "fcfs") == ["a", "b", "c"]
    assert order(one_workflow(tasks, ONE), "critical-path") == ["a", "c", "b"]


def test_critical_path_follows_the_longest_remaining_path() -> None:
    # a 1 + c 9 = 10 against b 5.
    tasks = [Task("a", 1), Task("b", 5), Task("c", 9, parents=("a",))]
    assert order(one_workflow(tasks, ONE), "critical-path") == ["a", "c", "b"]
    assert order(one_workflow(tasks, ONE), "ljf") == ["b", "a", "c"]


def test_mts_counts_each_descendant_once() -> None:
    # r has descendants s1, s2, t (a diamond: 3); q has u1, u2 (2), although longer.
    tasks = [
        Task("q", 9),
        Task("r", 1),
        Task("s1", 1, parents=("r",)),
        Task("s2", 1, parents=("r",)),
        Task("t", 1, parents=("s1", "s2")),
        Task("u1", 1, parents=("q",)),
        Task("u2", 1, parents=("u1",)),
    ]
    assert order(one_workflow(tasks, ONE), "mts")[0] == "r"


def test_lft_and_lst_differ_by_the_tasks_own_time() -> None:
    # Critical path 10 (x). y: bottom level 8, own 7, child z 1. w: bottom level 7, own 1, child v 6.
    # Latest starts: x 0, y 10 - 8 = 2, w 10 - 7 = 3. Latest finishes: x 10, y 9, w 4.
    tasks = [
        Task("x", 10),
        Task("y", 7),
        Task("z", 1, parents=("y",)),
        Task("w", 1),
        Task("v", 6, parents=("w",)),
    ]
    assert order(one_workflow(tasks, ONE), "lst")[:2] == ["x", "y"]
    assert order(one_workflow(tasks, ONE), "lft")[:2] == ["w", "y"]


def workflows(*parts: tuple[str, float, float | None, float, list[Task]]) -> Replay:
    """(name, arrival, deadline, weight, tasks) on one cpu."""
    made = [Workflow.from_tasks(n, t, arrival=a, deadline=d, weight=w) for n, a, d, w, t in parts]
    return Replay.build(Workload("hand", tuple(made)), ONE)


def test_edf_runs_the_earliest_deadline_and_breaks_ties_by_upward_rank() -> None:
    # w is due at 20, x at 9. Within x: c (rank 2 + 4 = 6) before d (rank 5), though d is longer.
    replay = workflows(
        ("w", 0, 20.0, 1, [Task("a", 8)]),
        ("x", 0, 9.0, 1, [Task("d", 5), Task("c", 2), Task("e", 4, parents=("c",))]),
        ("y", 0, None, 1, [Task("f", 30)]),
    )
    assert order(replay, "edf") == ["c", "d", "e", "a", "f"]


def test_llf_runs_the_least_laxity_first() -> None:
    # Laxity = deadline - bottom level: a 20 - 15 = 5, b 10 - 2 = 8, though b is due earlier.
    replay = workflows(("w", 0, 20.0, 1, [Task("a", 15)]), ("x", 0, 10.0, 1, [Task("b", 2)]))
    assert order(replay, "llf") == ["a", "b"]
    assert order(replay, "edf") == ["b", "a"]


def test_hrrn_weighs_waiting_against_length() -> None:
    # At 0 only p (4 s) is there. q (8 s) and r (1.5 s) arrive at 1 and 3.
    # At 4: q (3 + 8)/8 = 1.375, r (1 + 1.5)/1.5 = 1.67: r. At 5.5: only q.
    replay = stream(("p", 0, [Task("p", 4)]), ("q", 1, [Task("q", 8)]), ("r", 3, [Task("r", 1.5)]))
    assert order(replay, "hrrn") == ["p", "r", "q"]
    # With r of 4 s: r (1 + 4)/4 = 1.25 < 1.375: q, although r is shorter.
    replay = stream(("p", 0, [Task("p", 4)]), ("q", 1, [Task("q", 8)]), ("r", 3, [Task("r", 4)]))
    assert order(replay, "hrrn") == ["p", "q", "r"]
    assert order(replay, "sjf") == ["p", "r", "q"]


def test_round_robin_serves_the_workflow_served_least_recently() -> None:
    replay = workflows(
        ("w", 0, None, 1, [Task("a1", 5), Task("a2", 4), Task("a3", 3)]),
        ("x", 0, None, 1, [Task("b1", 2), Task("b2", 1)]),
    )
    assert order(replay, "round-robin") == ["a1", "b1", "a2", "b2", "a3"]


def test_weighted_fair_serves_the_workflow_with_least_service_per_weight() -> None:
    # Each task 2 s of the whole cpu; w has weight 2. Service / weight: w 0, x 0 -> w by tie (name); 1, 0 -> x;
    # 1, 2 -> w; 2, 2 -> tie: equal ranks, w; 3, 2 -> x.
    replay = workflows(
        ("w", 0, None, 2, [Task(f"a{k}", 2) for k in range(3)]), ("x", 0, None, 1, [Task(f"b{k}", 2) for k in range(2)])
    )
    assert order(replay, "weighted-fair") == ["a0", "b0", "a1", "a2", "b1"]


def test_srw_finishes_the_workflow_with_least_work_left() -> None:
    # w has 7 s left, x 6 s: x first, to its end, although w's tasks are shorter.
    replay = workflows(
        ("w", 0, None, 1, [Task("a1", 1), Task("a2", 6, parents=("a1",))]),
        ("x", 0, None, 1, [Task("b1", 4), Task("b2", 2, parents=("b1",))]),
    )
    assert order(replay, "srw") == ["b1", "b2", "a1", "a2"]


def test_srw_cp_prefers_the_longer_path_when_work_left_is_close() -> None:
    # Work left: w 10 (path 10), x 9.9 (path 3.3, three tasks). -10 + 0.2 = -9.8; -9.9 + 0.066 = -9.834: w.
    replay = workflows(
        ("w", 0, None, 1, [Task("a", 10)]), ("x", 0, None, 1, [Task("b", 3.3), Task("c", 3.3), Task("d", 3.3)])
    )
    assert order(replay, "srw*cp")[0] == "a"
    assert order(replay, "srw")[0] != "a"


def pool(**demands: tuple[float, float, float]) -> Replay:
    """Tasks (seconds, cpu, mem) on one node of 4 cpu and 8 mem."""
    tasks = [Task(name, s, {"cpu": c, "mem": m}) for name, (s, c, m) in demands.items()]
    return one_workflow(tasks, Cluster.pooled({"cpu": 4, "mem": 8}))


def test_tetris_takes_the_demand_best_aligned_with_what_is_free() -> None:
    # Free (1, 1) in shares. a (2 cpu, 0 mem): 0.5; b (1, 4): 0.25 + 0.5 = 0.75; c (1, 2): 0.25 + 0.25 = 0.5.
    # b first, then free (3/4, 4/8): a 0.5 x 0.75 = 0.375; c 0.25 x 0.75 + 0.25 x 0.5 = 0.3125: a, then c.
    assert order(pool(a=(1, 2, 0), b=(1, 1, 4), c=(9, 1, 2)), "tetris") == ["b", "a", "c"]


def test_tetris_srw_subtracts_the_work_left_of_the_workflow() -> None:
    # Alignments 1 (a) and 0.5 (b), mean 0.75; work left 30 and 2, mean 16.
    # a: 1/0.75 - 30/16 = -0.54; b: 0.5/0.75 - 2/16 = 0.54: b, though a aligns better.
    made = (
        Workflow.from_tasks("w", [Task("a", 30, {"cpu": 4})]),
        Workflow.from_tasks("x", [Task("b", 2, {"cpu": 2})]),
    )
    replay = Replay.build(Workload("hand", made), Cluster.pooled({"cpu": 4}))
    assert order(replay, "tetris") == ["a", "b"]
    assert order(replay, "tetris+srw") == ["b", "a"]


def test_graphene_runs_the_ancestors_of_a_troublesome_task_first() -> None:
    # big (10 s) is troublesome: 1.0, and small (1 s) before it inherits that; mid (6 s, path 7) has 0.6.
    # Keys: small 1.0 + 0.1 x 11/11, mid 0.6 + 0.1 x 7/11.
    tasks = [Task("mid", 6), Task("m2", 1, parents=("mid",)), Task("small", 1), Task("big", 10, parents=("small",))]
    assert order(one_workflow(tasks, ONE), "graphene") == ["small", "big", "mid", "m2"]


def test_cp_demand_adds_the_share_of_the_node_to_the_share_of_the_path() -> None:
    # Paths 10, 6, 2; demands 1, 3, 4 of 4 cpu: a 1 + 0.25, b 0.6 + 0.75, c 0.2 + 1: b, a; c (1.2) last.
    replay = pool(a=(10, 1, 0), b=(6, 3, 0), c=(2, 4, 0))
    assert order(replay, "cp+demand") == ["b", "a", "c"]
    # Half the demand, 0.3 x area / max area: areas 2.5, 4.5, 2. a 1 + 0.125 + 0.167 = 1.292, b 0.6 + 0.375 + 0.3.
    assert order(replay, "cp+demand+work") == ["a", "b", "c"]


def test_random_is_another_order_for_another_seed_and_the_same_for_the_same() -> None:
    replay = independent(1, 2, 3, 4, 5, 6, 7)
    assert order(replay, "random") == order(replay, "random:seed=0")
    assert len({tuple(order(replay, f"random:seed={s}")) for s in range(5)}) > 2


def test_ties_go_to_the_larger_upward_rank_then_earlier_arrival_then_name_then_id() -> None:
    same = [Task("t2", 1), Task("t10", 1)]
    replay = stream(("w10", 0, same), ("w2", 0, same), ("w1", 0.5, [Task("late", 1)]), ("first", 0, [Task("f", 1.5)]))
    log = run(replay, "mts").decision_task.tolist()  # nobody has successors: all tie
    names = [replay.task_name(t) for t in log]
    assert names == [("first", "f"), ("w2", "t2"), ("w2", "t10"), ("w10", "t2"), ("w10", "t10"), ("w1", "late")]


# --- Min-Min, Max-Min, Sufferage -----------------------------------------------------------------------------


def test_min_min_books_a_busy_faster_node_rather_than_starting_on_an_idle_slow_one() -> None:
    # fast is 4 x slow, one cpu each. Both x (4 s) and y (8 s) are booked on fast: x 0-1, y 1-3; slow would end y at 8.
    replay = one_workflow([Task("x", 4), Task("y", 8)], two_groups(cpu=1, speed=4))
    schedule = run(replay, "min-min")
    assert rows(schedule) == [("x", 1, 1, 0, 1), ("y", 1, 1, 1, 3)]
    assert decisions(schedule) == [(0, "x"), (0, "WAIT"), (1, "y")]
    assert rows(run(replay, "sjf"))[1] == ("y", 0, 1, 0, 8)


def test_min_min_reconsiders_tasks_freed_by_its_own_choice() -> None:
    # One cpu. a (1 s) frees c (1 s) at 1; b (3 s) was booked after a in the first round. At 1 c goes before b.
    tasks = [Task("a", 1), Task("b", 3), Task("c", 1, parents=("a",))]
    assert rows(run(one_workflow(tasks, ONE), "min-min")) == [("a", 0, 1, 0, 1), ("c", 0, 1, 1, 2), ("b", 0, 1, 2, 5)]


def test_max_min_takes_the_task_whose_least_completion_is_greatest() -> None:
    # Two equal nodes: long (6) first on node 0, mid (3) and short (2) after one another on node 1. Min-Min: short on 0,
    # mid on 1, long on 0 at 2: ends at 8 instead of 6.
    cluster = Cluster((NodeGroup("g", 2, {"cpu": 1}),))
    tasks = [Task("short", 2), Task("mid", 3), Task("long", 6)]
    assert rows(run(one_workflow(tasks, cluster), "max-min")) == [
        ("long", 0, 1, 0, 6),
        ("mid", 1, 1, 0, 3),
        ("short", 1, 1, 3, 5),
    ]
    assert run(one_workflow(tasks, cluster), "min-min").makespan == 8


def test_sufferage_serves_first_who_loses_most_on_the_second_best_node() -> None:
    # Node A, node B. u: 4 on A, 5 on B (regret 1). v: 5 on A, 9 on B (regret 4). v gets A, u goes to B: 5.
    # Min-Min gives A to u (4) and then v: A 4 + 5 = 9, B 9 -> 9.
    cluster = Cluster((NodeGroup("A", 1, {"cpu": 1}), NodeGroup("B", 1, {"cpu": 1})))
    tasks = [Task("u", 4, group_durations={"A": 4, "B": 5}), Task("v", 5, group_durations={"A": 5, "B": 9})]
    schedule = run(one_workflow(tasks, cluster), "sufferage")
    assert sorted(rows(schedule)) == [("u", 1, 1, 0, 5), ("v", 0, 1, 0, 5)]
    assert run(one_workflow(tasks, cluster), "min-min").makespan == 9


def test_sufferage_serves_first_who_has_only_one_node() -> None:
    # v fits only A (2 cpu): its regret has no bound. u has 1 against 9.
    cluster = Cluster((NodeGroup("A", 1, {"cpu": 2}), NodeGroup("B", 1, {"cpu": 1})))
    tasks = [Task("u", 1, group_durations={"A": 1, "B": 9}), Task("v", 3, {"cpu": 2})]
    assert order(one_workflow(tasks, cluster), "sufferage")[0] == "v"


def test_bookings_count_the_remaining_estimate_of_running_work() -> None:
    # 1 cpu each. r (12 s; fast 3 s) runs on fast since 0. At 1 q (4 s) arrives: fast is free at 3: 3 + 1 = 4; slow
    # 1 + 4 = 5. It waits for fast. With 2 s of work (fast 0.5): 3.5 against slow 3: slow at once.
    for seconds, expected in ((4.0, ("q", 1, 1, 3, 4)), (2.0, ("q", 0, 1, 1, 3))):
        replay = stream(("r", 0, [Task("r", 12)]), ("q", 1, [Task("q", seconds)]), cluster=two_groups(cpu=1, speed=4))
        assert rows(run(replay, "min-min"))[1] == expected


def test_work_that_overran_its_estimate_is_expected_at_once_but_does_not_end() -> None:
    # r is told to take 2 s on fast (8/4) and takes 10. q arrives at 5 (12 s: fast 3, slow 12): fast "at once", so q
    # waits for it; at 10 r ends and q runs there.
    r = Workflow.from_tasks("r", [Task("r", 40, estimate=8)])
    q = Workflow.from_tasks("q", [Task("q", 12)], arrival=5)
    replay = Replay.build(Workload("hand", (r, q)), two_groups(cpu=1, speed=4))
    schedule = run(replay, "min-min")
    assert rows(schedule) == [("r", 1, 1, 0, 10), ("q", 1, 1, 10, 13)]


@pytest.mark.parametrize("seed", range(20))
def test_min_min_on_one_pooled_node_coincides_with_sjf_when_every_task_takes_the_whole_node(seed: int) -> None:
    import numpy as np

    rng = np.random.default_rng(seed)
    tasks = [
        Task(
            f"t{k}",
            float(rng.integers(1, 9)),
            {"cpu": 4.0},
            tuple(f"t{p}" for p in sorted(set(rng.integers(0, k, 2).tolist()))) if k > 2 else (),
        )
        for k in range(15)
    ]
    replay = one_workflow(tasks, Cluster.pooled({"cpu": 4}))
    assert rows(run(replay, "min-min")) == rows(run(replay, "sjf"))


# --- all rules -----------------------------------------------------------------------------------------------


def test_every_rule_keeps_a_busy_cluster_busy_unless_it_books() -> None:
    for seed in range(10):
        replay = draw_replay(NumpyDice(seed), options=SimulationOptions())
        for rule in ("fcfs", "sjf", "critical-path", "tetris", "cp+demand+work"):
            schedule = simulate(replay, rule)
            validate(schedule)
            assert (schedule.decision_task >= 0).all(), rule
