"""Options of the environment and of reset: what they choose, and how wrong ones are named."""

from __future__ import annotations

import pytest

from dagsched.env import WorkflowEnv
from dagsched.errors import ConfigError
from dagsched.replay import Replay
from tests.bench.data import four_groups, layered
from tests.handmade import random_replay


def test_reset_takes_a_replay_or_an_index() -> None:
    env = WorkflowEnv(suite="homog", split="validation", observation="graph")
    env.reset(options={"index": 2})
    assert env.replay.workload.name.endswith("validation-2")
    env.reset(options={"replay": random_replay(4)})
    assert env.replay.workload.name == "random"
    with pytest.raises(ConfigError, match="index is 1000000, expected a whole number from 0 to"):
        env.reset(options={"index": 10**6})
    with pytest.raises(ConfigError, match="unknown option 'idnex'; known options: replay, index"):
        env.reset(options={"idnex": 1})
    with pytest.raises(ConfigError, match="make the environment with max_tasks=5000 or more"):
        env.reset(options={"replay": Replay.build(layered(5000, seed=1), four_groups())})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observatoin": "flat"}, "did you mean 'observation'"),
        ({"observation": "text"}, "expected flat or graph"),
        ({"objective": "profit"}, "expected one of makespan, flow_time, slo"),
        ({"base": "heft"}, "expected one of critical-path"),
        ({"max_candidates": 3}, "from 8 to"),
        ({"on_illegal": "ignore"}, "expected raise or penalise"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"suite": "buidl"}, "did you mean 'build'"),
        ({"noise": 0.2}, "noise has no meaning with a suite"),
        ({"workload": 3}, "expected a path, a Workload, a Replay"),
        ({"workload": []}, "is empty"),
        ({"suite": 3}, "suite is 3, expected a name"),
        ({"base": "ltf"}, "there is no linear rule 'ltf'; did you mean"),
        ({"workload": "workloads/wfcommons", "simulation": {"max_wiat": 3}}, "unknown option 'max_wiat'"),
        ({"normaliser": "nowhere.json"}, "cannot read the normaliser"),
        ({"render_mode": "human"}, "expected rgb_array"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WorkflowEnv(**options)
