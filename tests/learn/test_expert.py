from __future__ import annotations

import json
from itertools import pairwise
from math import log

import numpy as np
import pytest
import torch

from dagsched.cost import cost_function
from dagsched.features import schema
from dagsched.learn.config_sections import ExpertSection
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.expert import LookaheadRun, advantages, all_action_loss, learn, look_ahead
from dagsched.learn.lookahead import Lookahead
from dagsched.learn.rollout import NetworkEpisodeRunner, collect
from dagsched.learn.train_config import TrainConfig
from dagsched.learn.trainer import Trainer
from dagsched.models.checkpoint import Checkpoint
from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import make_batch
from dagsched.nn.config import NetworkConfig
from dagsched.policies.learned.trained import LinearRunner, compiled, make_runner
from dagsched.replay import Replay, SimulationOptions
from dagsched.schedule import WAIT
from dagsched.simulator import Simulator, kernel
from tests.features.replays import draw_wide
from tests.learn.made import made_replay, made_trajectory
from tests.learn.test_trainer import SMALL, same, weights
from tests.policies.nets import random_checkpoint

torch.set_num_threads(1)
OBJECTIVES = ("makespan", "flow_time", "slo")
EVERY = ExpertSection(decisions=1000, actions=64, arrivals=None, temperature=1.0)


def runner_with(replay: Replay, checkpoint: Checkpoint, objective: str = "flow_time") -> NetworkEpisodeRunner:
    runner = NetworkEpisodeRunner(EpisodeRunner(replay, objective))  # type: ignore[arg-type]
    head, embed = compiled(checkpoint)
    runner.set_policy(checkpoint.base, head, embed and (lambda r: embed(r, runner.inner.constants)))
    return runner


def test_the_loss_by_hand() -> None:
    # decision 0: policy 3/4, 1/4 on a uniform base, a third action not tried; decision 1: uniform on base 2/3, 1/3
    logits = torch.tensor([log(3), 0.0, 7.0, 0.0, 0.0], dtype=torch.float64)
    base = torch.tensor([0.0, 0.0, 9.0, log(2), 0.0], dtype=torch.float64)
    advantage = torch.tensor([0.0, -2.0, np.nan, 0.0, 1.0], dtype=torch.float64)
    found = all_action_loss(logits, base, advantage, torch.tensor([0, 0, 0, 1, 1]), 2)
    expected = (0.25 * -2 + 0.5 * 1) / 2
    divergence = (0.75 * log(1.5) + 0.25 * log(0.5) + 0.5 * log(0.75) + 0.5 * log(1.5)) / 2
    entropy = (-0.75 * log(0.75) - 0.25 * log(0.25) + log(2)) / 2
    assert [float(value) for value in found] == pytest.approx([expected, divergence, entropy])


def test_actions_that_were_not_tried_get_no_gradient() -> None:
    logits = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    advantage = torch.tensor([0.0, -1.0, np.nan, np.nan], dtype=torch.float64)
    terms = all_action_loss(logits, logits.detach(), advantage, torch.zeros(4, dtype=torch.int64), 1)
    sum(terms).backward()  # type: ignore[arg-type, union-attr]
    assert logits.grad is not None
    assert logits.grad.tolist() == pytest.approx([0.25, -0.25, 0.0, 0.0])


def looked(rows: list[float], waits: list[float], tasks: int) -> LookaheadRun:
    return LookaheadRun(made_trajectory(made_replay((tasks,)), decisions=len(waits)), np.array(rows), np.array(waits))  # type: ignore[arg-type]


def test_longer_runs_weigh_more_and_outliers_are_clipped() -> None:
    rows, waits = advantages([looked([0.0, 1.0], [np.nan], 2), looked([0.0, 1.0], [2.0], 4)])
    scale = np.sqrt((0 + 2**2 + 0 + 4**2 + 8**2) / 5)
    assert rows == pytest.approx(np.array([0, 2, 0, 4]) / scale)
    assert waits == pytest.approx(np.array([np.nan, 8]) / scale, nan_ok=True)
    rows, _ = advantages([looked([0.0] * 99 + [1.0], [np.nan], 2)])
    assert rows[-1] == 5.0


