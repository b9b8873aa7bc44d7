"""No policy sees realised durations or future arrivals (semantics.md, "Leak test")."""

from __future__ import annotations

import gc
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import PolicyError
from dagsched.features.linear import start_weights
from dagsched.policies.base import PlainRun
from dagsched.policies.learned.explain import explain
from dagsched.policies.registry import list_policies, make_policy
from dagsched.replay import Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.simulator import Simulator
from dagsched.simulator.observation import ObservedState
from tests.policies.leak import check_leak, other_future
from tests.twin import NumpyDice, draw_replay

SPECS = {
    "sampling": "sampling:n=8",
    "cp-sat": "cp-sat:workers=1:time_limit=0.5",
    "evolved-sample": "evolved-sample:n=4",
    "ppo-sample": "ppo-sample:n=4",
    "mcts": "mcts:simulations=4",
    "mcts-rules": "mcts-rules:simulations=4",
}
BATCH_ONLY = ("sampling", "cp-sat", "evolved-sample", "ppo-sample")
# Learned policies need a checkpoint for each kind of replay: more of them in tests/policies/test_learned_leak.py.
FREE = [info.name for info in list_policies() if info.name not in BATCH_ONLY and info.kind != "learned"]
DEFAULTS = [info.name for info in list_policies() if info.name not in BATCH_ONLY]
MODES = {
    "closed batch": {"batch": True, "exact": True},
    "open batch": {"batch": True, "exact": True, "closed": False},
    "open batch, unknown error": {"batch": True, "exact": False, "closed": False},
    "stream": {"batch": False, "exact": True},
    "stream, unknown or lognormal error": {"batch": False, "exact": False},
    "arrivals known beforehand": {"batch": False, "exact": True, "closed": True},
}


@pytest.mark.parametrize("name", FREE)
def test_no_decision_depends_on_what_is_not_revealed_yet(name: str) -> None:
    compared = sum(check_leak(draw_replay(NumpyDice(seed)), SPECS.get(name, name), seed) for seed in range(40))
    assert compared > 100


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", DEFAULTS)
def test_no_policy_with_defaults_sees_the_future_in_any_mode(name: str, mode: str) -> None:
    """Also where all that is there arrives at once and nobody said that nothing follows."""
    for seed in range(70, 80):
        replay = draw_replay(NumpyDice(seed), tasks=24, **MODES[mode])
        if name in ("evolved", "ppo") and not fits(replay, name):
            continue
        check_leak(replay, SPECS.get(name, name), seed)


def fits(replay: Replay, name: str) -> bool:
    """Whether a shipped checkpoint is for this replay."""
    try:
        make_policy(name).begin(Simulator(replay))
    except PolicyError:
        return False
    return True


RULE = """
import numpy as np

def score(state):
    known = len(state.estimate) + len(state.parent_idx) + state.deadline[np.isfinite(state.deadline)].sum()
    mode = {"exact": 1.0, "lognormal": 2.0, "unknown": 3.0}[state.noise] + state.sigma
    return np.sin(known * mode + state.eligible * 7.0) + state.free.sum() + state.running.sum()
"""


