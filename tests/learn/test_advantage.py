import numpy as np
import pytest

from dagsched.learn.advantage import gae, group_advantage, rewards_to_go, standardise, time_indexed_advantage


def test_rewards_to_go_by_hand():
    assert rewards_to_go(np.array([1.0, 2.0, 4.0]), 0.5).tolist() == [3.0, 4.0, 4.0]


def test_gae_by_hand():
    # errors: 1 + 0.5*2 - 1 = 1; 2 + 0.5*3 - 2 = 1.5; 4 - 3 = 1.  gamma lambda = 0.4
    advantage, target = gae(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]), 0.5, 0.8)
    assert advantage == pytest.approx([1 + 0.4 * 1.9, 1.5 + 0.4, 1.0])
    assert target == pytest.approx([1 + 0.4 * 1.9 + 1, 1.9 + 2, 4.0])


def test_gae_with_lambda_one_is_rewards_to_go_minus_value():
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=20), rng.normal(size=20)
    advantage, target = gae(reward, value, 0.9, 1.0)
    assert target == pytest.approx(rewards_to_go(reward, 0.9))
    assert advantage == pytest.approx(target - value)


def test_gae_with_lambda_zero_is_the_one_step_error():
    reward, value = np.array([1.0, 2.0]), np.array([5.0, 7.0])
    assert gae(reward, value, 0.9, 0.0)[0] == pytest.approx([1 + 0.9 * 7 - 5, 2 - 7])


def test_groups_of_very_different_scale_weigh_the_same():
    cost = np.array([1.0, 2.0, 3.0, 1e6, 3e6, 2e6])
    found = group_advantage(cost, np.array([0, 0, 0, 1, 1, 1]))
    step = 1 / np.sqrt(2 / 3)
    assert found == pytest.approx([step, 0, -step, step, -step, 0])


def test_a_group_without_differences_teaches_nothing():
    assert group_advantage(np.array([2.0, 2.0, 5.0]), np.array([0, 0, 1])).tolist() == [0.0, 0.0, 0.0]
    assert standardise(np.ones(3)).tolist() == [0.0, 0.0, 0.0]


def test_time_indexed_baseline_by_hand():
    # at t = 0 both still cost 4 and 6 (mean 5); at t = 2 the first costs 2, the second (between 6 and 4) 5: mean 3.5;
    # at t = 4 the first is past its last decision (2), the second costs 4: mean 3
    found = time_indexed_advantage(
        [np.array([-4.0, -2.0]), np.array([-6.0, -4.0])], [np.array([0.0, 2.0]), np.array([0.0, 4.0])], np.array([7, 7])
    )
    raw = np.array([1.0, 1.5, -1.0, -1.0])
    assert np.concatenate(found) == pytest.approx(raw / raw.std())


def test_time_indexed_baseline_with_constant_rates_equals_the_group_advantage():
    """Makespan: the reward is -dt, so every decision of a trajectory differs from the mean by the final cost alone."""
    time = [np.linspace(0, 4, 9), np.linspace(0, 3, 5)]
    to_go = [-(5.0 - time[0]), -(7.0 - time[1])]
    found = time_indexed_advantage(to_go, time, np.array([0, 0]))
    assert found[0][:7] == pytest.approx(found[0][0])  # up to the other's last decision
    assert found[1] == pytest.approx(found[1][0])
    assert found[0][0] == pytest.approx(-found[1][0])


def test_of_decisions_at_one_time_the_last_counts():
    found = time_indexed_advantage(
        [np.array([-4.0, -4.0]), np.array([-6.0, -5.0])], [np.array([0.0, 0.0]), np.array([0.0, 0.0])], np.array([0, 0])
    )
    raw = np.array([0.5, 0.5, -1.5, -0.5])
    assert np.concatenate(found) == pytest.approx(raw / raw.std())


def test_trajectories_without_decisions_have_no_advantage():
    found = time_indexed_advantage([np.zeros(0), np.array([-1.0])], [np.zeros(0), np.array([1.0])], np.array([0, 0]))
    assert [len(a) for a in found] == [0, 1]
