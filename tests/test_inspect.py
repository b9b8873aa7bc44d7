"""What ``dagsched inspect`` prints where space is short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dagsched import load, save
from dagsched.cli import run
from dagsched.cli.inspect import shortened
from dagsched.generate import random_workload
from dagsched.replay import Replay


@pytest.mark.parametrize("name", ["align[/data/x]", "run[sample1]"])
def test_names_are_no_markup(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "w.json")
    save(random_workload("layered", np.random.default_rng(0), name=name, tasks=9), path)
    for arguments in (["inspect", path], ["inspect", path, path], ["schedule", path, "-p", "fcfs"]):
        assert run(arguments) == 0
        assert name in capsys.readouterr().out


def test_long_names_lose_their_middle() -> None:
    assert shortened("short", 5) == "short"
    assert shortened("1000genome-chameleon-001", 9) == "1000…-001"
    assert len(shortened("x" * 50, 12)) == 12


def test_a_list_keeps_one_line_a_workload_and_a_digest_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"a-very-long-name-of-a-workload-that-does-not-fit-{number}" for number in (1, 2)]
    for name in names:
        save(random_workload("layered", np.random.default_rng(0), name=name, tasks=9), tmp_path / f"{name}.json")
    assert run(["inspect", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(len(line) <= 80 for line in lines)
    assert [line.split()[0][-2:] for line in lines[1:3]] == ["-1", "-2"]
    monkeypatch.setenv("COLUMNS", "60")
    path = tmp_path / f"{names[0]}.json"
    assert run(["inspect", str(path)]) == 0
    assert load(path)[0].digest in capsys.readouterr().out


def test_the_chosen_workflow_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def keep(source: Replay, path: Path, *, index: int = 0) -> None:
        drawn.append(source.workflows[index].name)

    monkeypatch.setattr("dagsched.draw.dag.save_dag", keep)
    workload = random_workload("layered", np.random.default_rng(0), count=5, name="many", tasks=9)
    save(workload, tmp_path / "many.json")
    names = [workflow.name for workflow in workload.workflows]
    for name in names:
        assert run(["inspect", str(tmp_path / "many.json"), "--draw", "x.svg", "--workflow", name]) == 0
    assert drawn == names
