from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from dagsched.features.linear import start_weights
from dagsched.features.schema import TASK_NAMES, columns
from dagsched.generate.suite import Suite
from dagsched.learn.episode_runner import EpisodeRunner, linear_costs
from dagsched.learn.evolve import EvolveSettings, FeatureScale, Generation, evolve, reference
from dagsched.simulator import validate

SUITE = Suite.load("build")
START = start_weights("critical-path")
SMALL = EvolveSettings(steps=6, population=8, instances=6, validate_every=2, sigma=0.3)


def train() -> Callable[[int], EpisodeRunner]:
    known: dict[int, EpisodeRunner] = {}

    def runner(k: int) -> EpisodeRunner:
        if k not in known:
            known[k] = EpisodeRunner(SUITE.replay("train", k), "makespan")
        return known[k]

    return runner


TRAIN = train()


@pytest.fixture(scope="module")
def held() -> list[EpisodeRunner]:
    return [EpisodeRunner(SUITE.replay("validation", k), "makespan") for k in range(8)]


def run(held: list[EpisodeRunner], *, seed: int = 0, **changes: object) -> list[Generation]:
    values = {f: getattr(SMALL, f) for f in SMALL.__slots__} | changes
    return list(evolve(START, TRAIN, held, EvolveSettings(**values), seed=seed))


def test_a_few_generations_improve_on_the_start_rule_where_it_counts(held: list[EpisodeRunner]) -> None:
    steps = run(held)
    last = steps[-1]
    assert [p.step for p in steps] == list(range(1, 7))
    assert last.validation < 0.995
    costs = linear_costs(np.stack([START, last.weights]), held)
    assert (costs[1] / costs[0]).mean() == pytest.approx(last.validation)
    for runner in held:
        runner.run_linear(last.weights)
        validate(runner.simulator.schedule("evolved"))
    unseen = [EpisodeRunner(SUITE.replay("test", k), "makespan") for k in range(16)]
    costs = linear_costs(np.stack([START, last.weights]), unseen)
    assert (costs[1] / costs[0]).mean() < 1


def test_what_is_kept_never_gets_worse(held: list[EpisodeRunner]) -> None:
    for seed in (1, 2):
        steps = run(held, seed=seed, sigma=2.0)
        values = [1.0, *(p.validation for p in steps)]
        assert all(b <= a for a, b in pairwise(values))
        assert [p.improved for p in steps] == [b < a for a, b in pairwise(values)]


def test_the_result_follows_from_the_seed_whatever_the_threads(held: list[EpisodeRunner]) -> None:
    one, again, two, other = run(held), run(held), run(held, threads=2), run(held, seed=1)
    for a, b, c in zip(one, again, two, strict=True):
        for p in (b, c):
            assert (a.train, a.validation, a.sigma) == (p.train, p.validation, p.sigma)
            np.testing.assert_array_equal(a.weights, p.weights)
    assert not np.array_equal(one[-1].weights, other[-1].weights)


@pytest.mark.parametrize("blocks", [("base",), ("base", "typed"), ("typed", "khop")])
def test_only_features_of_the_chosen_blocks_get_weight(held: list[EpisodeRunner], blocks: tuple[str, ...]) -> None:
    last = run(held, blocks=blocks, steps=2)[-1]
    changed = {TASK_NAMES[k] for k in np.flatnonzero(last.weights != START)}
    assert changed <= {TASK_NAMES[k] for k in columns(blocks)}


def test_a_search_stops_before_the_generation_it_is_told_to(held: list[EpisodeRunner]) -> None:
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    assert [p.step for p in evolve(START, TRAIN, held, SMALL, stop=stop)] == [1, 2, 3]


def test_one_step_in_any_direction_spreads_scores_by_at_most_the_start_rules_spread() -> None:
    runners = [TRAIN(k) for k in range(4)]
    scale = FeatureScale(runners, START, ("base", "typed"))
    np.testing.assert_array_equal(scale.raw(np.zeros((1, scale.dimensions)))[0], START)
    rows = [row for runner in runners for row in runner.rows(START, 50)[0]]
    unit = np.sqrt(np.mean([(row @ START).std() ** 2 for row in rows]))
    steps = scale.raw(np.eye(scale.dimensions)) - START
    spread = np.sqrt(np.mean([(row @ steps.T).std(axis=0) ** 2 for row in rows], axis=0))
    assert (spread <= unit * (1 + 1e-6)).all()
    assert spread.max() > 0.9 * unit
    still = np.array([TASK_NAMES.index(name) for name in ("weight", "workflow_age", "path")])  # one workflow
    assert (steps[:, still] == 0).all()


def test_costs_are_compared_with_the_start_rules_own() -> None:
    runners = [TRAIN(0), TRAIN(1)]
    np.testing.assert_array_equal(reference(np.array([2.0, 4.0]), runners), [2.0, 4.0])
    np.testing.assert_array_equal(reference(np.array([0.0, 4.0]), runners), [1.0, 4.0])
    late = [EpisodeRunner(SUITE.replay("train", 0), "slo")]
    np.testing.assert_array_equal(reference(np.array([0.0, 0.5]), late), [0.25, 0.25])
