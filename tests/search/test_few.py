"""Few open tasks: a tree search finds the best continuation of what has arrived, at every decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numba import njit

from dagsched.cluster import Cluster
from dagsched.evaluate.metrics import completion, service_level
from dagsched.policies.registry import make_policy
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.search import exhaustive, rollout
from dagsched.search.mcts import MctsPolicy
from dagsched.search.stepwise import StepwiseRun
from dagsched.search.tree_decider import TreeDecider
from dagsched.search.workspace import Workspace
from dagsched.simulator import kernel
from dagsched.simulator.stepper import MANY, Simulator
from dagsched.simulator.validate import validate
from dagsched.task import Task
from dagsched.workflow import IntArray, Workflow

from ..handmade import many_workflows
from .few import Known, TooManyError, draw_few, open_tasks

SELECTIONS = ("halving", "puct")
OBJECTIVES = ("makespan", "flow_time", "slo")


@dataclass(frozen=True)
class Decision:
    """Costs of what is still open, of one decision."""

    best: float  # of all continuations
    found: float  # of the best that the search knows
    taken: float  # of the best after what it did


def searcher(replay: Replay, objective: str, options: str) -> tuple[Simulator, StepwiseRun, TreeDecider]:
    policy = make_policy(f"mcts-rules:search=tree:{options}")
    assert isinstance(policy, MctsPolicy)
    simulator = Simulator(replay)
    steps = policy.stepwise(simulator, objective)
    made = steps.prepare()
    assert isinstance(made, TreeDecider)
    return simulator, steps, made


def watched(replay: Replay, objective: str, options: str, most: int = 4) -> list[Decision]:
    """All decisions with at most so many open tasks; those with too many continuations to go through are left out."""
    simulator, steps, made = searcher(replay, objective, options)
    decide, rows = made.decide, []

    def compared(legal: IntArray) -> int:
        task = decide(legal)
        known = Known(replay, made.workspace.arrived, objective)
        log = simulator.state.decision[: simulator.state.counter[kernel.DECISIONS]]
        machine = known.after(list(zip(log["time"].tolist(), log["task"].tolist(), strict=True)))
        assert machine.now == simulator.now
        if open_tasks(machine) <= most:
            past, gone = known.past(machine), float(made.workspace.work.amount[rollout.PAST])
            try:
                best, taken = known.least(machine) - past, known.least_after(machine, task) - past
                rows.append(Decision(best, made.found - gone, taken))
            except TooManyError:
                pass
        return task

    made.decide = compared  # type: ignore[method-assign]
    steps.advance(MANY)
    validate(simulator.schedule("watched"))
    return rows


def share_met(seeds: range, objective: str, options: str, most: int = 4) -> tuple[float, int]:
    """(share of the decisions at which the best continuation is found, decisions)."""
    rows = [row for seed in seeds for row in watched(draw_few(seed, most=most), objective, options, most)]
    assert all(row.found >= row.best - 1e-9 * abs(row.best) - 1e-12 for row in rows)  # nothing is below the optimum
    met = [row.found <= row.best + 1e-9 * abs(row.best) + 1e-12 for row in rows]
    return float(np.mean(met)), len(met)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("select", SELECTIONS)
def test_the_best_continuation_of_what_has_arrived_is_found(select: str, objective: str) -> None:
    share, decisions = share_met(range(24), objective, f"select={select}:simulations=500")
    assert share == 1.0
    assert decisions > 80


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("select", SELECTIONS)
def test_the_best_continuation_is_found_at_99_of_100_decisions(select: str, objective: str) -> None:
    share, decisions = share_met(range(500), objective, f"select={select}:simulations=500")
    assert share >= 0.99
    assert decisions > 1500


def three() -> Replay:
    """19 s and 1 s on one core each, 6 s on both; two cores."""
    made = [("w0", 19.0, 1.0), ("w1", 1.0, 1.0), ("w2", 6.0, 2.0)]
    flows = [Workflow.from_tasks(n, [Task("a", s, {"cpu": c})]) for n, s, c in made]
    return many_workflows(flows, Cluster.pooled({"cpu": 2.0}))


@pytest.mark.parametrize("select", SELECTIONS)
@pytest.mark.parametrize("simulations", [20, 20_000])
def test_the_short_one_then_the_wide_one_then_the_long_one(select: str, simulations: int) -> None:
    """1 + 7 + 26 = 34 s in all: the second core stays idle while the short one runs. All else is 38 at least."""
    run = simulate(three(), f"mcts-rules:search=tree:objective=flow_time:simulations={simulations}:select={select}")
    validate(run)
    assert completion(run)["mean_flow_time"] == pytest.approx(34 / 3)


def urgent() -> Replay:
    """Two cores. At 10 one is free, at 15 both; the urgent one needs both for 10 s until 26, another came at 9."""
    rows = [("s0", 0.0, 900.0, 10.0, 1.0), ("s1", 0.0, 900.0, 15.0, 1.0), ("s2", 9.0, 900.0, 10.0, 1.0)]
    rows.append(("urgent", 1.0, 26.0, 10.0, 2.0))
    flows = [
        Workflow.from_tasks(name, [Task("a", seconds, {"cpu": cpu})], arrival=arrival, deadline=deadline)
        for name, arrival, deadline, seconds, cpu in rows
    ]
    return many_workflows(flows, Cluster.pooled({"cpu": 2.0}))


@pytest.mark.parametrize("select", SELECTIONS)
@pytest.mark.parametrize("simulations", [20, 2_000])
def test_one_wait_in_a_stream_makes_nothing_late(select: str, simulations: int) -> None:
    """The gap between arrivals is 3 s, the WAIT from 10 to 15 longer: a schedule that the base would never end so."""
    run = simulate(urgent(), f"mcts-rules:search=tree:objective=slo:simulations={simulations}:select={select}")
    validate(run)
    assert service_level(run)["slo_violation_rate"] == 0.0
    assert (10.0, -1) in list(zip(run.decision_time.tolist(), run.decision_task.tolist(), strict=True))


def test_a_followed_wait_holds_until_something_happens() -> None:
    """Followed until 13, the WAIT at 10 still ends at 15, when nothing runs: the base goes on from there."""
    simulator, _steps, made = searcher(urgent(), "slo", "simulations=20:prior=srw")
    assert simulator.advance()
    while simulator.now < 10.0:
        legal = simulator.eligible()
        simulator.start(int(legal[0]))
        if not kernel.any_eligible(simulator.problem, simulator.state):
            simulator.advance()
    made.workspace.take_root()
    made._until = 13.0
    made._follow(np.array([15.0]), np.array([int(np.flatnonzero(simulator.replay.demand[:, 0] == 2.0)[0])]))
    scratch = made.workspace.scratch
    begun = scratch.alloc["start"][: scratch.counter[kernel.ALLOCS]]
    assert begun.tolist() == [0.0, 0.0, 15.0, 25.0]


@njit  # what it calls is compiled without a way in from Python
def perturb(problem, view, buckets, noise, step):  # type: ignore[no-untyped-def]
    rollout.perturb(problem, view, buckets, noise, step)


@pytest.mark.parametrize("count", [2, 3, 4, 6, 10, 30, 200])
def test_noise_swaps_neighbours_however_few_keys_there_are(count: int) -> None:
    """Every rung with noise for tasks makes some pair of tasks that follow each other change places."""
    flows = [Workflow.from_tasks("w", [Task(f"t{k}", 1.0, {"cpu": 1.0}) for k in range(count)])]
    simulator, _steps, made = searcher(many_workflows(flows, Cluster.pooled({"cpu": 1.0})), "makespan", "simulations=1")
    simulator.advance()
    workspace = made.workspace
    workspace.take_root()
    made.load_keys(np.arange(count))
    for rung in np.flatnonzero(workspace.noise.ladder[:, 0] > 0):
        swapped = 0
        for _ in range(200):
            perturb(workspace.problem, workspace.work, workspace.buckets, workspace.noise, rung + 1)
            swapped += bool((np.diff(workspace.buckets.key[:count]) > 0).any())
        assert swapped >= 10


def walked(workspace: Workspace, simulations: int, *, waiting: bool = True) -> exhaustive.Walks:
    from dagsched.search.budget import begin, new_budget

    walks, budget = exhaustive.new_walks(), new_budget(simulations, 0.0)
    exhaustive.open_walks(walks, np.inf, waiting=waiting)
    begin(budget)
    status = exhaustive.walk(*workspace.states, workspace.noise, workspace.log, walks, workspace.truth, budget, 1.0)
    assert status == kernel.DONE
    return walks


def test_without_wait_as_an_action_the_best_of_the_orders_is_found() -> None:
    """Whatever fits starts: 19 beside 1, then 6 from 19 (1 + 19 + 25 = 45), or 6 first (6 + 7 + 25 = 38)."""
    simulator = Simulator(three())
    simulator.advance()
    workspace = Workspace(simulator, "flow_time")
    workspace.take_root()
    assert walked(workspace, 500).found[0] == 34.0
    walks = walked(workspace, 500, waiting=False)
    assert walks.found[0] == 38.0
    assert exhaustive.are_all_seen(walks)


def test_what_the_budget_ends_is_not_taken_for_the_best() -> None:
    simulator = Simulator(three())
    simulator.advance()
    workspace = Workspace(simulator, "flow_time")
    workspace.take_root()
    walks = walked(workspace, 2)
    assert not exhaustive.are_all_seen(walks)


def test_the_best_is_searched_for_once() -> None:
    """All three arrive together, so that after the first decision nothing is left to search."""
    simulator, steps, made = searcher(three(), "flow_time", "simulations=500")
    simulator.advance()
    steps.advance(1)
    assert (made.found, made.incumbent.value) == (34.0, 34.0)
    before = int(made.workspace.work.counter[rollout.SIMULATIONS])
    steps.advance(MANY)
    assert int(made.workspace.work.counter[rollout.SIMULATIONS]) == before
