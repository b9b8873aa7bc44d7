"""Each metric against a value worked by hand."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.evaluate.columns import (
    KEY_COLUMNS,
    RESULT_METRICS,
    TIMING_METRICS,
    csv_cell,
    direction,
    display,
    is_ratio_scale,
    metric_label,
    result_columns,
)
from dagsched.evaluate.metrics import metrics
from dagsched.replay import Replay
from dagsched.schedule import WAIT, Schedule
from dagsched.task import Task
from dagsched.texts import digits
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.handmade import list_schedule, many_workflows, one_workflow, random_replay, schedule_of, two_groups


def approx(value: float) -> object:
    return pytest.approx(value, rel=1e-9)


@pytest.fixture
def example() -> Schedule:
    """One pooled node of 2 cpu and 4 memory.

    w1 (arrival 1, deadline 6, weight 1): a (2 s, 1 cpu, 2 memory) -> b (3 s, 2 cpu).  CP 5.
    w2 (arrival 2, deadline 11, weight 3): c (2 s, 1 cpu).  CP 2.
    a 1-3, c 2-4 (WAIT at 3), b 4-7: flow times 6 and 2.
    """
    one = Workflow.from_tasks(
        "w1", [Task("a", 2, {"cpu": 1, "memory": 2}), Task("b", 3, {"cpu": 2}, ("a",))], arrival=1, deadline=6
    )
    two = Workflow.from_tasks("w2", [Task("c", 2)], arrival=2, deadline=11, weight=3)
    replay = many_workflows([one, two], Cluster.pooled({"cpu": 2, "memory": 4}), known=5.0)
    rows = [(0, 0, 1, 1, 3), (2, 0, 1, 2, 4), (1, 0, 1, 4, 7)]
    log = {"decision_time": np.array([1.0, 2.0, 3.0, 4.0]), "decision_task": np.array([0, 2, WAIT, 1])}
    timings = np.array([1.0, 2.0, 3.0, 4.0])
    return schedule_of(replay, rows, [1, 3, 2], **log, truncated_decisions=1, timings_ms=timings)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("makespan", 6.0),  # 7 - 1
        ("lower_bound", 5.0),  # max(path: max(0 + 5, 1 + 2), cpu: (2 + 6 + 2) / 2, memory: 4 / 4)
        ("ratio_lb", 6 / 5),
        ("mean_flow_time", 4.0),  # (6 + 2) / 2
        ("p95_flow_time", 5.8),  # 2 + 0.95 x 4
        ("weighted_flow_time", 3.0),  # (1 x 6 + 3 x 2) / 4
        ("mean_slowdown", 1.1),  # (6 / 5 + 2 / 2) / 2
        ("slr", 6 / 5),
        ("gap_known", 0.2),  # 6 / 5 - 1
        ("mean_wait", 1 / 3),  # 0, 0, 1
        ("p99_wait", 0.98),  # between 0 and 1
        ("longest_wait", 1.0),
        ("load_imbalance", 0.0),  # one node
        ("slo_violation_rate", 0.5),  # w1 is 1 s late
        ("mean_tardiness", 0.5),
        ("utilisation_cpu", 10 / 12),  # (2 + 2 + 6) / (2 x 6)
        ("utilisation_memory", 4 / 24),
        ("decisions", 4.0),
        ("wait_actions", 1.0),
        ("decision_ms_p50", 2.5),
        ("decision_ms_p99", 3.97),
        ("truncated_share", 0.25),
    ],
)
def test_hand_worked(example: Schedule, name: str, expected: float) -> None:
    assert metrics(example)[name] == approx(expected)


def test_names_and_order_are_those_of_the_columns(example: Schedule) -> None:
    found = [name for name in metrics(example) if name not in TIMING_METRICS]
    assert [*KEY_COLUMNS, *found] == list(result_columns(["cpu", "memory"]))
    assert set(metrics(example)) == {*RESULT_METRICS, *TIMING_METRICS, "utilisation_cpu", "utilisation_memory"}


def test_empty_cells_where_nothing_is_measured() -> None:
    replay = one_workflow([Task("m", 0, {})], Cluster.pooled({"cpu": 1}))
    schedule = Schedule(
        replay, "x", *(np.zeros(0, int),) * 3, *(np.zeros(0),) * 3, np.zeros(1), np.zeros(0), np.zeros(0)
    )
    found = metrics(schedule)
    assert {name for name, value in found.items() if value is not None} == {
        "makespan",
        "lower_bound",
        "mean_flow_time",
        "p95_flow_time",
        "weighted_flow_time",
        "decisions",
        "wait_actions",
    }
    assert found["makespan"] == 0


def test_flow_time_of_instant_workflows_has_no_slowdown_but_others_count() -> None:
    instant, real = Workflow.from_tasks("i", [Task("m", 0, {})]), Workflow.from_tasks("r", [Task("a", 2)])
    replay = many_workflows([instant, real], Cluster.pooled({"cpu": 1}))
    assert metrics(schedule_of(replay, [(1, 0, 1, 1, 3)], [0, 0]))["mean_slowdown"] == approx(1.5)


def test_critical_path_uses_realised_durations_on_the_fastest_group_that_can_hold_the_task() -> None:
    cluster = Cluster((NodeGroup("big", 1, {"cpu": 4}), NodeGroup("fast", 1, {"cpu": 1}, 4.0)))
    replay = one_workflow(
        [Task("a", 8, {"cpu": 2}, estimate=99), Task("b", 8, {"cpu": 1}, ("a",), estimate=99)], cluster
    )
    found = metrics(schedule_of(replay, [(0, 0, 1, 0, 8), (1, 0, 1, 8, 16)], [0, 8]))
    assert found["slr"] == approx(16 / 10)  # 8 on big + 2 on fast


def test_held_time_includes_transfers_and_instances() -> None:
    tasks = [Task("a", 2), Task("b", 4, {"cpu": 1}, ("a",), instances=2, edge_bytes={"a": 30})]
    replay = one_workflow(tasks, two_groups(bandwidth=10, latency=0.5))
    found = metrics(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 1, 2, 2, 7.5, 5.5)], [0, 2]))
    assert found["utilisation_cpu"] == approx((2 + 2 * 5.5) / (4 * 7.5))


def test_load_imbalance_is_the_mean_over_time_of_the_spread_over_nodes() -> None:
    cluster = Cluster((NodeGroup("n", 2, {"cpu": 2, "memory": 10}),))
    tasks = [Task("a", 4, {"cpu": 1, "memory": 10}), Task("b", 2, {"cpu": 2}), Task("c", 4, {"cpu": 1}, ("a",))]
    replay = one_workflow(tasks, cluster)
    found = metrics(schedule_of(replay, [(0, 0, 1, 0, 4), (1, 1, 1, 0, 2), (2, 1, 1, 4, 8)], [0, 0, 4]))
    # Dominant shares: 0-2 s (1, 1), 2-4 s (1, 0), 4-8 s (0, 0.5); deviations 0, 0.5, 0.25.
    assert found["load_imbalance"] == approx((2 * 0 + 2 * 0.5 + 4 * 0.25) / 8)


def slow_imbalance(schedule: Schedule) -> float:
    replay = schedule.replay
    capacity = replay.cluster.capacity[replay.cluster.node_group]
    times = np.unique([*schedule.start, *schedule.finish])
    total = 0.0
    for begin, end in itertools.pairwise(times):
        here = (schedule.start <= begin) & (schedule.finish > begin)
        used = np.zeros_like(capacity)
        for task, node, count in zip(schedule.task[here], schedule.node[here], schedule.count[here], strict=True):
            used[node] += count * replay.demand[task]
        total += (end - begin) * (used / capacity).max(axis=1).std()
    return total / schedule.makespan


@pytest.mark.parametrize("seed", range(3))
def test_load_imbalance_agrees_with_a_slow_twin(seed: int) -> None:
    schedule = list_schedule(random_replay(seed))
    assert metrics(schedule)["load_imbalance"] == pytest.approx(slow_imbalance(schedule), rel=1e-9)


def test_a_finish_on_the_deadline_is_in_time() -> None:
    replay = many_workflows([Workflow.from_tasks("w", [Task("a", 0.3)], deadline=0.3)], Cluster.pooled({"cpu": 1}))
    found = metrics(schedule_of(replay, [(0, 0, 1, 0, 0.1 + 0.2)], [0]))
    assert found["slo_violation_rate"] == 0
    assert found["mean_tardiness"] == 0


def test_workflows_without_a_deadline_do_not_count_for_the_slo(example: Schedule) -> None:
    workflows = [w.with_(deadline=None) if w.name == "w1" else w for w in example.replay.workload.workflows]
    replay = Replay.build(example.replay.workload.with_workflows(workflows), example.replay.cluster)
    assert metrics(schedule_on(example, replay))["slo_violation_rate"] == 0


def schedule_on(schedule: Schedule, replay: Replay) -> Schedule:
    from dataclasses import replace

    return replace(schedule, replay=replay)


@pytest.mark.parametrize("seed", range(4))
def test_lower_bound_and_ranges_hold_on_random_schedules(seed: int) -> None:
    found = metrics(list_schedule(random_replay(seed)))
    assert found["lower_bound"] <= found["makespan"] * (1 + 1e-9)
    assert 0 < found["utilisation_cpu"] <= 1
    assert found["mean_flow_time"] <= found["p95_flow_time"]
    assert found["mean_wait"] <= found["p99_wait"] <= found["longest_wait"]


def test_a_hundred_thousand_tasks_take_about_a_second() -> None:
    tasks = [Task(str(t), 1.0, parents=(str(t - 500),) if t >= 500 else ()) for t in range(100_000)]
    workflow = Workflow.from_tasks("w", tasks)
    replay = Replay.build(Workload("big", (workflow,)), Cluster((NodeGroup("n", 50, {"cpu": 10}),)))
    task = np.arange(100_000)
    start = (task // 500).astype(float)
    schedule = Schedule(
        replay, "hand", task, task % 500 // 10, np.ones(100_000, np.int64), start, start + 1, start, start, start, task
    )
    begin = time.perf_counter()
    found = metrics(schedule)
    assert time.perf_counter() - begin < 3
    assert found["utilisation_cpu"] == approx(1.0)
    assert found["load_imbalance"] == 0


def test_direction_scale_and_labels() -> None:
    assert [direction(m) for m in ("makespan", "utilisation_cpu", "decisions")] == [-1, 1, 0]
    assert [is_ratio_scale(m) for m in ("makespan", "mean_wait", "slo_violation_rate", "utilisation_cpu")] == [
        True,
        True,
        False,
        False,
    ]
    assert metric_label("utilisation_cpu") == "utilisation of cpu"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (12.0, "12"),
        (0.1 + 0.2, "0.30000000000000004"),
        (7, "7"),
        ("a", "a"),
        (1e300, "1e+300"),
    ],
)
def test_csv_cells_read_back_as_the_same_value(value: object, text: str) -> None:
    assert csv_cell(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.05, "0.05"),
        (1.23456, "1.235"),
        (123.456, "123.5"),
        (12345.6, "12,346"),
        (3e12, "3e+12"),
        (10, "10"),
    ],
)
def test_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_display_has_units() -> None:
    assert [display("makespan", 2.5), display("slo_violation_rate", 0.125), display("slr", None)] == [
        "2.5 s",
        "12.5%",
        "–",
    ]
