import json
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dagsched.errors import CheckpointError, ConfigError
from dagsched.learn import evolve_stage
from dagsched.learn.evolve import Generation
from dagsched.learn.run_folder import STATE
from dagsched.learn.self_label import best_of
from dagsched.learn.train_config import TrainConfig
from dagsched.learn.trainer import Trainer
from dagsched.learn.trainer_state import TrainerState
from dagsched.models.checkpoint import load_checkpoint, save_checkpoint
from dagsched.shipped import shipped

SMALL = {
    "name": "small",
    "suite": "build",
    "start": "critical-path",
    "threads": 1,
    "evolve": {"steps": 3, "population": 4, "instances": 3, "refresh": 0.5, "validate_every": 1},
    "network": {"width": 8, "layers": 2, "hidden": 16, "hidden2": 8},
    "imitate": {"steps": 4, "instances": 2, "rule": "lft"},
    "ppo": {"steps": 4, "instances": 2, "rollouts": 2, "minibatch": 256, "epochs": 2},
    "self_label": {"steps": 3, "instances": 3, "rollouts": 3},
    "validation": {"instances": 3, "confirm": 3, "every": 2, "samples": 2, "rules": ["lft", "fcfs"]},
}


def config(**changes):
    return TrainConfig.model_validate({**SMALL, **changes})


def weights(folder):
    checkpoint = load_checkpoint(folder)
    return {"base": checkpoint.base, **checkpoint.tensors}


def same(left, right):
    return set(left) == set(right) and all((left[name] == right[name]).all() for name in left)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    trainer = Trainer(config(), out=folder, command="dagsched train small.yaml")
    return folder, trainer.run()


def stopped(folder, when, **kwargs):
    trainer = Trainer(config(**kwargs), out=folder)
    return trainer, trainer.run(lambda: when(trainer.state))


@pytest.mark.parametrize(
    "when", [lambda s: s.stage == 1 and s.step == 1, lambda s: s.stage == 1 and s.step == 2, lambda s: s.step == 2]
)
def test_a_resumed_run_equals_an_uninterrupted_one(finished, tmp_path, when):
    _, result = stopped(tmp_path / "run", when)
    assert not result.finished
    assert result.confirmed is None
    result = Trainer(config(), out=tmp_path / "run", resume=True).run()
    assert result.finished
    whole, again = finished[0], tmp_path / "run"
    assert same(weights(whole / "checkpoints" / "step_7"), weights(again / "checkpoints" / "step_7"))
    assert same(weights(whole / "best"), weights(again / "best"))
    for name in ("validation", "rules", "result"):
        assert json.loads((whole / "eval" / f"{name}.json").read_text()) == json.loads(
            (again / "eval" / f"{name}.json").read_text()
        )


def test_a_search_that_is_stopped_leaves_the_best_so_far(tmp_path):
    long = {"stages": ["evolve"], "evolve": {**SMALL["evolve"], "steps": 12, "validate_every": 1}}
    trainer = Trainer(config(**long), out=tmp_path / "run")
    result = trainer.run(lambda: trainer.state.step == 8, confirm_stopped=lambda: True)
    assert not result.finished
    assert (result.best["kind"], result.best["step"]) == ("evolved", 8)
    kept = load_checkpoint(tmp_path / "run" / "best")
    assert kept.card["confirm"]["instances"] == 3
    assert (
        result.best["cost"]
        == trainer.training.validation.linear(kept.base).costs.mean()
        < trainer.state.history[0]["eval/cost"]
    )

    again = Trainer(config(**long), out=tmp_path / "run", resume=True)
    assert again.run(lambda: again.state.step == 2).best == result.best  # a short attempt loses nothing
    assert (load_checkpoint(tmp_path / "run" / "best").base == kept.base).all()

    assert Trainer(config(**long), out=tmp_path / "run", resume=True).run().finished
    whole = Trainer(config(**long), out=tmp_path / "whole").run()
    assert whole.best["cost"] <= result.best["cost"]
    assert same(weights(tmp_path / "run" / "best"), weights(tmp_path / "whole" / "best"))
    for name in ("validation", "result"):
        one, two = (json.loads((tmp_path / run / "eval" / f"{name}.json").read_text()) for run in ("run", "whole"))
        assert one == two


