from __future__ import annotations

import numpy as np
import pytest

from dagsched.cost import cost_function
from dagsched.evaluate.metrics import completion, service_level
from dagsched.features.linear import start_weights
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, TASK_NAMES
from dagsched.graph import critical_path
from dagsched.learn.episode_runner import EpisodeRunner, linear_costs
from dagsched.simulator import validate
from tests.features.replays import draw_wide
from tests.policies.nets import decisions, random_base, schedule_with

SEEDS = range(1100, 1112)


def finished(runner: EpisodeRunner):
    schedule = runner.simulator.schedule("linear")
    validate(schedule)
    return schedule


@pytest.mark.parametrize("seed", SEEDS)
def test_costs_are_those_of_the_evaluation(seed: int) -> None:
    replay = draw_wide(seed, due=True)
    path = max(float(critical_path(replay).mean()), 1e-9)
    for objective in ("makespan", "flow_time", "slo"):
        runner = EpisodeRunner(replay, objective)
        found = runner.run_linear(random_base(seed))
        schedule = finished(runner)
        done, level = completion(schedule), service_level(schedule)
        wanted = {
            "makespan": done["ratio_lb"],
            "flow_time": done["weighted_flow_time"] / path,
            "slo": level["slo_violation_rate"] + 0.05 * level["mean_tardiness"] / path,
        }[objective]
        if wanted is not None:
            assert found == pytest.approx(wanted, rel=1e-9)


def test_late_workflows_cost_their_share_and_a_twentieth_of_their_tardiness() -> None:
    replay = draw_wide(3, due=True, workflows=4)
    path = float(critical_path(replay).mean())
    count = len(replay.deadline)
    late = np.array([float(replay.deadline[w]) for w in replay.workflow_of])
    cost = cost_function(replay, "slo")
    assert cost(late) == 0
    late[replay.workflow_of == 0] += 2 * path
    assert cost(late) == pytest.approx(1 / count + 0.05 * 2 / count)


def test_nothing_is_late_without_deadlines() -> None:
    assert cost_function(draw_wide(1, due=False), "slo")(np.full(99, 1e9)) == 0


def test_runs_of_a_population_equal_single_runs_also_where_logs_must_grow() -> None:
    grown = 0
    for seed in SEEDS:
        replay = draw_wide(seed)
        runner, alone = EpisodeRunner(replay, "flow_time"), EpisodeRunner(replay, "flow_time")
        room = len(runner.simulator.state.alloc)
        population = np.array([random_base(seed + k) for k in range(4)])
        assert runner.run_each_linear(population) == [alone.run_linear(vector) for vector in population]
        grown += len(runner.simulator.state.alloc) > room
    assert grown > 0


def test_a_runner_forgets_the_run_before() -> None:
    for seed in SEEDS:
        replay = draw_wide(seed)
        runner = EpisodeRunner(replay, "makespan")
        one, two = random_base(seed), random_base(seed + 1)
        first = runner.run_linear(one)
        runner.run_linear(two)
        assert runner.run_linear(one) == first
        assert decisions(finished(runner)) == decisions(schedule_with(replay, one))


def test_rows_are_the_raw_features_of_decisions_with_a_choice() -> None:
    seen = 0
    for seed in SEEDS:
        replay = draw_wide(seed, tasks=60)
        runner = EpisodeRunner(replay, "makespan")
        tasks, general, groups = runner.rows(start_weights("srw"), 10_000)
        assert len(tasks) == len(general) == len(groups)
        for rows, state, nodes in zip(tasks, general, groups, strict=True):
            assert rows.shape[0] > 1
            assert rows.shape[1] == len(TASK_NAMES)
            assert state.shape == (len(GLOBAL_NAMES),)
            assert nodes.shape == (len(replay.cluster.groups), len(GROUP_NAMES))
            assert state[GLOBAL_NAMES.index("eligible")] == pytest.approx(np.log(1 + len(rows)))
        validate(runner.simulator.schedule("rows"))
        few = runner.rows(start_weights("srw"), 3)[0]
        assert len(few) <= len(tasks)
        seen += len(tasks)
    assert seen > 100


def test_costs_do_not_depend_on_the_number_of_threads() -> None:
    replays = [draw_wide(seed) for seed in SEEDS]
    weights = np.array([random_base(k) for k in range(4)])
    alone = np.array([[EpisodeRunner(r, "flow_time").run_linear(w) for r in replays] for w in weights])
    runners = [EpisodeRunner(r, "flow_time") for r in replays]
    for threads in (1, 2, 5, 50):
        np.testing.assert_array_equal(linear_costs(weights, runners, threads), alone)
