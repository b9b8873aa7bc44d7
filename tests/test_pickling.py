"""Public objects survive pickling, copying and deep copying, and stay what cannot be changed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dagsched
from dagsched import Task, Workflow, Workload
from dagsched.cluster import cluster_named
from dagsched.errors import PolicyError
from dagsched.policies.base import Policy
from dagsched.policies.registry import list_policies, make_policy
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator import validate

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
pytestmark = pytest.mark.parametrize("way", list(WAYS))


def replay() -> Replay:
    tasks = [Task("a", 3), Task("b", 2, parents=["a"], edge_bytes={"a": 1e8}), Task("c", 4, {"cpu": 4}), Task("d", 1)]
    return Replay.build(Workload("w", (Workflow.from_tasks("w", tasks),)), cluster_named("small"))


def writable(value: object) -> list[str]:
    arrays = {name: getattr(value, name, None) for name in type(value).__slots__}
    return [name for name, array in arrays.items() if isinstance(array, np.ndarray) and array.flags.writeable]


def test_values_come_back_equal_and_cannot_be_written_to(way: str) -> None:
    before = replay()
    digest, schedule = before.digest, simulate(before, "heft")
    again = WAYS[way](before)
    assert again.digest == digest
    assert writable(again) == writable(again.workflows[0]) == []
    assert WAYS[way](before.workflows[0]).digest == before.workflows[0].digest
    assert WAYS[way](before.workload).digest == before.workload.digest
    assert WAYS[way](before.cluster).to_dict() == before.cluster.to_dict()
    assert not WAYS[way](before.cluster).bandwidth.flags.writeable
    for found in (WAYS[way](schedule), simulate(again, "heft")):
        validate(found)
        assert found.start.tolist() == schedule.start.tolist()
    assert writable(WAYS[way](schedule)) == writable(schedule)


def test_a_comparison_says_the_same(way: str) -> None:
    result = dagsched.compare_baselines(replay().workload, ["heft", "fcfs"], cluster="small", noise=0.1, replays=2)
    again = WAYS[way](result)
    assert again.verdict == result.verdict
    assert again.rows == result.rows


@pytest.mark.parametrize("name", [info.name for info in list_policies()])
def test_every_policy_schedules_the_same(way: str, name: str) -> None:
    if name == "cp-sat":
        pytest.importorskip("ortools")
    policy = make_policy(f"{name}:simulations=4" if name.startswith("mcts") else name)
    again = WAYS[way](policy)
    assert again.name == policy.name
    assert outcome(again) == outcome(policy)


def outcome(policy: Policy) -> str | list[float]:
    """Starts, or why the policy refuses."""
    try:
        schedule = simulate(replay(), policy)
    except PolicyError as refused:
        return str(refused)
    validate(schedule)
    return schedule.start.tolist()


def test_a_rule_of_a_file_is_pickled_by_its_place(way: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def rule(state):\n    return -state.fastest[state.eligible]\n")
    policy = make_policy(f"{file}:rule")
    if way == "pickle":
        assert b"dagsched_user_rule" not in pickle.dumps(policy)
    assert simulate(replay(), WAYS[way](policy)).start.tolist() == simulate(replay(), policy).start.tolist()