def test_what_a_stopped_search_left_does_not_outlive_a_search_that_ends_elsewhere(tmp_path, monkeypatch, finished):
    good = load_checkpoint(finished[0] / "best").base

    def search(start, train, validation, settings, *, seed, stop):
        """A better ratio need not be a better mean cost, which is what counts in the end."""
        yield Generation(1, 1.0, 0.99, good, 0.3)
        if not stop():
            yield Generation(2, 1.0, 0.98, -good, 0.3)

    monkeypatch.setattr(evolve_stage, "evolve", search)
    chosen = {"stages": ["evolve"], "evolve": {**SMALL["evolve"], "steps": 2}}
    trainer = Trainer(config(**chosen), out=tmp_path / "run")
    assert trainer.run(lambda: trainer.state.step == 1).best["kind"] == "evolved"
    resumed = Trainer(config(**chosen), out=tmp_path / "run", resume=True).run()
    whole = Trainer(config(**chosen), out=tmp_path / "whole").run()
    assert resumed.best == whole.best
    assert resumed.best["kind"] == "rule"
    assert same(weights(tmp_path / "run" / "best"), weights(tmp_path / "whole" / "best"))
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == sorted(
        p.name for p in (tmp_path / "whole").iterdir()
    )


def test_a_run_that_stopped_before_its_first_save_begins_again(finished, tmp_path):
    Trainer(config(), out=tmp_path / "run")  # the folder is there, nothing was saved
    assert Trainer(config(), out=tmp_path / "run", resume=True).run().finished
    assert same(weights(finished[0] / "best"), weights(tmp_path / "run" / "best"))


def test_resuming_twice_and_after_the_end_changes_nothing(finished, tmp_path):
    stopped(tmp_path / "run", lambda s: s.stage == 1 and s.step == 1)
    trainer = Trainer(config(), out=tmp_path / "run", resume=True)
    trainer.run(lambda: trainer.state.step == 3)
    Trainer(config(), out=tmp_path / "run", resume=True).run()
    before = weights(tmp_path / "run" / "best")
    assert same(before, weights(finished[0] / "best"))
    assert Trainer(config(), out=tmp_path / "run", resume=True).run().finished
    assert same(before, weights(tmp_path / "run" / "best"))


def test_the_best_by_validation_is_kept_and_confirmed_on_other_instances(finished):
    folder, result = finished
    history = json.loads((folder / "eval" / "validation.json").read_text())
    assert [h["kind"] for h in history] == ["rule", "evolved", "ppo", "ppo"]
    assert result.best["cost"] == min(h["eval/cost"] for h in history)
    card = load_checkpoint(folder / "best").card
    assert card["command"] == "dagsched train small.yaml"
    assert card["confirm"]["instances"] == 3
    assert card["ship"] == result.confirmed.ship
    assert set(card["beaten"]) | set(card["lost"]) == {"lft", "fcfs"}
    assert card["data"]["suites"][0]["name"] == "build"
    assert card["origin"] == "build: synthetic (build)"
    assert result.confirmed.ship == all(d.mean < 0 for d in result.confirmed.against.values())
    assert ("against_start" in card) == (result.best["kind"] == "ppo")  # a network on what evolve found


def test_the_untrained_network_costs_what_its_base_priority_costs(tmp_path):
    trainer, _ = stopped(tmp_path / "run", lambda s: s.stage == 0 and s.step == 0, stages=["ppo"])
    run = trainer.training
    greedy = run.validation.network(run.new_learner(), 2, 1.0, (0, 0)).costs
    assert greedy == pytest.approx(run.validation.linear(run.start).costs, abs=1e-12)


