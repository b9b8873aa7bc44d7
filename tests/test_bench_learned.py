"""The figures of ``docs/results.md`` can be asked for as the page says; what goes into their cells."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.bench.learned import rows
from tests.bench.learned.__main__ import SUBJECTS, parser
from tests.bench.learned.arms import _runs

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results.md"


def test_every_subject_is_a_function() -> None:
    for module, function in SUBJECTS.values():
        assert callable(getattr(import_module(f"tests.bench.learned.{module}"), function))


def test_every_command_on_the_page_is_understood() -> None:
    text = PAGE.read_text(encoding="utf-8").replace(" NAME`", " family`")
    asked = re.findall(r"python -m tests\.bench\.learned ([^`\n]+)", text)
    assert {parser().parse_args(shlex.split(line)).name for line in asked} >= SUBJECTS.keys() - {
        "load",
        "sizes",
        "cluster",
    }


def test_a_difference_is_paired_and_in_percent() -> None:
    slower = np.array([10.0, 20.0, 40.0])
    assert rows.relative(slower * 0.9, slower) == "-10.00% [-10.00, -10.00]"
    assert rows.points(np.array([5.0, 7.0]), np.array([6.0, 8.0])) == "-1.00 [-1.00, -1.00]"
    assert rows.relative(np.zeros(2), np.ones(2)).startswith("none")


def test_seeds_of_an_instance_are_its_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    found = rows.paired_bootstrap
    monkeypatch.setattr(rows, "paired_bootstrap", lambda effect, unit: seen.append(unit) or found(effect, unit))
    rows.relative(np.array([1.0, 2.0, 1.1, 2.2]), np.ones(4), np.array([0, 1, 0, 1]))
    assert seen[0].tolist() == [0, 1, 0, 1]


def test_runs_are_grouped_by_arm_and_seed(tmp_path: Path) -> None:
    for name in ("gnn-s0", "gnn-s12", "no-gnn-s0", "other"):
        (tmp_path / name / "best").mkdir(parents=True)
        (tmp_path / name / "best" / "card.json").touch()
    (tmp_path / "half-s1").mkdir()
    found = _runs(tmp_path)
    assert {arm: sorted(seeds) for arm, seeds in found.items()} == {"gnn": [0, 12], "no-gnn": [0]}
