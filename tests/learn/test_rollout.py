from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from dagsched.cluster import Cluster
from dagsched.cost import cost_function
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.rollout import NetworkEpisodeRunner, Trajectory, collect, evaluate, network_runners, rewards
from dagsched.models.checkpoint import Checkpoint
from dagsched.policies.learned.trained import compiled
from dagsched.replay import Replay
from dagsched.simulator import Simulator, validate
from dagsched.task import Task
from dagsched.workflow import Workflow
from tests.features.replays import draw_wide
from tests.policies.nets import decisions, random_checkpoint, replay_of, schedule_with

OBJECTIVES = ("makespan", "flow_time", "slo")


def sampled(
    runners: list[NetworkEpisodeRunner], checkpoint: Checkpoint, seeds: list[list[int]], **how: object
) -> list[list[Trajectory]]:
    return collect(runners, checkpoint.base, *compiled(checkpoint), seeds=seeds, **how)  # type: ignore[arg-type]


def one_run(
    replay: Replay, objective: str, checkpoint: Checkpoint, seed: int
) -> tuple[NetworkEpisodeRunner, Trajectory]:
    runner = NetworkEpisodeRunner(EpisodeRunner(replay, objective))  # type: ignore[arg-type]
    trajectory = sampled([runner], checkpoint, [[seed]])[0][0]
    validate(runner.inner.simulator.schedule("sampled"))
    return runner, trajectory


def same(a: Trajectory, b: Trajectory) -> bool:
    names = [f.name for f in fields(Trajectory) if f.name != "replay"]
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_rewards_sum_to_minus_the_cost_less_what_had_passed_before_the_first_choice(objective: str) -> None:
    choices = 0
    for seed in range(1200, 1225):
        replay = draw_wide(seed, due=None if seed % 2 else True)
        checkpoint = random_checkpoint(seed=seed, wait=seed % 3 == 0, margin=0.0)
        runner, trajectory = one_run(replay, objective, checkpoint, seed)
        finish = runner.inner.simulator.state.task["finish"]
        assert trajectory.cost == pytest.approx(cost_function(replay, objective)(finish), rel=1e-12)
        whole = rewards(replay, objective, finish, np.array([replay.first_arrival]))
        assert whole.sum() == pytest.approx(-trajectory.cost, rel=1e-9, abs=1e-9)
        assert (trajectory.reward <= 1e-12).all()
        if len(trajectory):
            first = np.append(replay.first_arrival, trajectory.time)
            passed = rewards(replay, objective, finish, first)[0]
            assert passed + trajectory.reward.sum() == pytest.approx(-trajectory.cost, rel=1e-9, abs=1e-9)
        choices += len(trajectory)
    assert choices > 150


def grown_cost(replay: Replay, objective: str, finish: np.ndarray, moment: float) -> float:
    """The cost that is certain at a moment: what would be paid if everything unfinished ended right then."""
    stopped = np.minimum(finish, moment)
    if objective == "makespan":
        return float(cost_function(replay, "makespan")(np.maximum(stopped, replay.first_arrival)))
    late = np.maximum(stopped, replay.arrival[replay.workflow_of])
    return float(cost_function(replay, objective)(late))  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_reward_is_what_the_cost_grew_until_the_next_choice(objective: str) -> None:
    compared = 0
    for seed in range(1230, 1245):
        replay = draw_wide(seed, due=True)
        runner, trajectory = one_run(replay, objective, random_checkpoint(seed=seed), seed)
        finish = runner.inner.simulator.state.task["finish"]
        moments = [*trajectory.time.tolist(), float(finish.max())]
        cost = [grown_cost(replay, objective, finish, m) for m in moments]
        np.testing.assert_allclose(trajectory.reward, -np.diff(cost), rtol=1e-9, atol=1e-9)
        compared += len(trajectory)
    assert compared > 100


