"""Tables of results, paired effects and the sentence that says who wins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dagsched.errors import ConfigError
from dagsched.evaluate.analysis.effects import amount_text, best_policy, effects, verdict
from dagsched.evaluate.table import ResultTable


def table_of(values: dict[str, list[float | None]], metric: str = "makespan", replays: int = 1) -> ResultTable:
    """Policy -> values over workloads (and replays of each)."""
    rows = []
    for policy, column in values.items():
        for cell, value in enumerate(column):
            workload, replay = divmod(cell, replays)
            rows.append(
                {"workload": f"w{workload}", "replay": replay, "policy": policy, "task_count": 10, metric: value}
            )
    return ResultTable.from_rows(rows)


def test_a_table_reads_texts_and_numbers_alike() -> None:
    rows = [
        {"workload": "a", "replay": "0", "policy": "p", "task_count": "12", "makespan": "3.5", "gap_known": ""},
        {"workload": "a", "replay": "0", "policy": "q", "task_count": "12", "makespan": 4, "gap_known": None},
    ]
    table = ResultTable.from_rows(rows)
    assert table.policies == ("p", "q")
    assert table.values("makespan").tolist() == [[3.5, 4.0]]
    assert table.task_count.tolist() == [12]
    assert table.has("makespan")
    assert not table.has("gap_known")


def test_rows_in_any_order_and_with_gaps() -> None:
    rows = [
        {"workload": "b", "replay": 1, "policy": "p", "makespan": 3},
        {"workload": "a", "replay": 0, "policy": "q", "makespan": 2},
        {"workload": "b", "replay": 0, "policy": "p", "makespan": 1},
    ]
    table = ResultTable.from_rows(rows)
    assert table.workload.tolist() == [0, 0, 1]
    assert np.array_equal(table.values("makespan"), [[3, math.nan], [1, math.nan], [math.nan, 2]], equal_nan=True)
    assert table.select(np.array([False, True, True])).workloads == ("b", "a")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "no results"),
        ([{"policy": "p", "replay": 0}], "no column 'workload'"),
        ([{"workload": "a", "replay": 0, "policy": "p"}] * 2, "twice"),
    ],
)
def test_bad_tables(rows: list[dict[str, object]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ResultTable.from_rows(rows)


def test_the_best_policy_has_the_least_geometric_mean() -> None:
    # Arithmetic means prefer q (5.75 against 6), ratios prefer p.
    table = table_of({"p": [1.0, 11.0], "q": [1.5, 10.0]})
    assert best_policy(table, "makespan") == "p"


def test_a_policy_that_skipped_replays_is_not_best() -> None:
    assert best_policy(table_of({"p": [1.0, None], "q": [2.0, 2.0], "r": [3.0, 3.0]}), "makespan") == "q"
    assert best_policy(table_of({"p": [None]}), "makespan") is None


def test_higher_utilisation_is_better() -> None:
    table = table_of({"p": [0.5, 0.6], "q": [0.7, 0.7]}, "utilisation_cpu")
    found = effects(table, "utilisation_cpu")
    assert [e.policy for e in found] == ["q", "p"]
    assert not found[1].relative
    assert found[1].interval is not None
    assert found[1].interval.mean == pytest.approx(-0.15)


def test_effects_of_times_are_log_ratios() -> None:
    found = effects(table_of({"p": [1.0, 2.0], "q": [2.0, 8.0]}), "makespan")
    assert found[0].interval is None
    assert found[1].interval is not None
    assert found[1].interval.mean == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert [e.mean for e in found] == [1.5, 5.0]


def test_times_with_zeros_are_compared_by_difference() -> None:
    found = effects(table_of({"p": [0.0, 2.0], "q": [1.0, 3.0]}, "mean_wait"), "mean_wait")
    assert not found[1].relative
    assert found[1].interval is not None
    assert found[1].interval.mean == pytest.approx(1.0)


def test_verdict_of_a_clear_winner() -> None:
    base = np.linspace(10, 40, 12)
    text = verdict(table_of({"q": (base * 1.1).tolist(), "p": base.tolist(), "r": (base * 1.2).tolist()}), "makespan")
    assert text.startswith("p wins on completion time: q, next, is at +10.0%")
    assert "over 12 workloads" in text


def test_verdict_says_no_significant_difference_plainly() -> None:
    rng = np.random.default_rng(0)
    base = np.linspace(10, 40, 14)
    close = base * np.exp(rng.normal(0, 0.1, 14))
    text = verdict(table_of({"p": base.tolist(), "q": close.tolist(), "r": (base * 2).tolist()}), "makespan")
    assert text.startswith("No significant difference in completion time between ")
    assert "beats the other one" in text


def test_verdict_on_a_single_replay_claims_nothing() -> None:
    text = verdict(table_of({"p": [10.0], "q": [11.0]}), "makespan")
    assert text.startswith("p has the best completion time on this single replay (q, next, is at +10.0%)")
    assert "no confidence interval" in text
    assert "share the best" in verdict(table_of({"p": [10.0], "q": [10.0], "r": [12.0]}), "makespan")


def test_verdict_with_too_few_workloads_is_not_significant() -> None:
    text = verdict(table_of({"p": [1.0, 2.0, 3.0], "q": [1.1, 2.2, 3.3]}), "makespan")
    assert text.startswith("No significant")
    assert text.endswith("but the signed-rank test needs more workloads or --replays.")


def test_verdict_when_all_tie_when_alone_and_without_deadlines() -> None:
    assert verdict(table_of({"p": [1.0, 2.0], "q": [1.0, 2.0]}), "makespan").startswith("All 2 policies tie")
    assert "Only p" in verdict(table_of({"p": [1.0, 2.0]}), "makespan")
    assert "no workflow has a deadline" in verdict(table_of({"p": [1.0], "q": [2.0]}), "slo")


def test_verdict_over_replays_of_one_workload_says_so() -> None:
    base = np.linspace(10, 40, 12)
    table = table_of({"p": base.tolist(), "q": (base * 1.1).tolist()}, replays=12)
    assert "over 12 replays of one workload" in verdict(table, "makespan")


@pytest.mark.parametrize(
    ("amount", "metric", "relative", "text"),
    [
        (math.log(1.5), "makespan", True, "+50.0%"),
        (math.log(0.9), "makespan", True, "−10.0%"),
        (1e-7, "makespan", True, "0.0%"),
        (0.123, "slo_violation_rate", False, "+12.3 points"),
        (-2.5, "mean_wait", False, "−2.5 s"),
        (0.5, "load_imbalance", False, "+0.5"),
    ],
)
def test_amounts(amount: float, metric: str, relative: bool, text: str) -> None:
    assert amount_text(amount, metric, relative=relative) == text


def test_verdict_names_the_policies_that_tie_exactly() -> None:
    base = np.linspace(10, 40, 12)
    columns = {name: base.tolist() for name in "pqrs"} | {"t": (base * 1.1).tolist(), "u": (base * 1.2).tolist()}
    text = verdict(table_of(columns), "makespan")
    assert text.startswith("p, q, r and s tie exactly on completion time, over 12 workloads; the nearest other, t, is")
    assert "+10.0%" in text
    assert "0.0% (95%" not in text.replace("10.0% (95%", "")
    assert "significant" not in text
