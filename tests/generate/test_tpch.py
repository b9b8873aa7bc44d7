"""The Decima profiles: an exact conversion, a reader that runs nothing; the stand-in's statistics."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import ConfigError, FormatError
from dagsched.generate import random_workload
from dagsched.generate.tpch import Profiles, stage_seconds
from dagsched.workflow import Workflow
from tests.data import DATA, data_files, needs_data


@needs_data
def test_the_conversion_gives_the_published_problems_exactly() -> None:
    queries = {query.label: query for query in Profiles.read(DATA / "spark-tpch").queries}
    assert len(queries) == 64
    compared = 0
    for file in data_files("tpch-batch/*.jsonl"):
        for line in file.read_text().splitlines():
            problem = json.loads(line)
            for job, label in enumerate(problem["jobs"]):
                if label not in queries:  # the copy holds 4 of the 7 data sizes and 16 of the 22 queries
                    continue
                tasks = [task for task in problem["tasks"] if task["job"] == job]
                first = tasks[0]["id"]
                assert tuple(task["duration_ms"] / 1000 for task in tasks) == queries[label].seconds
                assert tuple(task["demand"] for task in tasks) == queries[label].executors
                assert tuple(tuple(p - first for p in task["parents"]) for task in tasks) == queries[label].parents
                compared += 1
    assert compared == 1244


@needs_data
def test_mixes_are_fresh_uniform_draws() -> None:
    made = random_workload("tpch", np.random.default_rng(0), count=6400, profiles=str(DATA / "spark-tpch"))
    assert made.cluster is not None
    assert made.cluster.to_dict()["groups"][0]["capacity"] == {"executors": 6000.0}
    labels = [w.name.split("-", 1)[1] for w in made.workflows]
    counts = np.unique(labels, return_counts=True)[1]
    assert len(counts) == 64
    assert ((counts - 100) ** 2 / 100).sum() < 110  # chi-squared of 63 degrees: 99.9% below 104


def test_decimas_cleaning_of_durations() -> None:
    # level 2: 10 was measured on a fresh executor, 30 stays; level 5: all were fresh, so level 2's first wave repeats
    profile = {
        "first_wave": {5: [10, 10], 2: [10, 30]},
        "fresh_durations": {5: [10, 10], 2: [10]},
        "rest_wave": {5: [], 2: [4]},
    }
    assert stage_seconds(profile) == pytest.approx((30 + 30 + 4 + 10 + 10 + 10) / 6 / 1000)


def write_query(folder: Path, stages: object, matrix: np.ndarray | None = None) -> None:
    (folder / "2g").mkdir(parents=True, exist_ok=True)
    np.save(folder / "2g/adj_mat_1.npy", np.zeros((1, 1)) if matrix is None else matrix)
    np.save(folder / "2g/task_duration_1.npy", np.array(stages, dtype=object), allow_pickle=True)


GOOD = {0: {"first_wave": {2: [1500.0]}, "rest_wave": {2: [500.0]}, "fresh_durations": {2: []}}}


def test_a_profile_by_hand(tmp_path: Path) -> None:
    write_query(tmp_path, GOOD)
    (query,) = Profiles.read(tmp_path).queries
    assert (query.label, query.seconds, query.executors, query.parents) == ("2g/q1", (1.0,), (2,), ((),))


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("evil-was-here"),)


class Huge:
    def __reduce__(self) -> tuple[object, ...]:
        return np.ndarray((0,)).__reduce__()[0], (np.ndarray, (10**14,), b"b")


@pytest.mark.parametrize("attack", [Evil(), Huge(), {0: Evil()}])
def test_a_hostile_profile_runs_nothing(attack: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_query(tmp_path, GOOD)
    array = np.empty((), object)
    array[()] = attack
    np.save(tmp_path / "2g/task_duration_1.npy", array, allow_pickle=True)
    with pytest.raises(FormatError, match=r"task_duration_1\.npy: not a profile"):
        Profiles.read(tmp_path)
    assert not Path("evil-was-here").exists()


@pytest.mark.parametrize(
    ("stages", "matrix"),
    [
        ({0: {"first_wave": {}, "rest_wave": {}, "fresh_durations": {}}}, None),
        ({0: {"first_wave": {2: []}, "rest_wave": {2: []}, "fresh_durations": {2: []}}}, None),
        ({0: {"first_wave": {2: ["x"]}, "rest_wave": {2: []}, "fresh_durations": {2: []}}}, None),
        ({1: GOOD[0]}, None),
        ([1, 2], None),
        (GOOD, np.zeros((2, 2))),
        (GOOD, np.ones((1, 1))),
        (GOOD, np.array([[None]])),
    ],
)
def test_damaged_profiles_are_refused(stages: object, matrix: np.ndarray | None, tmp_path: Path) -> None:
    write_query(tmp_path, stages, matrix)
    with pytest.raises(FormatError, match="2g/"):
        Profiles.read(tmp_path)


def test_cut_or_missing_profiles_are_refused(tmp_path: Path) -> None:
    write_query(tmp_path, GOOD)
    file = tmp_path / "2g/task_duration_1.npy"
    whole = file.read_bytes()
    for size in range(0, len(whole), 17):
        file.write_bytes(whole[:size])
        with pytest.raises(FormatError, match="task_duration_1"):
            Profiles.read(tmp_path)
    file.write_bytes(pickle.dumps(GOOD))
    with pytest.raises(FormatError, match="task_duration_1"):
        Profiles.read(tmp_path)
    file.unlink()
    with pytest.raises(FormatError, match="task_duration_1"):
        Profiles.read(tmp_path)
    with pytest.raises(ConfigError, match="is not a folder; give the folder of the Decima profiles"):
        Profiles.read(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no files such as"):
        Profiles.read(tmp_path / "empty")


def figures(queries: list[Workflow]) -> dict[str, float]:
    """The table in ``tpch_like.py``."""
    rows: dict[str, list[float]] = {}
    for query in queries:
        depth, finish = np.zeros(len(query)), np.zeros(len(query))
        for v in query.topological_order:
            parents = query.parents(v)
            depth[v] = max((depth[p] + 1 for p in parents), default=0)
            finish[v] = max((finish[p] for p in parents), default=0.0) + query.duration[v]
        scan = np.diff(query.parent_ptr) == 0
        shuffle = query.demand[:, 0] == 200
        values = {
            "stages": [len(query)],
            "depth": [depth.max()],
            "scans": [scan.sum()],
            "path": [finish.max()],
            "work": [(query.duration * query.demand[:, 0]).sum()],
            "scan seconds": query.duration[scan],
            "scan executors": query.demand[scan, 0],
            "shuffle seconds": query.duration[shuffle & ~scan],
        }
        for key, found in values.items():
            rows.setdefault(key, []).extend(float(value) for value in found)
    means = {key: float(np.mean(found)) for key, found in rows.items()}
    return means | {f"median {key}": float(np.median(found)) for key, found in rows.items()}


PUBLISHED = {
    "stages": 9.3,
    "depth": 4.9,
    "scans": 3.6,
    "path": 4.67,
    "work": 900,
    "scan seconds": 2.46,
    "scan executors": 72.1,
    "shuffle seconds": 0.23,
    "median stages": 8,
    "median scans": 3,
    "median path": 4.48,
    "median work": 485,
    "median shuffle seconds": 0.12,
}


def test_the_stand_in_has_statistics_like_the_profiles() -> None:
    found = figures(list(random_workload("tpch-like", np.random.default_rng(0), count=3000).workflows))
    for key, value in PUBLISHED.items():
        assert found[key] == pytest.approx(value, rel=0.2), key


@needs_data
def test_the_statistics_of_the_published_queries_are_as_stated() -> None:
    from dagsched.formats import load

    queries = [w for file in data_files("tpch-batch/*.jsonl") for workload in load(file) for w in workload.workflows]
    found = figures(queries)
    for key, value in PUBLISHED.items():
        assert found[key] == pytest.approx(value, rel=0.03), key
