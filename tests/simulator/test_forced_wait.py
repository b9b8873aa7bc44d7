"""WAIT at ticks: one that the guard forces is taken in one step and logged once; a chosen one ends at the next tick."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.cluster import Cluster
from dagsched.env import WorkflowEnv
from dagsched.errors import InvalidScheduleError
from dagsched.evaluate.metrics import metrics
from dagsched.policies.own.function import FunctionPolicy
from dagsched.policies.registry import list_policies
from dagsched.replay import Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.schedule import WAIT
from dagsched.simulator import Simulator, validate
from dagsched.task import Task
from tests.env.play import play
from tests.handmade import changed
from tests.simulator.test_hand_worked import decisions, stream
from tests.twin import NumpyDice, draw_replay

TWO = Cluster.pooled({"cpu": 2})


def blocked(**options: float) -> Replay:
    """2 cpu: a and b hold one each to 30 and 50; wide needs both, ready at 0; s (1 cpu) arrives at 29."""
    tasks = [Task("a", 30), Task("b", 50), Task("wide", 10, {"cpu": 2})]
    return stream(("w", 0, tasks), ("x", 29, [Task("s", 20)]), cluster=TWO, **options)


ALL = [info.name for info in list_policies() if info.kind in ("rule", "list")]


@pytest.mark.parametrize("rule", ALL)
def test_ticks_of_a_microsecond_under_a_guard_log_one_wait_and_take_no_time(rule: str) -> None:
    # From 30 on one cpu is free, but wide (overdue since 28) needs both: 20 million ticks in one WAIT.
    schedule = simulate(blocked(decision_interval=1e-6, max_wait=28.0), rule)
    validate(schedule)
    assert (schedule.decision_task == WAIT).sum() <= 1
    if rule == "ljf":
        waited = [(round(t, 3), name) for t, name in decisions(schedule)]
        assert waited == [(0, "b"), (0, "a"), (30, "WAIT"), (50, "wide"), (60, "s")]
        assert metrics(schedule)["wait_actions"] == 1


def test_a_forced_wait_spans_events_and_ends_when_overdue_work_fits() -> None:
    # 3 cpu: a, b, c hold one each to 3, 4.25 and 4.5; wide needs all and is overdue from 2.5; s (arrives at 2) and t
    # (at 4) would fit at once, but are not overdue. One WAIT from 3 to 4.5, over an arrival and a finish.
    tasks = [Task("a", 3), Task("b", 4.25), Task("c", 4.5), Task("wide", 1, {"cpu": 3})]
    replay = stream(
        ("w", 0, tasks), ("x", 2, [Task("s", 4)]), ("y", 4, [Task("t", 4)]), cluster=Cluster.pooled({"cpu": 3}),
        max_wait=2.5,
    )  # fmt: skip
    schedule = simulate(replay, "ljf")
    validate(schedule)
    log = decisions(schedule)
    assert log == [(0, "c"), (0, "b"), (0, "a"), (3, "WAIT"), (4.5, "wide"), (5.5, "s"), (5.5, "t")]


def test_a_forced_wait_ends_at_the_tick_at_which_other_work_becomes_overdue() -> None:
    # Ticks of 2. At 30 wide is overdue, s (ready at 29, limit 15) is not: WAIT. At 46 s has waited for 17: it goes.
    schedule = simulate(blocked(decision_interval=2.0, max_wait=15.0), "ljf")
    validate(schedule)
    assert decisions(schedule) == [(0, "b"), (0, "a"), (30, "WAIT"), (46, "s"), (66, "wide")]


def test_a_chosen_wait_still_returns_at_the_next_tick() -> None:
    replay = stream(("w", 0, [Task("a", 3), Task("b", 5)]), cluster=TWO, decision_interval=0.5, max_wait=100.0)
    simulator = Simulator(replay)
    simulator.advance()
    simulator.start(0)
    for tick in (0.5, 1.0, 1.5):
        assert simulator.wait()
        assert simulator.now == tick


def test_stepping_by_hand_takes_a_forced_wait_in_one_step() -> None:
    simulator = Simulator(blocked(decision_interval=1e-6, max_wait=28.0))
    simulator.advance()
    for name in ("a", "b"):
        simulator.start({simulator.replay.task_name(t)[1]: t for t in range(4)}[name])
    simulator.advance()
    assert round(simulator.now, 3) == 30
    assert not len(simulator.eligible())
    assert simulator.wait()
    assert round(simulator.now, 3) == 50


# --- WAIT on an idle cluster ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "legal"),
    [
        ({}, False),
        ({"decision_interval": 1.0}, False),
        ({"max_wait": 3.0}, False),
        ({"decision_interval": 1.0, "max_wait": 3.0}, True),
    ],
)
def test_wait_on_an_idle_cluster_is_legal_only_at_ticks_under_a_guard(options: dict[str, float], legal: bool) -> None:
    simulator = Simulator(stream(("w", 0, [Task("a", 3)]), **options))
    simulator.advance()
    assert simulator.can_wait == legal
    if legal:
        assert simulator.wait()
        assert simulator.now == 1


def test_a_user_function_may_hold_work_back_on_an_idle_cluster_until_the_guard() -> None:
    # Always WAIT: the task is overdue after 3 s, so the tick at 4 s starts it. Logged: 0, 1, 2, 3.
    replay = stream(("w", 0, [Task("a", 3)]), decision_interval=1.0, max_wait=3.0)
    schedule = simulate(replay, FunctionPolicy("holding", lambda state: np.full(len(state.eligible), np.nan)))
    validate(schedule)
    assert decisions(schedule) == [(0, "WAIT"), (1, "WAIT"), (2, "WAIT"), (3, "WAIT"), (4, "a")]


def test_the_validator_refuses_an_idle_wait_without_ticks_and_guard() -> None:
    made = simulate(stream(("w", 1, [Task("a", 3)])), "fcfs")
    with pytest.raises(InvalidScheduleError, match="while nothing ran"):
        validate(changed(made, decision_time=[0.5, 1.0], decision_task=[WAIT, 0]))


def test_the_environment_offers_wait_on_an_idle_cluster_at_ticks_under_a_guard() -> None:
    for options, legal in (({"decision_interval": 1.0, "max_wait": 3.0}, 1), ({"decision_interval": 1.0}, 0)):
        env = WorkflowEnv(workload=stream(("w", 0, [Task("a", 3), Task("b", 3)]), **options))
        env.reset(seed=0)
        assert env.action_masks()[-1] == legal


def test_the_environment_takes_a_forced_wait_in_one_step_and_counts_the_time() -> None:
    schedule, rewards, _ = play(WorkflowEnv(workload=blocked(decision_interval=1e-6, max_wait=28.0)))
    assert [name for _, name in decisions(schedule)] == ["b", "a", "WAIT", "wide", "s"]
    assert len(rewards) == 5
    assert round(schedule.makespan, 3) == 80


@pytest.mark.parametrize("seed", range(1500, 1506))
def test_a_random_walk_that_may_wait_at_idle_ticks_ends_and_is_valid(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed), options=SimulationOptions(decision_interval=0.75, max_wait=6.0))
    rng = np.random.default_rng(seed)

    def score(state) -> np.ndarray:  # type: ignore[no-untyped-def]
        return rng.random(len(state.eligible)) if rng.random() < 0.6 else np.full(len(state.eligible), np.nan)

    validate(simulate(replay, FunctionPolicy("walk", score)))
