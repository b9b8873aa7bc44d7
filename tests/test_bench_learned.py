"""The figures of ``docs/results.md`` and ``docs/experiments`` can be asked for as their pages say; what is in cells."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import threading
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import ConfigError
from dagsched.learn.train_config import TrainConfig
from tests.bench import plan
from tests.bench.learned import rows
from tests.bench.learned.__main__ import SUBJECTS, parser
from tests.bench.learned.arms import _runs, measure_arms
from tests.bench.learned.families import ARMS, FAMILIES, RECIPE, Family
from tests.bench.learned.judged import Judged
from tests.bench.learned.train_arms import train_arms

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = [DOCS / "results.md", *sorted((DOCS / "experiments").glob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def test_every_subject_is_a_function() -> None:
    for module, function in SUBJECTS.values():
        assert callable(getattr(import_module(f"tests.bench.learned.{module}"), function))


def test_every_command_on_the_pages_is_understood() -> None:
    text = TEXT.replace(" NAME...`", " family`")
    asked = re.findall(r"python -m tests\.bench\.learned ([^`\n]+)", text)
    named = {name for line in asked for name in parser().parse_args(shlex.split(line)).names}
    assert named >= SUBJECTS.keys() - {"load", "sizes", "cluster"}
    for line in re.findall(r"python -m tests\.bench\.plan ([a-z][^`\n]+)", TEXT):
        assert plan.parser().parse_args(shlex.split(line)).names


def test_there_are_six_tables_of_results_each_with_its_command() -> None:
    parts = PAGES[0].read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(parts) == 6
    for part in parts:
        assert re.match(r"[^\n]+\n\n`(python -m tests\.bench\.\w+|dagsched compare) [^`\n]+`\n\n\|", part), part[:80]
        assert len(re.findall(r"^\|-", part, re.MULTILINE)) == 1


def test_a_difference_is_paired_and_in_percent() -> None:
    slower = np.array([10.0, 20.0, 40.0])
    assert rows.relative(slower * 0.9, slower) == "-10.00% [-10.00, -10.00]"
    assert rows.points(np.array([5.0, 7.0]), np.array([6.0, 8.0])) == "-1.00 [-1.00, -1.00]"
    assert rows.relative(np.zeros(2), np.ones(2)).startswith("none")


def test_an_interval_over_seeds_and_replays_counts_what_seeds_differ_by() -> None:
    # The variance of a mean over crossed random seeds and replays, by its components.
    rng = np.random.default_rng(1)
    seeds, replays, noise = rng.normal(0, 3, (8, 1)), rng.normal(0, 4, (1, 100)), rng.normal(0, 1, (8, 100))
    mean, low, high = rows.crossed_bootstrap(seeds + replays + noise)
    effect = seeds + replays + noise
    by_seed, by_replay = effect.mean(axis=1).var(ddof=1) / 8, effect.mean(axis=0).var(ddof=1) / 100
    assert mean == pytest.approx(effect.mean())
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(by_seed + by_replay), rel=0.05)


def test_an_interval_of_one_seed_is_that_over_replays() -> None:
    effect = np.random.default_rng(2).normal(0, 1, 400)
    mean, low, high = rows.crossed_bootstrap(effect[None])
    alone = rows.paired_bootstrap(effect, np.arange(400))
    assert (mean, low, high) == pytest.approx((alone.mean, alone.low, alone.high), abs=0.01)


def test_seeds_that_agree_on_every_replay_leave_the_interval_over_replays() -> None:
    policy = np.array([[1.0, 2.0, 4.0]] * 3)
    assert rows.relative(policy, np.array([2.0, 4.0, 8.0])) == "-50.00% [-50.00, -50.00]"


def test_runs_are_grouped_by_arm_and_seed(tmp_path: Path) -> None:
    for name in ("gnn-s0", "gnn-s12", "no-gnn-s0", "other"):
        (tmp_path / name / "eval").mkdir(parents=True)
        (tmp_path / name / "eval" / "result.json").touch()
    (tmp_path / "half-s1" / "best").mkdir(parents=True)
    (tmp_path / "half-s1" / "best" / "card.json").touch()
    assert list(_runs(tmp_path)) == ["gnn-s0", "gnn-s12", "no-gnn-s0"]
    columns = {name: np.ones(2) for name in ("srw*cp", *_runs(tmp_path))}
    arms = Judged("makespan", columns).arms()
    assert {arm: list(seeds) for arm, seeds in arms.items()} == {"gnn": [0, 12], "no-gnn": [0]}


@pytest.mark.parametrize("family", FAMILIES)
def test_arms_of_a_family_differ_in_the_model_only(family: str) -> None:
    arms = {arm: TrainConfig.load(RECIPE, FAMILIES[family].training(arm)) for arm in ARMS}
    plain, khop, gnn = arms["mlp"], arms["mlp-typed-khop"], arms["gnn"]
    assert [(c.network.encoder, c.features.typed, c.features.khop) for c in (plain, khop, gnn)] == [
        ("none", False, False),
        ("none", True, True),
        ("gnn", True, False),
    ]
    same = {"network": gnn.network, "features": gnn.features, "ppo": gnn.ppo}
    assert plain.model_copy(update=same) == khop.model_copy(update=same) == gnn
    evolved, typed = arms["evolved"], arms["evolved-typed"]
    assert not evolved.features.typed
    assert evolved.model_copy(update={"features": typed.features}) == typed
    assert typed.stages == ("evolve",)
    assert typed.start == gnn.start
    assert typed.validation == gnn.validation
    assert {share.suite for config in arms.values() for share in config.suites} == {FAMILIES[family].suite}
    assert FAMILIES[family].load().validation >= 100


def test_arms_are_trained_and_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["train", "--suite", "homog", "--arm", "evolved", "--seed", "3", "--seconds", "0", "--runs", str(tmp_path)]
    options = parser().parse_args([*asked, "--set", "validation.instances=3", "--set", "validation.confirm=3"])
    half = tmp_path / "homog" / "evolved-s3"
    half.mkdir(parents=True)
    (half / "config.yaml").touch()  # of a run that was interrupted
    train_arms(options)
    assert "evolved-s3" in capsys.readouterr().out
    assert list(_runs(tmp_path / "homog")) == ["evolved-s3"]
    train_arms(options)
    assert "evolved-s3" not in capsys.readouterr().out


def test_an_interrupted_run_is_not_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "validation.instances=3", "--set", "validation.confirm=3", "--set", "evolve.steps=100000"]
    asked = ["train", "--suite", "homog", "--arm", "evolved", "--seed", "3", "--runs", str(tmp_path), *small]

    def interrupt() -> None:
        while not (tmp_path / "homog" / "evolved-s3" / "config.yaml").is_file():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    train_arms(parser().parse_args(asked))
    assert "interrupted; the same command goes on" in capsys.readouterr().out
    assert not _runs(tmp_path / "homog")


def test_costs_are_kept_and_runs_judged_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAMILIES, "homog", Family("homog", suite_changes=("test=3", "validation=3")))
    where = ["--runs", str(tmp_path / "runs")]
    small = ["--seconds", "0", "--set", "validation.instances=3", "--set", "validation.confirm=3"]
    train_arms(parser().parse_args(["train", "--suite", "homog", "--arm", "evolved", "--seed", "3", *where, *small]))
    asked = parser().parse_args(
        ["arms", *where, "--costs", str(tmp_path / "costs"), "--n", "2", "--against", "evolved"]
    )
    measure_arms(asked)
    first = capsys.readouterr().out
    assert "| homog | evolved | 1 |" in first
    file = tmp_path / "costs" / "homog.csv"
    head, *rows = file.read_text().splitlines()
    assert head.endswith(",sampling:n=2:rule=lft,evolved-s3")
    assert len(rows) == 3

    shutil.rmtree(tmp_path / "runs")  # what was judged needs no run any more
    measure_arms(asked)
    again = capsys.readouterr().out
    table = [
        [line.split("|")[:8] for line in text.splitlines() if line.startswith("| homog")] for text in (first, again)
    ]
    assert table[0] == table[1]

    file.write_text("\n".join([head, *rows[:2]]))
    with pytest.raises(ConfigError, match=r"homog\.csv: expected 3 rows"):
        measure_arms(asked)
    with pytest.raises(ConfigError, match="--limit and --set have no place"):
        measure_arms(parser().parse_args(["arms", "--costs", str(tmp_path / "costs"), "--limit", "2"]))


@pytest.mark.parametrize("change", [["--suite", "homo"], ["--arm", "gn"]])
def test_unknown_families_and_arms_are_refused(change: list[str], tmp_path: Path) -> None:
    options = parser().parse_args(["train", "--runs", str(tmp_path), *change])
    with pytest.raises(ConfigError, match="expected one of"):
        train_arms(options)


def test_kept_costs_give_the_rows_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs = DOCS / "arms"
    measure_arms(parser().parse_args(["arms", "--runs", str(tmp_path), "--costs", str(costs)]))
    page = TEXT.replace("−", "-")
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    whole = [cells for cells in rows if cells[2] == "5"]
    assert len(whole) >= 3
    for cells in whole:
        assert f"| 5 | {cells[4]} | {cells[5]} | {cells[6]}".rstrip() in page, cells


def test_arms_without_runs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    for runs in (tmp_path / "none", tmp_path):
        with pytest.raises(ConfigError, match="no finished run"):
            measure_arms(parser().parse_args(["arms", "--runs", str(runs)]))


@pytest.mark.parametrize("wrong", ["--limit 0", "--seed -1", "--seconds nan", "--threads x"])
def test_numbers_out_of_range_are_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["arms", *wrong.split()])
    assert wrong.split()[0] in capsys.readouterr().err