@pytest.mark.parametrize("mode", MODES)
def test_no_function_of_ones_own_sees_the_future(mode: str, tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text(RULE)
    compared = 0
    for seed in range(80, 100):
        compared += check_leak(draw_replay(NumpyDice(seed), **MODES[mode]), f"{tmp_path}/rule.py:score", seed)
    assert compared > 50


@pytest.mark.parametrize("mode", MODES)
def test_no_explanation_tells_of_the_future(mode: str) -> None:
    """The same decision explained in another future: the same candidates, features, scores and weights."""
    compared = 0
    for seed in range(100, 120):
        replay = draw_replay(NumpyDice(seed), options=SimulationOptions(), **MODES[mode])
        weights = start_weights("srw*cp")
        one = simulate(replay, "srw*cp")
        now = float(one.decision_time[len(one.decision_time) // 3])
        other = other_future(replay, one, now, seed)
        for number in range(1, int((one.decision_time < now).sum())):
            first, second = explain(replay, weights, number), explain(other, weights, number)
            for name in ("now", "task", "score", "value", "weight"):
                assert np.array_equal(getattr(first, name), getattr(second, name)), name
            compared += 1
    assert compared > 40


@pytest.mark.parametrize("name", FREE)
def test_no_decision_depends_on_the_future_of_a_noisy_stream(name: str) -> None:
    for seed in range(50, 70):
        check_leak(draw_replay(NumpyDice(seed), batch=False, exact=False, rough=True), SPECS.get(name, name), seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", FREE)
def test_no_decision_depends_on_what_is_not_revealed_yet_on_many_replays(name: str) -> None:
    for seed in range(1000, 1400):
        check_leak(draw_replay(NumpyDice(seed), rough=seed % 2 == 0), SPECS.get(name, name), seed)


@pytest.mark.parametrize("name", ["sampling", "cp-sat"])
def test_planners_of_exact_batches_plan_from_estimates(name: str) -> None:
    if name == "cp-sat":
        pytest.importorskip("ortools")
    compared = 0
    for seed in range(40, 48):
        replay = draw_replay(NumpyDice(seed), tasks=8, batch=True, exact=True)
        try:
            compared += check_leak(replay, SPECS[name], seed) > 0
        except PolicyError:
            continue
    assert compared >= 2


class Cheat:
    """Shortest realised duration first: reads what it must not."""

    name = "cheat"
    reproducible = True

    def begin(self, simulator: Simulator) -> PlainRun:
        going = simulator.advance()

        def run(most: int) -> None:
            nonlocal going
            while going and most:
                tasks = simulator.eligible()
                if not len(tasks):
                    going = simulator.wait()
                    continue
                simulator.start(int(min(tasks, key=lambda t: simulator.truth[t].min())))
                going = self.more(simulator) or simulator.advance()
                most -= 1

        return PlainRun(run)

    @staticmethod
    def more(simulator: Simulator) -> bool:
        return len(simulator.eligible()) > 0


class Prophet(Cheat):
    """Keeps still while a workflow is yet to come."""

    name = "prophet"

    def begin(self, simulator: Simulator) -> PlainRun:
        last = float(simulator.replay.arrival[-1])
        going = simulator.advance()

        def run(most: int) -> None:
            nonlocal going
            while going and most:
                tasks = simulator.eligible()
                if not len(tasks) or (simulator.can_wait and simulator.now < last):
                    going = simulator.wait()
                    continue
                simulator.start(int(tasks[0]))
                going = self.more(simulator) or simulator.advance()
                most -= 1

        return PlainRun(run)


def caught(policy: Cheat, **kind: object) -> int:
    found = 0
    for seed in range(40):
        try:
            check_leak(draw_replay(NumpyDice(seed), **kind), policy, seed)
        except AssertionError:
            found += 1
    return found


def test_a_policy_that_reads_realised_durations_is_caught() -> None:
    assert caught(Cheat()) > 3


def test_a_policy_that_reads_future_arrivals_is_caught() -> None:
    assert caught(Prophet(), batch=False) > 3


def spied(replay: Replay) -> list[tuple[ObservedState, Simulator]]:
    simulator = Simulator(replay)
    seen = []
    going = simulator.advance()
    while going:
        state = simulator.observe()
        seen.append((state, simulator))
        if len(state.eligible):
            simulator.start(int(state.eligible[0]))
            going = len(simulator.eligible()) > 0 or simulator.advance()
        else:
            going = simulator.wait()
    return seen


@pytest.mark.parametrize("seed", range(10))
def test_the_observed_state_holds_arrived_tasks_only_and_leads_nowhere_else(seed: int) -> None:
    replay = draw_replay(NumpyDice(seed), batch=False, exact=False)
    per_task = {
        "estimate", "fastest", "demand", "instances", "unstarted", "running", "ready_time", "started", "finished",
        "arrival", "deadline", "weight", "workflow", "upward_rank", "bottom_level",
    }  # fmt: skip
    for state, _ in spied(replay):
        known = int((replay.arrival[replay.workflow_of] <= state.now).sum())
        for field in fields(ObservedState):
            value = getattr(state, field.name)
            assert isinstance(value, float | str | np.ndarray)
            if not isinstance(value, np.ndarray):
                continue
            assert not value.flags.writeable, field.name
            assert value.base is None or value.base.nbytes == value.nbytes, field.name
            assert len(value) == known or field.name not in per_task, field.name
        assert len(state.parent_ptr) == known + 1
        assert len(state.parent_idx) == state.parent_ptr[-1]
        assert (state.arrival <= state.now).all()
        assert np.array_equal(state.estimate, replay.estimate[:known])
        over = ~np.isnan(state.finished)
        assert (state.finished[over] <= state.now).all()
        assert not any(isinstance(item, Simulator | Replay) for item in gc.get_referents(state))


def test_elapsed_work_and_free_capacity_are_visible() -> None:
    replay = draw_replay(NumpyDice(3), batch=False, exact=False)
    for state, _ in spied(replay):
        held = np.zeros_like(state.free).sum(axis=0)
        np.add.at(held, np.arange(len(held)), (state.demand * state.running[:, None]).sum(axis=0))
        np.testing.assert_allclose((state.capacity - state.free).sum(axis=0), held, atol=1e-9)
