import json
import os
import signal
import threading

import pytest
import yaml

from dagsched.cli import run
from dagsched.cli.durations import parse_budget
from dagsched.errors import ConfigError
from dagsched.formats import save
from tests.learn.test_instances import stream
from tests.learn.test_trainer import SMALL


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return tmp_path


def test_train_then_eval(small, capsys):
    assert run(["train", "small.yaml", "--steps", "2", "--set", "stages=[ppo]", "--seed", "4"]) == 0
    shown = capsys.readouterr()
    assert "Confirmed on 3 fresh instances" in shown.out
    assert "Written to runs/small-s4" in shown.out
    assert "ppo 2/2" in shown.err
    card = json.loads((small / "runs/small-s4/best/card.json").read_text())["card"]
    assert card["seed"] == 4
    arguments = ["eval", "runs/small-s4/best", "build", "--limit", "4", "--rules", "lft,fcfs", "--out", "e.json"]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "makespan cost on 4 replays of build (test)" in shown
    written = json.loads((small / "e.json").read_text())
    assert set(written["against"]) == {"lft", "fcfs"}
    assert len(written["costs"]["checkpoint"]) == 4
    assert written["best_rule"] == min(("lft", "fcfs"), key=lambda r: sum(written["costs"][r]))


def test_no_time_at_all_still_gives_a_run_that_can_be_resumed(small, capsys):
    assert run(["train", "small.yaml", "--time-budget", "0.001s", "--out", "r"]) == 0
    assert "not finished, --resume goes on" in capsys.readouterr().out
    assert run(["train", "r/config.yaml", "--resume", "--out", "r"]) == 0
    assert "not finished" not in capsys.readouterr().out


def test_ctrl_c_saves_and_says_how_to_go_on(small, capsys):
    timer = threading.Timer(4.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        assert run(["train", "small.yaml", "--out", "r", "--steps", "100000", "--set", "stages=[ppo]"]) == 130
    finally:
        timer.cancel()
    assert "the same command with --resume goes on" in capsys.readouterr().err
    assert list((small / "r" / "checkpoints").glob("step_*/trainer_state.pt"))


NARROW = "name: narrow\nresources: [cpu]\ngroups:\n- {name: one, nodes: 1, capacity: {cpu: 1}}\n"
WINDOWS = ["--set", "trace.window=5", "--set", "start=srw"]


def test_a_trace_of_ones_own(small, capsys):
    save(stream(60), small / "trace.json")
    (small / "narrow.yaml").write_text(NARROW)
    changes = [*WINDOWS, "--steps", "1", "--set", "stages=[evolve]", "--set", "trace.cluster=narrow.yaml", "--out", "r"]
    assert run(["train", "small.yaml", "--trace", "trace.json", *changes]) == 0
    assert "validation: the data has 2 instances, 3 were asked for" in capsys.readouterr().err
    card = json.loads((small / "r/best/card.json").read_text())
    assert card["objective"] == "flow_time"
    assert card["card"]["data"]["trace"] == "trace.json"
    assert run(["train", "small.yaml", "--resume", *changes]) == 2
    assert "other data" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["evolve", "ppo"])
def test_a_trace_that_leaves_nothing_to_decide(small, capsys, stage):
    save(stream(60, chain=True), small / "trace.json")
    assert run(["train", "small.yaml", "--trace", "trace.json", *WINDOWS, "--set", f"stages=[{stage}]"]) == 2
    assert "leaves anything to decide" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "none.yaml"], "no such configuration"),
        (["train", "small.yaml", "--set", "ppo.step=1"], "did you mean 'steps'"),
        (["train", "small.yaml", "--steps", "0"], "steps is 0"),
        (["train", "small.yaml", "--time-budget", "soon"], "time-budget is 'soon'"),
        (["train", "small.yaml", "--set", "suite=biuld"], "did you mean 'build'"),
        (["train", "small.yaml", "--set", "suite=[{suite: build}, {suite: build, changes: [a]}]"], "suite.1: 'a'"),
        (["train", "small.yaml", "--set", "validation.rules=[ltf]"], "validation.rules: policy 'ltf'"),
        (["train", "small.yaml", "--set", "start=srv"], "start: there is no linear rule 'srv'; did you mean 'srw'"),
        (["train", "small.yaml", "--trace", "none.json"], "none.json"),
        (["train", "small.yaml", "--resume"], "no run to resume"),
        (["eval", "none", "build"], "no such checkpoint"),
        (["eval", "none", "biuld"], "did you mean 'build'"),
        (["eval", "none", "build", "--split", "train"], "split is 'train'"),
        (["eval", "none", "build", "--limit", "0"], "limit is 0"),
    ],
)
def test_mistakes_are_one_line(small, capsys, arguments, message):
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not (small / "runs").exists()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("1h30m", 5400), (None, float("inf"))]
)
def test_time_budgets(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10x", "-3m", "1m1h"])
def test_unusable_time_budgets(text):
    with pytest.raises(ConfigError, match="10m"):
        parse_budget(text)
