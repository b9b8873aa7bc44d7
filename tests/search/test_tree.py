"""The search tree: PUCT against arithmetic by hand, and no node that the simulator would refuse."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.replay import Replay, SimulationOptions
from dagsched.search import tree as growing
from dagsched.search.budget import begin, new_budget
from dagsched.search.leaf_value import new_leaf
from dagsched.search.workspace import Workspace
from dagsched.simulator import kernel
from dagsched.simulator.stepper import Simulator
from tests.twin import NumpyDice, draw_replay

from ..policies.test_listing import random_replay

ROLLOUT = new_leaf(8, "rollout", 24)
WAIT = -1
WIDTH = 4


def opened(*, exploration: float = 1.0, mix: float = 0.0) -> growing.Tree:
    """A root with the actions 7, 3 and WAIT as nodes 1, 2 and 3, of prior 0.5, 0.3 and 0.2."""
    tree = growing.new_tree(64)
    growing.open_tree(
        tree,
        np.array([7, 3, WAIT]),
        np.array([0.5, 0.3, 0.2]),
        np.inf,
        width=WIDTH,
        waiting=True,
        exploration=exploration,
        mix=mix,
    )
    return tree


def backup(tree: growing.Tree, path: list[int], cost: float) -> None:
    tree.path[: len(path)] = path
    growing.backup(tree, len(path), cost)


def test_selections_of_the_first_simulations() -> None:
    """Score = worth + prior x sqrt(visits of the root) / (1 + visits); no visits: the worth of the root.

    1. Nothing is known, all are worth 0.5: 0.5 + 0.5, 0.5 + 0.3, 0.5 + 0.2. Node 1 costs 10.
    2. One cost only, so 0.5 for all: 0.5 + 0.5 / 2 = 0.75, 0.5 + 0.3 = 0.8, 0.7. Node 2 costs 6.
    3. Costs from 6 to 10, the root's mean 8: worth 0, 1 and 0.5, sqrt 2 = 1.414:
       0 + 0.354, 1 + 0.212, 0.5 + 0.283. Node 2 costs 9.
    4. Node 2 has mean 7.5, worth 0.625; the root 25 / 3, worth 0.417; sqrt 3 = 1.732:
       0 + 0.433, 0.625 + 0.173 = 0.798, 0.417 + 0.346 = 0.763.
    """
    tree = opened()
    for expected, cost in ((1, 10.0), (2, 6.0), (2, 9.0)):
        assert growing.select(tree, 0) == expected
        backup(tree, [0, expected], cost)
    assert growing.select(tree, 0) == 2
    assert tree.visits[:4].tolist() == [3, 1, 2, 0]
    assert tree.total[:4].tolist() == [25.0, 10.0, 15.0, 0.0]
    assert tree.best[:4].tolist() == [6.0, 10.0, 6.0, np.inf]
    assert tree.range[growing.LEAST : growing.LARGEST + 1].tolist() == [6.0, 10.0]


@pytest.mark.parametrize(("exploration", "expected"), [(1.20, 2), (1.21, 3)])
def test_exploration_tips_where_the_arithmetic_says(exploration: float, expected: int) -> None:
    """0.625 + 0.3 x 1.732 / 3 c = 0.417 + 0.2 x 1.732 c at c = 0.2083 / 0.1732 = 1.203."""
    tree = opened(exploration=exploration)
    for node, cost in ((1, 10.0), (2, 6.0), (2, 9.0)):
        backup(tree, [0, node], cost)
    assert growing.select(tree, 0) == expected


@pytest.mark.parametrize(("mix", "expected"), [(0.0, 2), (0.05, 2), (0.1, 3), (1.0, 3)])
def test_the_best_found_counts_beside_the_mean(mix: float, expected: int) -> None:
    """By the means, node 2 is worth 0.625 and WAIT, like the root, 0.417; by the best found both are worth 1.

    In between, with 1.1 for exploration: 0.625 + 0.375 m + 0.191 against 0.417 + 0.583 m + 0.381; equal at m = 0.084.
    """
    tree = opened(mix=mix, exploration=1.1)
    for node, cost in ((1, 10.0), (2, 6.0), (2, 9.0)):
        backup(tree, [0, node], cost)
    assert growing.select(tree, 0) == expected


def test_equal_scores_go_to_the_first_child() -> None:
    tree = opened()
    tree.prior[1:4] = 1 / 3
    assert growing.select(tree, 0) == 1


def test_a_path_is_backed_up_in_all_its_nodes() -> None:
    """Nodes 4 and 5 below node 2. Costs 8 and 4 by way of them, 12 by way of node 1."""
    tree = opened(exploration=0.5)
    growing.clear(tree, 4, 2)
    tree.task[4:6], tree.prior[4:6] = [7, WAIT], [0.75, 0.25]
    tree.first[2], tree.children[2], tree.counter[growing.NODES] = 4, 2, 6
    for path, cost in (([0, 2, 4], 8.0), ([0, 2, 5], 4.0), ([0, 1], 12.0)):
        backup(tree, path, cost)
    assert tree.visits[:6].tolist() == [3, 1, 2, 0, 1, 1]
    assert tree.total[:6].tolist() == [24.0, 12.0, 12.0, 0.0, 8.0, 4.0]
    assert tree.best[:6].tolist() == [4.0, 12.0, 4.0, np.inf, 8.0, 4.0]
    assert tree.counter[growing.DEPTH] == 2
    # Costs 4 to 12. Below the root: 0 + .., (12 - 6) / 8 + 0.5 x 0.3 x 1.732 / 3 = 0.837, 0.5 + 0.5 x 0.2 x 1.732.
    assert growing.select(tree, 0) == 2
    # Below node 2: (12 - 8) / 8 + 0.5 x 0.75 x 1.414 / 2 = 0.765, (12 - 4) / 8 + 0.5 x 0.25 x 1.414 / 2 = 1.088.
    assert growing.select(tree, 2) == 5


def grown(simulator: Simulator, simulations: int, *, wait: bool = True) -> growing.Tree:
    """A tree of so many simulations over all that is legal now."""
    workspace = Workspace(simulator, "makespan")
    workspace.take_root()
    legal = simulator.eligible()
    workspace.noise.key[:] = -np.arange(len(simulator.replay)) / len(simulator.replay)
    tasks = np.append(legal, WAIT) if wait and simulator.can_wait else legal
    tree = growing.new_tree(4000)
    growing.open_tree(tree, tasks, np.full(len(tasks), 1 / len(tasks)), np.inf, width=WIDTH, waiting=wait)
    budget = new_budget(simulations, 0.0)
    begin(budget)
    status = kernel.GROW
    while status != kernel.DONE:
        status = growing.grow(
            *workspace.states, workspace.buckets, workspace.noise, workspace.log, tree, ROLLOUT, workspace.truth, budget
        )
        if status == kernel.GROW:
            workspace.grow()
            workspace.take_root()
    assert tree.visits[0] == simulations
    return tree


def replayed(replay: Replay, actions: list[int]) -> Simulator | None:
    """A simulator after these actions, at a decision with something eligible; None at the end."""
    simulator = Simulator(replay)
    going = simulator.advance()
    for action in actions:
        assert going
        if action == WAIT:
            assert simulator.can_wait, "WAIT with nothing running"
            going = simulator.wait()
        else:
            simulator.start(action)  # raises where the task may not start
            if not kernel.any_eligible(simulator.problem, simulator.state):
                going = simulator.advance()
    return simulator if going else None


def check_nodes(replay: Replay, prefix: list[int], simulations: int) -> int:
    """Replay the way to every node; returns how many there are below the root's children."""
    simulator = replayed(replay, prefix)
    if simulator is None or not len(simulator.eligible()):
        return 0
    tree = grown(simulator, simulations)
    deep, todo = 0, [(0, prefix)]
    while todo:
        node, way = todo.pop()
        children = range(tree.first[node], tree.first[node] + tree.children[node])
        there = replayed(replay, way)
        if len(children):
            assert there is not None
            legal = set(there.eligible().tolist())
            tried = [int(tree.task[child]) for child in children]
            assert len(set(tried)) == len(tried)
            assert set(tried) - {WAIT} <= legal
            if node:
                deep += len(tried)
                assert len(set(tried) - {WAIT}) == min(len(legal), WIDTH)
                assert tree.prior[list(children)].sum() == pytest.approx(1.0)
        for child in children:
            if tree.visits[child]:
                todo.append((child, [*way, int(tree.task[child])]))
            elif tree.task[child] == WAIT:
                assert there is not None
                assert there.can_wait
    return deep


