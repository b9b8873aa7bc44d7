"""A search tree over decisions: selection by PUCT, expansion under the mask of legal actions, rollout, backup.

PUCT: Rosin, "Multi-armed bandits with episode context", Ann. Math. Artif. Intell. 61, 2011, as in Silver et al.,
"Mastering the game of Go without human knowledge", Nature 550, 2017. Costs are scaled to [0, 1] by the least and the
largest that the search has met (as in Schrittwieser et al., MuZero, 2020). Durations being exact, every way down the
tree is one state, so a node keeps the least cost behind it beside the mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dagsched.search import budget, leaf_value, rollout
from dagsched.search.budget import PAUSED, begin_call, end_call, more, spend
from dagsched.search.leaf_value import finish
from dagsched.search.rollout import NO_ACTION, SIMULATIONS, WAIT, act, cost, keep_log, perturb, restore
from dagsched.simulator import kernel
from dagsched.simulator.compilation import cold, entry, inner
from dagsched.simulator.kernel import (
    DECIDE,
    DONE,
    FREE,
    GROW,
    HOLD,
    MAX_WAIT,
    NONE,
    READY,
    START,
    advance_clock,
    can_start,
    find_overdue,
    has_eligible,
    logs_have_room,
    wait_is_legal,
)
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.workflow import FloatArray, IntArray

# Slots of Tree.counter.
NODES, BEST, DEPTH, WIDTH, WAITING = range(5)
# Slots of Tree.range.
LEAST, LARGEST, FOUND, EXPLORATION, MIX = range(5)
NEW: Any = np.int64(-1)
LEAF: Any = np.int64(-2)


class Tree(NamedTuple):
    """Nodes as columns; node 0 is the present decision."""

    task: IntArray  # [N] the action that leads here, -1 = WAIT
    first: IntArray  # [N] first child, -1 = not expanded, -2 = never will be
    children: IntArray  # [N]
    visits: IntArray  # [N]
    prior: FloatArray  # [N]
    total: FloatArray  # [N] sum of costs
    best: FloatArray  # [N] least cost
    path: IntArray  # [N] scratch
    counter: IntArray  # [5]
    range: FloatArray  # [5]


def new_tree(nodes: int) -> Tree:
    """Room for so many nodes."""
    return Tree(
        task=np.zeros(nodes, np.int64),
        first=np.zeros(nodes, np.int64),
        children=np.zeros(nodes, np.int64),
        visits=np.zeros(nodes, np.int64),
        prior=np.zeros(nodes),
        total=np.zeros(nodes),
        best=np.zeros(nodes),
        path=np.zeros(nodes, np.int64),
        counter=np.zeros(5, np.int64),
        range=np.zeros(5),
    )


def open_tree(
    tree: Tree,
    task: IntArray,
    prior: FloatArray,
    value: float,
    *,
    width: int,
    waiting: bool,
    exploration: float = 1.25,
    mix: float = 1.0,
) -> None:
    """Begin at a decision with these actions.

    Args:
        tree: with room for them.
        task: ``[M]`` actions, -1 = WAIT.
        prior: ``[M]`` probabilities.
        value: least cost known already, infinite if none is.
        width: actions of every node below.
        waiting: whether WAIT is among them where it is legal.
        exploration: weight of the prior against the value.
        mix: value of a node: 1 = the least cost behind it, 0 = the mean.
    """
    count = len(task)
    tree.counter[:] = (1 + count, -1, 0, width, waiting)
    tree.range[:] = (np.inf, -np.inf, value, exploration, mix)
    tree.first[0], tree.children[0], tree.visits[0], tree.total[0], tree.best[0] = 1, count, 0, 0.0, np.inf
    tree.task[0] = NO_ACTION
    clear(tree, 1, count)
    tree.task[1 : 1 + count] = task
    tree.prior[1 : 1 + count] = prior


def clear(tree: Tree, first: int, count: int) -> None:
    """Make new nodes of a stretch."""
    part = slice(first, first + count)
    tree.first[part], tree.children[part], tree.visits[part], tree.total[part] = NEW, 0, 0, 0.0
    tree.best[part] = np.inf


@inner
def _worth(tree, node):  # type: ignore[no-untyped-def]
    """Value of a visited node in [0, 1], 1 = the least cost met."""
    span = tree.range[LARGEST] - tree.range[LEAST]
    if span <= 0:
        return 0.5
    mean = tree.total[node] / tree.visits[node]
    cost_ = tree.range[MIX] * tree.best[node] + (1.0 - tree.range[MIX]) * mean
    return (tree.range[LARGEST] - cost_) / span


@inner
def _select(tree, node):  # type: ignore[no-untyped-def]
    """The child of largest worth + c x prior x sqrt(visits of the node) / (1 + visits of the child); first of equals.

    A child without visits is worth what its parent is.
    """
    root = np.sqrt(np.float64(max(tree.visits[node], 1)))
    unseen = _worth(tree, node) if tree.visits[node] > 0 else 0.5
    best, best_score = NEW, -np.inf
    for child in range(tree.first[node], tree.first[node] + tree.children[node]):
        score = _worth(tree, child) if tree.visits[child] > 0 else unseen
        score += tree.range[EXPLORATION] * tree.prior[child] * root / (1.0 + tree.visits[child])
        if score > best_score:
            best, best_score = child, score
    return best


@inner
def _backup(tree, length, value):  # type: ignore[no-untyped-def]
    """Add a cost to every node of the path."""
    tree.range[LEAST] = min(tree.range[LEAST], value)
    tree.range[LARGEST] = max(tree.range[LARGEST], value)
    tree.counter[DEPTH] = max(tree.counter[DEPTH], length - 1)
    for k in range(length):
        node = tree.path[k]
        tree.visits[node] += 1
        tree.total[node] += value
        tree.best[node] = min(tree.best[node], value)


@entry
def select(tree, node):  # type: ignore[no-untyped-def]
    """The child that PUCT goes to from an expanded node."""
    return _select(tree, node)


@entry
def backup(tree, length, value):  # type: ignore[no-untyped-def]
    """Add a cost to the first ``length`` nodes of ``tree.path``."""
    _backup(tree, length, value)


@inner
def _to_decision(P, scratch):  # type: ignore[no-untyped-def]
    """Let time pass until something is eligible; returns DECIDE or DONE."""
    while not has_eligible(P, scratch):
        status = advance_clock(P, scratch)
        if status != DECIDE:
            return status
    return DECIDE


@inner
def _expand(P, scratch, noise, tree, node):  # type: ignore[no-untyped-def]
    """Children of a node: the legal tasks of largest key, and WAIT; none where the room ends."""
    width = tree.counter[WIDTH]
    first = tree.counter[NODES]
    tree.first[node] = LEAF
    if first + width + 1 > len(tree.task):
        return
    guard, overdue = FREE, NONE
    if P.setting[MAX_WAIT] < np.inf:
        guard, overdue, _ = find_overdue(P, scratch)
        if guard == HOLD:  # only WAIT is legal: the rollout takes it
            return
    count = 0
    for k in range(scratch.counter[READY]):
        task = scratch.ready[k]
        if (guard == START and task != overdue) or not can_start(P, scratch, task):
            continue
        at = first + count
        if count == width:
            if not _goes_first(P, noise, task, tree.task[at - 1]):
                continue
            at -= 1
        else:
            count += 1
        while at > first and _goes_first(P, noise, task, tree.task[at - 1]):
            tree.task[at] = tree.task[at - 1]
            at -= 1
        tree.task[at] = task
    if guard != START and tree.counter[WAITING] and wait_is_legal(P, scratch):
        tree.task[first + count] = WAIT
        count += 1
    total = 0.0
    for k in range(count):
        tree.prior[first + k] = 0.5**k
        total += 0.5**k
    for k in range(count):
        at = first + k
        tree.prior[at] /= total
        tree.first[at], tree.children[at], tree.visits[at], tree.total[at], tree.best[at] = NEW, 0, 0, 0.0, np.inf
    if count > 0:
        tree.first[node], tree.children[node] = first, count
        tree.counter[NODES] = first + count


@inner
def _goes_first(P, noise, a, b):  # type: ignore[no-untyped-def]
    if noise.key[a] != noise.key[b]:
        return noise.key[a] > noise.key[b]
    return P.task[a].tie < P.task[b].tie


@inner
def _descend(P, scratch, truth, noise, tree):  # type: ignore[no-untyped-def]
    """Walk from the root to a node without visits, acting in the scratch; (nodes on the path, status)."""
    node, length = 0, 1
    tree.path[0] = 0
    status = DECIDE
    while status == DECIDE:
        if tree.first[node] == NEW and tree.visits[node] > 0:
            _expand(P, scratch, noise, tree, node)
        if tree.first[node] < 0:
            break
        node = _select(tree, node)
        tree.path[length] = node
        length += 1
        if not logs_have_room(P, scratch):
            return length, GROW
        status = act(P, scratch, truth, tree.task[node])
        if status == DECIDE:
            status = _to_decision(P, scratch)
        if tree.visits[node] == 0:
            break
    return length, status


@cold
def _simulate(P, root, scratch, work, buckets, noise, log, tree, leaf, truth):  # type: ignore[no-untyped-def]
    """One simulation; DONE, or GROW if a log is too short (it then counts for nothing)."""
    restore(P, root, scratch, work)
    work.counter[SIMULATIONS] += 1
    before = noise.random[0]
    length, status = _descend(P, scratch, truth, noise, tree)
    value, finished = np.inf, True
    if status == DONE:
        value = cost(P, scratch, work)
    elif status == DECIDE:
        perturb(P, work, buckets, noise, tree.visits[tree.path[length - 1]])
        status, value, finished = finish(P, scratch, work, buckets, leaf, truth, tree.range[FOUND])
    better = finished and status == DONE and value < tree.range[FOUND]
    if status != DONE or (better and not keep_log(scratch, log, work)):
        noise.random[0] = before
        return GROW
    if better:
        tree.range[FOUND] = value
        tree.counter[BEST] = tree.path[1]
    _backup(tree, length, value)
    return DONE


@entry
def grow(P, root, scratch, work, buckets, noise, log, tree, leaf, truth, budget):  # type: ignore[no-untyped-def]
    """Spend the budget ``budget``; the best schedule found is logged in ``log``.

    Returns DONE; GROW if a log is too short, PAUSED from time to time: call again.
    """
    begin_call(budget)
    while more(budget, 1.0):
        if _simulate(P, root, scratch, work, buckets, noise, log, tree, leaf, truth) == GROW:
            return GROW
        if spend(budget, 1):
            return PAUSED
    end_call(budget)
    return DONE


drop_stale(grow, kernel.__file__, rollout.__file__, leaf_value.__file__, budget.__file__)
