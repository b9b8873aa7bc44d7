"""The compiled simulator and a slow plain-Python twin give exactly the same schedule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dagsched import graph
from dagsched.policies.own.function import FunctionPolicy
from dagsched.policies.registry import list_policies
from dagsched.replay import PLACEMENTS, Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.schedule import Schedule
from dagsched.simulator import Simulator, validate
from dagsched.simulator.observation import ObservedState
from tests.twin import (
    RULE_NAMES,
    WAIT,
    HypothesisDice,
    Machine,
    NumpyDice,
    assert_same,
    draw_replay,
    kernel_schedule,
    run_twin,
)
from tests.twin.rules import Facts


def relaxed(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
    )


@st.composite
def replays(draw: Callable[..., int], **fixed: object) -> Replay:
    return draw_replay(HypothesisDice(draw), **fixed)


def test_the_twin_covers_every_rule_of_the_registry() -> None:
    assert {info.name for info in list_policies() if info.kind == "rule"} == set(RULE_NAMES)


@pytest.mark.parametrize("seed", range(12))
def test_every_rule_schedules_like_its_twin(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed))
    for rule in RULE_NAMES:
        assert_same(kernel_schedule(replay, rule), run_twin(replay, rule))


@pytest.mark.parametrize("seed", range(100, 106))
def test_every_rule_schedules_like_its_twin_when_times_round(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed), rough=True)
    for rule in RULE_NAMES:
        assert_same(kernel_schedule(replay, rule), run_twin(replay, rule))


@pytest.mark.slow
@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("block", range(10))
def test_every_rule_schedules_like_its_twin_on_many_replays(block: int, rough: bool) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        replay = draw_replay(NumpyDice(seed), rough=rough)
        for rule in RULE_NAMES:
            assert_same(kernel_schedule(replay, rule), run_twin(replay, rule))


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("cap", [0, 1])
def test_every_placement_places_like_its_twin(placement: str, cap: int) -> None:
    for seed in range(200, 208):
        options = SimulationOptions(placement=placement, instances_per_decision=cap)  # type: ignore[arg-type]
        replay = draw_replay(NumpyDice(seed), options=options)
        assert_same(kernel_schedule(replay, "critical-path", 7), run_twin(replay, "critical-path", 7))


@relaxed(30)
@given(replay=replays(tasks=12), rule=st.sampled_from(RULE_NAMES))
def test_any_rule_on_any_replay_schedules_like_its_twin(replay: Replay, rule: str) -> None:
    assert_same(kernel_schedule(replay, rule), run_twin(replay, rule))


@pytest.mark.slow
@relaxed(600)
@given(replay=replays(tasks=12), rule=st.sampled_from(RULE_NAMES))
def test_any_rule_on_any_replay_schedules_like_its_twin_in_many_examples(replay: Replay, rule: str) -> None:
    assert_same(kernel_schedule(replay, rule), run_twin(replay, rule))


def same(one: Schedule, other: Schedule) -> bool:
    names = ("task", "node", "count", "start", "finish", "execution", "ready", "decision_time", "decision_task")
    return all(getattr(one, n).tobytes() == getattr(other, n).tobytes() for n in names)


@pytest.mark.parametrize("seed", range(300, 306))
def test_decision_by_decision_equals_one_run_to_the_end(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed))
    for rule in RULE_NAMES:
        assert same(kernel_schedule(replay, rule), kernel_schedule(replay, rule, one_by_one=True)), rule
    for spec in ("heft", "cpop", "peft"):
        assert same(kernel_schedule(replay, spec), kernel_schedule(replay, spec, one_by_one=True)), spec


def drive(replay: Replay, decisions: list[tuple[float, int]]) -> Schedule:
    """Step a simulator from Python with start, advance and wait."""
    simulator = Simulator(replay)
    going = simulator.advance()
    for time, task in decisions:
        assert going
        assert simulator.now == time
        if task == WAIT:
            assert simulator.can_wait
            going = simulator.wait()
            continue
        assert task in simulator.eligible()
        simulator.start(task)
        if not len(simulator.eligible()) and not waits_under_guard(simulator):
            going = simulator.advance()
    assert simulator.done
    return simulator.schedule("driven")


def waits_under_guard(simulator: Simulator) -> bool:
    """Some task fits, but the guard allows only WAIT."""
    free = simulator.observe()
    ready = ~np.isnan(free.ready_time) & (free.unstarted > 0)
    room = (
        simulator.replay.cluster.capacity[free.node_group] * (1 + 1e-9)
        - simulator.replay.cluster.capacity[free.node_group]
    )
    fits = (free.demand[:, None, :] <= free.free[None, :, :] + room[None, :, :]).all(axis=2).any(axis=1)
    return bool((ready & fits & (free.demand.any(axis=1) | (free.fastest > 0))).any())


@pytest.mark.parametrize("seed", range(400, 420))
def test_stepping_from_python_with_the_twins_decisions_gives_the_twins_schedule(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed))
    for rule in ("lft", "tetris", "round-robin"):
        twin = run_twin(replay, rule)
        assert_same(drive(replay, twin.decisions), twin)


@pytest.mark.parametrize("seed", range(500, 510))
def test_what_is_eligible_agrees_with_the_twin_at_every_decision(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed))
    simulator, twin = Simulator(replay), Machine(replay)
    Facts(twin)
    going, twin_going = simulator.advance(), twin.to_decision()
    rng = np.random.default_rng(seed)
    while going:
        assert twin_going
        assert simulator.now == twin.now
        assert simulator.can_wait == twin.may_wait
        forced = twin.forced()
        legal = twin.eligible() if forced is None else [t for t in [forced] if t != WAIT]
        assert simulator.eligible().tolist() == legal
        if simulator.can_wait and (not legal or rng.random() < 0.3):
            going, twin_going = simulator.wait(), twin.wait()
            continue
        task = int(rng.choice(legal))
        simulator.start(task)
        twin.start(task)
        if not twin.eligible():
            going, twin_going = simulator.advance(), twin.to_decision()
    assert_same(simulator.schedule("random walk"), twin)
    validate(simulator.schedule("random walk"))


@pytest.mark.parametrize("seed", range(600, 610))
def test_naming_node_and_count_agrees_with_the_twin(seed: int) -> None:
    options = SimulationOptions(instances_per_decision=seed % 3)
    replay = draw_replay(NumpyDice(seed), options=options)
    simulator, twin = Simulator(replay), Machine(replay)
    Facts(twin)
    rng = np.random.default_rng(seed)
    going = simulator.advance()
    twin.to_decision()
    while going:
        task = int(rng.choice(twin.eligible()))
        node = int(rng.choice([n for n in twin.nodes if twin.fits_now(task, n)]))
        count = int(rng.integers(0, 4))
        simulator.start(task, node=node, count=count)
        twin.start(task, node, count or None)
        if not twin.eligible():
            going = simulator.advance()
            twin.to_decision()
    assert_same(simulator.schedule("named nodes"), twin)
    validate(simulator.schedule("named nodes"))


def path_end(state: ObservedState) -> np.ndarray:
    """Arrival + critical path of each eligible task's workflow."""
    level = [state.bottom_level[state.workflow == state.workflow[t]].max() for t in state.eligible]
    return state.arrival[state.eligible] + np.array(level)