def test_sampled_runs_are_valid_and_record_only_legal_choices() -> None:
    waits = 0
    for seed in range(1250, 1275):
        replay = draw_wide(seed)
        checkpoint = random_checkpoint(seed=seed, wait=True, margin=0.0, strength=1.0)
        runner, t = one_run(replay, "makespan", checkpoint, seed)
        log = decisions(runner.inner.simulator.schedule("sampled"))
        counts = np.diff(t.row_ptr)
        assert (counts + t.can_wait > 1).all()
        assert (t.action <= counts).all()
        assert t.can_wait[t.action == counts].all()
        chosen = [-1 if t.action[d] == counts[d] else int(t.task[t.row_ptr[d] + t.action[d]]) for d in range(len(t))]
        remaining = iter(log)
        for entry in zip(t.time.tolist(), chosen, strict=True):  # in the log, in this order
            assert entry in remaining
        assert t.length == len(log)
        waits += chosen.count(-1)
        np.testing.assert_array_equal(t.workflow, replay.workflow_of[t.task])
        assert sorted(t.start_order.tolist()) == list(range(len(replay)))
        np.testing.assert_array_equal(replay.workflow_of[t.start_order], replay.workflow_of)
    assert waits > 30


def test_the_start_order_is_that_in_which_tasks_took_their_last_instance() -> None:
    several = 0
    for seed in range(1275, 1290):
        replay = draw_wide(seed)
        replay = replay.with_options(replace(replay.options, max_wait=math.inf))
        runner, t = one_run(replay, "makespan", random_checkpoint(seed=seed), seed)
        log = runner.inner.simulator.schedule("sampled").decision_task.tolist()
        last = {task: k for k, task in enumerate(log)}
        for w in range(len(replay.workflows)):
            first, end = replay.workflow_ptr[w], replay.workflow_ptr[w + 1]
            known = int(runner.inner.tracker.started[w])  # the last look came before the last decisions
            wanted = sorted((k for k in range(first, end) if k in last), key=last.__getitem__)
            assert t.start_order[first : first + known].tolist() == wanted[:known]
            assert sorted(t.start_order[first:end].tolist()) == list(range(first, end))
            assert len(wanted) - known < 3
            several += known > 2
        for d in range(len(t)):
            row = t.row_ptr[d]
            begun = [k for k, at in last.items() if k >= 0 and replay.workflow_of[k] == t.workflow[row]]
            assert 0 <= t.started[row] <= len(begun)
    assert several > 10


def test_without_wait_in_the_network_no_run_waits_by_choice() -> None:
    for seed in range(1275, 1285):
        replay = draw_wide(seed)
        _, t = one_run(replay, "makespan", random_checkpoint(seed=seed, wait=False), seed)
        assert (t.action < np.diff(t.row_ptr)).all()


def test_recording_changes_no_decision_and_seeds_repeat() -> None:
    differ = 0
    for seed in range(1285, 1300):
        replay = draw_wide(seed)
        checkpoint = random_checkpoint(seed=seed)
        runner, first = one_run(replay, "makespan", checkpoint, 5)
        log = decisions(runner.inner.simulator.schedule("sampled"))
        _, again = one_run(replay, "makespan", checkpoint, 5)
        assert same(first, again)
        blind = sampled([runner], checkpoint, [[5]], record=False)[0][0]
        assert len(blind) == 0
        assert blind.cost == first.cost
        assert decisions(runner.inner.simulator.schedule("sampled")) == log
        differ += not same(first, one_run(replay, "makespan", checkpoint, 6)[1])
    assert differ > 5


@pytest.mark.parametrize("encoder", ["none", "gnn"])
def test_collected_runs_do_not_depend_on_threads_or_on_the_runners_history(encoder: str) -> None:
    checkpoint = random_checkpoint(seed=1, encoder=encoder, wait=True, margin=0.5)
    replays = [draw_wide(seed) for seed in range(1300, 1308)]
    seeds = [[10 * k + s for s in range(3)] for k in range(len(replays))]
    alone = sampled(network_runners([EpisodeRunner(r, "flow_time") for r in replays]), checkpoint, seeds)
    runners = network_runners([EpisodeRunner(r, "flow_time") for r in replays])
    for threads in (2, 1, 4):
        found = sampled(runners, checkpoint, seeds, threads=threads)
        assert all(same(a, b) for x, y in zip(alone, found, strict=True) for a, b in zip(x, y, strict=True))
    base, head, embed = checkpoint.base, *compiled(checkpoint)
    np.testing.assert_array_equal(
        evaluate(runners, base, head, embed, threads=1), evaluate(runners, base, head, embed, threads=2)
    )


