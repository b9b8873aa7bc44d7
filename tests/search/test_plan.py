"""Plan mode: known answers, its guarantee, budgets, the log, interruption, workers."""

from __future__ import annotations

import math
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import PolicyError
from dagsched.evaluate.metrics import completion
from dagsched.generate import random_workload
from dagsched.generate.kinds import KINDS
from dagsched.generate.suite import Suite
from dagsched.policies.sampling.sampler import objective_value
from dagsched.replay import Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.search.plan import begin_plan, plan_batch
from dagsched.search.plan_search import PlanResult, SearchProgress
from dagsched.search.seed_schedules import contained_specs, follow, roll_out
from dagsched.simulator.stepper import MANY, Simulator
from dagsched.simulator.validate import validate
from dagsched.task import Task
from dagsched.workflow import Workflow

from ..handmade import many_workflows, one_workflow, two_groups
from ..policies.test_listing import random_replay
from ..policies.test_sampling import random_project

ROOT = Path(__file__).resolve().parents[2]
FILES = {"wfcommons": {"path": str(ROOT / "workloads/wfcommons")}, "trace": {"path": str(ROOT / "workloads/wfcommons")}}
SMALL = {
    "layered": {"tasks": 30},
    "rcpsp": {"tasks": 30},
    "fork-join": {"width": 6},
}
OPTIONS = (
    SimulationOptions(),
    SimulationOptions(decision_interval=2.0),
    SimulationOptions(max_wait=5.0),
    SimulationOptions(placement="least-loaded", decision_interval=1.5, max_wait=3.0),
    SimulationOptions(placement="random", instances_per_decision=1),
)


TOO_SMALL = Cluster((NodeGroup("one", 1, {"cpu": 1}), NodeGroup("too small", 1, {"cpu": 0.5})))


def reached(replay: Replay, result: PlanResult, objective: str = "makespan", policy_seed: int = 0) -> float:
    """The objective of a run by a result, which must be valid."""
    simulator = Simulator(replay, policy_seed=policy_seed)
    begin_plan("plan", result, simulator).advance(MANY)
    validate(simulator.schedule("plan"))
    return objective_value(replay, simulator.state.task["finish"], objective)


def test_two_machines_and_five_tasks() -> None:
    """Longest first takes 9: 4 + 3 + 2 beside 4 + 3. 4 + 4 beside 3 + 3 + 2 takes 8."""
    tasks = [Task(f"t{k}", seconds, {"cpu": 1}) for k, seconds in enumerate([4.0, 3.0, 3.0, 4.0, 2.0])]
    replay = one_workflow(tasks, Cluster.pooled({"cpu": 2}))
    result = plan_batch(replay, schedules=200)
    assert (result.value, result.bound, result.optimal) == (8.0, 8.0, True)
    assert reached(replay, result) == 8.0


def test_flow_time_runs_the_shorter_workflow_first() -> None:
    made = [Workflow.from_tasks(name, [Task("t", seconds, {"cpu": 1})]) for name, seconds in (("a", 6.0), ("b", 2.0))]
    replay = many_workflows(made, Cluster.pooled({"cpu": 1}))
    result = plan_batch(replay, objective="flow_time", schedules=50)
    assert (result.value, result.bound, result.optimal) == (5.0, -math.inf, False)


@pytest.mark.parametrize("cluster", [Cluster.pooled({"cpu": 1}), TOO_SMALL], ids=["one node", "several"])
@pytest.mark.parametrize(("weight", "value"), [(1.0, 5.0), (4.0, 6.4)])  # (8 + 2) / 2; (4 x 6 + 8) / 5
def test_flow_times_count_by_weight(cluster: Cluster, weight: float, value: float) -> None:
    made = [Workflow.from_tasks(n, [Task("t", s, {"cpu": 1})], weight=w) for n, s, w in (("a", 6, weight), ("b", 2, 1))]
    replay = many_workflows(made, cluster)
    for schedule in (
        simulate(replay, "sampling:n=50:objective=flow_time:scales=1"),
        simulate(replay, "mcts-rules:search=plan:simulations=50:objective=flow_time"),
        simulate(replay, "mcts-rules:search=tree:simulations=50:objective=flow_time"),
    ):
        validate(schedule)
        assert completion(schedule)["weighted_flow_time"] == pytest.approx(value, rel=1e-12)
        assert objective_value(replay, schedule.task_finish, "flow_time") == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("kind", [name for name in KINDS if name not in ("tpch", *FILES)])
