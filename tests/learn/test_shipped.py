"""What ships in checkpoints/default: readable, confirmed against the rules, chosen where its index says."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched import load
from dagsched.generate.suite import Suite
from dagsched.models.checkpoint import load_checkpoint
from dagsched.models.index import read_index
from dagsched.policies.learned.trained import DEFAULT
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.shipped import shipped
from dagsched.simulator.validate import validate
from tests.data import DATA, needs_data

FOLDER = shipped(DEFAULT)
ENTRIES = read_index(FOLDER).checkpoints


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.path)
def test_a_shipped_checkpoint_beat_every_rule_it_met_on_instances_that_chose_nothing(entry) -> None:
    checkpoint = load_checkpoint(FOLDER / entry.path)
    assert checkpoint.objective == entry.objective
    assert checkpoint.card["ship"] is True
    assert checkpoint.card["confirm"]["instances"] >= 100
    assert checkpoint.card["confirm"]["high"] < 0, "the interval of its gain must lie below 0"
    assert checkpoint.card["command"].startswith("dagsched train workloads/train/")
    if entry.policy == "ppo":
        assert checkpoint.network is not None


@pytest.mark.parametrize(
    ("suite", "objective", "rule"),
    [("rcpsp-120", "makespan", "lft"), ("online-layered", "flow_time", "srw*cp"), ("online-layered", "slo", "srw*cp")],
)
def test_the_shipped_priority_beats_its_rule_on_the_test_split(suite: str, objective: str, rule: str) -> None:
    from dagsched.cost import cost_function

    source = Suite.load(suite)
    learned, plain = [], []
    for index in range(6 if suite.startswith("online") else 60):
        replay = source.replay("test", index)
        cost = cost_function(replay, objective)  # type: ignore[arg-type]
        for spec, costs in ((f"evolved:objective={objective}", learned), (rule, plain)):
            schedule = simulate(replay, spec)
            validate(schedule)
            costs.append(cost(schedule.task_finish))
    assert np.mean(learned) < np.mean(plain)


@pytest.mark.parametrize("objective", ["flow_time", "slo"])
def test_the_priority_for_streams_is_that_of_the_declared_objective(objective: str) -> None:
    replay: Replay = Suite.load("online-layered", [f"objective={objective}"]).replay("test", 0)
    chosen, named = simulate(replay, "evolved"), simulate(replay, f"evolved:objective={objective}")
    other = simulate(replay, "evolved:objective=" + ("slo" if objective == "flow_time" else "flow_time"))
    assert chosen.decision_task.tolist() == named.decision_task.tolist() != other.decision_task.tolist()


@needs_data
@pytest.mark.parametrize(
    ("build", "network", "critical_path", "lft", "evolved"),
    [("mbed-pools-8", 8.721, 8.250, 8.263, 9.779), ("mbed-cpu-16", 4.831, 4.825, 6.462, 5.105)],
)
def test_on_a_real_build_the_documents_say_what_is_so(
    build: str, network: float, critical_path: float, lft: float, evolved: float
) -> None:
    """README.md, docs/results.md and the cards: what was gained on synthetic builds does not carry over to it."""
    replay = Replay.build(load(DATA / f"builds/{build}.json")[0])
    found = []
    for policy in ("ppo:checkpoint=" + str(shipped("checkpoints/builds")), "critical-path", "lft", "evolved"):
        schedule = simulate(replay, policy)
        validate(schedule)
        found.append(schedule.makespan)
    assert found == pytest.approx([network, critical_path, lft, evolved], abs=5e-4)
    page = shipped("checkpoints").parent / "docs" / "results.md"
    if page.is_file():
        text = page.read_text(encoding="utf-8")
        assert all(f"{value:.3f}" in text for value in (network, critical_path, lft, evolved))


@pytest.mark.parametrize("path", ["../builds", *(entry.path for entry in ENTRIES)])
def test_a_card_says_where_its_data_comes_from(path: str) -> None:
    card = load_checkpoint(FOLDER / path).card
    assert "synthetic" in card["origin"] or "recorded" in card["origin"]
    assert card["elsewhere"]
    names = dict.fromkeys(suite["name"] for suite in card["data"]["suites"])
    if not any(name.startswith("tpch-") for name in names):  # these want profiles that do not ship
        assert card["origin"] == "; ".join(f"{name}: {Suite.load(name).origin}" for name in names)
