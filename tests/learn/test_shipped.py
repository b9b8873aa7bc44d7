"""What ships in checkpoints/default: readable, confirmed against the rules, chosen where its index says."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.generate.suite import Suite
from dagsched.learn.checkpoint import load_checkpoint
from dagsched.learn.choice import read_index
from dagsched.policies.learned import DEFAULT
from dagsched.replay import Replay
from dagsched.shipped import shipped
from dagsched.simulator import simulate
from dagsched.simulator.validate import validate

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
    from dagsched.learn.arena import cost_function

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


def test_the_priority_for_streams_is_found_by_the_nature_of_the_replay() -> None:
    replay: Replay = Suite.load("online-layered").replay("test", 0)
    assert simulate(replay, "evolved").decision_task.tolist() == (
        simulate(replay, "evolved:objective=slo").decision_task.tolist()
    )
