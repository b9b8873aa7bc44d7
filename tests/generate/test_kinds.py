"""Every kind: deterministic, round-trips through the own format, gives valid schedules, checks its parameters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import ConfigError
from dagsched.formats import load, save
from dagsched.generate import TaskMix, random_workload
from dagsched.generate.kinds import KINDS, kind_named
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate
from dagsched.workload import Workload

ROOT = Path(__file__).resolve().parents[2]
FILES = {"wfcommons": {"path": str(ROOT / "workloads/wfcommons")}, "trace": {"path": str(ROOT / "workloads/wfcommons")}}
OFFLINE = [name for name in KINDS if name != "tpch"]


def make(name: str, seed: int = 0) -> Workload:
    count = {} if KINDS[name].problem else {"count": 3}
    return random_workload(name, np.random.default_rng(seed), **count, **FILES.get(name, {}))


@pytest.mark.parametrize("name", OFFLINE)
def test_the_seed_decides_everything(name: str) -> None:
    assert make(name).digest == make(name).digest
    if name not in ("cholesky", "lu", "qr"):  # by default nothing about them is random
        assert make(name).digest != make(name, 1).digest


@pytest.mark.parametrize("name", OFFLINE)
def test_a_file_holds_the_same_problem(name: str, tmp_path: Path) -> None:
    workload = make(name)
    save(workload, tmp_path / "w.json")
    (read,) = load(tmp_path / "w.json")
    assert read.digest == workload.digest
    assert read.resources == workload.resources
    assert read.units == workload.units
    own = None if workload.cluster is None else workload.cluster.to_dict()
    assert (None if read.cluster is None else read.cluster.to_dict()) == own
    assert Replay.build(read, seed=3, sigma=0.2).digest == Replay.build(workload, seed=3, sigma=0.2).digest


@pytest.mark.parametrize("name", OFFLINE)
def test_schedules_are_valid(name: str) -> None:
    replay = Replay.build(make(name, 2), seed=5, sigma=0.3)
    for policy in ("critical-path", "heft", "random"):
        validate(simulate(replay, policy))


def test_nothing_depends_on_the_hash_seed() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests.generate.test_kinds import OFFLINE, make\n"
        "from dagsched.generate.suite import Suite\n"
        "print([make(name).digest for name in OFFLINE], Suite.load('wfcommons').replay('test', 1).digest)\n"
    )
    outputs = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(ROOT)]
        environment = {"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"}
        outputs.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(outputs) == 1


def test_more_workflows_leave_the_first_ones_as_they_were() -> None:
    for name in ("pipelines", "tpch-like", "montage-like"):
        few, many = (random_workload(name, np.random.default_rng(4), count=count) for count in (2, 5))
        assert [w.digest for w in many.workflows[:2]] == [w.digest for w in few.workflows]


def test_a_range_is_drawn_for_each_workflow() -> None:
    made = random_workload("layered", np.random.default_rng(0), count=200, tasks=[5, 8], median_seconds=[1.0, 2.0])
    assert {len(w) for w in made.workflows} == {5, 6, 7, 8}
    made = random_workload("cholesky", np.random.default_rng(0), count=40, tiles={"one-of": [2, 4]})
    assert {len(w) for w in made.workflows} == {4, 20}


def test_task_mixes_whole_or_field_by_field() -> None:
    rng = np.random.default_rng
    whole = random_workload("layered", rng(0), tasks=np.int64(9), mix=TaskMix(median_seconds=2.0, cores=(1.0,)))
    fields = random_workload("layered", rng(0), tasks=9, median_seconds="2e0", cores=[1.0])
    assert whole.digest == fields.digest
    chosen = random_workload("layered", rng(0), count=30, tasks=4, cores={"one-of": [[1.0], [2.0, 4.0]]})
    assert {tuple(sorted(set(w.demand[:, 0]))) for w in chosen.workflows} <= {(1.0,), (2.0,), (4.0,), (2.0, 4.0)}


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("layred", {}, "kind of workflow 'layred' is not known, did you mean 'layered'"),
        ("rcpsp", {"strenght": 1}, "rcpsp has no parameter 'strenght', did you mean 'strength'"),
        ("rcpsp", {"strength": 1.5}, "strength is 1.5, expected a number >= 0 and <= 1"),
        ("rcpsp", {"tasks": 5}, "tasks is 5, expected a whole number from 6 to 2000"),
        ("rcpsp", {"complexity": 2.5, "tasks": 10}, "complexity: 2.5 arcs for each of 10 tasks cannot be reached"),
        ("rcpsp", {"factor": 0}, "factor is 0, expected a number > 0 and <= 1"),
        ("rcpsp", {"count": 2}, "count is 2, but rcpsp is a whole problem by itself"),
        ("layered", {"tasks": [5]}, "tasks is [5], expected a number or [least, most]"),
        ("layered", {"mix": 3}, "mix is 3, expected a TaskMix"),
        ("layered", {"cores": [1, -2]}, "cores is -2, expected a number > 0"),
        ("layered", {"cores": 3}, "cores"),
        ("layered", {"tasks": "many"}, "tasks is 'many', expected a whole number"),
        ("layered", {"tasks": None}, "tasks is None, expected a whole number"),
        ("layered", {"bytes_per_core": [1]}, "bytes_per_core is (1,), expected (least, most)"),
        ("build", {"slots": 0}, "slots is 0"),
        ("homog", {"workflows": 0}, "workflows is 0"),
        ("cholesky", {"tiles": 0}, "tiles is 0, expected a whole number from 1 to 140"),
        ("qr", {"unit_seconds": 0}, "unit_seconds is 0, expected a number > 0"),
        ("lu", {"tile_bytes": -1}, "tile_bytes is -1, expected a number >= 0"),
        ("pipelines", {"lanes": 2000, "stages": 1000}, "lanes x stages gives 2e+06 tasks"),
        ("montage-like", {"width": 1}, "width is 1, expected a whole number from 2"),
        ("epigenomics-like", {"spread": -1}, "spread is -1"),
        ("cybershake-like", {"scale": 0}, "scale is 0"),
        ("tpch-like", {"gigabytes": 0}, "gigabytes is 0"),
        ("tpch", {}, "tpch draws from files of yours, and profiles is missing"),
        ("tpch", {"profiles": "none"}, "tpch: profiles is 'none', which does not exist"),
        ("trace", {"path": "none"}, "trace: path is 'none', which does not exist"),
        ("trace", {"path": FILES["trace"]["path"], "by": "luck"}, "by is 'luck', expected name, time or none"),
        ("trace", {"path": FILES["trace"]["path"], "order": "best"}, "order is 'best', expected random or window"),
        ("trace", {"path": FILES["trace"]["path"], "redraw": 1}, "redraw is 1, expected true or false"),
    ],
)
def test_bad_parameters_are_named(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        random_workload(name, np.random.default_rng(0), **parameters)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_kinds_list_their_parameters() -> None:
    assert kind_named("rcpsp").parameters == ("tasks", "complexity", "factor", "strength")
    assert kind_named("trace").file_parameters == ("path", "by")
    assert "mean_bytes" in kind_named("layered").parameters
    assert all("rng" not in kind.parameters and "name" not in kind.parameters for kind in KINDS.values())
