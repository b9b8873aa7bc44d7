"""The race under uncertain durations: scenarios against scipy, paired decisions against sums worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from scipy.stats import lognorm, norm

from dagsched.search import race as racing

_quantile, _below, _factor = racing.normal_quantile, racing.normal_below, racing.drawn_factor


@njit
def normal_quantile(p: float) -> float:
    return _quantile(p)


@njit
def normal_below(z: float) -> float:
    return _below(z)


@njit
def drawn_factor(quantile: float, sigma: float, least: float) -> float:
    return _factor(quantile, sigma, least)


@pytest.mark.parametrize("z", [-6.0, -3.0, -1.97, -0.5, 0.0, 1e-9, 0.7, 1.98, 4.0])
def test_normal_quantile_inverts_normal_below(z: float) -> None:
    assert normal_below(z) == pytest.approx(norm.cdf(z), rel=1e-12)
    assert normal_quantile(normal_below(z)) == pytest.approx(z, rel=1e-8, abs=1e-8)


def test_normal_quantile_has_infinite_ends() -> None:
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("least", [1e-6, 0.4, 0.9, 1.0, 1.6])
def test_a_drawn_factor_has_the_truncated_lognormal_distribution(sigma: float, least: float) -> None:
    """P(factor <= x | factor > least) = the quantile that gave x."""
    whole = lognorm(sigma, scale=math.exp(-0.5 * sigma**2))
    left = whole.sf(least)
    for quantile in (0.01, 0.25, 0.5, 0.9, 0.999):
        factor = drawn_factor(quantile, sigma, least)
        assert factor >= least
        if left > 1e-9:  # further out the tail has no digits left
            assert (whole.cdf(factor) - whole.cdf(least)) / left == pytest.approx(quantile, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("sigma", [0.0, 1e-9, 0.01, 0.5, 3.0])
@pytest.mark.parametrize("least", [1e-300, 0.5, 1.0, 7.0, 1e9])
def test_a_drawn_factor_is_never_below_what_has_elapsed(sigma: float, least: float) -> None:
    for quantile in (2.0**-54, 0.1, 0.5, 1 - 2.0**-53):
        factor = drawn_factor(quantile, sigma, least)
        assert least <= factor < math.inf


def test_without_noise_the_factor_is_one() -> None:
    assert drawn_factor(0.3, 0.0, 0.7) == 1.0
    assert drawn_factor(0.3, 0.0, 1.2) == 1.2


def scenarios(sigma: float, count: int = 400, tasks: int = 30) -> racing.Scenarios:
    made = racing.Scenarios(np.zeros((count, tasks)), np.zeros((count, tasks)), np.zeros((tasks, 1)), np.array([sigma]))
    racing.draw(made, 7, 0, tasks)
    return made


def test_scenarios_have_the_declared_mean_and_spread() -> None:
    """12,000 factors of mean 1 and log-spread 0.5: five standard errors."""
    made = scenarios(0.5)
    assert made.factor.mean() == pytest.approx(1.0, abs=5 * 0.54 / math.sqrt(12_000))
    assert np.log(made.factor).std() == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(24_000))
    assert len(np.unique(made.quantile)) == made.quantile.size


def test_a_scenario_of_a_task_does_not_depend_on_when_others_arrived() -> None:
    whole, parts = scenarios(0.5), scenarios(0.5)
    parts.quantile[:] = 0.0
    for first, last in ((0, 4), (4, 5), (5, 30)):
        racing.draw(parts, 7, first, last)
    assert whole.quantile.tobytes() == parts.quantile.tobytes()
    assert whole.factor.tobytes() == parts.factor.tobytes()


def raced(*value: list[float]) -> racing.Race:
    """Costs of the actions 10, 11, .. in whole scenarios; 10 is the base policy's."""
    race = racing.new_race(8, len(value[0]))
    racing.open_race(race, np.arange(10, 10 + len(value)))
    race.value[: len(value)] = value
    race.counter[racing.SCENARIO] = len(value[0])
    return race


def test_only_whole_scenarios_count() -> None:
    """Always 1 below the base in four scenarios; in a fifth, not finished, the action has no cost yet."""
    race = raced([10.0] * 5, [9.0] * 4 + [99.0])
    assert racing.winner(race, 1.0) == 0
    race.counter[racing.SCENARIO] = 4
    assert racing.winner(race, 1.0) == 1


def test_the_winner_must_be_better_by_z_standard_errors() -> None:
    """Differences -3 -1 -2 -2: mean -2, standard deviation sqrt(2 / 3), standard error 0.408."""
    race = raced([10.0, 10.0, 10.0, 10.0], [7.0, 9.0, 8.0, 8.0])
    assert racing.winner(race, 1.0) == 1
    assert racing.winner(race, 4.89) == 1
    assert racing.winner(race, 4.91) == 0


def test_a_doubtful_difference_leaves_the_base() -> None:
    """Differences -8 4 -6 6: mean -1, standard error sqrt((49 + 25 + 25 + 49) / 3) / 2 = 3.51."""
    race = raced([10.0, 10.0, 10.0, 10.0], [2.0, 14.0, 4.0, 16.0])
    assert racing.winner(race, 1.0) == 0
    assert racing.winner(race, 0.28) == 1
    assert racing.winner(race, 0.29) == 0


def test_the_best_mean_is_tried_and_no_other() -> None:
    """Action 1 is better for sure (-1 each time); action 2 on average (-2), but by chance: the base stays."""
    race = raced([10.0, 10.0, 10.0, 10.0], [9.0, 9.0, 9.0, 9.0], [0.0, 18.0, 2.0, 12.0])
    assert racing.winner(race, 1.0) == 0


def test_one_scenario_or_one_action_decides_nothing() -> None:
    assert racing.winner(raced([10.0], [1.0]), 1.0) == 0
    assert racing.winner(raced([10.0, 10.0]), 1.0) == 0


def test_equal_costs_leave_the_base() -> None:
    assert racing.winner(raced([10.0, 12.0], [10.0, 12.0]), 1.0) == 0


def test_halving_drops_the_worse_by_mean_difference_and_never_the_base() -> None:
    """Means against the base: +1, -2, 0, -1. Of four others two stay, best first; then one; then that one."""
    race = raced([5.0, 5.0], [6.0, 6.0], [2.0, 4.0], [5.0, 5.0], [3.0, 5.0])
    rounds = []
    for _ in range(3):
        racing.drop_worse(race)
        rounds.append(race.order[: race.counter[racing.ACTIVE]].tolist())
    assert rounds == [[0, 2, 4], [0, 2], [0, 2]]


def test_what_an_action_was_kept_for_does_not_count_in_the_last_look() -> None:
    """Far ahead in two scenarios (-9), then behind in four (+1): the base stays. Ahead there too (-1): it goes."""
    for last, expected in ((11.0, 0), (9.0, 1)):
        race = raced([10.0] * 6, [1.0] * 2 + [last] * 4)
        race.counter[racing.SCENARIO] = 2
        racing.drop_worse(race)
        assert racing.winner(race, 1.0) == 0
        race.counter[racing.SCENARIO] = 5
        assert racing.winner(race, 1.0) == 0  # three scenarios say nothing yet
        race.counter[racing.SCENARIO] = 6
        assert racing.winner(race, 1.0) == expected
