"""The validator accepts what is feasible and names what is not."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import InvalidScheduleError
from dagsched.replay import Replay
from dagsched.schedule import WAIT, Schedule
from dagsched.simulator.start_times import schedule_from_starts, validate_start_times
from dagsched.simulator.validate import REASONS, validate
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.handmade import (
    changed,
    edited,
    list_schedule,
    many_workflows,
    one_workflow,
    random_replay,
    schedule_of,
    two_groups,
)

ROOT = Path(__file__).resolve().parents[2]
PSPLIB = (ROOT / os.environ.get("DAGSCHED_DATA", "../shared/data")).resolve() / "psplib"
POOL = Cluster.pooled({"cpu": 2})


def rejects(schedule: Schedule, reason: str) -> str:
    with pytest.raises(InvalidScheduleError) as caught:
        validate(schedule)
    assert caught.value.reason == reason, caught.value
    assert reason in REASONS
    assert "\n" not in str(caught.value)
    return str(caught.value)


def chain() -> Schedule:
    """a (2 s) then b (3 s) on one node of 2 cores."""
    replay = one_workflow([Task("a", 2), Task("b", 3, parents=("a",))], POOL)
    return schedule_of(replay, [(0, 0, 1, 0, 2), (1, 0, 1, 2, 5)], ready=[0, 2])


# --- published schedules -------------------------------------------------------------------------------------


def published() -> list[tuple[str, int, list[int]]]:
    """(instance, stated makespan, start times) of every complete published schedule whose instance is here."""
    found = []
    for size, name in (("60", "J60_C.csv"), ("120", "J120_BKS.csv")):
        path = PSPLIB / "schedules" / name
        for line in path.read_text(encoding="utf-8-sig").splitlines() if path.exists() else ():
            cells = [cell.strip() for cell in line.split(";")]
            if not cells[0].isdigit() or not cells[2].isdigit():
                continue
            parameter, instance = divmod(int(cells[0]) - 1, 10)
            starts = [int(cell) for cell in cells[4:] if cell.isdigit()]
            file = f"j{size}{parameter + 1}_{instance + 1}.sm"
            if len(starts) == int(size) + 2 and (PSPLIB / f"j{size}" / file).exists():
                found.append((file, int(cells[2]), starts))
    return found


PUBLISHED = published()
needs_psplib = pytest.mark.skipif(not PUBLISHED, reason=f"no PSPLIB schedules under {PSPLIB}")


def psplib_replay(file: str) -> Replay:
    from dagsched.formats import load

    (workload,) = load(PSPLIB / file.split("_")[0][: 3 if file.startswith("j6") else 4] / file)
    return Replay.build(workload)


@needs_psplib
def test_every_published_psplib_schedule_is_accepted_with_exactly_its_makespan() -> None:
    assert len(PUBLISHED) >= 90
    for file, makespan, starts in PUBLISHED:
        schedule = validate_start_times(psplib_replay(file), np.array(starts, float))
        assert schedule.makespan == makespan, file


def first_reason(replay: Replay, starts: np.ndarray) -> str:
    with pytest.raises(InvalidScheduleError) as caught:
        validate_start_times(replay, starts)
    return caught.value.reason


@needs_psplib
def test_mutations_of_published_schedules_are_rejected_with_the_right_reason() -> None:
    overloaded = 0
    for file, makespan, listed in PUBLISHED[::7]:
        replay, starts = psplib_replay(file), np.array(listed, float)
        duration = replay.duration[:, 0]
        child = int(np.flatnonzero((np.diff(replay.parent_ptr) > 0) & (duration > 0))[-1])
        parent = int(replay.parent_idx[replay.parent_ptr[child]])
        shifted = starts.copy()
        shifted[child] = starts[parent] + duration[parent] - 1
        assert first_reason(replay, shifted) == "precedence"
        swapped = starts.copy()
        swapped[[child, parent]] = starts[[parent, child]]
        assert first_reason(replay, swapped) == "precedence"
        negative = starts.copy()
        negative[replay.topological_order[0]] = -1
        assert first_reason(replay, negative) == "before-arrival"
        whole = validate_start_times(replay, starts)
        keep = np.arange(len(whole.task)) != 5
        fewer = {n: getattr(whole, n)[keep] for n in ("task", "node", "count", "start", "finish", "execution")}
        rejects(replace(whole, **fewer), "missing-instances")
        twice = {n: np.repeat(getattr(whole, n), 1 + (~keep)) for n in fewer}
        rejects(replace(whole, **twice), "extra-instances")
        rejects(replace(whole, finish=whole.finish + (~keep)), reason_of(whole, keep))
        # Overload: the same starts on a node with one unit less of a resource that is once used up.
        peak = np.zeros(4)
        for moment in np.unique(starts):
            here = (starts <= moment) & (starts + duration > moment)
            peak = np.maximum(peak, replay.demand[here].sum(axis=0))
        capacity = {r: float(p) for r, p in zip(replay.cluster.resources, peak, strict=True)}
        tight = Replay.build(replay.workload, Cluster.pooled(capacity))
        assert validate_start_times(tight, starts).makespan == makespan
        resource = int(np.argmax(peak - replay.demand.max(axis=0)))
        if peak[resource] > replay.demand[:, resource].max():
            capacity[replay.cluster.resources[resource]] -= 1
            assert first_reason(Replay.build(replay.workload, Cluster.pooled(capacity)), starts) == "capacity"
            overloaded += 1
    assert overloaded > 5


def reason_of(schedule: Schedule, keep: np.ndarray) -> str:
    """Why one second more is wrong: a child comes too early, or the recorded ready time or duration is off."""
    replay, longer = schedule.replay, int(np.flatnonzero(~keep)[0])
    task, finish = int(schedule.task[longer]), schedule.finish[longer] + 1
    children = replay.child_idx[replay.child_ptr[task] : replay.child_ptr[task + 1]]
    early = schedule.task_start[children] < finish
    if (early & ~replay.milestone[children]).any():
        return "precedence"
    return "ready-time" if (schedule.ready[children] < finish).any() else "duration"


# --- hand-worked cases, one for each reason -----------------------------------------------------------------------


def test_a_chain_back_to_back_is_accepted() -> None:
    validate(chain())


def test_bad_shape() -> None:
    rejects(changed(chain(), finish=[2.0]), "bad-shape")
    rejects(changed(chain(), ready=[0.0]), "bad-shape")
    rejects(changed(chain(), decision_task=[0]), "bad-shape")


@pytest.mark.parametrize("field", ["start", "finish", "execution", "ready", "decision_time"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(field: str, value: float) -> None:
    rejects(edited(chain(), field, 1, value), "not-finite")


@pytest.mark.parametrize("task", [-1, 2])
def test_unknown_task(task: int) -> None:
    rejects(edited(chain(), "task", 1, task), "unknown-task")


@pytest.mark.parametrize("node", [-1, 1])
def test_bad_node(node: int) -> None:
    assert "'b'" in rejects(edited(chain(), "node", 1, node), "bad-node")


def test_milestone_on_node() -> None:
    replay = one_workflow([Task("a", 0, {})], POOL)
    rejects(schedule_of(replay, [(0, 0, 1, 0, 0)], ready=[0]), "milestone-on-node")


def test_every_instance_runs_exactly_once() -> None:
    replay = one_workflow([Task("a", 2, instances=3)], POOL)
    validate(schedule_of(replay, [(0, 0, 2, 0, 2), (0, 0, 1, 2, 4)], ready=[0]))
    rejects(schedule_of(replay, [(0, 0, 2, 0, 2)], ready=[0]), "missing-instances")
    rejects(schedule_of(replay, [(0, 0, 2, 0, 2), (0, 0, 2, 2, 4)], ready=[0]), "extra-instances")
    rejects(schedule_of(replay, [(0, 0, 2, 0, 2), (0, 0, 0, 2, 4), (0, 0, 1, 2, 4)], ready=[0]), "missing-instances")


def test_a_dropped_task_is_missing() -> None:
    replay = chain().replay
    assert "'b'" in rejects(schedule_of(replay, [(0, 0, 1, 0, 2)], ready=[0, 2]), "missing-instances")


def test_before_arrival() -> None:
    replay = many_workflows([Workflow.from_tasks("w", [Task("a", 1)], arrival=5)], POOL)
    validate(schedule_of(replay, [(0, 0, 1, 5, 6)], ready=[5]))
    rejects(schedule_of(replay, [(0, 0, 1, 4, 5)], ready=[5]), "before-arrival")


def test_precedence_counts_the_last_allocation_of_the_parent() -> None:
    replay = one_workflow([Task("a", 2, instances=2), Task("b", 1, parents=("a",))], Cluster.pooled({"cpu": 2}))
    rows = [(0, 0, 1, 0, 2), (0, 0, 1, 1, 3), (1, 0, 1, 3, 4)]
    validate(schedule_of(replay, rows, ready=[0, 3]))
    rows[2] = (1, 0, 1, 2, 3)
    message = rejects(schedule_of(replay, rows, ready=[0, 2]), "precedence")
    assert "'b'" in message
    assert "'a'" in message


def test_precedence_passes_through_milestones() -> None:
    tasks = [Task("a", 2), Task("m", 0, {}, ("a",)), Task("n", 0, {}, ("m",)), Task("b", 1, parents=("n",))]
    replay = one_workflow(tasks, POOL)
    index = {replay.task_name(t)[1]: t for t in range(4)}
    ready = np.zeros(4)
    ready[[index["m"], index["n"], index["b"]]] = 2
    a, b = index["a"], index["b"]
    validate(schedule_of(replay, [(a, 0, 1, 0, 2), (b, 0, 1, 2, 3)], ready))
    rejects(schedule_of(replay, [(a, 0, 1, 0, 2), (b, 0, 1, 1, 2)], ready), "precedence")


def test_ready_time() -> None:
    rejects(edited(chain(), "ready", 1, 1.5), "ready-time")
    rejects(edited(chain(), "ready", 0, 1e-3), "ready-time")


def test_rounding_within_the_tolerance_is_accepted() -> None:
    schedule = chain()
    late = 2 * (1 + 5e-10)
    validate(changed(schedule, finish=[late, 5.0]))
    rejects(changed(schedule, finish=[2 * (1 + 5e-9), 5.0]), "precedence")


@pytest.mark.parametrize("seconds", [2.5, 1.5])
def test_duration(seconds: float) -> None:
    schedule = chain()
    rejects(changed(schedule, finish=[2.0, 2 + seconds]), "duration")


def test_duration_is_that_of_the_group() -> None:
    replay = one_workflow([Task("a", 4)], two_groups())
    validate(schedule_of(replay, [(0, 0, 1, 0, 4)], ready=[0]))
    validate(schedule_of(replay, [(0, 1, 1, 0, 2)], ready=[0]))
    rejects(schedule_of(replay, [(0, 1, 1, 0, 4)], ready=[0]), "duration")


def test_duration_is_the_realised_one_not_the_estimate() -> None:
    replay = one_workflow([Task("a", 4, estimate=3)], POOL)
    validate(schedule_of(replay, [(0, 0, 1, 0, 4)], ready=[0]))
    rejects(schedule_of(replay, [(0, 0, 1, 0, 3)], ready=[0]), "duration")


def test_data_from_another_group_arrives_after_latency_and_bytes_over_bandwidth() -> None:
    tasks = [Task("a", 2), Task("b", 4, parents=("a",), edge_bytes={"a": 30})]
    replay = one_workflow(tasks, two_groups(bandwidth=10, latency=0.5))
    validate(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 0, 1, 2, 6)], ready=[0, 2]))
    # 2 + 0.5 + 30 / 10 = 5.5, then 4 / 2 seconds.
    validate(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 1, 1, 2, 7.5, 5.5)], ready=[0, 2]))
    validate(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 1, 1, 6, 8)], ready=[0, 2]))
    rejects(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 1, 1, 2, 4)], ready=[0, 2]), "data-not-ready")
    rejects(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 1, 1, 2, 8, 6)], ready=[0, 2]), "execution-late")


def test_a_share_of_the_bytes_comes_from_each_allocation_of_the_parent() -> None:
    tasks = [Task("a", 2, instances=4), Task("b", 4, parents=("a",), edge_bytes={"a": 40})]
    replay = one_workflow(tasks, two_groups(cpu=3, bandwidth=10, latency=0.5))
    # 3 instances on the slow node until 2, 1 on the fast node until 1; the fast node lacks 40 x 3/4 bytes: 2 + .5 + 3.
    rows = [(0, 0, 3, 0, 2), (0, 1, 1, 0, 1), (1, 1, 1, 2, 7.5, 5.5)]
    validate(schedule_of(replay, rows, ready=[0, 2]))
    # The slow node lacks 40 x 1/4 bytes, which come at 1 + .5 + 1 = 2.5.
    validate(schedule_of(replay, [*rows[:2], (1, 0, 1, 2, 6.5, 2.5)], ready=[0, 2]))
    rejects(schedule_of(replay, [*rows[:2], (1, 0, 1, 2, 6)], ready=[0, 2]), "data-not-ready")


def test_a_milestone_between_two_groups_carries_nothing() -> None:
    tasks = [Task("a", 2), Task("m", 0, {}, ("a",)), Task("b", 4, parents=("m",))]
    replay = one_workflow(tasks, two_groups(latency=3))
    validate(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 1, 1, 2, 4)], ready=[0, 2, 2]))


def test_capacity_with_half_open_intervals() -> None:
    replay = one_workflow([Task("a", 2, {"cpu": 2}), Task("b", 2, {"cpu": 1}), Task("c", 2, {"cpu": 1})], POOL)
    validate(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 0, 1, 2, 4), (2, 0, 1, 2, 4)], ready=[0, 0, 0]))
    message = rejects(
        schedule_of(replay, [(0, 0, 1, 0, 2), (1, 0, 1, 1, 3), (2, 0, 1, 3, 5)], ready=[0, 0, 0]), "capacity"
    )
    assert "holds 3 cpu at 1, but has 2" in message


def test_capacity_of_each_node_and_resource() -> None:
    cluster = Cluster((NodeGroup("g", 2, {"cpu": 4, "memory": 8}),))
    tasks = [Task("a", 2, {"cpu": 1, "memory": 5}), Task("b", 2, {"cpu": 1, "memory": 5})]
    replay = one_workflow(tasks, cluster)
    validate(schedule_of(replay, [(0, 0, 1, 0, 2), (1, 1, 1, 0, 2)], ready=[0, 0]))
    assert "10 memory" in rejects(schedule_of(replay, [(0, 1, 1, 0, 2), (1, 1, 1, 0, 2)], ready=[0, 0]), "capacity")


def test_instances_of_one_allocation_share_its_node() -> None:
    replay = one_workflow([Task("a", 2, instances=3)], POOL)
    rejects(schedule_of(replay, [(0, 0, 3, 0, 2)], ready=[0]), "capacity")


def test_a_resource_the_node_lacks_cannot_be_held() -> None:
    cluster = Cluster((NodeGroup("plain", 1, {"cpu": 4}), NodeGroup("gpu", 1, {"cpu": 4, "gpu": 1})))
    replay = one_workflow([Task("a", 2, {"cpu": 1, "gpu": 1})], cluster)
    validate(schedule_of(replay, [(0, 1, 1, 0, 2)], ready=[0]))
    rejects(schedule_of(replay, [(0, 0, 1, 0, 2)], ready=[0]), "capacity")


def test_zero_duration_work_holds_nothing_but_must_fit_the_node() -> None:
    replay = one_workflow(
        [Task("a", 2, {"cpu": 2}), Task("z", 0, {"cpu": 2}, ("a",)), Task("b", 1, parents=("z",))], POOL
    )
    index = {replay.task_name(t)[1]: t for t in range(3)}
    ready = np.zeros(3)
    ready[[index["z"], index["b"]]] = 2
    rows = [(index["a"], 0, 1, 0, 2), (index["z"], 0, 1, 2, 2), (index["b"], 0, 1, 2, 3)]
    validate(schedule_of(replay, rows, ready))
    twice = one_workflow([Task("z", 0, {"cpu": 2}, instances=2)], POOL)
    rejects(schedule_of(twice, [(0, 0, 2, 0, 0)], ready=[0]), "capacity")


def test_an_overlap_of_rounding_size_is_no_overload() -> None:
    replay = one_workflow([Task("a", 0.3, {"cpu": 2}), Task("b", 1, {"cpu": 2})], POOL)
    validate(schedule_of(replay, [(0, 0, 1, 0, 0.1 + 0.2), (1, 0, 1, 0.3, 1.3)], ready=[0, 0]))


def test_start_in_past() -> None:
    replay = one_workflow([Task("a", 1), Task("b", 1)], POOL)
    rejects(schedule_of(replay, [(0, 0, 1, 3, 4), (1, 0, 1, 1, 2)], ready=[0, 0]), "start-in-past")


def test_off_tick() -> None:
    replay = one_workflow([Task("a", 1), Task("b", 1)], POOL, decision_interval=0.7)
    validate(schedule_of(replay, [(0, 0, 1, 0, 1), (1, 0, 1, 3 * 0.7, 1 + 3 * 0.7)], ready=[0, 0]))
    rejects(schedule_of(replay, [(0, 0, 1, 0, 1), (1, 0, 1, 1, 2)], ready=[0, 0]), "off-tick")
    late = schedule_of(replay, [(0, 0, 1, 0, 1), (1, 0, 1, 0, 1)], ready=[0, 0])
    log = {"decision_time": [0.0, 0.0, 0.5], "decision_task": [0, 1, WAIT]}
    rejects(changed(late, **log), "off-tick")


@pytest.mark.parametrize(
    ("times", "tasks", "says"),
    [
        ([0.0], [0], "without a decision"),
        ([0.0, 2.0, 2.0], [0, 1, 0], "without starting"),
        ([0.0, 1.0], [0, 1], "without a decision"),
        ([2.0, 0.0], [1, 0], "before the previous"),
        ([0.0, 2.0], [0, 7], "does not exist"),
        ([0.0, 2.0, 5.0], [0, 1, WAIT], "while nothing ran"),
    ],
)
def test_decision_log(times: list[float], tasks: list[int], says: str) -> None:
    assert says in rejects(changed(chain(), decision_time=times, decision_task=tasks), "decision-log")


def test_wait_is_legal_only_while_work_runs() -> None:
    schedule = chain()
    validate(changed(schedule, decision_time=[0.0, 1.0, 2.0, 3.0], decision_task=[0, WAIT, 1, WAIT]))
    replay = one_workflow([Task("a", 1), Task("b", 1)], POOL)
    gap = schedule_of(replay, [(0, 0, 1, 0, 1), (1, 0, 1, 2, 3)], ready=[0, 0])
    rejects(changed(gap, decision_time=[0.0, 1.0, 2.0], decision_task=[0, WAIT, 1]), "decision-log")


def test_instances_per_decision_caps_each_decision() -> None:
    replay = one_workflow([Task("a", 1, instances=2)], POOL, instances_per_decision=1)
    schedule = schedule_of(replay, [(0, 0, 2, 0, 1)], ready=[0])
    rejects(schedule, "decision-log")
    validate(changed(schedule, decision_time=[0.0, 0.0], decision_task=[0, 0]))


def test_starvation() -> None:
    tasks = [Task("a", 5, {"cpu": 2}), Task("b", 1, {"cpu": 2}), Task("c", 1, {"cpu": 2}, ("a",))]
    replay = one_workflow(tasks, POOL, max_wait=3)
    validate(schedule_of(replay, [(0, 0, 1, 0, 5), (1, 0, 1, 5, 6), (2, 0, 1, 6, 7)], ready=[0, 0, 5]))
    rejects(schedule_of(replay, [(0, 0, 1, 0, 5), (2, 0, 1, 5, 6), (1, 0, 1, 6, 7)], ready=[0, 0, 5]), "starvation")


# --- plain start times ------------------------------------------------------------------------------------------


def test_start_times_check_milestones_too() -> None:
    replay = one_workflow([Task("a", 2), Task("m", 0, {}, ("a",))], POOL)
    assert validate_start_times(replay, np.array([0.0, 2.0])).makespan == 2
    assert first_reason(replay, np.array([0.0, 1.0])) == "precedence"


def test_start_times_need_one_node_and_one_finite_number_a_task() -> None:
    replay = one_workflow([Task("a", 2)], two_groups())
    with pytest.raises(InvalidScheduleError, match="one node"):
        schedule_from_starts(replay, np.zeros(1))
    replay = chain().replay
    with pytest.raises(InvalidScheduleError, match="shape"):
        schedule_from_starts(replay, np.zeros(1))
    with pytest.raises(InvalidScheduleError, match="finite"):
        schedule_from_starts(replay, np.array([0, np.nan]))


# --- whole schedules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_list_schedules_of_random_workloads_are_accepted(seed: int) -> None:
    replay = random_replay(seed)
    order = np.random.default_rng(seed).permutation(len(replay))
    validate(list_schedule(replay, order.tolist()))


@pytest.mark.parametrize("policy", ["critical-path", "random", "heft", "min-min", "srw"])
@pytest.mark.parametrize(
    "options",
    [{}, {"decision_interval": 2.5}, {"instances_per_decision": 1}, {"max_wait": 4.0}, {"placement": "random"}],
    ids=str,
)
def test_schedules_of_the_simulator_are_accepted(policy: str, options: dict[str, object]) -> None:
    from dagsched.run_policy import simulate

    validate(simulate(random_replay(11, **options), policy))


def test_the_simulator_finishes_zero_duration_work_with_more_instances_than_fit() -> None:
    from dagsched.run_policy import simulate

    tasks = [Task("a", 1, instances=5), Task("z", 0, {"cpu": 3}, instances=3), Task("b", 1)]
    validate(simulate(one_workflow(tasks, Cluster.pooled({"cpu": 4})), "critical-path"))


@pytest.mark.parametrize("seed", range(4))
def test_any_moved_allocation_is_rejected(seed: int) -> None:
    schedule = list_schedule(random_replay(seed))
    rng = np.random.default_rng(seed)
    for row in rng.choice(len(schedule.task), 20, replace=False):
        with pytest.raises(InvalidScheduleError):
            validate(edited(schedule, "start", int(row), schedule.start[row] - 0.25))
        with pytest.raises(InvalidScheduleError):
            validate(edited(schedule, "finish", int(row), schedule.finish[row] + 0.25))
        with pytest.raises(InvalidScheduleError):
            validate(edited(schedule, "count", int(row), schedule.count[row] + 1))


def test_a_hundred_thousand_allocations_take_about_a_second() -> None:
    tasks = [Task(str(t), 1.0, parents=(str(t - 500),) if t >= 500 else ()) for t in range(100_000)]
    replay = Replay.build(
        Workload("big", (Workflow.from_tasks("w", tasks),)), Cluster((NodeGroup("n", 50, {"cpu": 10}),))
    )
    task = np.arange(100_000)
    start = (task // 500).astype(float)
    schedule = Schedule(
        replay, "hand", task, task % 500 // 10, np.ones(100_000, np.int64), start, start + 1, start, start, start, task
    )
    begin = time.perf_counter()
    validate(schedule)
    assert time.perf_counter() - begin < 3
