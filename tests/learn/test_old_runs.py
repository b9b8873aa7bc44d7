"""What earlier versions wrote can still be read and gone on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from dagsched.learn.run_folder import STATE
from dagsched.learn.train_config import TrainConfig
from dagsched.learn.trainer import Trainer
from dagsched.learn.trainer_state import TrainerState
from dagsched.models.checkpoint import load_checkpoint
from dagsched.shipped import shipped

OLD = Path(__file__).with_name("old_run")
NEWEST = Path("checkpoints") / "step_8"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A copy of the old run, where its suite is found."""
    shutil.copytree(OLD, tmp_path / "run")
    shutil.copy(OLD / "suite.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def test_an_old_configuration_says_what_it_said():
    config = TrainConfig.load(OLD / "config.yaml")
    assert config.stages == ("evolve", "imitate", "ppo", "self-label", "expert")
    assert (config.ppo.steps, config.ppo.temperature_end, config.expert.actions) == (4, 0.8, 4)
    said = yaml.safe_load((OLD / "config.yaml").read_text(encoding="utf-8"))
    says = yaml.safe_load(config.dump())
    for key, value in said.items():
        assert says[key] == value if not isinstance(value, dict) else value.items() <= says[key].items()


def test_shipped_training_configurations_load():
    files = sorted(shipped("workloads/train").glob("*.yaml"))
    assert files
    for file in files:
        assert TrainConfig.load(file).stages


def test_an_old_checkpoint_loads():
    assert load_checkpoint(OLD / "best").kind == "evolved"
    network = load_checkpoint(OLD / NEWEST)
    assert network.kind == "ppo"
    assert network.card["stages"] == ["evolve", "imitate", "ppo", "self-label", "expert"]


def test_an_old_state_is_read_field_by_field_and_written_as_it_was():
    state = TrainerState.from_file(OLD / NEWEST / STATE)
    assert (state.stage, state.step, state.total, state.reached) == (2, 3, 8, 0)
    assert state.evolved == load_checkpoint(OLD / "best").base.tolist()
    assert set(state.optimiser or {}) == {"state", "param_groups"}
    assert [entry["kind"] for entry in state.history] == ["rule", "evolved", "ppo", "ppo"]
    kept = torch.load(OLD / NEWEST / STATE, weights_only=True)
    assert set(kept) == {"format", *TrainerState.__slots__}


def test_an_old_run_goes_on_to_its_end(run):
    config = TrainConfig.load(run / "config.yaml")
    before = json.loads((run / "eval" / "validation.json").read_text())
    trainer = Trainer(config, out=run, resume=True)
    learner = trainer.training.learner
    assert learner is not None
    for name, tensor in load_checkpoint(OLD / NEWEST).tensors.items():
        np.testing.assert_array_equal(learner.tensors()[name], tensor)
    result = trainer.run()
    assert result.finished
    assert trainer.state.total == 15
    history = json.loads((run / "eval" / "validation.json").read_text())
    assert history[: len(before)] == before
    assert [entry["step"] for entry in history[len(before) :]] == [9, 11, 12, 14, 15]
    assert load_checkpoint(run / "best").card["confirm"]["instances"] == 3