def test_never_worse_than_any_contained_policy(kind: str) -> None:
    """On every kind of generated problem, for both objectives, run through the simulator and the validator."""
    count = {} if KINDS[kind].problem else {"count": 2}
    for seed in range(2):
        workload = random_workload(kind, np.random.default_rng(seed), **count, **SMALL.get(kind, {}))  # type: ignore[arg-type]
        replay = Replay.build(workload, options=OPTIONS[seed])
        if len(replay) > 150:
            continue
        for objective in ("makespan", "flow_time"):
            check_guarantee(replay, objective)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_never_worse_under_any_placement_interval_or_guard(options: SimulationOptions) -> None:
    for seed in (0, 4, 5, 7, 13):  # among them replays on which some plan cannot be followed without loss
        replay = random_replay(seed, transfers=seed % 2 == 0, workflows=3, bulk=seed % 3 == 0).with_options(options)
        for objective in ("makespan", "flow_time"):
            check_guarantee(replay, objective)


def check_guarantee(replay: Replay, objective: str) -> None:
    result = plan_batch(replay, objective=objective, schedules=60)
    found = reached(replay, result, objective)
    assert found <= result.value * (1 + 1e-12)
    for spec in contained_specs(replay):
        try:
            schedule = simulate(replay, spec)
        except PolicyError:
            assert spec in ("evolved", "ppo")
            continue
        assert found <= objective_value(replay, schedule.task_finish, objective) * (1 + 1e-12), spec


def test_followed_plans_keep_the_value_where_they_say_so() -> None:
    for seed in range(6):
        replay = random_replay(seed, workflows=3).with_options(OPTIONS[seed % 3])
        for incumbent in roll_out(replay):
            found = objective_value(replay, follow(replay, incumbent.plan)[1], "makespan")
            assert incumbent.followable == (found <= incumbent.value)


def test_a_named_base_is_contained() -> None:
    replay = random_project(3)
    result = plan_batch(replay, base="sampling:n=300", schedules=0)
    assert result.value <= simulate(replay, "sampling:n=300").makespan


@pytest.mark.parametrize("make", [lambda: random_project(5, tasks=60), lambda: random_replay(6, workflows=4)])
def test_same_seed_and_count_same_plan(make: object) -> None:
    replay: Replay = make()  # type: ignore[operator]
    first, again = (plan_batch(replay, schedules=300, seed=7) for _ in range(2))
    for name in ("task", "node", "count", "start"):
        assert getattr(first.plan, name).tobytes() == getattr(again.plan, name).tobytes()
    assert [(p.schedules, p.value) for p in first.log] == [(p.schedules, p.value) for p in again.log]


def test_the_log_never_rises_and_ends_at_the_value() -> None:
    for replay in (random_project(5, tasks=90), random_replay(6, workflows=4)):
        result = plan_batch(replay, schedules=2000)
        values = [progress.value for progress in result.log]
        assert values == sorted(values, reverse=True)
        assert (values[0], values[-1]) == (result.first, result.value)
        assert result.schedules <= 2000


def test_more_schedules_never_give_less() -> None:
    replay = random_project(11, tasks=90)
    values = [plan_batch(replay, schedules=count).value for count in (0, 100, 1000)]
    assert values == sorted(values, reverse=True)


def test_without_a_budget_the_first_incumbent_is_the_plan() -> None:
    replay = random_replay(6, workflows=4)
    for budget in ({"seconds": 0.0}, {"schedules": 0}):
        result = plan_batch(replay, **budget)  # type: ignore[arg-type]
        assert (result.value, result.schedules, len(result.log)) == (result.first, 0, 1)
        reached(replay, result)


