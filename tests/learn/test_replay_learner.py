"""A learner of one's own is one class and one entry: here an off-policy one with a replay buffer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import Field

from dagsched.learn.algorithm import OffPolicy, StepReport, TrainingStep
from dagsched.learn.buffer import ReplayBuffer
from dagsched.learn.config_sections import Section
from dagsched.learn.learner import Learner
from dagsched.learn.rollout import network_runners, only
from dagsched.learn.run_folder import STATE
from dagsched.learn.stages import ALGORITHMS, StageEntry, trains
from dagsched.learn.train_config import TrainConfig, section_name
from dagsched.learn.trainer import Trainer
from dagsched.learn.trainer_state import TrainerState
from dagsched.learn.training_instances import TrainingInstances
from tests.learn.test_trainer import SMALL, same, weights

# ---------------------------------------------------------------------- what the one new file would hold


class WeightedCloningSection(Section):
    steps: int = 3
    instances: int = 2
    capacity: int = Field(default=60, description="decisions in the buffer")
    sampled: int = 24
    learning_rate: float = 1e-2


class WeightedCloning(OffPolicy[int]):
    """Imitates buffered decisions, those of cheap runs of an instance the most (advantage-weighted regression)."""

    def __init__(self, learner: Learner, settings: WeightedCloningSection) -> None:
        super().__init__(learner, settings.learning_rate, ReplayBuffer(settings.capacity))
        self.settings = settings

    def collect(self, step: TrainingStep) -> int:
        runners = network_runners(step.runners)
        groups = self.learner.sample(runners, self.learner.seeds(step.rng, len(runners), 2), temperature=1.0)
        for number, group in enumerate(groups, step.first):
            for run in group:
                self.buffer.add(number, run)
        return sum(run.length for group in groups for run in group)

    def update(self, collected: int, step: TrainingStep) -> StepReport:
        sampled = self.buffer.sample(self.settings.sampled, step.rng)
        costs = np.concatenate([np.full(len(places), run.cost) for run, places in sampled])
        weight = torch.from_numpy(np.exp(-(costs - costs.mean()) / max(float(costs.std()), 1e-9)))
        out = self.learner.model(self.learner.batch([only(run, places) for run, places in sampled]))
        loss = -(weight * out.log_prob).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return StepReport({"train/loss": float(loss.detach()), "train/buffer": float(len(self.buffer))}, collected)


# ---------------------------------------------------------------------- what it comes to


class Config(TrainConfig):
    """The shipped one with one more section."""

    stages: tuple[str, ...] = ("evolve", "ppo")  # type: ignore[assignment]
    weighted_cloning: WeightedCloningSection = WeightedCloningSection()


@pytest.fixture(autouse=True)
def entry(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "weighted-cloning", StageEntry(99, trains(WeightedCloning)))


def config(**changes):
    return Config.model_validate({**SMALL, "stages": ["weighted-cloning"], **changes})


def plain(value):
    """A state in a form that can be compared."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def state_of(run: Path, step: int) -> TrainerState:
    return TrainerState.from_file(run / "checkpoints" / f"step_{step}" / STATE)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    every = {**SMALL["validation"], "every": 1}
    assert Trainer(config(validation=every), out=tmp_path / "whole").run().finished
    trainer = Trainer(config(validation=every), out=tmp_path / "run")
    assert not trainer.run(lambda: trainer.state.step == 2).finished
    assert plain(state_of(tmp_path / "run", 2).optimiser) == plain(state_of(tmp_path / "whole", 2).optimiser)
    assert Trainer(config(validation=every), out=tmp_path / "run", resume=True).run().finished
    for name in ("best", "checkpoints/step_3"):
        one, two = (tmp_path / run / name / "model.safetensors" for run in ("whole", "run"))
        assert one.read_bytes() == two.read_bytes()
    for name in ("validation", "result"):
        assert (tmp_path / "whole/eval" / f"{name}.json").read_bytes() == (
            tmp_path / "run/eval" / f"{name}.json"
        ).read_bytes()