def forced(replay: Replay, checkpoint: Checkpoint, before: int, action: int, *, network: bool) -> np.ndarray:
    """Finish times if the greedy network starts so many tasks, then the action is taken, then the same goes on."""
    simulator = Simulator(replay)
    policy = make_runner(simulator, checkpoint, "ppo")
    policy.run(before)
    while not len(simulator.eligible()):
        simulator.advance()
    if not network:
        policy = LinearRunner(simulator, checkpoint.base)
    simulator.wait() if action == WAIT else simulator.start(action)
    if not simulator.done:
        policy.run()
    return simulator.state.task["finish"]


@pytest.mark.parametrize("encoder", ["none", "gnn"])
@pytest.mark.parametrize("network", [True, False])
def test_a_look_ahead_costs_what_the_action_costs_in_a_run_of_its_own(network: bool, encoder: str) -> None:
    tried = 0
    for seed in range(700, 716):
        replay = draw_wide(seed, options=SimulationOptions())
        checkpoint = random_checkpoint(seed=seed, wait=True, encoder=encoder)
        objective = OBJECTIVES[seed % 3]
        runner = runner_with(replay, checkpoint, objective)
        before = len(replay) // 3
        runner.begin()
        simulator = runner.inner.simulator
        if not runner.go_on(before, record=False) or not (len(simulator.eligible()) or simulator.advance()):
            continue
        tasks, logits = runner.logits()
        actions = np.append(tasks, WAIT)[np.isfinite(logits)]
        found = Lookahead(runner, None, network=network).costs(actions)
        cost = cost_function(replay, objective)  # type: ignore[arg-type]
        alone = [cost(forced(replay, checkpoint, before, int(action), network=network)) for action in actions]
        assert found == pytest.approx(alone, rel=1e-9, abs=1e-12)
        tried += len(actions)
    assert tried > 20


def test_without_later_arrivals_only_arrived_workflows_count() -> None:
    replay = draw_wide(706, batch=False, workflows=6, exact=True, options=SimulationOptions())
    runner = runner_with(replay, random_checkpoint())
    runner.begin()
    simulator = runner.inner.simulator
    simulator.advance()
    assert simulator.state.counter[kernel.ARRIVED] < len(replay.arrival)
    first = simulator.eligible()[:1]
    costs = [Lookahead(runner, arrivals, network=False).costs(first)[0] for arrivals in (0, 1, None)]
    assert 0 < costs[0] < costs[1] <= costs[2]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_cost_of_the_first_workflows_is_their_part_of_the_whole(objective: str) -> None:
    replay = made_replay((5, 3, 4))
    finish = np.random.default_rng(0).uniform(1, 9, len(replay))
    cost = cost_function(replay, objective)  # type: ignore[arg-type]
    last = int(replay.workflow_ptr[2])
    late = np.concatenate([finish[:last], np.full(len(replay) - last, finish[:last].max())])
    if objective == "flow_time":
        share = replay.weight[2] / replay.weight.sum()
        path = 1 / (cost(late + 1) - cost(late))
        assert cost(finish[:last]) == pytest.approx(cost(late) - share * late[-1] / path)
    else:
        assert cost(finish[:last]) == pytest.approx(cost(late))


def test_looking_ahead_leaves_the_run_as_it_is() -> None:
    decisions = 0
    for seed in range(720, 735):
        options = SimulationOptions(max_wait=2.0) if seed % 3 == 0 else None
        replay = draw_wide(seed, options=options)
        checkpoint = random_checkpoint(seed=seed, wait=seed % 2 == 0)
        runner = runner_with(replay, checkpoint)
        run = look_ahead(runner, EVERY, seed)
        plain = collect([runner], checkpoint.base, *compiled(checkpoint), seeds=[[seed]])[0][0]
        assert run.trajectory.cost == plain.cost
        assert run.trajectory.length == plain.length
        assert len(run.rows) == run.trajectory.row_ptr[-1]
        assert len(run.waits) == len(run.trajectory)
        assert set(run.trajectory.time) <= set(plain.time)
        decisions += len(run.trajectory)
    assert decisions > 30


def test_the_greedy_action_is_always_tried_and_costs_nothing_more() -> None:
    settings = ExpertSection(decisions=1000, actions=2, arrivals=None, temperature=0.01)
    run = look_ahead(runner_with(draw_wide(703, batch=True), random_checkpoint()), settings, 1)
    ends = run.trajectory.row_ptr
    assert len(run.trajectory) > 3
    for d in range(len(run.trajectory)):
        rows = run.rows[ends[d] : ends[d + 1]]
        assert (~np.isnan(rows)).sum() == 2
        assert (rows == 0).any()
        assert np.isnan(run.waits[d])