OPTIONS = (
    SimulationOptions(),
    SimulationOptions(max_wait=1.0),
    SimulationOptions(decision_interval=1.5),
    SimulationOptions(max_wait=2.0, decision_interval=2.0, instances_per_decision=1, placement="random"),
    SimulationOptions(placement="round-robin"),
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_only_legal_actions_are_expanded(options: SimulationOptions) -> None:
    """On replays with instances and transfers, from the start and from the middle."""
    deep = 0
    for seed in range(4):
        replay = random_replay(seed, workflows=1).with_options(options)
        simulator = Simulator(replay)
        prefix: list[int] = []
        for _ in range(3):
            deep += check_nodes(replay, prefix, 60)
            simulator = replayed(replay, prefix)  # type: ignore[assignment]
            if simulator is None or not len(simulator.eligible()):
                break
            prefix = [*prefix, int(simulator.eligible()[-1])]
    assert deep > 100


def test_only_legal_actions_are_expanded_on_drawn_replays() -> None:
    deep = sum(
        check_nodes(draw_replay(NumpyDice(seed), tasks=14, batch=True, exact=True), [], 50) for seed in range(12)
    )
    assert deep > 100


def test_a_full_tree_grows_no_further() -> None:
    replay = random_replay(2, workflows=1)
    simulator = replayed(replay, [])
    assert simulator is not None
    workspace = Workspace(simulator, "makespan")
    workspace.take_root()
    legal = simulator.eligible()
    tree = growing.new_tree(1 + len(legal) + WIDTH + 1)
    growing.open_tree(tree, legal, np.full(len(legal), 1 / len(legal)), np.inf, width=WIDTH, waiting=True)
    budget = new_budget(200, 0.0)
    begin(budget)
    growing.grow(
        *workspace.states, workspace.buckets, workspace.noise, workspace.log, tree, ROLLOUT, workspace.truth, budget
    )
    assert tree.visits[0] == 200
    assert tree.counter[growing.NODES] <= len(tree.task)
