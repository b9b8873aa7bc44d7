"""Suites: the shipped ones, determinism, disjoint splits, refusals that name file and field."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from dagsched.cli import run
from dagsched.errors import ConfigError
from dagsched.formats import load, save
from dagsched.generate.frozen import frozen
from dagsched.generate.kinds import SPLITS
from dagsched.generate.source import WorkloadSource
from dagsched.generate.suite import Suite
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate
from tests.data import DATA, needs_data

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("tpch-profiles", "tpch-path", "tpch-room")
SHIPPED = sorted(file.stem for file in (ROOT / "workloads").glob("*.yaml") if file.stem not in PROFILES)


def test_the_promised_suites_ship() -> None:
    promised = "rcpsp-60 rcpsp-120 tpch-like build join homog online-layered online-tpch-like transfers wfcommons"
    assert set(promised.split()) <= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_suites(name: str) -> None:
    suite = Suite.load(f"workloads/{name}.yaml")
    assert suite.name == name
    assert isinstance(suite, WorkloadSource)
    assert suite.size("train") is None
    replay = suite.replay("test", 1)
    assert replay.digest == pickle.loads(pickle.dumps(suite)).replay("test", 1).digest
    for policy in ("critical-path", "random"):
        validate(simulate(replay, policy))
    others = [suite.replay(split, 1).workload.digest for split in SPLITS] + [suite.replay("test", 2).workload.digest]
    assert len(set(others)) == 5
    workload, cluster = suite.sample(np.random.default_rng(3))
    again, _ = suite.sample(np.random.default_rng(3))
    assert workload.digest == again.digest
    Replay.build(workload, cluster)


SHAPES = {
    "rcpsp-60": (1, 62, 131),
    "rcpsp-120": (1, 122, 183),
    "tpch-like": (150, 1301, 1151),
    "build": (1, 82, 112),
    "join": (1, 92, 139),
    "homog": (5, 106, 140),
    "online-layered": (100, 3463, 5110),
    "online-tpch-like": (400, 3491, 3091),
    "transfers": (3, 67, 95),
    "wfcommons": (30, 1050, 1498),
}
"""Workflows, tasks and edges of problem 0 of each test split. A change here changes every published result."""


def test_the_test_problems_stay_what_they_are() -> None:
    found = {}
    for name in SHAPES:
        replay = Suite.load(name).replay("test", 0)
        found[name] = (len(replay.workflows), len(replay), len(replay.parent_idx))
    assert found == SHAPES


def test_sampling_needs_nothing_but_the_state_of_the_generator() -> None:
    """A resumed run restores the state of its generator, not how often streams were spawned from it."""
    suite = Suite.load("online-layered", ["mixture.0.count=3"])
    rng = np.random.default_rng(0)
    suite.sample(rng)
    resumed = np.random.default_rng(99)
    resumed.bit_generator.state = rng.bit_generator.state
    assert suite.sample(rng)[0].digest == suite.sample(resumed)[0].digest


def test_online_layered_is_what_it_says() -> None:
    suite = Suite.load("online-layered")
    assert (suite.objective, suite.size("validation"), suite.size("confirm"), suite.size("test")) == (
        "flow_time",
        100,
        100,
        150,
    )
    replay = suite.replay("train", 12345)
    sizes = np.diff(replay.workflow_ptr)
    assert len(sizes) == 100
    assert 10 <= sizes.min() <= 15
    assert 55 <= sizes.max() <= 60
    assert (replay.cluster.node_count, len(replay.cluster.groups), replay.cluster.resources) == (
        14,
        4,
        ("cpu", "memory"),
    )
    assert (replay.noise.kind, replay.noise.sigma) == ("lognormal", 0.3)
    assert np.isfinite(replay.deadline).all()
    assert not replay.is_batch


def test_transfers_matter() -> None:
    replays = [Suite.load("transfers").replay("validation", index) for index in range(5)]
    assert all(replay.has_transfers for replay in replays)
    heft, path = (sum(simulate(r, policy).makespan for r in replays) for policy in ("heft", "critical-path"))
    assert heft < 0.85 * path  # one places each task by when its data is there, the other does not


def test_the_drawn_load_is_in_its_range() -> None:
    from dagsched.generate import poisson_rate

    suite = Suite.load("online-tpch-like", ["mixture.0.count=2000"])
    replay = suite.replay("test", 0)
    rate = poisson_rate(replay.workload, replay.cluster, 1.0)
    assert 0.85 < 2000 / replay.arrival[-1] / rate < 1.15


@pytest.mark.parametrize("name", ["online-layered", "rcpsp-60", "homog", "transfers"])
def test_a_frozen_problem_comes_back_from_a_file(name: str, tmp_path: Path) -> None:
    replay = Suite.load(name, ["mixture.0.count=4"] if name == "online-layered" else []).replay("validation", 0)
    save(frozen(replay), tmp_path / "p.json")
    (read,) = load(tmp_path / "p.json")
    other = Replay.build(read)
    assert np.allclose(other.duration, replay.duration, rtol=1e-12)
    assert np.allclose(other.estimate, replay.estimate, rtol=1e-12)
    assert (other.arrival == replay.arrival).all()
    assert (other.deadline == replay.deadline).all()
    assert (other.demand == replay.demand).all()
    assert other.cluster.to_dict() == replay.cluster.to_dict()


def test_problems_do_not_depend_on_what_was_drawn_before() -> None:
    suite = Suite.load("build")
    forward = [suite.replay("train", index).digest for index in range(4)]
    assert [suite.replay("train", index).digest for index in (3, 2, 1, 0)] == forward[::-1]
    other = Suite.load("build", ["seed=7"])
    assert other.replay("train", 0).digest != forward[0]
    assert other.digest != suite.digest
    assert Suite.load("build").digest == suite.digest


def test_the_mixture_follows_its_weights() -> None:
    entries = [{"kind": "build", "weight": 3}, {"kind": "homog", "workflows": 2}]
    suite = Suite.from_dict({"name": "x", "mixture": entries, "arrivals": {"kind": "at-once"}})
    kinds = [len(suite.replay("train", index).workflows) for index in range(400)]
    assert kinds.count(1) == pytest.approx(300, abs=4 * (400 * 0.75 * 0.25) ** 0.5)


def test_clusters_by_entry_by_suite_or_of_the_problem() -> None:
    inline = {"name": "mine", "groups": [{"name": "g", "capacity": {"cpu": 64, "memory": 1e12}}]}
    entries = [{"kind": "layered", "tasks": 5, "cluster": inline}]
    assert Suite.from_dict({"name": "x", "mixture": entries}).replay("test", 0).cluster.name == "mine"
    entries = [{"kind": "layered", "tasks": 5, "cores": [1, 2]}]
    suite = Suite.from_dict({"name": "x", "mixture": entries, "cluster": "small"})
    assert suite.replay("test", 0).cluster.name == "small"
    suite = Suite.from_dict({"name": "x", "mixture": [{"kind": "build"}], "cluster": "own"})
    assert suite.replay("test", 0).cluster.name == "pool"


@needs_data
def test_the_profiles_of_the_user() -> None:
    with pytest.raises(
        ConfigError, match=r"tpch-profiles.yaml: mixture.0: tpch draws from files of yours, and profiles"
    ):
        Suite.load("workloads/tpch-profiles.yaml")
    folder = DATA / "spark-tpch"
    suite = Suite.load("tpch-profiles", [f"mixture.0.profiles={folder}"])
    replay = suite.replay("test", 0)
    assert len(replay.workflows) in (50, 100, 150)
    validate(simulate(replay, "cp+demand"))


def test_generate_writes_a_problem_of_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "p.json"
    command = ["generate", "build", "--split", "validation", "--index", "3", "--set", "seed=5", "--out", str(out)]
    assert run(command) == 0
    (read,) = load(out)
    replay = Suite.load("build", ["seed=5"]).replay("validation", 3)
    assert read.name == replay.workload.name == "build-validation-3"
    assert np.array_equal(Replay.build(read).duration, replay.duration)
    assert run([*command, "--count", "3"]) == 2
    assert "--count has no meaning for a suite" in capsys.readouterr().err
    assert run(["generate", "build.yaml", "--split", "tests", "--out", str(out)]) == 2
    assert "split is 'tests'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["layered", "--set", "tasks"], "--set 'tasks': expected NAME=VALUE, for example tasks=5"),
        (["layered", "--set", "task=5"], "layered has no parameter 'task', did you mean 'tasks'"),
        (["layered", "--set", "tasks=[1"], "not valid YAML (line 1)"),
        (["layered", "--profiles", "x"], "layered has no option --profiles, expected --tasks, --layers"),
        (["build", "--tasks", "5"], "build has no option --tasks, expected --set NAME=VALUE"),
        (["layered", "--arrivals", "bursty"], "arrivals is 'bursty', expected poisson:LOAD, bursty:LOAD or recorded"),
        (["layered", "--seed", "-1"], "seed is -1"),
        (["layered", "--count", "0"], "count is 0"),
        (["tpch"], "profiles is missing"),
    ],
)
def test_generate_refuses_with_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", *words, "--out", str(tmp_path / "x.json")]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


TEXT = """
name: mine
objective: flow_time
mixture:
  - {kind: layered, tasks: [5, 9], count: [2, 3]}
