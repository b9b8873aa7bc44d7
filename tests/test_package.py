"""Public names, the clash of ``replay`` with its module, packaging lists, pins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import dagsched
from dagsched.shipped import shipped

ROOT = Path(__file__).resolve().parents[1]


def test_every_public_name_exists() -> None:
    for name in dagsched.__all__:
        assert getattr(dagsched, name) is not None
    assert set(dagsched.__all__) == set(dir(dagsched))


def test_replay_is_a_function_and_a_module() -> None:
    from dagsched.replay import Replay, SimulationOptions

    assert Replay is dagsched.Replay
    assert SimulationOptions is dagsched.SimulationOptions
    flow = dagsched.Workflow.from_tasks("w", [dagsched.Task("a", 3.0), dagsched.Task("b", 2.0, parents=["a"])])
    schedule = dagsched.replay(dagsched.Workload("w", (flow,)), dagsched.Cluster.pooled({"cpu": 1}), "fcfs")
    assert schedule.makespan == 5.0
    assert isinstance(schedule.replay, Replay)


def test_unknown_replay_options_are_named() -> None:
    import pytest

    flow = dagsched.Workflow.from_tasks("w", [dagsched.Task("a", 3.0)])
    with pytest.raises(dagsched.ConfigError, match="unknown option 'placment'"):
        dagsched.replay(dagsched.Workload("w", (flow,)), placment="random")


def test_the_wheel_lists_every_package_and_the_shipped_files_are_found() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "dagsched").rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert listed == found | {"dagsched.workloads", "dagsched.checkpoints"}
    assert shipped("workloads/clusters/default.yaml").is_file()
    assert list(shipped("workloads/wfcommons").glob("*.json"))


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    for requirement in wanted:
        name = re.split(r"[<>=!~\[; ]", requirement)[0].lower().replace("_", "-")
        assert name in pins, name
    assert "torch==2.13.0" in lines
