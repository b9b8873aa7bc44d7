"""Shapes worked out by hand: linear algebra, pipelines, scientific workflows, pools."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dagsched.generate.linear_algebra import cholesky, lu, qr
from dagsched.generate.pipelines import pipelines
from dagsched.generate.pools import build, homog, join
from dagsched.generate.science import cybershake_like, epigenomics_like, montage_like
from dagsched.workflow import Workflow


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def rows(workflow: Workflow) -> list[list[int]]:
    return [workflow.parents(v).tolist() for v in range(len(workflow))]


def levels(workflow: Workflow) -> int:
    depth = [1] * len(workflow)
    for v in workflow.topological_order:
        depth[v] = max((depth[p] + 1 for p in workflow.parents(v)), default=1)
    return max(depth)


def critical_path(workflow: Workflow) -> float:
    finish = np.zeros(len(workflow))
    for v in workflow.topological_order:
        finish[v] = max((finish[p] for p in workflow.parents(v)), default=0.0) + workflow.duration[v]
    return float(finish.max())


def test_cholesky_of_three_tiles() -> None:
    workflow = cholesky(rng(), tiles=3, unit_seconds=3.0)
    names = ["potrf", "trsm", "trsm", "syrk", "syrk", "gemm", "potrf", "trsm", "syrk", "potrf"]
    assert list(workflow.category) == names
    assert rows(workflow) == [[], [0], [0], [1], [2], [1, 2], [3], [5, 6], [4, 7], [8]]
    assert workflow.duration.tolist() == [1, 3, 3, 3, 3, 6, 1, 3, 3, 1]


@pytest.mark.parametrize("tiles", [1, 2, 5, 9])
def test_counts_and_critical_paths_of_linear_algebra(tiles: int) -> None:
    n = tiles
    made = cholesky(rng(), tiles=n, unit_seconds=3.0)
    assert len(made) == n * (n + 1) * (n + 2) // 6
    assert levels(made) == 3 * n - 2
    assert critical_path(made) == pytest.approx(1 if n == 1 else 9 * n - 10)  # units b^3/3, as published
    for factorisation in (lu, qr):
        made = factorisation(rng(), tiles=n, unit_seconds=3.0)
        assert len(made) == n * (n + 1) * (2 * n + 1) // 6
    # total operations: n^3/3, 2n^3/3 and 4n^3/3 to leading order
    assert cholesky(rng(), tiles=40, unit_seconds=3.0).duration.sum() == pytest.approx(40**3)
    assert lu(rng(), tiles=40, unit_seconds=3.0).duration.sum() == pytest.approx(2 * 40**3)
    assert qr(rng(), tiles=40, unit_seconds=3.0).duration.sum() == pytest.approx(4 * 40**3)


def test_qr_of_two_tiles() -> None:
    workflow = qr(rng(), tiles=2, unit_seconds=3.0, tile_bytes=7)
    assert list(workflow.category) == ["geqrt", "unmqr", "tsqrt", "tsmqr", "geqrt"]
    assert rows(workflow) == [[], [0], [0], [1, 2], [3]]  # unmqr and tsqrt run side by side
    assert workflow.duration.tolist() == [4, 6, 6, 12, 4]
    assert set(workflow.parent_bytes) == {7}


def test_lu_of_two_tiles() -> None:
    workflow = lu(rng(), tiles=2, unit_seconds=3.0)
    assert list(workflow.category) == ["getrf", "trsm-row", "trsm-column", "gemm", "getrf"]
    assert rows(workflow) == [[], [0], [0], [1, 2], [3]]


def test_pipelines_are_chains_whose_stages_are_alike() -> None:
    workflow = pipelines(rng(), lanes=50, stages=4, spread=0.1)
    assert rows(workflow)[:5] == [[], [0], [1], [2], []]
    for stage in range(4):
        tasks = range(stage, 200, 4)
        assert len({tuple(workflow.demand[v]) for v in tasks}) == 1
        assert np.log(workflow.duration[list(tasks)]).std() == pytest.approx(0.1, rel=0.4)


def test_montage() -> None:
    workflow = montage_like(rng(), width=9)
    count = Counter(workflow.category)
    # a 3 x 3 grid: 6 pairs beside, 6 below and 8 on the diagonals
    assert count["mDiffFit"] == 20
    assert (count["mProject"], count["mBackground"], count["mAdd"]) == (9, 9, 1)
    for v, name in enumerate(workflow.category):
        parents = [workflow.category[p] for p in workflow.parents(v)]
        if name == "mDiffFit":
            assert parents == ["mProject", "mProject"]
        if name == "mBackground":
            assert sorted(str(p) for p in parents) == ["mBgModel", "mProject"]
    assert levels(workflow) == 9


def test_epigenomics() -> None:
    workflow = epigenomics_like(rng(), lanes=3, width=5)
    assert len(workflow) == 3 * (4 * 5 + 2) + 3
    assert levels(workflow) == 9
    assert Counter(workflow.category)["map"] == 15


def test_cybershake() -> None:
    workflow = cybershake_like(rng(), lanes=3, width=5)
    assert len(workflow) == 3 * (2 * 5 + 1) + 2
    assert levels(workflow) == 4
    assert [len(row) for row in rows(workflow)[-2:]] == [15, 15]


def typed(workflow: Workflow) -> list[int]:
    assert (workflow.demand.sum(axis=1) == 1).all()
    return np.argmax(workflow.demand, axis=1).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_build(seed: int) -> None:
    workload = build(rng(seed))
    workflow = workload.workflows[0]
    count = Counter(workflow.category)
    assert 40 <= count["compile"] <= 54
    assert 14 <= count["link"] <= 19
    assert 8 <= count["second-link"] <= 11
    assert 14 <= count["test"] <= 19
    parents_of = {"compile": (0, 0, ""), "link": (3, 7, "compile"), "second-link": (2, 3, "link")}
    parents_of["test"] = (1, 1, "second-link")
    pools = {"compile": 0, "link": 1, "second-link": 1, "test": 2}
    types = typed(workflow)
    for v, name in enumerate(workflow.category):
        least, most, kind = parents_of[str(name)]
        assert types[v] == pools[str(name)]
        assert least <= len(workflow.parents(v)) <= most
        assert {workflow.category[p] for p in workflow.parents(v)} <= {kind}
    assert list(workflow.category[:10]) != ["compile"] * 10  # ids are shuffled
    assert (workflow.duration > 0.5).all()
    assert workload.cluster is not None
    assert workload.cluster.capacity.max() == 4
    assert workload.cluster.capacity.min() >= 1


@pytest.mark.parametrize("seed", range(5))
def test_join(seed: int) -> None:
    workflow = join(rng(seed)).workflows[0]
    count = Counter(workflow.category)
    assert 45 <= count["source"] <= 59
    assert 24 <= count["join"] <= 33
    assert 10 <= count["second-join"] <= 15
    order = {"source": 0, "join": 1, "second-join": 2}
    bounds = ((0, 0), (2, 5), (2, 4))
    for v, name in enumerate(workflow.category):
        level = order[str(name)]
        assert typed(workflow)[v] == level
        assert bounds[level][0] <= len(workflow.parents(v)) <= bounds[level][1]
        assert {order[str(workflow.category[p])] for p in workflow.parents(v)} <= {level - 1}


def test_homog() -> None:
    workload = homog(rng())
    assert [len(w) for w in workload.workflows] == [min(27, max(14, len(w))) for w in workload.workflows]
    assert len(workload.workflows) == 5
    assert workload.cluster is not None
    assert workload.cluster.capacity.tolist() == [[5.0]]


def test_durations_of_pools() -> None:
    seconds = np.concatenate([build(rng(seed)).workflows[0].duration for seed in range(30)])
    assert np.log(seconds - 0.5).mean() == pytest.approx(1.2, abs=0.05)
    assert np.log(seconds - 0.5).std() == pytest.approx(0.5, abs=0.03)
