"""Names and second names of policies."""

from __future__ import annotations

import pytest

from dagsched.errors import PolicyError
from dagsched.evaluate.analysis.ablation import first_planner
from dagsched.evaluate.compare import compare_baselines
from dagsched.policies.info import ALIASES, parse_spec
from dagsched.policies.registry import list_policies, make_policy
from dagsched.search.options import with_options
from tests.policies.test_listing import random_replay


@pytest.mark.parametrize(("second", "first"), ALIASES.items())
def test_a_second_name_is_the_same_policy_under_the_spec_as_given(second: str, first: str) -> None:
    assert first in {info.name for info in list_policies()}
    assert second not in {info.name for info in list_policies()}
    assert parse_spec(f"{second}:n=3") == (first, {"n": "3"})
    made = make_policy(second)
    assert type(made) is type(make_policy(first))
    assert made.name == second


def test_results_keep_the_spec_as_it_was_given() -> None:
    replay = random_replay(6, workflows=2)
    found = compare_baselines(
        replay.workload, ["planner:simulations=4", "mcts:simulations=4", "srw"], cluster=replay.cluster
    )
    rows = {row["policy"]: row["makespan"] for row in found.rows}
    assert list(rows) == ["planner:simulations=4", "mcts:simulations=4", "srw"]
    assert rows["planner:simulations=4"] == rows["mcts:simulations=4"]
    assert first_planner(rows) == "planner:simulations=4"
    assert with_options("planner", {"simulations": 4}) == "planner:simulations=4"


def test_a_misspelt_second_name_is_recognised() -> None:
    with pytest.raises(PolicyError, match="did you mean 'planner'"):
        make_policy("plannr")