def test_ctrl_c_keeps_the_best_so_far() -> None:
    replay = random_project(11, tasks=90)
    seen: list[SearchProgress] = []

    def stop(progress: SearchProgress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    result = plan_batch(replay, schedules=10**9, improved=stop)
    assert result.interrupted
    assert result.value == seen[-1].value
    assert reached(replay, result) <= result.value


def test_two_workers_are_never_worse_and_repeat() -> None:
    replay = random_project(11, tasks=90)
    one = plan_batch(replay, schedules=100)
    two, again = (plan_batch(replay, schedules=100, workers=2) for _ in range(2))
    assert two.value <= one.value
    assert two.schedules > one.schedules
    assert two.plan.start.tobytes() == again.plan.start.tobytes()


def test_one_task_and_no_edges() -> None:
    alone = one_workflow([Task("a", 2.0)], two_groups())
    assert plan_batch(alone, schedules=10).value == 1.0
    loose = one_workflow([Task(f"t{k}", 1.0 + k, {"cpu": 1}) for k in range(9)], two_groups())
    reached(loose, plan_batch(loose, schedules=100))


def test_milestones_alone() -> None:
    replay = one_workflow([Task("a", 0.0, {}), Task("b", 0.0, {}, ["a"])], Cluster.pooled({"cpu": 1}))
    result = plan_batch(replay, schedules=10)
    assert (result.value, len(result.plan.task)) == (0.0, 0)


@pytest.mark.parametrize("pooled", [True, False])
def test_ten_thousand_tasks(pooled: bool) -> None:
    rng = np.random.default_rng(0)
    tasks = [
        Task(f"t{k}", float(rng.integers(1, 9)), {"cpu": 1}, [f"t{rng.integers(0, k)}"] if k else [])
        for k in range(10_000)
    ]
    replay = one_workflow(tasks, Cluster.pooled({"cpu": 8}) if pooled else two_groups(cpu=4))
    reached(replay, plan_batch(replay, schedules=3))


def test_following_the_plan_reaches_its_value() -> None:
    replay = random_project(2)
    result = plan_batch(replay, schedules=50)
    assert objective_value(replay, follow(replay, result.plan)[1], "makespan") <= result.value


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"objective": "slo"}, "objective is 'slo'"),
        ({"seconds": -1.0}, "-1.0 seconds"),
        ({"seconds": math.nan}, "nan seconds"),
        ({"schedules": -1}, "-1 schedules"),
        ({"workers": 0}, "0 workers"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        plan_batch(random_project(0), **wrong)  # type: ignore[arg-type]


def test_noise_and_later_arrivals_are_refused() -> None:
    replay = random_project(0)
    noisy = Replay.build(replay.workload, replay.cluster, sigma=0.3)
    with pytest.raises(PolicyError, match="exact estimates"):
        plan_batch(noisy)
    made = [Workflow.from_tasks(f"w{k}", [Task("a", 1.0)], arrival=float(k)) for k in range(2)]
    with pytest.raises(PolicyError, match="more may arrive"):
        plan_batch(many_workflows(made, two_groups()))


def test_ctrl_c_keeps_the_best_schedule_on_several_nodes() -> None:
    """A signal that arrives inside compiled code must neither be lost nor end in a traceback."""
    replay = Suite.load("transfers").replay("test", 0)
    plan_batch(replay, schedules=3)  # compiles
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    result = plan_batch(replay, seconds=30.0)
    assert result.interrupted
    assert result.seconds < 30
    assert validate(follow(replay, result.plan)[0]) is None


def test_a_checkpoint_that_is_named_must_be_there() -> None:
    replay = Suite.load("transfers").replay("test", 0)
    with pytest.raises(PolicyError, match="no such checkpoint folder"):
        simulate(replay, "mcts:checkpoint=/nowhere:simulations=1")