def test_it_learns_from_earlier_steps_and_is_validated_like_any_other(tmp_path):
    settings = {"capacity": 10_000, "steps": 3}
    Trainer(config(weighted_cloning=settings), out=tmp_path / "run").run(lambda: False)
    history = json.loads((tmp_path / "run" / "eval" / "validation.json").read_text())
    assert [entry["kind"] for entry in history] == ["rule", "ppo", "ppo"]
    trainer = Trainer(config(weighted_cloning=settings), out=tmp_path / "stopped")
    trainer.run(lambda: trainer.state.step == 2)
    state = state_of(tmp_path / "stopped", 2).optimiser
    assert [run["number"] for run in state["buffer"]["runs"]] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_it_goes_on_after_another_stage_and_before_one(tmp_path):
    stages = ["evolve", "weighted-cloning", "imitate"]
    assert Trainer(config(stages=stages), out=tmp_path / "run").run().finished
    assert Trainer(config(stages=stages, threads=2), out=tmp_path / "other").run().finished
    assert same(weights(tmp_path / "run" / "best"), weights(tmp_path / "other" / "best"))


# ---------------------------------------------------------------------- the buffer


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Six recorded runs of three instances."""
    trainer = Trainer(config(), out=tmp_path_factory.mktemp("recorded") / "run")
    trainer.folder.release()
    learner = trainer.training.new_learner()
    instances = TrainingInstances(trainer.training.source, 99)
    runners = network_runners(instances.runners(0, 3))
    groups = learner.sample(runners, [[1, 2]] * 3, temperature=1.0)
    return instances, [(number, run) for number, group in enumerate(groups) for run in group]


def filled(recorded, capacity=10**9):
    buffer = ReplayBuffer(capacity)
    for number, run in recorded[1]:
        buffer.add(number, run)
    return buffer


def test_the_oldest_runs_leave_first_and_the_newest_stays(recorded):
    lengths = [len(run) for _, run in recorded[1]]
    assert len(filled(recorded)) == sum(lengths)
    assert len(filled(recorded, sum(lengths) - 1)) == sum(lengths[1:])
    assert filled(recorded, 1).runs == [recorded[1][-1][1]]


def test_a_run_without_a_choice_is_left_out(recorded):
    buffer = ReplayBuffer(10)
    buffer.add(0, only(recorded[1][0][1], np.zeros(0, np.int64)))
    assert len(buffer) == len(buffer.runs) == 0
    assert buffer.sample(5, np.random.default_rng(0)) == []


def test_every_decision_is_as_likely_as_any_other_and_none_comes_twice(recorded):
    buffer, rng, count = filled(recorded), np.random.default_rng(0), Counter()
    for _ in range(600):
        chosen = [(id(run), place) for run, places in buffer.sample(10, rng) for place in places.tolist()]
        assert len(set(chosen)) == 10
        count.update(chosen)
    assert len(count) == len(buffer)
    expected = 6000 / len(buffer)
    assert abs(np.array(list(count.values())) - expected).max() < 5.5 * expected**0.5


def test_more_than_it_holds_is_all_of_it(recorded):
    buffer = filled(recorded)
    found = buffer.sample(10**6, np.random.default_rng(0))
    assert [places.tolist() for _, places in found] == [list(range(len(run))) for run in buffer.runs]


def test_the_same_seed_samples_the_same_decisions_also_after_saving(recorded, tmp_path):
    instances, runs = recorded
    buffer, again = filled(recorded), ReplayBuffer(10**9)
    torch.save(buffer.state(), tmp_path / "state.pt")
    asked = []
    again.load_state(
        torch.load(tmp_path / "state.pt", weights_only=True), lambda k: asked.append(k) or instances.replay(k)
    )
    assert asked == [0, 1, 2]
    assert len(again) == len(buffer)
    for (_, run), other in zip(runs, again.runs, strict=True):
        assert run.replay.digest == other.replay.digest
        for name in run.__slots__:
            if name != "replay":
                left, right = getattr(run, name), getattr(other, name)
                np.testing.assert_array_equal(left, right)
                assert np.asarray(left).dtype == np.asarray(right).dtype
    one, two = (b.sample(9, np.random.default_rng(4)) for b in (buffer, again))
    assert [places.tolist() for _, places in one] == [places.tolist() for _, places in two]


# ---------------------------------------------------------------------- the table


def test_every_stage_has_a_number_of_its_own_and_a_section():
    shipped = {name: entry.number for name, entry in ALGORITHMS.items() if name != "weighted-cloning"}
    assert shipped == {"evolve": 1, "imitate": 2, "ppo": 3, "self-label": 4, "expert": 5}  # part of every seed
    named = TrainConfig.model_json_schema()["properties"]["stages"]["items"]["enum"]
    assert set(named) == set(shipped)
    assert all(section_name(name) in TrainConfig.model_fields for name in shipped)
