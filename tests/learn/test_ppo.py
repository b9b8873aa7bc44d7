import numpy as np
import pytest
import torch

from dagsched.learn.ppo import (
    advantages_of,
    approximate_kl,
    evaluate_in_parts,
    policy_loss,
    ppo_update,
    value_loss,
)
from dagsched.learn.ppo_settings import PPOSettings
from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import make_batch
from dagsched.nn.config import NetworkConfig
from tests.learn.made import made_replay, made_trajectory

torch.set_num_threads(1)


def test_policy_loss_by_hand():
    log_ratio = torch.log(torch.tensor([1.5, 0.5, 1.5, 0.5, 1.1]))
    advantage = torch.tensor([1.0, 1.0, -1.0, -1.0, 2.0])
    # min(1.5, 1.2), min(0.5, 0.8), min(-1.5, -1.2), min(-0.5, -0.8), 2.2
    assert policy_loss(log_ratio, advantage, 0.2).item() == pytest.approx(-(1.2 + 0.5 - 1.5 - 0.8 + 2.2) / 5)


def test_no_gradient_where_the_ratio_is_clipped():
    log_ratio = torch.log(torch.tensor([1.5, 0.5, 1.1])).requires_grad_()
    policy_loss(log_ratio, torch.tensor([1.0, -1.0, 1.0]), 0.2).backward()
    assert log_ratio.grad.tolist() == pytest.approx([0.0, 0.0, -1.1 / 3])


def test_value_loss_by_hand():
    value, old, target = torch.tensor([3.0, 0.0]), torch.tensor([1.0, 1.0]), torch.tensor([2.0, 0.5])
    assert value_loss(value, old, target, None).item() == pytest.approx(0.5 * (1 + 0.25) / 2)
    # clipped to 1.5 and 0.5: errors 0.25 and 0, the larger ones are 1 and 0.25
    assert value_loss(value, old, target, 0.5).item() == pytest.approx(0.5 * (1 + 0.25) / 2)
    # the value has reached the target, but from too far away: clipped 1.5 is 0.5 off
    assert value_loss(torch.tensor([2.0]), old[:1], target[:1], 0.5).item() == pytest.approx(0.5 * 0.25)


def test_approximate_kl_by_hand():
    assert approximate_kl(torch.log(torch.tensor([2.0, 0.5]))).item() == pytest.approx(0.25)
    assert approximate_kl(torch.zeros(3)).item() == 0.0


def test_schedules_follow_the_steps():
    settings = PPOSettings(temperature=2.0, temperature_end=0.5, learning_rate=1.0)
    assert [settings.temperature_at(p) for p in (0.0, 0.5, 1.0, 2.0)] == pytest.approx([2.0, 1.0, 0.5, 0.5])
    assert [settings.learning_rate_at(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.55, 0.1])


def test_the_classic_parameter_set_is_accepted():
    PPOSettings(gamma=0.99, lam=0.95, learning_rate=3e-4, clip=0.2, entropy_weight=0.01, value_weight=0.5,
                max_grad_norm=0.5, minibatch=128, epochs=10, advantage="gae")  # fmt: skip


@pytest.mark.parametrize("kind", ["group", "time", "gae"])
def test_advantages_are_one_number_a_decision(kind):
    reward = [np.array([-1.0, -2.0]), np.array([-4.0]), np.zeros(0)]
    time = [np.array([0.0, 1.0]), np.array([0.5]), np.zeros(0)]
    value = [np.zeros(2), np.zeros(1), np.zeros(0)]
    advantage, target = advantages_of(
        reward, time, np.array([3.0, 4.0, 5.0]), np.array([0, 0, 0]), value, PPOSettings(advantage=kind, lam=1.0)
    )
    assert target.tolist() == [-3.0, -2.0, -4.0]
    assert len(advantage) == 3
    assert advantage[0] > advantage[2] or kind == "time"


def setting(seed=0):
    torch.manual_seed(seed)
    replay = made_replay((8, 5))
    trajectories = [made_trajectory(replay, 40, k) for k in range(3)]
    model = ActorCritic(NetworkConfig(encoder="none", hidden=16, hidden2=16))
    return model, make_batch(trajectories)


def test_updates_raise_the_probability_of_better_actions():
    model, batch = setting()
    advantage = torch.from_numpy(np.random.default_rng(1).choice([-1.0, 1.0], len(batch)).astype(np.float32))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    settings = PPOSettings(minibatch=32, epochs=10, target_kl=None, entropy_weight=0.0)
    before, _ = evaluate_in_parts(model, batch, 7, 1.0)
    stats = ppo_update(
        model, optimiser, batch, advantage, torch.zeros(len(batch)), settings, np.random.default_rng(0), temperature=1.0
    )
    after, _ = evaluate_in_parts(model, batch, 50, 1.0)
    change = after - before
    assert change[advantage > 0].mean() > 0.05
    assert change[advantage < 0].mean() < -0.05
    assert stats.n_updates == 10 * round(len(batch) / 32)
    assert 0 <= stats.clip_fraction <= 1
    assert stats.entropy_loss < 0


def test_updates_end_beyond_the_target_kl():
    model, batch = setting()
    optimiser = torch.optim.Adam(model.parameters(), 0.1)
    settings = PPOSettings(minibatch=20, epochs=10, target_kl=0.001)
    stats = ppo_update(
        model, optimiser, batch, torch.randn(len(batch)), torch.zeros(len(batch)), settings, np.random.default_rng(0),
        temperature=1.0,
    )  # fmt: skip
    assert 1 <= stats.n_updates < 10


def test_the_value_learns_what_is_to_come():
    model, batch = setting()
    target = batch.g[:, 0] * 2 - 1
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    settings = PPOSettings(minibatch=64, epochs=10, target_kl=None)
    for _ in range(15):
        ppo_update(
            model,
            optimiser,
            batch,
            torch.zeros(len(batch)),
            target,
            settings,
            np.random.default_rng(0),
            temperature=1.0,
        )
    _, value = evaluate_in_parts(model, batch, 64, 1.0)
    assert (value - target).var() < 0.2 * target.var()
