"""What a simulation is worth before it has ended: a value learned from the planner's own simulations, as it goes.

After ``horizon`` decisions the cost to come is predicted from a few sums over the open workflows (longest paths left,
work ahead in order of shortest remaining work, lateness) by ridge regression on the simulations that ran to the end.
A simulation whose prediction is clearly above the best schedule found is given up; only finished ones become the
incumbent, so that a wrong value can waste time and nothing else. One that is not finite counts as unknown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dagsched.search import rollout
from dagsched.search.rollout import (
    FIRST_WORKFLOW,
    FLOW_TIME,
    MAKESPAN,
    MANY,
    OPEN,
    PAST,
    _workflow_cost,
    cost,
    fill_buckets,
)
from dagsched.simulator import kernel
from dagsched.simulator.kernel import DECIDE, DONE, NOW, cold, go_by_priority, inner
from dagsched.simulator.stale import drop_stale
from dagsched.workflow import FloatArray, IntArray

ROLLOUT, VALUE, MIX = 0, 1, 2
MODES = {"rollout": ROLLOUT, "value": VALUE, "mix": MIX}
FEATURES = 6
# Slots of Leaf.counter.
MODE, HORIZON, TAUGHT, CUT, BROKEN, TURN, FITTED = range(7)
_LEAST_TAUGHT = 48
_TEACH_EVERY = 16
_DOUBT = 1.5


class Leaf(NamedTuple):
    """The learned value and what it has learned from."""

    counter: IntArray  # [7]
    weights: FloatArray  # [6]
    moments: FloatArray  # [6, 6] sums of products of features
    targets: FloatArray  # [6] sums of features x cost to come
    error: FloatArray  # [2] sums of squared errors of predictions, and their number (fading)
    feature: FloatArray  # [6] scratch
    path: FloatArray  # [W] scratch: longest path left, s; -1 = finished
    area: FloatArray  # [W] scratch: work left
    rank: IntArray  # [W] scratch


def new_leaf(workflows: int, mode: str, horizon: int) -> Leaf:
    """A value that knows nothing."""
    leaf = Leaf(
        counter=np.zeros(7, np.int64),
        weights=np.zeros(FEATURES),
        moments=np.zeros((FEATURES, FEATURES)),
        targets=np.zeros(FEATURES),
        error=np.zeros(2),
        feature=np.zeros(FEATURES),
        path=np.zeros(workflows),
        area=np.zeros(workflows),
        rank=np.zeros(workflows, np.int64),
    )
    leaf.counter[MODE], leaf.counter[HORIZON] = MODES[mode], horizon
    return leaf


def refit(leaf: Leaf, ridge: float = 1e-3) -> None:
    """Weights from what was learned; between decisions."""
    if leaf.counter[TAUGHT] < _LEAST_TAUGHT:
        return
    scale = np.sqrt(np.diag(leaf.moments)) + 1e-12
    system = leaf.moments / np.outer(scale, scale) + ridge * np.eye(FEATURES)
    leaf.counter[FITTED] = 1
    leaf.weights[:] = np.linalg.solve(system, leaf.targets / scale) / scale


@inner
def _summarise(P, D, V, E):  # type: ignore[no-untyped-def]
    """Fill the features; returns what is known of the cost already."""
    now = D.clock[NOW]
    first = V.counter[FIRST_WORKFLOW]
    known = V.amount[PAST]
    for w in range(first, len(P.workflow)):
        E.path[w], E.area[w], V.last[w] = -1.0, 0.0, -np.inf
    for k in range(V.counter[OPEN]):
        task = V.open[k]
        w = P.task[task].workflow
        if not np.isnan(D.task[task].finish):
            V.last[w] = max(V.last[w], D.task[task].finish)
        elif D.task[task].unstarted > 0:
            E.path[w] = max(E.path[w], P.task[task].bottom)
            E.area[w] += P.task[task].area * D.task[task].unstarted / len(P.node_group)
        elif D.task[task].last_alloc >= 0:
            left = D.alloc[D.task[task].last_alloc].finish - now
            E.path[w] = max(E.path[w], left + P.task[task].bottom - P.task[task].fastest)
    for k in range(FEATURES):
        E.feature[k] = 0.0
    E.feature[5] = 1.0
    count, longest, total = 0, 0.0, 0.0
    for w in range(first, len(P.workflow)):
        if E.path[w] < 0:
            if V.last[w] > -np.inf:
                known += _workflow_cost(P, V, w, V.last[w])
            continue
        longest, total = max(longest, E.path[w]), total + E.area[w]
        at = count
        while at > 0 and E.area[E.rank[at - 1]] > E.area[w]:
            E.rank[at] = E.rank[at - 1]
            at -= 1
        E.rank[at] = w
        count += 1
    if V.kind[0] == MAKESPAN:
        E.feature[0], E.feature[1] = longest, total
        return now
    ahead = 0.0
    for k in range(count):
        w = E.rank[k]
        ahead += E.area[w]
        if V.kind[0] == FLOW_TIME:
            known += V.weight[w] * (now - P.workflow[w].arrival)
            E.feature[0] += V.weight[w] * E.path[w]
            E.feature[1] += V.weight[w] * ahead
            E.feature[2] += V.weight[w] * np.sqrt(E.path[w] * ahead)
            E.feature[3] += V.weight[w]
        else:
            slack = V.deadline[w] - now - E.path[w]
            per = 1.0 / max(E.path[w], 1e-9)
            E.feature[0] += slack < 0
            E.feature[1] += max(0.0, 1.0 - max(slack * per, 0.0))
            E.feature[2] += max(0.0, 1.0 - max(slack, 0.0) / max(ahead, 1e-9))
            E.feature[3] += max(-slack, 0.0) * per
    E.feature[4] = total * count
    return known


@cold
def _roll(P, D, truth, B, most):  # type: ignore[no-untyped-def]
    """Go on by priority; a function of its own, for three copies within :func:`finish` take minutes to compile."""
    return go_by_priority(P, D, truth, B, most)


@cold
def finish(P, D, V, B, E, truth, found):  # type: ignore[no-untyped-def]
    """End a simulation from the scratch's state; returns (status, cost, whether the cost is that of a schedule).

    ``found`` is the least cost known; a simulation that is unlikely to get below is worth what the value says. Minus
    infinity: every one is, since costs are compared with each other.
    """
    fill_buckets(D, B)
    if E.counter[MODE] == ROLLOUT:
        status = _roll(P, D, truth, B, MANY)
        return status, cost(P, D, V), True
    status = _roll(P, D, truth, B, E.counter[HORIZON])
    if status != DECIDE:
        return status, cost(P, D, V), True
    known = _summarise(P, D, V, E)
    predicted = known
    for k in range(FEATURES):
        predicted += E.weights[k] * E.feature[k]
    turn = E.counter[TURN] + 1
    every = 2 if E.counter[MODE] == MIX else _TEACH_EVERY
    if E.counter[FITTED] and turn % every != 0:
        if not np.isfinite(predicted):
            E.counter[BROKEN] += 1
        elif predicted - _DOUBT * np.sqrt(E.error[0] / max(E.error[1], 1.0)) > found:
            E.counter[CUT] += 1
            E.counter[TURN] = turn
            return DONE, predicted, False
    status = _roll(P, D, truth, B, MANY)
    if status != DONE:
        return status, np.inf, True
    E.counter[TURN] = turn
    value = cost(P, D, V)
    for k in range(FEATURES):
        E.targets[k] += E.feature[k] * (value - known)
        for j in range(FEATURES):
            E.moments[k, j] += E.feature[k] * E.feature[j]
    taught = E.counter[FITTED] and np.isfinite(predicted)
    if taught:
        E.error[0] = 0.99 * E.error[0] + (predicted - value) ** 2
        E.error[1] = 0.99 * E.error[1] + 1.0
    E.counter[TAUGHT] += 1
    if taught and found == -np.inf:  # to be compared with predictions
        return DONE, predicted, False
    return DONE, value, True


drop_stale(finish, kernel.__file__, rollout.__file__)
