"""What compiles first: everything where a planner takes part, in as many processes as the caller may start."""

from __future__ import annotations

import pytest

from dagsched import run_policy
from dagsched.evaluate import compiling


@pytest.mark.parametrize("processes", [1, 2])
def test_a_planner_is_compiled_beforehand_in_the_processes_that_are_allowed(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """A script without a guard asks for one process, and must not be run again by a second one."""
    called: list[int] = []
    said: list[str] = []
    monkeypatch.setattr(run_policy, "warmup", called.append)
    monkeypatch.setattr(compiling, "is_planner_compiled", lambda: False)
    compiling.ensure_compiled(said.append, processes, ("srw", "mcts:simulations=4"))
    assert called == [processes]
    assert said == ["compiling the simulator and the planner: this happens once and takes two to four minutes"]


def test_what_is_compiled_is_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(compiling, "is_compiled", lambda: True)
    monkeypatch.setattr(compiling, "is_planner_compiled", lambda: True)
    compiling.ensure_compiled(said.append, 2, ("mcts",))
    compiling.ensure_compiled(said.append, 2, ("srw",))
    assert said == []