def test_a_runner_forgets_the_encoder_of_the_network_before() -> None:
    one, two = random_checkpoint(seed=1, encoder="gnn", strength=1.0), random_checkpoint(seed=2, strength=1.0)
    for seed in range(1320, 1330):
        used, fresh = (NetworkEpisodeRunner(EpisodeRunner(draw_wide(seed, tasks=60), "flow_time")) for _ in range(2))
        evaluate([used], one.base, *compiled(one))
        assert evaluate([used], two.base, *compiled(two)) == evaluate([fresh], two.base, *compiled(two))


@pytest.mark.parametrize("encoder", ["none", "gnn"])
def test_greedy_runs_and_runs_without_heat_are_the_policys_own(encoder: str) -> None:
    for seed in range(1310, 1318):
        replay = draw_wide(seed)
        checkpoint = random_checkpoint(seed=seed, encoder=encoder)
        runner = NetworkEpisodeRunner(EpisodeRunner(replay, "makespan"))
        cost = evaluate([runner], checkpoint.base, *compiled(checkpoint))[0]
        log = decisions(schedule_with(replay, checkpoint))
        assert decisions(runner.inner.simulator.schedule("greedy")) == log
        cold = sampled([runner], checkpoint, [[3]], temperature=1e-9)[0][0]
        assert cold.cost == cost
        assert decisions(runner.inner.simulator.schedule("cold")) == log


def test_actions_are_drawn_with_their_probabilities() -> None:
    rows = [Task(f"{k}", 1.0 + k, {"cpu": 1.0 + k % 2}) for k in range(4)]
    replay = replay_of(Cluster.pooled({"cpu": 2.0}), Workflow.from_tasks("w", rows))
    checkpoint = random_checkpoint(seed=2, strength=0.6)
    runner = NetworkEpisodeRunner(EpisodeRunner(replay, "makespan"))
    runs = sampled([runner], checkpoint, [list(range(4000))], temperature=1.5)[0]
    first = np.array([t.task[t.action[0]] for t in runs])
    from dagsched.policies.learned.trained import NetworkRunner, make_runner

    simulator = Simulator(replay)
    policy = make_runner(simulator, checkpoint, "ppo")
    assert isinstance(policy, NetworkRunner)
    simulator.advance()
    tasks, logits = policy.logits()
    chance = np.exp((logits - logits.max()) / 1.5)
    chance /= chance.sum()
    assert chance.max() < 0.9
    for task, p in zip(tasks, chance, strict=True):
        assert abs((first == task).mean() - p) < 4 * np.sqrt(p * (1 - p) / len(runs)) + 1e-3


def test_the_record_grows_with_the_run() -> None:
    rows = [Task(f"{k}", 1.0 + k % 7, {"cpu": 1.0}) for k in range(300)]
    replay = replay_of(Cluster.pooled({"cpu": 3.0}), Workflow.from_tasks("w", rows))
    runner, t = one_run(replay, "makespan", random_checkpoint(seed=3), 1)
    assert len(t) == 299
    assert (np.diff(t.row_ptr)[:230] > 50).all()
    again = sampled([runner], random_checkpoint(seed=3), [[1]])[0][0]
    assert same(t, again)


SCRIPT = """
import hashlib
import numpy as np
from tests.features.replays import draw_wide
from tests.learn.test_evolve import SMALL, SUITE, TRAIN, START, evolve
from tests.learn.test_rollout import sampled
from tests.policies.nets import random_checkpoint
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.rollout import network_runners

digest = hashlib.sha256()
for progress in evolve(START, TRAIN, [EpisodeRunner(SUITE.replay("validation", 0), "makespan")], SMALL):
    digest.update(progress.weights.tobytes())
runners = network_runners([EpisodeRunner(draw_wide(s), "slo") for s in range(3)])
for runs in sampled(runners, random_checkpoint(seed=1), [[1, 2]] * 3):
    for t in runs:
        digest.update(t.x.tobytes() + t.z.tobytes() + t.action.tobytes() + t.reward.tobytes() + t.start_order.tobytes())
print(digest.hexdigest())
"""


def test_results_do_not_depend_on_the_hash_seed() -> None:
    root = Path(__file__).resolve().parents[2]
    found = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=root, env=environment, capture_output=True, text=True, check=True
        )
        found.add(run.stdout.strip())
    assert len(found) == 1
    assert len(found.pop()) == 64
