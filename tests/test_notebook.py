"""What a notebook does: objects that show themselves in a line, frames, figures, functions as policies."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import dagsched
from dagsched import Cluster, ObservedState, Task, Workflow, Workload
from dagsched.errors import ConfigError
from dagsched.frames import data_frame
from dagsched.policies.registry import make_policy

FLOW = Workflow.from_tasks("w", [Task("a", 3), Task("b", 1, parents=["a"]), Task("c", 2)])
POOL = Cluster.pooled({"cpu": 1})


def shortest(state: ObservedState) -> np.ndarray:
    return -state.fastest[state.eligible]


def test_a_function_a_spec_and_a_policy_object_are_policies() -> None:
    by_spec = dagsched.replay(FLOW, POOL, policy="sjf")
    by_function = dagsched.replay([FLOW], POOL, policy=shortest)
    by_object = dagsched.simulate(by_spec.replay, make_policy("sjf"))
    for schedule in (by_spec, by_function, by_object):
        dagsched.validate(schedule)
        assert schedule.start.tolist() == by_spec.start.tolist()
    assert by_function.policy == "shortest"
    with pytest.raises(TypeError, match="policy is 5, expected a spec such as 'heft', a function or a policy"):
        dagsched.replay(FLOW, POOL, policy=5)  # type: ignore[arg-type]


def test_a_workflow_a_list_and_a_path_are_workloads(tmp_path: Path) -> None:
    dagsched.save(Workload("kept", (FLOW,)), tmp_path / "kept.json")
    for given in (FLOW, [FLOW], str(tmp_path / "kept.json")):
        assert dagsched.replay(given, POOL, policy="fcfs").makespan == 6
    assert dagsched.compare_baselines([FLOW], ["fcfs"], cluster=POOL).mean("makespan") == {"fcfs": 6}
    with pytest.raises(TypeError, match="workload is 5, expected a Workload, a Workflow, a list of them, or a path"):
        dagsched.replay(5)  # type: ignore[arg-type]


def test_noise_is_one_name_for_the_spread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, two = (dagsched.replay(FLOW, POOL, **{name: 0.5}).makespan for name in ("noise", "sigma"))  # type: ignore[arg-type]
    assert one == two != 6
    with pytest.raises(ConfigError, match="two names for one thing"):
        dagsched.replay(FLOW, POOL, noise=0.5, sigma=0.2)
    monkeypatch.chdir(tmp_path)
    assert len(dagsched.load("workloads/wfcommons")) > 1  # the shipped one: there is none here


def test_every_public_object_shows_itself_in_under_500_characters() -> None:
    workload = dagsched.load("workloads/wfcommons")[0]
    schedule = dagsched.replay(workload)
    comparison = dagsched.compare_baselines(workload, ["heft", "fcfs"], cluster="small", replays=2, noise=0.2)
    flow, replay = workload.workflows[0], schedule.replay
    shown = [workload, flow, schedule, replay, replay.cluster, comparison, comparison.table, comparison.config]
    for thing in shown:
        text = repr(thing)
        assert text.startswith(type(thing).__name__)
        assert len(text) < 500, text
        assert text.isprintable()
    assert "heft" in comparison._repr_html_()
    assert comparison.verdict.partition(" ")[0] in repr(comparison)


def test_schedules_and_workflows_draw_themselves() -> None:
    schedule = dagsched.replay(FLOW, POOL)
    assert len(schedule.plot().axes[0].collections) > 0
    assert len(FLOW.plot().axes[0].collections) > 0
    assert dagsched.metrics(schedule)["makespan"] == 6


def test_frames_need_pandas_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = dagsched.replay(FLOW, POOL)
    if importlib.util.find_spec("pandas") is not None:
        frame = schedule.to_dataframe()
        assert sorted(frame["task"]) == ["a", "b", "c"]
        assert frame["finish"].max() == 6
        rows = dagsched.compare_baselines(FLOW, ["fcfs", "sjf"], cluster=POOL).to_dataframe()
        assert rows["policy"].tolist() == ["fcfs", "sjf"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        data_frame({"a": [1]})
