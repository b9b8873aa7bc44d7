"""What compiles first: only what the policies need, in as many processes as the caller may start."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dagsched import run_policy
from dagsched.evaluate import compiling
from dagsched.policies.registry import make_policy
from tests.handmade import random_replay


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Sequence[run_policy.Part], int]]:
    calls: list[tuple[Sequence[run_policy.Part], int]] = []
    monkeypatch.setattr(run_policy, "compile_parts", lambda parts, processes: calls.append((parts, processes)))
    return calls


@pytest.mark.parametrize("processes", [1, 2])
def test_a_planner_is_compiled_beforehand_in_the_processes_that_are_allowed(
    monkeypatch: pytest.MonkeyPatch, called: list[tuple[Sequence[run_policy.Part], int]], processes: int
) -> None:
    """A script without a guard asks for one process, and must not be run again by a second one."""
    said: list[str] = []
    nothing_compiled(monkeypatch)
    compiling.ensure_compiled(said.append, processes, ("srw", "mcts:simulations=4"), ("tree",))
    rules = ("critical-path", "min-min", "evolved", "ppo")
    assert called == [([rules, ("mcts@tree", "peft", "srw")], processes)]
    assert said == ["compiling the simulator and the planner: this happens once and takes one to two minutes"]


def test_without_a_planner_rules_and_what_is_trained_are_shared_out(
    monkeypatch: pytest.MonkeyPatch, called: list[tuple[Sequence[run_policy.Part], int]]
) -> None:
    nothing_compiled(monkeypatch)
    said: list[str] = []
    compiling.ensure_compiled(said.append, 2, ("srw", "network", "evolved-sample:n=4"))
    compiling.ensure_compiled(said.append, 2, ("srw",))
    assert [parts for parts, _ in called] == [
        [("peft", "critical-path", "evolved"), ("srw", "min-min", "ppo")],
        [("peft", "critical-path"), ("srw", "min-min")],
    ]
    assert said == ["compiling the simulator: this happens once and takes about a minute"] * 2


def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "is_compiled", lambda: False)
    monkeypatch.setattr(compiling, "is_learned_compiled", lambda name: False)
    monkeypatch.setattr(compiling, "is_search_compiled", lambda mode: False)


def test_only_the_kinds_of_search_that_are_missing_are_compiled(
    monkeypatch: pytest.MonkeyPatch, called: list[tuple[Sequence[run_policy.Part], int]]
) -> None:
    monkeypatch.setattr(compiling, "is_compiled", lambda: True)
    monkeypatch.setattr(compiling, "is_learned_compiled", lambda name: True)
    monkeypatch.setattr(compiling, "is_search_compiled", lambda mode: mode == "tree")
    said: list[str] = []
    compiling.ensure_compiled(said.append, 2, ("mcts",), ("tree",))
    assert (said, called) == ([], [])
    compiling.ensure_compiled(said.append, 2, ("mcts",), ("race",))
    assert called == [([("mcts@race",)], 2)]


def test_what_is_compiled_is_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(compiling, "is_compiled", lambda: True)
    monkeypatch.setattr(compiling, "is_learned_compiled", lambda name: True)
    monkeypatch.setattr(compiling, "is_search_compiled", lambda mode: True)
    compiling.ensure_compiled(said.append, 2, ("mcts",))
    compiling.ensure_compiled(said.append, 2, ("srw",))
    assert said == []


def test_the_search_that_a_replay_needs_is_known_beforehand() -> None:
    stream = random_replay(1)
    assert run_policy.modes_of(make_policy("mcts"), stream) == ("tree",)
    assert run_policy.modes_of(make_policy("mcts:search=race:placement=best-fit"), stream) == ("race",)
    assert run_policy.modes_of(make_policy("mcts:search=plan"), stream) == ()  # it refuses this replay
    assert run_policy.modes_of(make_policy("srw"), stream) == ()


def test_numba_still_has_the_step_that_parts_leave_out() -> None:
    """Were it called otherwise, everything would work as before, and compile a third longer."""
    from numba.core.codegen import CPUCodeLibrary

    assert callable(CPUCodeLibrary._optimize_final_module)
