"""The planner's ablation: which variants are run, how they are called, and what report and terminal show of them."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dagsched import Cluster, NodeGroup, PolicyError, compare_baselines, save
from dagsched.cli import app
from dagsched.evaluate.analysis.ablation import (
    budget_of,
    changed,
    describe,
    expand,
    infer_base,
    is_budget_of,
    is_same,
    scaled,
    variants,
    with_planner,
    without_learning,
)
from dagsched.evaluate.analysis.contribution import contribution
from dagsched.evaluate.report import build_report, render_report
from dagsched.evaluate.resolved import resolve
from dagsched.evaluate.results import render_again
from dagsched.evaluate.table import ResultTable
from dagsched.generate import random_workload
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.workload import Workload

from .test_report import parse

SMALL = Cluster(
    (NodeGroup("slow", 2, {"cpu": 8, "memory": 32e9}, 1.0), NodeGroup("fast", 1, {"cpu": 8, "memory": 32e9}, 2.0)),
    name="small",
)
PLANNER = "mcts:simulations=4"


def layered(seed: int, *, count: int = 1) -> Workload:
    return random_workload("layered", np.random.default_rng(seed), count=count, name=f"w{seed}", tasks=10)


def test_a_plan_is_ablated_by_learning_and_budget_alone() -> None:
    assert expand(["heft", PLANNER], ["plan"], "evolved", "critical-path") == (
        "heft",
        "evolved",
        "mcts:simulations=4",
        "mcts-rules:simulations=4",
        "mcts:simulations=1",
        "mcts:simulations=16",
        "mcts:simulations=64",
    )


def test_a_tree_is_ablated_by_leaf_wait_selection_and_prior_too() -> None:
    assert variants("mcts", ["tree"], "evolved", "srw*cp") == (
        "mcts-rules",
        "mcts:leaf=rollout",
        "mcts:leaf=value",
        "mcts:leaf=mix",
        "mcts:wait=0",
        "mcts:select=puct",
        "mcts:select=uniform",
        "mcts:commit=0",
        "mcts:prior=srw*cp",
        "mcts:budget_ms=0.5",
        "mcts:budget_ms=8",
        "mcts:budget_ms=32",
    )


def test_a_race_is_ablated_by_wait_prior_and_scenarios_too() -> None:
    assert variants("mcts:budget_ms=10:scenarios=16", ["race"], "lft", "critical-path") == (
        "mcts-rules:budget_ms=10:scenarios=16",
        "mcts:budget_ms=10:scenarios=16:wait=0",
        "mcts:budget_ms=10:scenarios=16:prior=critical-path",
        "mcts:budget_ms=10:scenarios=4",
        "mcts:budget_ms=10:scenarios=64",
        "mcts:budget_ms=2.5:scenarios=16",
        "mcts:budget_ms=40:scenarios=16",
        "mcts:budget_ms=160:scenarios=16",
    )


def test_several_modes_bring_the_changes_of_each_once() -> None:
    both = variants(PLANNER, ["tree", "race"], "evolved", "srw*cp")
    apart = {*variants(PLANNER, ["tree"], "evolved", "srw*cp"), *variants(PLANNER, ["race"], "evolved", "srw*cp")}
    assert len(both) == len(set(both))
    assert set(both) == apart


def test_what_is_there_already_is_not_added_again() -> None:
    specs = ["evolved", PLANNER, "mcts:simulations=16", "heft"]
    found = expand(specs, ["plan"], "evolved", "critical-path")
    assert len(found) == len(set(found))
    assert found[-1] == "heft"
    assert variants("mcts-rules", ["tree"], "srw*cp", "srw*cp")[0] == "mcts-rules:leaf=rollout"


def test_a_planner_is_added_where_none_is_named() -> None:
    assert with_planner(["heft"]) == ["heft", "mcts"]
    assert with_planner(["mcts-rules", "heft"]) == ["mcts-rules", "heft"]


def test_options_are_changed_in_their_place() -> None:
    assert changed("mcts:wait=0:seed=3", wait=1) == "mcts:wait=1:seed=3"
    assert changed("mcts:seed=3", leaf="mix") == "mcts:seed=3:leaf=mix"
    assert without_learning("mcts:prior=ppo:checkpoint=x:seed=1") == "mcts-rules:seed=1"
    assert without_learning("mcts:prior=heft") == "mcts-rules:prior=heft"


@pytest.mark.parametrize(
    ("spec", "factor", "expected"),
    [
        ("mcts", 4, "mcts:budget_ms=8"),
        ("mcts:simulations=2", 0.25, "mcts:simulations=1"),
        ("mcts:time_limit=10", 0.25, "mcts:time_limit=2.5"),
        ("mcts:time_limit=10:budget_ms=4", 16, "mcts:time_limit=160:budget_ms=64"),
    ],
)
def test_budgets_are_scaled_in_their_own_unit(spec: str, factor: float, expected: str) -> None:
    assert scaled(spec, factor) == expected
    assert is_budget_of(expected, spec)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("mcts:budget_ms=2", "the planner"),  # its default
        ("evolved", "no search"),
        ("mcts-rules", "nothing learned"),
        ("mcts:leaf=value", "leaf: value"),
        ("mcts:wait=0", "without WAIT"),
        ("mcts:select=puct", "PUCT"),
        ("mcts:select=uniform", "equal shares"),
        ("mcts:commit=0", "new schedules taken untried"),
        ("mcts:commit=0.5", "new schedules tried for 0.5 gaps"),
        ("mcts:prior=srw*cp", "starts from srw*cp"),
        ("mcts:scenarios=8", "8 scenarios"),
        ("mcts:budget_ms=0.5", "a quarter of the budget"),
        ("mcts:budget_ms=32", "16 × the budget"),
        ("mcts:simulations=7", "7 simulations a decision"),
        ("mcts:search=tree:wait=0", "search tree, without WAIT"),
        ("mcts:checkpoint=runs/x", "checkpoint runs/x"),
    ],
)
def test_a_variant_is_described_by_what_it_changes(spec: str, words: str) -> None:
    assert describe("mcts", spec) == words
    assert is_same("mcts", spec) == (words == "the planner") if spec != "evolved" else True


def test_the_base_is_the_one_named_or_the_trained_one_or_the_rule() -> None:
    assert infer_base(["mcts:prior=heft", "heft", "evolved"], "makespan") == "heft"
    assert infer_base(["critical-path", "evolved", "mcts"], "makespan") == "evolved"
    assert infer_base(["critical-path", "mcts"], "makespan") == "critical-path"
    assert infer_base(["critical-path", "mcts"], "flow_time") is None
    assert infer_base(["critical-path"], "makespan") is None
    assert budget_of("mcts:time_limit=3") == ("seconds in all", 3.0)


def test_modes_and_base_are_those_that_will_run() -> None:
    batch, stream = layered(1), layered(2, count=3)
    batch_replay, noisy = Replay.build(batch, SMALL), Replay.build(batch, SMALL, sigma=0.3)
    found = resolve("mcts-rules", [batch_replay, noisy, batch_replay], {})
    assert found.modes == ("plan", "race")
    assert (found.base, found.rule) == ("critical-path", "critical-path")
    assert resolve("mcts-rules:prior=fcfs", [batch_replay], {}).base == "fcfs"
    assert resolve("mcts-rules:search=tree", [Replay.build(stream, SMALL)], {}).modes == ("tree",)


def test_a_planner_that_refuses_every_replay_is_refused_with_the_reason() -> None:
    with pytest.raises(PolicyError, match=r"ablation: .*search=plan needs a batch.*use search=auto"):
        compare_baselines([layered(1)], ["mcts:search=plan"], cluster=SMALL, noise=0.2, ablate=True)


@pytest.mark.parametrize("spec", ["mcts-rules:simulations=4", "mcts-rules:simulations=4:search=tree"])
def test_a_policy_counts_its_simulations(spec: str) -> None:
    schedule = simulate(Replay.build(layered(1), SMALL), spec)
    assert 0 < schedule.report["simulations"] <= 2 * 4 * len(schedule.decision_task)
    assert schedule.report["search"] == ("tree" if "tree" in spec else "plan")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """The same small ablation through the command line twice, and what it printed."""
    place = tmp_path_factory.mktemp("ablation")
    (place / "small.yaml").write_text(json.dumps(SMALL.to_dict()))
    for seed in range(3):
        save(layered(seed, count=2), place / f"w{seed}.json")
    command = ["compare", *(str(place / f"w{seed}.json") for seed in range(3)), "--cluster", str(place / "small.yaml")]
    command += ["--arrivals", "poisson:0.9", "--replays", "2", "--policies", "heft,fcfs", "--simulations", "4"]
    printed = ""
    for name in ("one", "two"):
        result = CliRunner().invoke(app, [*command, "--ablate", "--jobs", "1", "--out", str(place / name)])
        assert result.exit_code == 0, result.output
        printed = result.output
    return place / "one", place / "two", printed


def test_an_ablation_is_reported_with_table_and_figures(folders: tuple[Path, Path, str]) -> None:
    page = (folders[0] / "report.html").read_text()
    parse(page)
    section = page[page.index("What search contributes") : page.index("How steady")]
    for part in ("nothing learned", "without WAIT", "PUCT", "leaf: value", "16 × the budget", "simulations a second"):
        assert part in section, part
    assert re.findall(r'<svg [^>]*aria-label="([^"]*)"', section) == [
        "Quality against budget: weighted mean flow time relative to evolved",
        "Decision times",
    ]
    assert section.count('class="point') == 4
    assert section.count('class="box"') == section.count("<tr") - 1
    for rule in ("base policy: evolved", "best rule: "):
        assert rule in section, rule
    assert "nan" not in section.lower().replace("nano", "")


def test_an_ablation_is_printed(folders: tuple[Path, Path, str]) -> None:
    text = folders[2]
    part = text[text.index("What search contributes") :]
    for words in ("no search: evolved", "the planner", "nothing learned", "4 × the budget", "simulations/s"):
        assert words in part, words


def test_results_are_the_same_bytes_and_simulations_stand_in_the_timings(folders: tuple[Path, Path, str]) -> None:
    one, two, _ = folders
    assert (one / "results.csv").read_bytes() == (two / "results.csv").read_bytes()
    with (one / "timings.csv").open(newline="") as file:
        timings = list(csv.DictReader(file))
    with (one / "results.csv").open(newline="") as file:
        decisions = {(row["replay"], row["policy"]): float(row["decisions"]) for row in csv.DictReader(file)}
    for row in timings:
        if row["policy"] == PLANNER:
            each = float(row["simulations"]) / decisions[row["replay"], row["policy"]]
            assert 1 < each < 3 * 4
        assert (row["simulations"] != "") == row["policy"].startswith("mcts")
        assert row["search"] == ("tree" if row["policy"].startswith("mcts") else "")


def test_a_stored_ablation_renders_the_same_section(folders: tuple[Path, Path, str]) -> None:
    before = (folders[0] / "report.html").read_text()
    after = render_again(folders[0]).read_text()

    def section(page: str) -> str:
        return page[page.index("What search contributes") : page.index("How steady")]

    assert section(before) == section(after)


def test_without_planners_there_is_no_such_section() -> None:
    result = compare_baselines([layered(1)], ["heft", "fcfs"], cluster=SMALL)
    assert result.contribution is None
    assert "What search contributes" not in render_report(build_report(result.rows, timings=result.timings))


def test_a_planner_without_variants_is_compared_with_the_best_other_policy() -> None:
    result = compare_baselines([layered(1)], ["heft", "fcfs", PLANNER], cluster=SMALL)
    found = result.contribution
    assert found is not None
    assert [variant.policy for variant in found.variants] == [PLANNER]
    assert not found.is_base
    assert found.base in ("heft", "fcfs")
    assert len(found.points) == 1
    page = render_report(build_report(result.rows, timings=result.timings))
    parse(page)
    assert "What search contributes" in page
    assert "Quality against budget" not in page


def test_effects_of_the_variants_are_against_the_planner() -> None:
    rows = [
        {"workload": f"w{w}", "replay": 0, "policy": policy, "makespan": (10 + w) * factor, "decisions": 10}
        for w in range(8)
        for policy, factor in (("heft", 1.2), ("evolved", 1.1), (PLANNER, 1.0), ("mcts:simulations=16", 0.9))
    ]
    timings = [
        {"workload": f"w{w}", "replay": 0, "policy": PLANNER, "seconds": 0.5, "simulations": 50, "search": search}
        for w, search in enumerate(["list"] * 6 + ["race"] * 2)
    ]
    found = contribution(ResultTable.from_rows(rows), timings, "makespan", "makespan")
    assert found is not None
    assert [variant.policy for variant in found.variants] == ["evolved", PLANNER, "mcts:simulations=16"]
    means = {v.policy: v.effect.interval.mean for v in found.variants if v.effect.interval is not None}
    assert means["evolved"] == pytest.approx(math.log(1.1))
    assert means["mcts:simulations=16"] == pytest.approx(math.log(0.9))
    assert (found.variants[1].rate, found.variants[1].each) == (100.0, 5.0)
    assert [variant.searches for variant in found.variants] == ["", "list 6, race 2", ""]
    assert not found.variants[0].measured
    assert math.isnan(found.variants[0].rate)
    assert [point.budget for point in found.points] == [4.0, 16.0]
    assert found.rule is not None
    assert found.rule.policy == "heft"
    assert found.rule.interval is not None
    assert found.rule.interval.mean == pytest.approx(math.log(1.2 / 1.1))
