"""Public names, the clash of ``replay`` with its module, packaging lists, pins."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

import dagsched
from dagsched.cluster import cluster_named, default_cluster
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


def test_a_cluster_may_be_named() -> None:
    workload = dagsched.load(shipped("workloads/wfcommons"))[0]
    named = dagsched.replay(workload, cluster="small")
    dagsched.validate(named)
    assert named.makespan == dagsched.replay(workload, cluster=default_cluster("small")).makespan
    with pytest.raises(dagsched.ConfigError, match="did you mean 'small'"):
        dagsched.replay(workload, cluster="smal")


def test_a_cluster_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    for nodes in (2, 3):
        file.write_text(f"groups: [{{name: a, nodes: {nodes}, capacity: {{cpu: 4}}}}]")
        os.utime(file, (nodes, nodes))
        cluster = cluster_named(file)
        assert cluster is not None
        assert cluster.groups[0].nodes == nodes


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
        assert name in pins or name == "dagsched", name
    assert "torch==2.13.0" in lines
