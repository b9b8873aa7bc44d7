"""A search tree over decisions: selection by PUCT, expansion under the mask of legal actions, rollout, backup.

PUCT: Rosin, "Multi-armed bandits with episode context", Ann. Math. Artif. Intell. 61, 2011, as in Silver et al.,
"Mastering the game of Go without human knowledge", Nature 550, 2017. Costs are scaled to [0, 1] by the least and the
largest that the search has met (as in Schrittwieser et al., MuZero, 2020). Durations being exact, every way down the
tree is one state, so a node keeps the least cost behind it beside the mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dagsched.search import budget, leaf, rollout
from dagsched.search.budget import PAUSED, begin_call, end_call, more, spend
from dagsched.search.leaf import finish
from dagsched.search.rollout import NO_ACTION, SIMULATIONS, WAIT, act, cost, keep_log, perturb, restore
from dagsched.simulator import kernel
from dagsched.simulator.kernel import (
    DECIDE,
    DONE,
    GROW,
    MAX_WAIT,
    NONE,
    NOT_LATE,
    READY,
    _advance,
    _any_eligible,
    _fits_somewhere,
    _has_room,
    _may_wait,
    _overdue,
    cold,
    entry,
    inner,
)
from dagsched.simulator.stale import drop_stale
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
def _worth(T, node):  # type: ignore[no-untyped-def]
    """Value of a visited node in [0, 1], 1 = the least cost met."""
    span = T.range[LARGEST] - T.range[LEAST]
    if span <= 0:
        return 0.5
    mean = T.total[node] / T.visits[node]
    cost_ = T.range[MIX] * T.best[node] + (1.0 - T.range[MIX]) * mean
    return (T.range[LARGEST] - cost_) / span


@inner
def _select(T, node):  # type: ignore[no-untyped-def]
    """The child of largest worth + c x prior x sqrt(visits of the node) / (1 + visits of the child); first of equals.

    A child without visits is worth what its parent is.
    """
    root = np.sqrt(np.float64(max(T.visits[node], 1)))
    unseen = _worth(T, node) if T.visits[node] > 0 else 0.5
    best, best_score = NEW, -np.inf
    for child in range(T.first[node], T.first[node] + T.children[node]):
        score = _worth(T, child) if T.visits[child] > 0 else unseen
        score += T.range[EXPLORATION] * T.prior[child] * root / (1.0 + T.visits[child])
        if score > best_score:
            best, best_score = child, score
    return best


@inner
def _backup(T, length, value):  # type: ignore[no-untyped-def]
    """Add a cost to every node of the path."""
    T.range[LEAST] = min(T.range[LEAST], value)
    T.range[LARGEST] = max(T.range[LARGEST], value)
    T.counter[DEPTH] = max(T.counter[DEPTH], length - 1)
    for k in range(length):
        node = T.path[k]
        T.visits[node] += 1
        T.total[node] += value
        T.best[node] = min(T.best[node], value)


@entry
def select(T, node):  # type: ignore[no-untyped-def]
    """The child that PUCT goes to from an expanded node."""
    return _select(T, node)


@entry
def backup(T, length, value):  # type: ignore[no-untyped-def]
    """Add a cost to the first ``length`` nodes of ``T.path``."""
    _backup(T, length, value)


@inner
def _to_decision(P, D):  # type: ignore[no-untyped-def]
    """Let time pass until something is eligible; returns DECIDE or DONE."""
    while not _any_eligible(P, D):
        status = _advance(P, D)
        if status != DECIDE:
            return status
    return DECIDE


@inner
def _expand(P, D, N, T, node):  # type: ignore[no-untyped-def]
    """Children of a node: the legal tasks of largest key, and WAIT; none where the room ends."""
    width = T.counter[WIDTH]
    first = T.counter[NODES]
    T.first[node] = LEAF
    if first + width + 1 > len(T.task):
        return
    forced = NOT_LATE
    if P.setting[MAX_WAIT] < np.inf:
        forced = _overdue(P, D)[0]
        if forced == NONE:  # only WAIT is legal: the rollout takes it
            return
    count = 0
    for k in range(D.counter[READY]):
        task = D.ready[k]
        if (forced >= 0 and task != forced) or not _fits_somewhere(P, D, task):
            continue
        at = first + count
        if count == width:
            if not _goes_first(P, N, task, T.task[at - 1]):
                continue
            at -= 1
        else:
            count += 1
        while at > first and _goes_first(P, N, task, T.task[at - 1]):
            T.task[at] = T.task[at - 1]
            at -= 1
        T.task[at] = task
    if forced < 0 and T.counter[WAITING] and _may_wait(P, D):
        T.task[first + count] = WAIT
        count += 1
    total = 0.0
    for k in range(count):
        T.prior[first + k] = 0.5**k
        total += 0.5**k
    for k in range(count):
        at = first + k
        T.prior[at] /= total
        T.first[at], T.children[at], T.visits[at], T.total[at], T.best[at] = NEW, 0, 0, 0.0, np.inf
    if count > 0:
        T.first[node], T.children[node] = first, count
        T.counter[NODES] = first + count


@inner
def _goes_first(P, N, a, b):  # type: ignore[no-untyped-def]
    if N.key[a] != N.key[b]:
        return N.key[a] > N.key[b]
    return P.task[a].tie < P.task[b].tie


@inner
def _descend(P, D, truth, N, T):  # type: ignore[no-untyped-def]
    """Walk from the root to a node without visits, acting in the scratch; (nodes on the path, status)."""
    node, length = 0, 1
    T.path[0] = 0
    status = DECIDE
    while status == DECIDE:
        if T.first[node] == NEW and T.visits[node] > 0:
            _expand(P, D, N, T, node)
        if T.first[node] < 0:
            break
        node = _select(T, node)
        T.path[length] = node
        length += 1
        if not _has_room(P, D):
            return length, GROW
        status = act(P, D, truth, T.task[node])
        if status == DECIDE:
            status = _to_decision(P, D)
        if T.visits[node] == 0:
            break
    return length, status


@cold
def _simulate(P, R, D, V, B, N, G, T, E, truth):  # type: ignore[no-untyped-def]
    """One simulation; DONE, or GROW if a log is too short (it then counts for nothing)."""
    restore(P, R, D, V)
    V.counter[SIMULATIONS] += 1
    before = N.random[0]
    length, status = _descend(P, D, truth, N, T)
    value, finished = np.inf, True
    if status == DONE:
        value = cost(P, D, V)
    elif status == DECIDE:
        perturb(P, V, B, N, T.visits[T.path[length - 1]])
        status, value, finished = finish(P, D, V, B, E, truth, T.range[FOUND])
    better = finished and status == DONE and value < T.range[FOUND]
    if status != DONE or (better and not keep_log(D, G, V)):
        N.random[0] = before
        return GROW
    if better:
        T.range[FOUND] = value
        T.counter[BEST] = T.path[1]
    _backup(T, length, value)
    return DONE


@entry
def grow(P, R, D, V, B, N, G, T, E, truth, U):  # type: ignore[no-untyped-def]
    """Spend the budget ``U``; the best schedule found is logged in ``G``.

    Returns DONE; GROW if a log is too short, PAUSED from time to time: call again.
    """
    begin_call(U)
    while more(U, 1.0):
        if _simulate(P, R, D, V, B, N, G, T, E, truth) == GROW:
            return GROW
        if spend(U, 1):
            return PAUSED
    end_call(U)
    return DONE


drop_stale(grow, kernel.__file__, rollout.__file__, leaf.__file__, budget.__file__)
