"""A user's own rule from a file: what it may return, and what is said when it is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dagsched.cluster import Cluster
from dagsched.errors import PolicyError
from dagsched.policies.own.function import FunctionPolicy
from dagsched.policies.registry import make_policy
from dagsched.run_policy import simulate
from dagsched.simulator import validate
from dagsched.simulator.observation import ObservedState
from dagsched.task import Task
from tests.handmade import one_workflow
from tests.simulator.test_hand_worked import decisions, rows

TWO = Cluster.pooled({"cpu": 2})
TASKS = [Task("a", 3), Task("b", 1), Task("c", 2)]


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.py"
    file.write_text(text)
    return file


def test_the_largest_score_runs_next(tmp_path: Path) -> None:
    file = write(tmp_path, "def shortest(state):\n    return -state.fastest[state.eligible]\n")
    replay = one_workflow(TASKS, Cluster.pooled({"cpu": 1}))
    schedule = simulate(replay, f"{file}:shortest")
    validate(schedule)
    assert [name for _, name in decisions(schedule)] == ["b", "c", "a"]
    assert schedule.policy == f"{file}:shortest"


def test_equal_scores_are_broken_like_in_every_rule() -> None:
    schedule = simulate(
        one_workflow(TASKS, Cluster.pooled({"cpu": 1})), FunctionPolicy("zero", lambda s: s.eligible * 0)
    )
    assert [name for _, name in decisions(schedule)] == ["a", "c", "b"]  # by upward rank


def test_nan_for_every_task_waits_until_the_next_event() -> None:
    # 2 cpu, one task at a time: a 0-3, c 3-5, b 5-6.
    def alone(state: ObservedState) -> np.ndarray:
        return np.full(len(state.eligible), np.nan) if state.running.any() else state.fastest[state.eligible]

    schedule = simulate(one_workflow(TASKS, TWO), FunctionPolicy("alone", alone))
    validate(schedule)
    assert rows(schedule) == [("a", 0, 1, 0, 3), ("c", 0, 1, 3, 5), ("b", 0, 1, 5, 6)]
    assert decisions(schedule) == [(0, "a"), (0, "WAIT"), (3, "c"), (3, "WAIT"), (5, "b")]


def test_nan_for_some_tasks_passes_over_them_while_others_can_run() -> None:
    # a (3 s) is passed over until it is alone: b and c at 0, and a at 1 when nothing else is left.
    def last(state: ObservedState) -> np.ndarray:
        scores = -state.fastest[state.eligible]
        return np.where((scores == -3) & (len(scores) > 1), np.nan, scores)

    schedule = simulate(one_workflow(TASKS, TWO), FunctionPolicy("last", last))
    assert decisions(schedule) == [(0, "b"), (0, "c"), (1, "a")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [float('nan')] * len(state.eligible)", "asks to wait at 0 s, but nothing is running"),
        ("return [1.0]", r"returned scores of shape \(1,\), expected \(3,\)"),
        ("return 1 / 0", "the function failed: ZeroDivisionError: division by zero"),
        ("return state.duration", "the function failed: AttributeError: .*duration"),
        ("return ['x'] * len(state.eligible)", "policy .*mine.py"),
        ("return None", "policy .*mine.py"),
    ],
)
def test_a_wrong_answer_is_one_clear_line(tmp_path: Path, body: str, message: str) -> None:
    file = write(tmp_path, f"def rule(state):\n    {body}\n")
    with pytest.raises(PolicyError, match=message) as caught:
        simulate(one_workflow(TASKS, TWO), f"{file}:rule")
    assert "\n" not in str(caught.value)


def test_the_state_cannot_be_written_to(tmp_path: Path) -> None:
    file = write(tmp_path, "def rule(state):\n    state.estimate[0] = 0\n    return state.eligible * 0.0\n")
    with pytest.raises(PolicyError, match="read-only"):
        simulate(one_workflow(TASKS, TWO), f"{file}:rule")


@pytest.mark.parametrize(
    ("text", "function", "message"),
    [
        (None, "rule", "does not exist"),
        ("x = 1\n", "rule", "has no function 'rule'"),
        ("rule = 1\n", "rule", "has no function 'rule'"),
        ("import nothing_of_that_name\n", "rule", "failed to load: ModuleNotFoundError"),
        ("def rule(:\n", "rule", "failed to load: SyntaxError"),
    ],
)
def test_an_unusable_file_is_one_clear_line(tmp_path: Path, text: str | None, function: str, message: str) -> None:
    file = tmp_path / "mine.py" if text is None else write(tmp_path, text)
    with pytest.raises(PolicyError, match=message) as caught:
        make_policy(f"{file}:{function}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("critical-pth", "did you mean 'critical-path'"),
        ("zzz", "`dagsched policies` lists them"),
        ("sjf:n=3", "unknown option 'n'; options of sjf: placement"),
        ("random:seed", "not of the form key=value"),
        ("random:seed=1:seed=2", "given twice"),
        ("random:seed=-1", "expected a whole number"),
    ],
)
def test_a_wrong_spec_is_one_clear_line(spec: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        make_policy(spec)
