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
    cost,
    fill_buckets,
    workflow_cost,
)
from dagsched.simulator import kernel
from dagsched.simulator.compilation import cold, inner
from dagsched.simulator.kernel import DECIDE, DONE, NOW, go_by_priority
from dagsched.simulator.kernel_cache import drop_stale
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
def _summarise(P, scratch, work, leaf):  # type: ignore[no-untyped-def]
    """Fill the features; returns what is known of the cost already."""
    now = scratch.clock[NOW]
    first = work.counter[FIRST_WORKFLOW]
    known = work.amount[PAST]
    for w in range(first, len(P.workflow)):
        leaf.path[w], leaf.area[w], work.last[w] = -1.0, 0.0, -np.inf
    for k in range(work.counter[OPEN]):
        task = work.open[k]
        w = P.task[task].workflow
        if not np.isnan(scratch.task[task].finish):
            work.last[w] = max(work.last[w], scratch.task[task].finish)
        elif scratch.task[task].unstarted > 0:
            leaf.path[w] = max(leaf.path[w], P.task[task].bottom)
            leaf.area[w] += P.task[task].area * scratch.task[task].unstarted / len(P.node_group)
        elif scratch.task[task].last_alloc >= 0:
            left = scratch.alloc[scratch.task[task].last_alloc].finish - now
            leaf.path[w] = max(leaf.path[w], left + P.task[task].bottom - P.task[task].fastest)
    for k in range(FEATURES):
        leaf.feature[k] = 0.0
    leaf.feature[5] = 1.0
    count, longest, total = 0, 0.0, 0.0
    for w in range(first, len(P.workflow)):
        if leaf.path[w] < 0:
            if work.last[w] > -np.inf:
                known += workflow_cost(P, work, w, work.last[w])
            continue
        longest, total = max(longest, leaf.path[w]), total + leaf.area[w]
        at = count
        while at > 0 and leaf.area[leaf.rank[at - 1]] > leaf.area[w]:
            leaf.rank[at] = leaf.rank[at - 1]
            at -= 1
        leaf.rank[at] = w
        count += 1
    if work.kind[0] == MAKESPAN:
        leaf.feature[0], leaf.feature[1] = longest, total
        return now
    ahead = 0.0
    for k in range(count):
        w = leaf.rank[k]
        ahead += leaf.area[w]
        if work.kind[0] == FLOW_TIME:
            known += work.weight[w] * (now - P.workflow[w].arrival)
            leaf.feature[0] += work.weight[w] * leaf.path[w]
            leaf.feature[1] += work.weight[w] * ahead
            leaf.feature[2] += work.weight[w] * np.sqrt(leaf.path[w] * ahead)
            leaf.feature[3] += work.weight[w]
        else:
            slack = work.deadline[w] - now - leaf.path[w]
            per = 1.0 / max(leaf.path[w], 1e-9)
            leaf.feature[0] += slack < 0
            leaf.feature[1] += max(0.0, 1.0 - max(slack * per, 0.0))
            leaf.feature[2] += max(0.0, 1.0 - max(slack, 0.0) / max(ahead, 1e-9))
            leaf.feature[3] += max(-slack, 0.0) * per
    leaf.feature[4] = total * count
    return known


@cold
def _roll(P, scratch, truth, buckets, most):  # type: ignore[no-untyped-def]
    """Go on by priority; a function of its own, for three copies within :func:`finish` take minutes to compile."""
    return go_by_priority(P, scratch, truth, buckets, most)


@cold
def finish(P, scratch, work, buckets, leaf, truth, found):  # type: ignore[no-untyped-def]
    """End a simulation from the scratch's state; returns (status, cost, whether the cost is that of a schedule).

    ``found`` is the least cost known; a simulation that is unlikely to get below is worth what the value says. Minus
    infinity: every one is, since costs are compared with each other.
    """
    fill_buckets(scratch, buckets)
    if leaf.counter[MODE] == ROLLOUT:
        status = _roll(P, scratch, truth, buckets, MANY)
        return status, cost(P, scratch, work), True
    status = _roll(P, scratch, truth, buckets, leaf.counter[HORIZON])
    if status != DECIDE:
        return status, cost(P, scratch, work), True
    known = _summarise(P, scratch, work, leaf)
    predicted = known
    for k in range(FEATURES):
        predicted += leaf.weights[k] * leaf.feature[k]
    turn = leaf.counter[TURN] + 1
    every = 2 if leaf.counter[MODE] == MIX else _TEACH_EVERY
    if leaf.counter[FITTED] and turn % every != 0:
        if not np.isfinite(predicted):
            leaf.counter[BROKEN] += 1
        elif predicted - _DOUBT * np.sqrt(leaf.error[0] / max(leaf.error[1], 1.0)) > found:
            leaf.counter[CUT] += 1
            leaf.counter[TURN] = turn
            return DONE, predicted, False
    status = _roll(P, scratch, truth, buckets, MANY)
    if status != DONE:
        return status, np.inf, True
    leaf.counter[TURN] = turn
    value = cost(P, scratch, work)
    for k in range(FEATURES):
        leaf.targets[k] += leaf.feature[k] * (value - known)
        for j in range(FEATURES):
            leaf.moments[k, j] += leaf.feature[k] * leaf.feature[j]
    taught = leaf.counter[FITTED] and np.isfinite(predicted)
    if taught:
        leaf.error[0] = 0.99 * leaf.error[0] + (predicted - value) ** 2
        leaf.error[1] = 0.99 * leaf.error[1] + 1.0
    leaf.counter[TAUGHT] += 1
    if taught and found == -np.inf:  # to be compared with predictions
        return DONE, predicted, False
    return DONE, value, True


drop_stale(finish, kernel.__file__, rollout.__file__)
