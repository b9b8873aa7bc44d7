"""Cases small enough to work out by hand; the arithmetic stands beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import PolicyError
from dagsched.replay import Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.schedule import WAIT, Schedule
from dagsched.simulator import Simulator, validate
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.handmade import one_workflow, two_groups

ONE = Cluster.pooled({"cpu": 1})
TWO = Cluster.pooled({"cpu": 2})


def run(replay: Replay, policy: str = "critical-path") -> Schedule:
    schedule = simulate(replay, policy)
    validate(schedule)
    return schedule


def rows(schedule: Schedule) -> list[tuple[str, int, int, float, float]]:
    """(task id, node, count, start, finish) in order of start."""
    columns = (schedule.node, schedule.count, schedule.start, schedule.finish)
    rest = zip(*(c.tolist() for c in columns), strict=True)
    return [(schedule.replay.task_name(t)[1], *row) for t, row in zip(schedule.task.tolist(), rest, strict=True)]


def decisions(schedule: Schedule) -> list[tuple[float, str]]:
    log = zip(schedule.decision_time.tolist(), schedule.decision_task.tolist(), strict=True)
    return [(time, "WAIT" if task == WAIT else schedule.replay.task_name(task)[1]) for time, task in log]


def stream(*workflows: tuple[str, float, list[Task]], cluster: Cluster = ONE, **options: object) -> Replay:
    made = tuple(Workflow.from_tasks(name, tasks, arrival=arrival) for name, arrival, tasks in workflows)
    return Replay.build(Workload("stream", made), cluster, options=SimulationOptions(**options))  # type: ignore[arg-type]


# --- transfers -----------------------------------------------------------------------------------------------


def test_data_crosses_groups_in_latency_plus_bytes_over_bandwidth_and_the_node_is_held_meanwhile() -> None:
    # a (10 s) runs on the fast node in 10/2 = 5 s; b and c become ready at 5. b goes to fast: 5 + 4/2 = 7. c sees
    # fast full (1 cpu) and starts on slow at once: its 20 bytes arrive at 5 + 0.5 + 20/10 = 7.5, so it holds slow
    # from 5, executes from 7.5 and ends at 7.5 + 3 = 10.5.
    cluster = two_groups(cpu=1, speed=2, bandwidth=10, latency=0.5)
    tasks = [Task("a", 10), Task("b", 4, parents=("a",)), Task("c", 3, parents=("a",), edge_bytes={"a": 20})]
    schedule = run(one_workflow(tasks, cluster))
    assert rows(schedule) == [("a", 1, 1, 0, 5), ("b", 1, 1, 5, 7), ("c", 0, 1, 5, 10.5)]
    assert schedule.execution.tolist() == [0, 5, 7.5]


def test_a_node_waiting_for_data_is_closed_to_others() -> None:
    # As above, and d (1 s) is ready at 0 but of least priority. At 5 both nodes are taken: d waits for fast at 7.
    cluster = two_groups(cpu=1, speed=2, bandwidth=10, latency=0.5)
    tasks = [
        Task("a", 10),
        Task("b", 4, parents=("a",)),
        Task("c", 3, parents=("a",), edge_bytes={"a": 20}),
        Task("d", 1.0, parents=("a",)),
    ]
    assert rows(run(one_workflow(tasks, cluster)))[3] == ("d", 1, 1, 7, 7.5)


def test_data_within_a_group_is_there_at_once() -> None:
    cluster = Cluster((NodeGroup("g", 2, {"cpu": 1}),), bandwidth=1.0, latency=9.0)
    tasks = [Task("a", 2), Task("b", 3), Task("c", 1, parents=("a", "b"), edge_bytes={"a": 50, "b": 50})]
    assert rows(run(one_workflow(tasks, cluster)))[2][3:] == (3, 4)


def test_the_node_that_has_the_data_beats_a_faster_one() -> None:
    # a takes 1 s on slow and 4.5 on fast. b: slow 1 + 4 = 5, fast 1 + 0 + 8/1 + 2 = 11.
    cluster = two_groups(cpu=1, speed=2, bandwidth=1, latency=0)
    tasks = [Task("a", 9, group_durations={"slow": 1}), Task("b", 4, parents=("a",), edge_bytes={"a": 8})]
    assert rows(run(one_workflow(tasks, cluster))) == [("a", 0, 1, 0, 1), ("b", 0, 1, 1, 5)]


def test_each_allocation_of_a_parent_sends_its_share_of_the_bytes() -> None:
    # p: 4 instances of 4 s; fast (2 cpu, speed 2) takes 2 and slow 2 at 0. Fast ends at 2, slow at 4. Child c sees
    # fast at max(2, 4 + 40 x 2/4 / 10 = 6) and slow at max(4, 2 + 20/10) = 4. slow: 4 + 5 = 9; fast: 6 + 2.5 = 8.5.
    cluster = two_groups(cpu=2, speed=2, bandwidth=10, latency=0)
    tasks = [Task("p", 4, instances=4), Task("c", 5, parents=("p",), edge_bytes={"p": 40})]
    schedule = run(one_workflow(tasks, cluster))
    assert rows(schedule) == [("p", 1, 2, 0, 2), ("p", 0, 2, 0, 4), ("c", 1, 1, 4, 8.5)]
    assert schedule.execution[2] == 6


# --- groups, instances, milestones, zero durations -----------------------------------------------------------


def test_two_groups_the_faster_first_then_the_slower_at_once() -> None:
    # Speeds 1 and 2, one cpu each. x (6 s) takes fast to 3, y (4 s) does not wait for it: slow to 4.
    schedule = run(one_workflow([Task("x", 6), Task("y", 4)], two_groups(cpu=1)))
    assert rows(schedule) == [("x", 1, 1, 0, 3), ("y", 0, 1, 0, 4)]


def test_a_given_duration_on_a_group_replaces_duration_over_speed() -> None:
    schedule = run(one_workflow([Task("x", 6, group_durations={"fast": 8})], two_groups(cpu=1)))
    assert rows(schedule) == [("x", 0, 1, 0, 6)]


def test_equal_finish_goes_to_the_tighter_node_then_the_lower_index() -> None:
    groups = (NodeGroup("wide", 1, {"cpu": 4}), NodeGroup("tight", 2, {"cpu": 2}))
    schedule = run(one_workflow([Task("x", 1, {"cpu": 2})], Cluster(groups)))
    assert rows(schedule) == [("x", 1, 1, 0, 1)]


def test_instances_fill_nodes_in_waves_and_the_task_finishes_with_its_last() -> None:
    # 7 instances of 2 s on 2 nodes of 2 cpu: 2 + 2 at 0, 2 + 1 at 2; the child starts at 4.
    cluster = Cluster((NodeGroup("g", 2, {"cpu": 2}),))
    schedule = run(one_workflow([Task("m", 2, instances=7), Task("c", 1, parents=("m",))], cluster))
    assert rows(schedule) == [
        ("m", 0, 2, 0, 2),
        ("m", 1, 2, 0, 2),
        ("m", 0, 2, 2, 4),
        ("m", 1, 1, 2, 4),
        ("c", 0, 1, 4, 5),
    ]
    assert decisions(schedule) == [(0, "m"), (2, "m"), (4, "c")]
    names = [schedule.replay.task_name(t)[1] for t in range(2)]
    assert schedule.task_finish[names.index("m")] == 4


def test_a_started_task_stays_eligible_and_others_may_go_between_its_waves() -> None:
    # m: 3 instances of 2 s on one cpu, u: 5 s with a longer path. u first (0-5), m at 5, 7, 9.
    schedule = run(one_workflow([Task("m", 2, instances=3), Task("u", 5)], ONE))
    assert rows(schedule) == [("u", 0, 1, 0, 5), ("m", 0, 1, 5, 7), ("m", 0, 1, 7, 9), ("m", 0, 1, 9, 11)]


def test_instances_per_decision_caps_a_decision_but_not_the_allocation() -> None:
    # 4 cpu, 3 instances, one a decision: three decisions at 0 make one allocation of 3.
    schedule = run(one_workflow([Task("m", 2, instances=3)], Cluster.pooled({"cpu": 4}), instances_per_decision=1))
    assert rows(schedule) == [("m", 0, 3, 0, 2)]
    assert decisions(schedule) == [(0, "m")] * 3


@pytest.mark.parametrize("policy", ["min-min", "max-min", "sufferage"])
def test_a_capped_booking_still_starts_all_instances_that_are_due(policy: str) -> None:
    replay = one_workflow([Task("m", 2, instances=3)], Cluster.pooled({"cpu": 4}), instances_per_decision=1)
    assert rows(run(replay, policy)) == [("m", 0, 3, 0, 2)]


def test_milestones_start_by_themselves_and_appear_in_no_decision() -> None:
    tasks = [
        Task("begin", 0, {}),
        Task("a", 2, parents=("begin",)),
        Task("mid", 0, {}, ("a",)),
        Task("end", 0, {}, ("mid",)),
        Task("b", 1, parents=("end",)),
    ]
    schedule = run(one_workflow(tasks, ONE))
    assert decisions(schedule) == [(0, "a"), (2, "b")]
    ready = {schedule.replay.task_name(t)[1]: time for t, time in enumerate(schedule.ready.tolist())}
    assert ready == {"begin": 0, "a": 0, "mid": 2, "end": 2, "b": 2}


def test_zero_duration_work_finishes_at_its_start_and_decisions_go_on_at_that_time() -> None:
    schedule = run(one_workflow([Task("a", 0), Task("b", 0, parents=("a",)), Task("c", 1, parents=("b",))], ONE))
    assert rows(schedule) == [("a", 0, 1, 0, 0), ("b", 0, 1, 0, 0), ("c", 0, 1, 0, 1)]


@pytest.mark.parametrize("placement", ["earliest-finish", "least-loaded", "random"])
def test_zero_duration_instances_beyond_the_room_follow_in_further_waves_of_the_same_time(placement: str) -> None:
    # 5 instances, room for 2: waves of 2, 2 and 1, all at 0, each one allocation of its node.
    replay = one_workflow([Task("a", 0, instances=5), Task("b", 1, parents=("a",))], TWO, placement=placement)
    assert rows(run(replay)) == [("a", 0, 2, 0, 0), ("a", 0, 2, 0, 0), ("a", 0, 1, 0, 0), ("b", 0, 1, 0, 1)]


def test_many_zero_duration_instances_placed_one_by_one_share_one_allocation() -> None:
    # 5000 fit at once: one allocation, not 5000 (the log of a decision has room for one on each node).
    cluster = Cluster.pooled({"cpu": 5000})
    assert rows(run(one_workflow([Task("a", 0, instances=5000)], cluster, placement="least-loaded"))) == [
        ("a", 0, 5000, 0, 0)
    ]


# --- WAIT, ticks, guard --------------------------------------------------------------------------------------


def test_wait_is_legal_only_while_something_runs() -> None:
    simulator = Simulator(stream(("w", 0, [Task("a", 3), Task("b", 3)]), cluster=TWO))
    simulator.advance()
    assert not simulator.can_wait
    with pytest.raises(PolicyError, match="nothing is running"):
        simulator.wait()
    simulator.start(0)
    assert simulator.can_wait


def test_wait_returns_at_the_next_finish() -> None:
    simulator = Simulator(stream(("w", 0, [Task("a", 3), Task("b", 5)]), cluster=TWO))
    simulator.advance()
    simulator.start(0)
    assert simulator.wait()
    assert simulator.now == 3
    simulator.start(1)
    assert not simulator.advance()
    assert simulator.schedule("hand").decision_task.tolist() == [0, WAIT, 1]


def test_wait_returns_at_the_next_arrival() -> None:
    simulator = Simulator(stream(("w", 0, [Task("a", 3), Task("b", 5)]), ("x", 2, [Task("c", 1)]), cluster=TWO))
    simulator.advance()
    simulator.start(0)
    assert simulator.wait()
    assert simulator.now == 2


def test_wait_returns_at_the_next_tick() -> None:
    replay = stream(("w", 0, [Task("a", 3), Task("b", 5)]), cluster=TWO, decision_interval=0.5)
    simulator = Simulator(replay)
    simulator.advance()
    simulator.start(0)
    assert simulator.wait()
    assert simulator.now == 0.5


def test_an_idle_cluster_with_nothing_to_do_lets_time_pass_without_a_decision() -> None:
    schedule = run(stream(("w", 1, [Task("a", 1)]), ("x", 7, [Task("b", 1)])))
    assert decisions(schedule) == [(1, "a"), (7, "b")]


def test_with_an_interval_work_waits_for_the_next_tick() -> None:
    # Ticks at 0, 5, 10. a (2 s) ends at 2, b starts at 5; c arrives at 5.5 and starts at 10, after b (7 s) at 12: 15.
    replay = stream(
        ("w", 0, [Task("a", 2), Task("b", 7, parents=("a",))]), ("x", 5.5, [Task("c", 1)]), decision_interval=5.0
    )
    assert rows(run(replay)) == [("a", 0, 1, 0, 2), ("b", 0, 1, 5, 12), ("c", 0, 1, 15, 16)]


def test_ticks_count_from_zero_not_from_the_first_arrival() -> None:
    assert rows(run(stream(("w", 3, [Task("a", 1)]), decision_interval=5.0))) == [("a", 0, 1, 5, 6)]


def test_zero_duration_work_started_at_a_tick_frees_its_child_at_the_same_tick() -> None:
    replay = stream(("w", 0, [Task("a", 0), Task("b", 2, parents=("a",))]), decision_interval=4.0)
    assert rows(run(replay)) == [("a", 0, 1, 0, 0), ("b", 0, 1, 0, 2)]


def test_finish_arrival_and_milestone_of_one_moment_all_precede_its_decision() -> None:
    # At 2: a finishes, x arrives, its milestone passes; all three tasks can then be chosen, the longest runs.
    replay = stream(
        ("w", 0, [Task("a", 2), Task("b", 3, parents=("a",))]),
        ("x", 2, [Task("m", 0, {}), Task("c", 9, parents=("m",))]),
    )
    assert decisions(run(replay)) == [(0, "a"), (2, "c"), (11, "b")]


def test_the_guard_makes_the_oldest_overdue_task_go_first() -> None:
    # sjf on one cpu; max_wait 3. At 0: a (4). At 4: waiting are old (6 s, ready 0, 4 > 3 overdue) and two short ones
    # that arrived at 1 and 2: ages 3 (not more than 3) and 2. Unguarded sjf runs s1, s2, old; guarded runs old first.
    def build(**options: object) -> Replay:
        return stream(
            ("w", 0, [Task("a", 4), Task("old", 6)]), ("x", 1, [Task("s1", 1)]), ("y", 2, [Task("s2", 1)]), **options
        )

    assert [d[1] for d in decisions(run(build(), "sjf"))] == ["a", "s1", "s2", "old"]
    # At 10 s1 (age 9) and s2 (age 8) are both overdue: the older first.
    assert [d[1] for d in decisions(run(build(max_wait=3.0), "ljf"))] == ["old", "a", "s1", "s2"]
    assert decisions(run(build(max_wait=3.0), "sjf")) == [(0, "a"), (4, "old"), (10, "s1"), (11, "s2")]


def test_a_task_is_overdue_only_after_max_wait_not_at_it() -> None:
    # a runs 0-4; old is ready since 0: at 4 its age is exactly max_wait 4, so sjf still decides.
    replay = stream(("w", 0, [Task("a", 4), Task("old", 6)]), ("x", 1, [Task("s", 1)]), max_wait=4.0)
    assert [d[1] for d in decisions(run(replay, "sjf"))] == ["a", "s", "old"]


def blocked(**options: object) -> Replay:
    """2 cpu: a and b hold one each to 3 and 6; wide needs both, ready at 0; s (1 cpu) arrives at 2."""
    tasks = [Task("a", 3), Task("b", 6), Task("wide", 1, {"cpu": 2})]
    return stream(("w", 0, tasks), ("x", 2, [Task("s", 2)]), cluster=TWO, **options)


def test_if_no_overdue_task_fits_only_wait_is_legal_so_that_backfilling_cannot_starve_it() -> None:
    # At 3 one cpu is free and s fits (age 1), but wide (age 3 > 2) is overdue and does not: WAIT to 6, then wide.
    simulator = Simulator(blocked(max_wait=2.0))
    names = {simulator.replay.task_name(t)[1]: t for t in range(4)}
    simulator.advance()
    for name in ("a", "b"):
        simulator.start(names[name])
    simulator.advance()
    assert simulator.now == 3
    assert simulator.eligible().tolist() == []
    with pytest.raises(PolicyError, match="not eligible"):
        simulator.start(names["s"])
    assert simulator.wait()
    assert simulator.now == 6
    assert simulator.eligible().tolist() == [names["wide"]]


def test_waits_forced_by_the_guard_are_in_the_log() -> None:
    # ljf. Guarded: as above, and s at 7. Unguarded: s backfills at 3 and wide follows at 6.
    guarded = run(blocked(max_wait=2.0), "ljf")
    assert decisions(guarded) == [(0, "b"), (0, "a"), (3, "WAIT"), (6, "wide"), (7, "s")]
    assert decisions(run(blocked(), "ljf")) == [(0, "b"), (0, "a"), (3, "s"), (6, "wide")]


def test_an_overdue_task_that_fits_goes_before_an_older_one_that_does_not() -> None:
    # max_wait 0.5: at 3 both wide (age 3) and s (age 1) are overdue; only s fits.
    assert decisions(run(blocked(max_wait=0.5), "ljf"))[2:] == [(3, "s"), (6, "wide")]


# --- starting by hand ----------------------------------------------------------------------------------------


def test_start_can_name_the_node_the_group_and_the_count() -> None:
    cluster = two_groups(cpu=4, speed=2)
    replay = one_workflow([Task("m", 4, instances=8)], cluster)
    simulator = Simulator(replay)
    simulator.advance()
    simulator.start(0, node=0, count=1)
    simulator.start(0, group=1)
    simulator.start(0)
    simulator.advance()
    assert rows(simulator.schedule("hand")) == [("m", 0, 4, 0, 4), ("m", 1, 4, 0, 2)]


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (7, {}, "not eligible"),
        (-1, {}, "not eligible"),
        (1, {}, "task 'b' of workflow 'w' is not eligible at 0 s"),
        (0, {"node": 0}, "does not fit node 'small/0'"),
        (0, {"group": 0}, "does not fit group 'small'"),
    ],
)
def test_an_impossible_start_is_refused_with_a_reason(task: int, options: dict[str, int], message: str) -> None:
    cluster = Cluster((NodeGroup("small", 1, {"cpu": 1}), NodeGroup("big", 1, {"cpu": 4})))
    simulator = Simulator(one_workflow([Task("a", 1, {"cpu": 4}), Task("b", 1, parents=("a",))], cluster))
    simulator.advance()
    with pytest.raises(PolicyError, match=message):
        simulator.start(task, **options)
    assert simulator.now == 0


def test_a_schedule_is_taken_only_at_the_end() -> None:
    simulator = Simulator(one_workflow([Task("a", 1)], ONE))
    with pytest.raises(PolicyError, match="not ended"):
        simulator.schedule("hand")


def test_reset_brings_back_the_beginning() -> None:
    replay = one_workflow([Task("a", 3), Task("b", 1, instances=9)], TWO)
    simulator = Simulator(replay)
    found = []
    for _ in range(2):
        going = simulator.advance()
        while going:
            simulator.start(int(simulator.eligible()[0]))
            going = len(simulator.eligible()) > 0 or simulator.advance()
        found.append(rows(simulator.schedule("hand")))
        simulator.reset()
    assert found[0] == found[1]


def test_noise_scales_every_group_and_instance_alike_and_zero_stays_zero() -> None:
    tasks = [Task("a", 4, instances=3), Task("z", 0), Task("b", 2)]
    build = [
        Replay.build(Workload("n", (Workflow.from_tasks("w", tasks),)), two_groups(), seed=s, sigma=0.5)
        for s in (1, 1, 2)
    ]
    ratio = build[0].duration / np.where(build[0].estimate > 0, build[0].estimate, 1)
    np.testing.assert_allclose(ratio[:, 0], ratio[:, 1], rtol=1e-12)
    names = [build[0].task_name(t)[1] for t in range(3)]
    assert (build[0].duration[names.index("z")] == 0).all()
    assert np.array_equal(build[0].duration, build[1].duration)
    assert not np.array_equal(build[0].duration, build[2].duration)
    assert not math.isclose(ratio[names.index("a"), 0], ratio[names.index("b"), 0])
