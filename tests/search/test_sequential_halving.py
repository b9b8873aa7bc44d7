"""Sequential halving at the root, against rounds worked by hand, and how many simulations each round gets."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.cluster import Cluster
from dagsched.policies.registry import make_policy
from dagsched.search import sequential_halving
from dagsched.search.budget import SIMULATIONS, USED, begin, new_budget
from dagsched.search.leaf_value import new_leaf
from dagsched.search.mcts import MctsPolicy
from dagsched.search.tree_decider import TreeDecider
from dagsched.search.workspace import Workspace
from dagsched.simulator import kernel
from dagsched.simulator.stepper import Simulator
from dagsched.task import Task
from dagsched.workflow import Workflow

from ..handmade import many_workflows

A, B, C = range(3)


def filled(best: list[float], total: list[float], visits: list[int]) -> sequential_halving.Arms:
    arms = sequential_halving.new_arms(8)
    sequential_halving.open_arms(arms, np.arange(10, 10 + len(best)), -1, np.inf)
    arms.best[: len(best)], arms.total[: len(best)], arms.visits[: len(best)] = best, total, visits
    return arms


def active(arms: sequential_halving.Arms) -> list[int]:
    return arms.order[: arms.counter[sequential_halving.ACTIVE]].tolist()


def test_halving_keeps_the_better_half_until_one_is_left() -> None:
    """Best found 5 9 4 7 6: of five stay three (2 0 4), of three two, of two one."""
    arms = filled([5.0, 9.0, 4.0, 7.0, 6.0], [5.0, 9.0, 4.0, 7.0, 6.0], [1] * 5)
    rounds = []
    for _ in range(sequential_halving.phases(5)):
        sequential_halving.halve(arms)
        rounds.append(active(arms))
    assert rounds == [[2, 0, 4], [2, 0], [2]]


def test_an_arm_that_improves_between_rounds_overtakes() -> None:
    arms = filled([5.0, 9.0, 4.0, 7.0], [5.0, 9.0, 4.0, 7.0], [1] * 4)
    sequential_halving.halve(arms)
    assert active(arms) == [2, 0]
    arms.best[0], arms.total[0], arms.visits[0] = 3.0, 8.0, 2
    sequential_halving.halve(arms)
    assert active(arms) == [0]


def test_equal_bests_are_ordered_by_their_means_then_by_place() -> None:
    """All found 4. Means 6, 5, 6, 5: arms 1 and 3 stay, the earlier first."""
    arms = filled([4.0] * 4, [12.0, 10.0, 12.0, 10.0], [2] * 4)
    sequential_halving.halve(arms)
    assert active(arms) == [1, 3]


def test_an_arm_without_visits_has_no_mean() -> None:
    """The incumbent's arm is known to reach 4 before anything is simulated; its place comes first."""
    arms = filled([4.0, 4.0], [0.0, 4.0], [0, 1])
    sequential_halving.halve(arms)
    assert active(arms) == [0]


@pytest.mark.parametrize(("arms", "rounds"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (17, 5)])
def test_rounds_until_one_is_left(arms: int, rounds: int) -> None:
    assert sequential_halving.phases(arms) == rounds


def one_core() -> Simulator:
    """Three workflows of one task, 6 s, 2 s and 3 s, on one core: flow time is the sum of the finishes."""
    made = [Workflow.from_tasks(n, [Task("t", s, {"cpu": 1})]) for n, s in (("a", 6.0), ("b", 2.0), ("c", 3.0))]
    simulator = Simulator(many_workflows(made, Cluster.pooled({"cpu": 1})))
    assert simulator.advance()
    return simulator


def quiet_desk(simulator: Simulator) -> Workspace:
    """Keys a > b > c, and every simulation unperturbed."""
    workspace = Workspace(simulator, "flow_time")
    workspace.noise.ladder[:] = 0.0
    workspace.take_root()
    workspace.noise.key[:] = [0.0, -0.4, -0.8]
    return workspace


