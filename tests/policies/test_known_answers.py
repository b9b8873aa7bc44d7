"""Nothing beats a proven optimum, nothing beats the lower bound, and the published means come out."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dagsched import load
from dagsched.graph import lower_bound
from dagsched.policies.registry import list_policies
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator import validate
from tests.data import data_files, data_id, needs_data

pytestmark = needs_data
RULES = [info.name for info in list_policies() if info.kind in ("rule", "list")]
J30 = data_files("psplib/j30/*.sm")
STG = [f for f in data_files("stg/*/*.stg", "stg/*/*.STG") if re.search("optimum", str(f)) is None]


def check(file: Path, rules: list[str]) -> int:
    """Every rule's schedule is valid and no better than optimum or bound; returns how many optima were known."""
    known = 0
    for workload in load(file):
        replay = Replay.build(workload)
        bound = lower_bound(replay)
        least = bound if workload.known_makespan is None else workload.known_makespan
        known += workload.known_makespan is not None
        assert bound <= least * (1 + 1e-9)
        for rule in rules:
            schedule = simulate(replay, rule)
            validate(schedule)
            assert schedule.makespan >= least * (1 - 1e-9), (rule, schedule.makespan, least)
    return known


@pytest.mark.parametrize("file", J30[::12], ids=data_id)
def test_no_rule_beats_the_proven_optimum_of_a_j30_instance(file: Path) -> None:
    assert check(file, RULES) == 1


@pytest.mark.parametrize("file", STG[::14], ids=data_id)
def test_no_rule_beats_the_proven_optimum_of_an_stg_instance(file: Path) -> None:
    check(file, RULES)


@pytest.mark.slow
@pytest.mark.parametrize("file", J30, ids=data_id)
def test_no_rule_beats_the_proven_optimum_of_any_j30_instance(file: Path) -> None:
    assert check(file, RULES) == 1


@pytest.mark.slow
@pytest.mark.parametrize("file", STG, ids=data_id)
def test_no_rule_beats_the_proven_optimum_of_any_stg_instance(file: Path) -> None:
    check(file, RULES)


@pytest.mark.slow
@pytest.mark.parametrize("file", data_files("psplib/j60/*.sm", "psplib/j120/*.sm"), ids=data_id)
def test_no_rule_beats_the_lower_bound_of_a_larger_psplib_instance(file: Path) -> None:
    for workload in load(file):
        replay = Replay.build(workload)
        for rule in RULES:
            assert simulate(replay, rule).makespan >= lower_bound(replay) * (1 - 1e-9), rule


@lru_cache
def tpch(size: int) -> tuple[Replay, ...]:
    return tuple(Replay.build(w) for file in data_files(f"tpch-batch/tpch-{size}.jsonl") for w in load(file))


@pytest.mark.parametrize(("size", "published"), [(50, 9821), (100, 16914), (150, 24430)])
def test_critical_path_on_tpch_is_within_2_percent_of_the_published_mean_ms(size: int, published: float) -> None:
    mean = 1e3 * np.mean([simulate(replay, "critical-path").makespan for replay in tpch(size)])
    assert mean == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(("size", "measured"), [(50, 8925), (100, 15846), (150, 23437)])
def test_cp_demand_on_tpch_is_within_half_a_percent_of_the_measured_mean_ms(size: int, measured: float) -> None:
    mean = 1e3 * np.mean([simulate(replay, "cp+demand").makespan for replay in tpch(size)])
    assert mean == pytest.approx(measured, rel=0.005)
