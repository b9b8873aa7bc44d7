from __future__ import annotations

import numpy as np
import pytest

from dagsched.features.builder import node_features
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, NODE_FEATURES, TASK_NAMES
from dagsched.replay import PLACEMENTS, Replay, SimulationOptions
from dagsched.simulator import Simulator, validate
from tests.features.replays import draw_wide
from tests.features.twin import FeatureTwin
from tests.features.watch import Watch, expected, play
from tests.twin import NumpyDice, draw_replay


def assert_named(names: tuple[str, ...], found: np.ndarray, wanted: object, where: str) -> None:
    wanted = np.asarray(wanted, np.float64).reshape(found.shape)
    wrong = ~np.isclose(found, wanted, rtol=1e-9, atol=1e-9)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise AssertionError(
            f"{where}: {names[column]} of row {row}: kernel {found[row, column]!r}, meaning {wanted[row, column]!r}"
        )


def compare(replay: Replay, seed: int, share: float = 1.0) -> int:
    """Random play; returns how many candidates were compared."""
    twin, watch, simulator = FeatureTwin(replay), Watch(replay), Simulator(replay)
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in play(simulator, seed):
        found = watch.observe(simulator)
        if rng.random() > share:
            continue
        where = f"replay {seed} at {simulator.now:g} s"
        eligible, rows, general, groups = expected(twin, simulator)
        assert found[0].tolist() == eligible, where
        assert_named(TASK_NAMES, found[1], rows, where)
        assert_named(GLOBAL_NAMES, found[2][None], general, where)
        assert_named(GROUP_NAMES, found[3], groups, where)
        compared += len(eligible)
    validate(simulator.schedule("random"))
    return compared


@pytest.mark.parametrize("seed", range(60))
def test_every_feature_is_what_the_schema_says(seed: int) -> None:
    compare(draw_wide(seed), seed)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_features_of_the_chosen_node_are_right_under_every_placement(placement: str) -> None:
    options = SimulationOptions(placement=placement, decision_interval=1.5, max_wait=4.0, instances_per_decision=2)
    assert sum(compare(draw_wide(seed, options=options), seed) for seed in range(100, 104)) > 40


@pytest.mark.parametrize("batch", [True, False])
def test_features_are_right_on_one_pooled_node(batch: bool) -> None:
    assert sum(compare(draw_wide(seed, batch=batch, pooled=True), seed) for seed in range(200, 205)) > 40


def test_features_are_right_on_the_replays_of_the_simulators_own_twin() -> None:
    assert sum(compare(draw_replay(NumpyDice(seed)), seed) for seed in range(300, 310)) > 100


def test_the_random_replays_reach_what_features_depend_on() -> None:
    replays = [draw_wide(seed) for seed in range(60)]
    assert {len(r.cluster.resources) for r in replays} == {1, 2, 3, 4, 5, 6}
    assert any(r.has_transfers and not r.is_batch for r in replays)
    assert any(r.options.decision_interval > 0 for r in replays)
    assert any(r.options.max_wait < np.inf for r in replays)
    assert any(r.milestone.any() for r in replays)
    assert any((r.instances > 1).any() and len(r.cluster.groups) > 1 for r in replays)
    assert any((r.cluster.capacity == 0).any() for r in replays)
    assert any(np.isfinite(r.deadline).any() for r in replays)
    assert {r.noise.kind for r in replays} == {"exact", "lognormal", "unknown"}


def test_node_features_are_the_task_features_at_the_workflows_arrival() -> None:
    compared = 0
    for seed in range(400, 412):
        replay = draw_wide(seed)
        twin, simulator, found = FeatureTwin(replay), Simulator(replay), node_features(replay)
        for _ in play(simulator, seed):
            moment = twin.look(simulator.observe())
            for task in moment.eligible:
                if twin.arrival[twin.workflow[task]] == simulator.now:
                    row = moment.task(task, 0, 0.0)
                    np.testing.assert_allclose(found[task], [row[n] for n in NODE_FEATURES], rtol=1e-9, atol=1e-9)
                    compared += 1
        validate(simulator.schedule("random"))
    assert compared > 50