def test_learning_makes_the_cheapest_action_the_likeliest() -> None:
    config = NetworkConfig(encoder="none", features=schema.TASK_NAMES, hidden=32, hidden2=16, scale=0.1)
    torch.manual_seed(0)
    model = ActorCritic(config)
    trajectory = made_trajectory(made_replay((9,)), decisions=12, columns=len(schema.TASK_NAMES))
    batch = make_batch([trajectory])
    rows = torch.from_numpy(np.random.default_rng(0).permutation(len(batch.x)) / len(batch.x))
    settings = ExpertSection(epochs=50, minibatch=6, kl_weight=0.0, entropy_weight=0.0)
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    stats = [
        learn(model, optimiser, batch, rows, torch.full((12,), np.nan), settings, np.random.default_rng(k))
        for k in range(4)
    ]
    assert stats[-1].policy_gradient_loss < stats[0].policy_gradient_loss
    assert stats[-1].n_updates == 100
    logits = model(batch).logits.detach()
    ends = batch.row_ptr.tolist()
    best = [rows[a:b].argmin() == logits[a:b].argmax() for a, b in pairwise(ends)]
    assert np.mean(best) > 0.9


def test_a_heavy_divergence_weight_keeps_the_base_priority() -> None:
    config = NetworkConfig(encoder="none", features=schema.TASK_NAMES, hidden=8, hidden2=8, scale=1.0)
    model = ActorCritic(config)
    batch = make_batch([made_trajectory(made_replay((9,)), decisions=12, columns=len(schema.TASK_NAMES))])
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=len(batch.x)))
    settings = ExpertSection(epochs=20, kl_weight=1e4)
    learn(model, torch.optim.Adam(model.parameters(), 1e-3), batch, rows, torch.full((12,), np.nan), settings,
          np.random.default_rng(0))  # fmt: skip
    out = model(batch)
    assert (out.logits - out.base)[: len(batch.x)].abs().max() < 0.1


def expert(**changes: object) -> TrainConfig:
    section = {"steps": 4, "instances": 2, "decisions": 20, "actions": 4, "minibatch": 64}
    return TrainConfig.model_validate({**SMALL, "stages": ["evolve", "expert"], "expert": section, **changes})


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path) -> None:
    assert Trainer(expert(), out=tmp_path / "whole").run().finished
    trainer = Trainer(expert(), out=tmp_path / "run")
    assert not trainer.run(lambda: trainer.state.stage == 1 and trainer.state.step == 3).finished
    assert Trainer(expert(threads=2), out=tmp_path / "other").run().finished
    assert Trainer(expert(), out=tmp_path / "run", resume=True).run().finished
    for other in ("run", "other"):  # also whatever the number of threads
        for name in ("best", "checkpoints/step_7"):
            assert same(weights(tmp_path / "whole" / name), weights(tmp_path / other / name))


def test_the_stage_logs_what_it_learns_from(tmp_path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    Trainer(expert(stages=["expert"]), out=tmp_path / "run").run()
    events = EventAccumulator(str(tmp_path / "run" / "tb"))
    events.Reload()
    assert {
        "rollout/ep_rew_mean", "rollout/ep_len_mean", "label/gain", "label/improved", "train/loss",
        "train/policy_gradient_loss", "train/kl_base", "train/entropy_loss", "train/learning_rate", "train/n_updates",
    } <= set(events.Tags()["scalars"])  # fmt: skip
    assert all(event.value >= 0 for event in events.Scalars("label/gain"))


def test_expert_iteration_gets_below_the_rule_it_started_from(tmp_path) -> None:
    config = expert(
        start="fcfs",
        stages=["expert"],
        network={"encoder": "none", "hidden": 16, "hidden2": 16},
        expert={"steps": 6, "instances": 4, "learning_rate": 0.003, "kl_weight": 0.0, "minibatch": 128},
        validation={"instances": 12, "confirm": 3, "every": 6, "samples": 2, "rules": ["fcfs"]},
    )
    trainer = Trainer(config, out=tmp_path / "run")
    assert trainer.run().best["ratio_best_rule"] < 0.97
    assert json.loads((tmp_path / "run" / "eval" / "validation.json").read_text())[-1]["kind"] == "ppo"


def test_the_learning_rate_falls_to_a_tenth() -> None:
    settings = ExpertSection(learning_rate=1.0)
    assert [settings.learning_rate_at(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.55, 0.1])
    assert ExpertSection(learning_rate=1.0, anneal=False).learning_rate_at(1.0) == 1.0
