"""Statistics against values computed by hand or by a slow twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dagsched.evaluate.statistics import (
    Interval,
    compare_values,
    holm,
    interquartile_mean,
    paired_bootstrap,
    performance_profile,
    ratios_to_best,
    size_class,
    slices,
    wilcoxon_p,
    win_tie_loss,
)

NAN = math.nan


def test_the_mean_effect_weighs_workloads_equally_whatever_their_replays() -> None:
    interval = paired_bootstrap(np.array([0.0, 0.0, 0.0, 1.0]), np.array([0, 0, 0, 1]))
    assert interval.mean == pytest.approx(0.5)
    assert (interval.unit, interval.count) == ("workloads", 2)


def test_order_of_cells_does_not_matter_for_the_mean() -> None:
    effect, workload = np.array([1.0, 2.0, 3.0, 7.0]), np.array([0, 1, 0, 1])
    assert paired_bootstrap(effect, workload).mean == pytest.approx((2 + 4.5) / 2)


def test_one_replay_has_no_interval() -> None:
    assert paired_bootstrap(np.array([0.3]), np.array([0])) == Interval(0.3, None, None, "none", 1)


def test_one_workload_resamples_its_replays() -> None:
    interval = paired_bootstrap(np.arange(20.0), np.zeros(20, int))
    assert (interval.unit, interval.count) == ("replays", 20)
    assert interval.low is not None
    assert interval.high is not None
    assert 4 < interval.low < 9.5 < interval.high < 15


def test_the_same_input_gives_the_same_interval_and_another_seed_another() -> None:
    effect, workload = np.random.default_rng(0).normal(size=30), np.repeat(np.arange(10), 3)
    assert paired_bootstrap(effect, workload) == paired_bootstrap(effect, workload)
    assert paired_bootstrap(effect, workload, seed=1) != paired_bootstrap(effect, workload)


def test_equal_effects_give_a_degenerate_interval() -> None:
    interval = paired_bootstrap(np.full(6, 0.25), np.array([0, 0, 1, 1, 1, 2]))
    assert interval.low == pytest.approx(0.25)
    assert interval.high == pytest.approx(0.25)


def test_two_workloads_give_the_whole_range() -> None:
    interval = paired_bootstrap(np.array([0.0, 1.0]), np.array([0, 1]))
    assert (interval.low, interval.high) == pytest.approx((0.0, 1.0))
    assert not interval.excludes_zero


@pytest.mark.parametrize(("workloads", "replays"), [(12, 1), (15, 1), (15, 4), (1, 15)])
def test_intervals_cover_the_truth_about_as_often_as_they_say(workloads: int, replays: int) -> None:
    rng = np.random.default_rng(7)
    hits = 0
    index = np.repeat(np.arange(workloads), replays)
    for trial in range(300):
        centre = rng.normal(0, 1, workloads) if workloads > 1 else np.zeros(1)
        effect = 0.4 + centre[index] + rng.normal(0, 1, len(index))
        interval = paired_bootstrap(effect, index, seed=trial, resamples=400)
        assert interval.low is not None
        assert interval.high is not None
        hits += interval.low <= 0.4 <= interval.high
    assert 0.915 <= hits / 300 <= 0.99


def test_ragged_replays_never_mix_workloads() -> None:
    effect, workload = np.array([1.0, 1.0, 1.0, 5.0]), np.array([0, 0, 0, 1])
    interval = paired_bootstrap(effect, workload)
    assert (interval.low, interval.high) == pytest.approx((1.0, 5.0))


def test_wilcoxon_exact_values() -> None:
    # Six positive differences: two-sided p = 2 / 2^6.
    effect = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert wilcoxon_p(effect, np.arange(6)) == pytest.approx(2 / 64)
    assert wilcoxon_p(-effect, np.arange(6)) == pytest.approx(2 / 64)
    # Ranks 1 and 2 negative: W = 3; subsets of {1..4} with sum <= 3: {}, 1, 2, 3, 12 = 5 of 16.
    assert wilcoxon_p(np.array([-1.0, -2.0, 3.0, 4.0]), np.arange(4)) == pytest.approx(10 / 16)


def test_wilcoxon_uses_workload_means_and_counts_ties_as_no_effect() -> None:
    assert wilcoxon_p(np.array([1.0, -1.0, 2.0, -2.0]), np.array([0, 0, 1, 1])) == 1.0
    assert wilcoxon_p(np.full(8, 1e-12), np.arange(8)) == 1.0
    assert wilcoxon_p(np.array([0.5]), np.array([0])) == 1.0


def test_holm_steps_down() -> None:
    # Sorted .01 .02 .03 .04: x4 .04, x3 .06, x2 .06, x1 .06 (never below the previous).
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx((0.06, 0.04, 0.06, 0.06))
    adjusted = holm([0.6, NAN, 0.7])
    assert adjusted[0] == 1.0
    assert math.isnan(adjusted[1])
    assert holm([]) == ()


def test_ties_are_relative() -> None:
    left, right = np.array([1.0, 1.0, 1e9, 0.0, 2.0]), np.array([1.0 + 1e-10, 1.1, 1e9 + 0.5, 0.0, 1.0])
    assert compare_values(left, right).tolist() == [0, -1, 0, 0, 1]


def test_win_tie_loss_counts_only_common_replays() -> None:
    values = np.array([[1.0, 2.0], [3.0, 3.0], [5.0, 4.0], [1.0, 9.0], [1.0, NAN]])
    table = win_tie_loss(values)
    assert table[0, 1].tolist() == [2, 1, 1]
    assert table[1, 0].tolist() == [1, 1, 2]
    assert table[0, 0].tolist() == [0, 5, 0]
    assert win_tie_loss(values, direction=1)[0, 1].tolist() == [1, 1, 2]


def test_ratios_to_best() -> None:
    values = np.array([[2.0, 4.0, NAN], [0.0, 1.0, 0.0], [NAN, NAN, NAN]])
    assert ratios_to_best(values)[0].tolist() == [1.0, 2.0, math.inf]
    assert ratios_to_best(values)[1].tolist() == [1.0, math.inf, 1.0]
    assert np.isnan(ratios_to_best(values)[2]).all()
    assert ratios_to_best(np.array([[0.5, 0.25, 0.0]]), direction=1).tolist() == [[1.0, 2.0, math.inf]]


def test_performance_profile_is_the_share_within_a_factor() -> None:
    ratios = np.array([[1.0, 1.5], [2.0, 1.0], [1.0, np.inf], [np.nan, np.nan]])
    profile = performance_profile(ratios, np.array([1.0, 1.5, 2.0, 10.0]))
    assert profile[0] == pytest.approx([2 / 3, 2 / 3, 1, 1])
    assert profile[1] == pytest.approx([1 / 3, 2 / 3, 2 / 3, 2 / 3])


def test_interquartile_mean_cuts_a_quarter_at_each_end() -> None:
    assert interquartile_mean(np.array([100.0, 1.0, 2.0, 3.0])) == pytest.approx(2.5)
    assert interquartile_mean(np.array([1.0, 2.0, 9.0])) == pytest.approx(4.0)
    assert interquartile_mean(np.array([5.0, NAN])) == 5.0
    assert math.isnan(interquartile_mean(np.array([NAN])))


def test_slices() -> None:
    masks = slices([size_class(n) for n in (10, 50, 12)])
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "up to 30 tasks": [True, False, True],
        "31 to 100 tasks": [False, True, False],
    }
    assert slices(["a", "a"]) == {}
    assert [size_class(n) for n in (30, 31, 100, 300, 1000, 1001)] == [
        "up to 30 tasks",
        "31 to 100 tasks",
        "31 to 100 tasks",
        "101 to 300 tasks",
        "301 to 1000 tasks",
        "over 1000 tasks",
    ]