@pytest.mark.parametrize("seed", range(700, 706))
def test_a_python_function_with_the_same_scores_gives_the_rules_schedule(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed))
    for rule, score in (  # not fcfs, whose ties go by the place in the source
        ("llf", lambda s: s.bottom_level[s.eligible] - np.minimum(s.deadline[s.eligible], 1e300)),
        ("edf", lambda s: -np.minimum(s.deadline[s.eligible], 1e300)),
        ("lst", lambda s: s.bottom_level[s.eligible] - path_end(s)),
    ):
        assert same(simulate(replay, FunctionPolicy(rule, score)), simulate(replay, rule)), rule


@pytest.mark.parametrize("seed", range(800, 820))
def test_graph_quantities_agree_with_plain_recursion(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed), rough=seed % 2 == 0)
    twin = Machine(replay)
    facts = Facts(twin)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(graph.fastest(replay), facts.fastest, **close)
    np.testing.assert_allclose(graph.mean_estimate(replay), facts.mean, **close)
    np.testing.assert_allclose(graph.upward_rank(replay), twin.upward_rank, **close)
    np.testing.assert_allclose(graph.bottom_level(replay), facts.bottom, **close)
    np.testing.assert_allclose(graph.mean_level(replay), facts.mean_level, **close)
    path = graph.critical_path(replay, realised=False)[replay.workflow_of]
    np.testing.assert_allclose(path, facts.path, **close)
    total, count = graph.descendants(replay, np.array(facts.fastest))
    assert count.tolist() == [len(d) for d in facts.descendants]
    np.testing.assert_allclose(total, [sum(facts.fastest[u] for u in d) for d in facts.descendants], **close)


@pytest.mark.parametrize("seed", range(900, 910))
def test_demands_that_round_still_give_valid_schedules_and_the_same_step_by_step(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed), rough=True, tenths=True)
    for rule in RULE_NAMES:
        assert same(kernel_schedule(replay, rule), kernel_schedule(replay, rule, one_by_one=True)), rule