def test_tensorboard_has_the_usual_tags(finished):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(finished[0] / "tb"))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    expected = {
        "rollout/ep_rew_mean", "rollout/ep_len_mean", "train/loss", "train/policy_gradient_loss", "train/value_loss",
        "train/entropy_loss", "train/approx_kl", "train/clip_fraction", "train/explained_variance",
        "train/learning_rate", "train/n_updates", "time/fps", "time/time_elapsed", "time/total_timesteps",
        "reward/makespan", "eval/ratio_best_rule", "eval/makespan", "eval/cost", "eval/cost_sampled", "eval/wait_min",
        "eval/wait_max", "evolve/validation",
    }  # fmt: skip
    assert expected <= tags
    assert events.Tags()["images"] == ["eval/gantt"]
    assert (finished[0] / "tb" / "gantt.png").is_file()
    assert any("hparams" in name for name in events.summary_metadata)


def test_self_labelling_and_imitation_run(tmp_path):
    result = Trainer(config(stages=["imitate", "self-label"]), out=tmp_path / "run").run()
    assert result.finished
    assert load_checkpoint(tmp_path / "run" / "checkpoints" / "step_7").kind == "ppo"


def test_imitating_a_rule_brings_its_cost_nearer(tmp_path):
    settings = {"steps": 25, "instances": 3, "rule": "lft", "epochs": 4, "learning_rate": 3e-3, "minibatch": 128}
    chosen = config(start="fcfs", stages=["imitate"], imitate=settings, network={"encoder": "none", "residual": False})
    trainer = Trainer(chosen, out=tmp_path / "run")
    trainer.run()
    lft = trainer.training.validation.rules.costs["lft"].mean()
    history = trainer.state.history
    assert abs(history[-1]["eval/cost"] - lft) < 0.5 * abs(history[0]["eval/cost"] - lft)


def test_self_labelling_takes_only_rollouts_that_beat_the_greedy_policy():
    labels = best_of([[2.0, 1.5], [3.0, 2.0], [1.0]], np.array([3.0, 2.0, 0.5]))
    assert labels.instances == (0,)
    assert labels.chosen == (1,)
    assert labels.gain == pytest.approx(0.5 / 3)
    assert labels.improved == pytest.approx(1 / 3)


def test_results_do_not_depend_on_threads(tmp_path):
    found = []
    for threads in (1, 2):
        few = {**SMALL["ppo"], "instances": 3, "decisions": 200, "steps": 2}
        Trainer(config(threads=threads, ppo=few), out=tmp_path / f"{threads}").run()
        found.append(weights(tmp_path / f"{threads}" / "checkpoints" / "step_5"))
    assert same(*found)


def test_a_folder_with_a_run_is_not_overwritten(finished):
    with pytest.raises(ConfigError, match="--resume"):
        Trainer(config(), out=finished[0])


def test_resuming_with_another_configuration_is_refused(finished):
    with pytest.raises(ConfigError, match=r"ppo.epochs 2, now 3"):
        Trainer(config(ppo={**SMALL["ppo"], "epochs": 3}), out=finished[0], resume=True)


def test_nothing_to_resume(tmp_path):
    with pytest.raises(ConfigError, match="no run to resume"):
        Trainer(config(), out=tmp_path / "none", resume=True)


def test_old_checkpoints_are_forgotten(tmp_path):
    quick = config(stages=["ppo"], ppo={**SMALL["ppo"], "steps": 6}, validation={**SMALL["validation"], "every": 1})
    Trainer(quick, out=tmp_path / "run").run()
    assert sorted(f.name for f in (tmp_path / "run" / "checkpoints").iterdir()) == ["step_4", "step_5", "step_6"]


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_the_state_is_read_without_running_anything(tmp_path):
    class Bomb:
        def __reduce__(self):
            return print, ("executed",)

    file = tmp_path / STATE
    file.write_bytes(TrainerState(total=3).to_bytes())
    assert TrainerState.from_file(file).total == 3
    for content in (pickle.dumps(Bomb()), b"", file.read_bytes()[:100]):
        file.write_bytes(content)
        with pytest.raises(CheckpointError, match=STATE):
            TrainerState.from_file(file)


