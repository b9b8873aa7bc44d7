"""Learned policies see neither realised durations nor future arrivals (semantics.md, "Leak test")."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.features.replays import draw_wide
from tests.policies.leak import check_leak
from tests.policies.nets import random_checkpoint, saved
from tests.twin import NumpyDice, draw_replay

CASES = {
    "evolved": ("evolved", {}),
    "ppo": ("ppo", {"wait": True, "margin": 0.5}),
    "ppo-gnn": ("ppo", {"encoder": "gnn"}),
}


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("checkpoints")
    return {
        name: f"{kind}:checkpoint={saved(folder, name, random_checkpoint(kind, seed=7, **network))}"
        for name, (kind, network) in CASES.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_no_learned_decision_depends_on_what_is_not_revealed_yet(name: str, specs: dict[str, str]) -> None:
    compared = sum(check_leak(draw_replay(NumpyDice(seed)), specs[name], seed) for seed in range(30))
    assert compared > 100


@pytest.mark.parametrize("name", CASES)
def test_no_learned_decision_depends_on_the_future_of_a_noisy_stream(name: str, specs: dict[str, str]) -> None:
    compared = sum(check_leak(draw_wide(seed, batch=False, exact=False), specs[name], seed) for seed in range(900, 930))
    assert compared > 100
