"""Projects like PSPLIB's: structure, and statistics against the published ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dagsched.formats import load
from dagsched.generate.rcpsp import rcpsp
from dagsched.graph import critical_path
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.data import data_files, needs_data


def ancestors(workflow: Workflow) -> list[set[int]]:
    rows: list[set[int]] = [set() for _ in range(len(workflow))]
    for v in workflow.topological_order:
        for p in workflow.parents(v):
            rows[v] |= {int(p)} | rows[p]
    return rows


@pytest.mark.parametrize("tasks", [6, 30, 60, 120])
@pytest.mark.parametrize("complexity", [1.5, 1.8, 2.1])
def test_networks_are_like_progen(tasks: int, complexity: float) -> None:
    if tasks == 6 and complexity > 1.5:
        pytest.skip("so few tasks cannot have so many arcs")
    workflow = rcpsp(np.random.default_rng(tasks), tasks=tasks, complexity=complexity).workflows[0]
    above = ancestors(workflow)
    children = np.bincount(workflow.parent_idx, minlength=tasks + 2)
    assert workflow.edge_count == math.ceil(complexity * (tasks + 2))
    assert workflow.milestone.nonzero()[0].tolist() == [0, tasks + 1]
    assert children[0] == 3
    assert len(workflow.parents(tasks + 1)) == 3
    assert children[1:-1].max() <= 3
    assert (children[:-1] >= 1).all()
    assert np.diff(workflow.parent_ptr)[1:].max() <= 3
    assert np.diff(workflow.parent_ptr)[1:].min() >= 1
    for v in range(tasks + 2):  # no arc is implied by the others
        parents = [int(p) for p in workflow.parents(v)]
        assert not any(p in above[q] for p in parents for q in parents)


@pytest.mark.parametrize("factor", [0.25, 0.5, 0.75, 1.0])
def test_resource_factor_and_ranges(factor: float) -> None:
    workflow = rcpsp(np.random.default_rng(1), tasks=40, factor=factor).workflows[0]
    demand = workflow.demand[1:-1]
    assert (demand > 0).mean() == pytest.approx(factor, abs=0.01)
    assert (demand > 0).any(axis=1).all()
    assert set(np.unique(demand[demand > 0])) <= set(range(1, 11))
    assert set(np.unique(workflow.duration[1:-1])) <= set(range(1, 11))


def test_strength_runs_from_the_largest_demand_to_the_peak_of_the_earliest_start() -> None:
    def capacity(strength: float) -> np.ndarray:
        workload = rcpsp(np.random.default_rng(7), tasks=60, strength=strength)
        assert workload.cluster is not None
        return np.asarray(workload.cluster.capacity[0])

    workload = rcpsp(np.random.default_rng(7), tasks=60, strength=1.0)
    workflow = workload.workflows[0]
    assert (capacity(0.0) == workflow.demand.max(axis=0)).all()
    assert capacity(0.5) == pytest.approx((capacity(0.0) + capacity(1.0)) / 2, abs=0.5)
    replay = Replay.build(workload)
    schedule = simulate(replay, "critical-path")
    validate(schedule)
    assert schedule.makespan == critical_path(replay)[0]  # strength 1: no conflict at all


def figures(workloads: list[Workload]) -> tuple[float, float]:
    """Mean of LFT makespan over the lower bound, and of critical path over total duration."""
    ratios, shares = [], []
    for workload in workloads:
        replay = Replay.build(workload)
        schedule = simulate(replay, "lft")
        validate(schedule)
        path = float(critical_path(replay)[0])
        work = (replay.demand * replay.duration).sum(axis=0) / replay.cluster.capacity[0]
        ratios.append(schedule.makespan / max(path, float(work.max())))
        shares.append(path / float(replay.duration.sum()))
    return float(np.mean(ratios)), float(np.mean(shares))


@needs_data
@pytest.mark.parametrize(("tasks", "strengths"), [(60, (0.2, 0.5, 0.7, 1.0)), (120, (0.1, 0.2, 0.3, 0.4, 0.5))])
def test_statistics_are_like_the_published_projects(tasks: int, strengths: tuple[float, ...]) -> None:
    published = [load(file)[0] for file in data_files(f"psplib/j{tasks}/*.sm")]
    grid = [(c, f, s) for c in (1.5, 1.8, 2.1) for f in (0.25, 0.5, 0.75, 1.0) for s in strengths]
    made = [
        rcpsp(np.random.default_rng(k), tasks=tasks, complexity=c, factor=f, strength=s)
        for k, (c, f, s) in enumerate(grid)
    ]
    ratio, share = figures(made)
    known_ratio, known_share = figures(published)
    assert ratio == pytest.approx(known_ratio, abs=0.05)  # about 1.10 and 1.19
    assert share == pytest.approx(known_share, rel=0.05)
