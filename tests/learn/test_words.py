"""What training says is so: no share of a cost of 0, and what cannot work is refused before it takes its time."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from dagsched.errors import ConfigError
from dagsched.learn import evolve as evolve_module
from dagsched.learn.baselines import RuleCosts
from dagsched.learn.expert import LookaheadRun
from dagsched.learn.instances import SuiteInstances
from dagsched.learn.paired_costs import difference
from dagsched.learn.trainer import Trainer
from dagsched.learn.trainer_state import TrainerState
from dagsched.learn.validation import PolicyCosts, Validation
from dagsched.policies.learned.trained import LinearRunner  # noqa: F401 - compiled before the clock of a test runs
from dagsched.run_policy import simulate
from tests.learn.made import made_replay
from tests.learn.test_trainer import config

ZERO = np.zeros(3)


@pytest.mark.parametrize(
    ("of_rule", "said", "ratio"),
    [
        (ZERO, "evolved cost 0.2 against 0 of srw, best 0.2", None),
        (np.full(3, 0.4), "evolved -50.00% against srw, best -50.00%", 0.5),
    ],
)
def test_validation_says_both_costs_where_the_best_rule_costs_nothing(tmp_path, monkeypatch, of_rule, said, ratio):
    shown, written = {}, {}
    validation = Validation.__new__(Validation)
    validation.rules = RuleCosts({"srw": of_rule})
    validation._folder = SimpleNamespace(best=tmp_path / "best", write_json=written.__setitem__)
    log = SimpleNamespace(scalars=lambda values, step: shown.update(values), gantt=lambda schedule, step: None)
    monkeypatch.setattr("dagsched.learn.validation.save_checkpoint", lambda *_: None)
    state, schedule = TrainerState(), simulate(made_replay(), "fcfs")
    text = validation.consider(state, log, "evolved", PolicyCosts(np.full(3, 0.2), schedule), lambda: None)
    assert text == said
    assert state.best["ratio_best_rule"] == (None if ratio is None else pytest.approx(ratio))
    assert ("eval/ratio_best_rule" in shown) == (ratio is not None)
    assert "NaN" not in json.dumps(written)


@pytest.mark.parametrize(
    ("policy", "rule", "objective", "said"),
    [
        (ZERO, ZERO, "slo", "no difference, both cost 0"),
        (ZERO, ZERO, "flow_time", "no difference, both cost 0"),
        (ZERO + 0.1, ZERO + 0.3, "slo", "-20.00 points [-20.00 points, -20.00 points]"),
        (np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]), "flow_time", "-1 [-1, -1]"),
        (ZERO + 1, ZERO + 2, "makespan", "-50.00% [-50.00%, -50.00%]"),
    ],
)
def test_a_difference_is_a_share_only_of_what_is_not_zero(policy, rule, objective, said):
    assert str(difference(policy, rule, objective)) == said


def test_a_start_that_costs_nothing_is_not_improved_on_by_what_costs_something():
    def runners(objective):
        return [SimpleNamespace(objective=objective)] * 3

    assert evolve_module.start_ratio(ZERO, runners("slo")) == 0
    assert evolve_module.start_ratio(ZERO + 0.1, runners("slo")) == 1
    assert evolve_module.start_ratio(np.array([0.0, 2.0, 3.0]), runners("flow_time")) == pytest.approx(2 / 3)
    assert evolve_module.start_ratio(ZERO + 2, runners("makespan")) == 1


def test_a_gain_is_no_share_of_a_run_that_costs_nothing():
    trajectory = SimpleNamespace(cost=0.0, row_ptr=np.array([0, 2]))
    assert np.isnan(LookaheadRun(trajectory, np.array([-1.0, 0.0]), np.array([np.nan])).gains()).all()


def suite(tmp_path, text):
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: mine\nmixture: [{{kind: layered, tasks: 6, count: 3}}]\n{text}")
    return str(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("objective: slo\n", "validation: objective slo, but no workflow of its 3 instances has a deadline"),
        (
            "objective: slo\ndeadlines: 1000\n",
            r"validation: under the start critical-path each of 3 instances costs 0 \(slo\), which nothing can",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused_before_training_and_leaves_no_folder(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as found:
        Trainer(config(suite=suite(tmp_path, text)), out=tmp_path / "run")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "run").exists()


def test_a_confirmation_that_cannot_be_drawn_is_refused_before_training(tmp_path, monkeypatch):
    draw = SuiteInstances.replay

    def replay(self, split, index):
        if split == "confirm":
            raise ConfigError("suite 'mine', confirm 0: no job of the trace is for confirmation")
        return draw(self, split, index)

    monkeypatch.setattr(SuiteInstances, "replay", replay)
    with pytest.raises(ConfigError, match="confirm 0"):
        Trainer(config(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_workflows_that_fill_no_window_are_counted(tmp_path):
    rows = ",".join(
        f'{{"name":"w{k}","arrival":{k},"tasks":[{{"id":"a","duration":3}},{{"id":"b","duration":2}}]}}'
        for k in range(104)
    )
    file = tmp_path / "trace.json"
    file.write_text(f'{{"format":"dagsched-workload","version":1,"resources":["cpu"],"workflows":[{rows}]}}')
    said = []
    small = config(trace={"window": 10, "cluster": "small"})
    Trainer(small, out=tmp_path / "run", trace=file, say=said.append)
    assert "trace: its last 4 workflows fill no window and are left out" in said
    assert "validation: the data has 1 instances, 3 were asked for" in said