def play(workspace: Workspace, arms: sequential_halving.Arms, count: int, rounds: int = 1) -> None:
    budget = new_budget(count, 0.0)
    begin(budget)
    arms.counter[sequential_halving.TURN] = 1
    status = sequential_halving.play(
        *workspace.states,
        workspace.buckets,
        workspace.noise,
        workspace.log,
        arms,
        new_leaf(3, "rollout", 24),
        workspace.truth,
        budget,
        rounds,
    )
    assert status == kernel.DONE
    assert budget.counter[USED] == budget.counter[SIMULATIONS]


def test_two_rounds_over_three_first_actions() -> None:
    """a first: 6 + 8 + 11 = 25. b first: 2 + 8 + 11 = 21. c first: 3 + 9 + 11 = 23. Four simulations a round."""
    workspace = quiet_desk(one_core())
    arms = sequential_halving.new_arms(8)
    sequential_halving.open_arms(arms, np.array([A, B, C]), -1, np.inf)
    play(workspace, arms, 4)
    assert arms.visits[:3].tolist() == [2, 1, 1]
    assert arms.best[:3].tolist() == [25.0, 21.0, 23.0]
    assert arms.total[:3].tolist() == [50.0, 21.0, 23.0]
    sequential_halving.halve(arms)
    assert active(arms) == [B, C]
    play(workspace, arms, 4)
    assert arms.visits[:3].tolist() == [2, 3, 3]
    sequential_halving.halve(arms)
    assert active(arms) == [B]
    assert (arms.found[0], arms.counter[sequential_halving.BEST]) == (21.0, B)
    time, task = workspace.taken()
    assert (time.tolist(), task.tolist()) == ([0.0, 2.0, 8.0], [B, A, C])


def test_a_budget_is_shared_evenly_over_the_rounds_and_never_exceeded() -> None:
    """10 simulations of 5 arms in 3 rounds: 3 of all five, 4 of the best three, 3 of the best two."""
    tasks = [Workflow.from_tasks(f"{k}", [Task("t", 1.0 + k, {"cpu": 1})]) for k in range(5)]
    simulator = Simulator(many_workflows(tasks, Cluster.pooled({"cpu": 1})))
    assert simulator.advance()
    workspace = Workspace(simulator, "flow_time")
    workspace.noise.ladder[:] = 0.0
    workspace.take_root()
    workspace.noise.key[:] = -np.arange(5) / 5
    arms = sequential_halving.new_arms(8)
    sequential_halving.open_arms(arms, np.arange(5), -1, np.inf)
    play(workspace, arms, 10, rounds=3)
    # Round 1 visits 0 1 2. Those lead to 35, 36 and 38; round 2 visits 0 1 2 0, round 3 0 1 0.
    assert arms.visits[:5].tolist() == [5, 3, 2, 0, 0]
    assert active(arms) == [0, 1]


def test_a_schedule_no_better_than_the_incumbent_is_not_logged() -> None:
    workspace = quiet_desk(one_core())
    arms = sequential_halving.new_arms(8)
    sequential_halving.open_arms(arms, np.array([B, A, C]), 0, 21.0)
    play(workspace, arms, 6)
    assert (arms.found[0], arms.counter[sequential_halving.BEST], workspace.taken()[1].tolist()) == (21.0, 0, [])


def searcher(simulator: Simulator, options: str) -> TreeDecider:
    policy = make_policy(f"mcts-rules:search=tree:prior=ljf:objective=flow_time:{options}")
    assert isinstance(policy, MctsPolicy)
    made = policy.stepwise(simulator, "flow_time").prepare()
    assert isinstance(made, TreeDecider)
    made.workspace.noise.ladder[:] = 0.0
    made.most_walked = 0
    return made


def test_the_search_takes_the_first_action_of_the_best_schedule_found() -> None:
    """Longest first runs a, c, b: 26. The best that one changed action gives is b, a, c: 21."""
    simulator = one_core()
    tree = searcher(simulator, "simulations=8")
    assert tree.decide(simulator.eligible()) == B
    assert tree.incumbent.value == 21.0
    assert tree.arms.visits[:3].tolist() == [3, 3, 3]  # the incumbent's own schedule and 8 simulations


def test_uniform_visits_all_arms_alike() -> None:
    simulator = one_core()
    tree = searcher(simulator, "simulations=9:select=uniform")
    assert tree.decide(simulator.eligible()) == B
    assert tree.arms.visits[:3].tolist() == [4, 3, 3]