arrivals: {kind: poisson, load: 0.8}
noise: [0.1, 0.3]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("objective", "objectiv", "unknown key 'objectiv'; did you mean 'objective'?"),
        ("flow_time", "flow", "objective is 'flow': Input should be 'makespan', 'flow_time' or 'slo'"),
        ("name: mine", "about: x", "name is missing"),
        ("layered", "layerd", "mixture.0: kind of workflow 'layerd' is not known, did you mean 'layered'"),
        ("tasks:", "task:", "mixture.0: layered has no parameter 'task', did you mean 'tasks'"),
        ("[5, 9]", "[9, 5]", "mixture.0: tasks is [9, 5], expected [least, most] with least <= most"),
        ("[5, 9]", f"[5, {10**30}]", "expected [least, most] with least <= most <= 1e+18"),
        ("[5, 9]", "[5, 9, 10]", "mixture.0: tasks is [5, 9, 10], expected a number or [least, most]"),
        ("[5, 9]", "{one: 1}", "mixture.0: tasks is {'one': 1}, expected a value, [least, most] or {one-of"),
        ("[2, 3]", "2.5", "mixture.0: count is 2.5, expected a whole number"),
        ("[2, 3]", "0", "mixture.0: count is 0, expected a number from 1"),
        ("layered, tasks: [5, 9]", "build", "mixture.0: count is [2, 3], but build is a whole problem by itself"),
        ("load: 0.8", "loads: 0.8", "unknown key 'arrivals.loads'; did you mean 'load'?"),
        (", load: 0.8", "", "arrivals: load is missing; poisson arrivals need"),
        ("load: 0.8", "load: -1", "arrivals: load is -1, expected a number from 1e-06"),
        ("poisson", "often", "arrivals.kind is 'often'"),
        ("noise: [0.1, 0.3]", "noise: -1", "noise is -1, expected a number from 0 to 10"),
        ("noise: [0.1, 0.3]", "deadlines: loose", "deadlines"),
        ("noise: [0.1, 0.3]", "deadlines: -1", "deadlines"),
        ("noise: [0.1, 0.3]", "cluster: smal", "cluster is 'smal'"),
        ("noise: [0.1, 0.3]", "cluster: {groups: []}", "has no groups"),
        ("noise: [0.1, 0.3]", "seed: -1", "seed is -1"),
        ("noise: [0.1, 0.3]", "test: 0", "test is 0"),
        ("noise: [0.1, 0.3]", "options: {placement: best}", "placement is 'best'"),
        ("mixture:\n  - {kind: layered, tasks: [5, 9], count: [2, 3]}", "mixture: []", "mixture"),
        ("name: mine", "name: [", "not valid YAML"),
        (TEXT, "- a", "expected a mapping"),
    ],
)
def test_a_wrong_suite_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in TEXT
    file = tmp_path / "mine.yaml"
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        Suite.load(file)
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_parameter_out_of_range_is_named_with_suite_and_problem() -> None:
    suite = Suite.from_dict({"name": "x", "mixture": [{"kind": "layered", "tasks": [-3, -1]}]})
    with pytest.raises(ConfigError, match="suite 'x', test 0: tasks is -"):
        suite.replay("test", 0)


def test_wrong_questions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(TEXT)
    suite = Suite.load(tmp_path / "mine.yaml", ["test=5"])
    assert suite.size("test") == 5
    suite.replay("test", 4)
    with pytest.raises(ConfigError, match="index is 5, expected a whole number from 0 to 4"):
        suite.replay("test", 5)
    with pytest.raises(ConfigError, match="split is 'tests', expected one of train"):
        suite.replay("tests", 0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no such suite; did you mean 'build'"):
        Suite.load("bild")
    for change in ("noise", "mixture.7.count=2", "=3", "mixture.x.count=2", "noise=["):
        with pytest.raises(ConfigError, match=r"expected key=value|cannot be applied|not valid YAML"):
            Suite.load(tmp_path / "mine.yaml", [change])