def test_an_online_suite_for_flow_time(tmp_path):
    suite = tmp_path / "online.yaml"
    suite.write_text(
        "name: online\nobjective: flow_time\ncluster: default\nmixture:\n- {kind: layered, tasks: 12, count: 6}\n"
        "arrivals: {kind: poisson, load: 0.9}\n"
    )
    chosen = config(suite=str(suite), start="srw", ppo={**SMALL["ppo"], "advantage": "gae", "gamma": 0.99})
    result = Trainer(chosen, out=tmp_path / "run").run()
    assert result.finished
    assert load_checkpoint(tmp_path / "run" / "best").objective == "flow_time"


def test_deadlines_and_waiting(tmp_path):
    suite = tmp_path / "slo.yaml"
    suite.write_text(
        "name: due\nobjective: slo\ncluster: small\nmixture:\n- {kind: layered, tasks: 20, count: 8, cores: [1, 2]}\n"
        "arrivals: {kind: poisson, load: 3}\ndeadlines: tight\n"
    )
    chosen = config(suite=str(suite), start="edf", network={**SMALL["network"], "wait": True, "encoder": "none"})
    assert Trainer(chosen, out=tmp_path / "run").run().finished


def test_learning_starts_from_the_priority_of_a_checkpoint(finished, tmp_path):
    folder, _ = finished
    start = load_checkpoint(folder / "best")
    trainer = Trainer(
        config(start=str(folder / "best"), stages=["ppo"], network={"base": "rule"}), out=tmp_path / "run"
    )
    result = trainer.run(lambda: True, confirm_stopped=lambda: True)
    assert (result.confirmed.start.mean, result.confirmed.start.ties) == (0.0, 3)
    assert (trainer.training.start == start.base).all()
    assert (load_checkpoint(tmp_path / "run" / "best").base == start.base).all()


def test_a_start_that_is_neither_rule_nor_checkpoint_is_refused(finished, tmp_path):
    with pytest.raises(ValueError, match="no checkpoint in"):
        config(start=str(tmp_path))
    with pytest.raises(ValueError, match="did you mean its best/"):
        config(start=str(finished[0]))
    with pytest.raises(ValueError, match="no linear rule 'critical-pat'; did you mean 'critical-path'"):
        config(start="critical-pat")


def test_a_shipped_start_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = config(start="checkpoints/default/flow", suite="online-layered", stages=["ppo"], network={"base": "rule"})
    trainer = Trainer(made, out=tmp_path / "run")
    assert (trainer.training.start == load_checkpoint(shipped("checkpoints/default/flow")).base).all()


def test_a_start_in_the_working_directory_is_found(finished, tmp_path, monkeypatch):
    shutil.copytree(finished[0] / "best", tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert config(start="mine").start == "mine"


def test_a_start_for_another_objective_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"flow_time.*makespan"):
        Trainer(config(start="checkpoints/default/flow"), out=tmp_path / "run")


def test_a_run_does_not_go_on_from_another_start(finished, tmp_path):
    start, other = tmp_path / "start", load_checkpoint(finished[0] / "best")
    shutil.copytree(finished[0] / "best", start)
    Trainer(config(start=str(start)), out=tmp_path / "run").run(lambda: True)
    save_checkpoint(start, replace(other, base=other.base * 2))
    with pytest.raises(ConfigError, match="the checkpoint to start from"):
        Trainer(config(start=str(start)), out=tmp_path / "run", resume=True)
