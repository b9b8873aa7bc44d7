"""Search at the root: which first actions to simulate, and how the simulations are shared out among them.

Candidates come by Gumbel-top-k from the prior (Danihelka et al., "Policy improvement by planning with Gumbel", ICLR
2022), and simulations by sequential halving (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed
bandits", ICML 2013). Durations being exact here, an action is worth the best schedule found behind it, not the mean.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dagsched.search import budget, leaf_value, rollout
from dagsched.search.budget import PAUSED, begin_call, end_call, more, spend
from dagsched.search.leaf_value import finish
from dagsched.search.rollout import SIMULATIONS, WAIT, act, demote_ready, keep_log, perturb, restore
from dagsched.simulator import kernel
from dagsched.simulator.compilation import cold, entry, inner
from dagsched.simulator.kernel import DECIDE, DONE, GROW
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.workflow import FloatArray, IntArray

# Slots of Arms.counter.
COUNT, ACTIVE, NEXT, BEST, TURN = range(5)


class Arms(NamedTuple):
    """First actions and what simulations said of them; ``order`` lists the active ones first, best first."""

    task: IntArray  # [M] task, -1 = WAIT
    order: IntArray  # [M]
    visits: IntArray  # [M]
    best: FloatArray  # [M] least cost found
    total: FloatArray  # [M] sum of costs
    counter: IntArray  # [5]
    found: FloatArray  # [1] least cost of all


def new_arms(most: int) -> Arms:
    """Room for so many first actions."""
    return Arms(
        task=np.zeros(most, np.int64),
        order=np.zeros(most, np.int64),
        visits=np.zeros(most, np.int64),
        best=np.zeros(most),
        total=np.zeros(most),
        counter=np.zeros(5, np.int64),
        found=np.zeros(1),
    )


def open_arms(arms: Arms, task: IntArray, incumbent: int, value: float) -> None:
    """Fill the arms; arm ``incumbent`` (its place, -1: none) is known to lead to a schedule of cost ``value``.

    That counts as its first simulation, which would follow the incumbent's own keys.
    """
    count = len(task)
    arms.task[:count] = task
    arms.order[:count] = np.arange(count)
    arms.visits[:count], arms.total[:count], arms.best[:count] = 0, 0.0, np.inf
    if incumbent >= 0:
        arms.visits[incumbent], arms.total[incumbent], arms.best[incumbent] = 1, value, value
    arms.counter[:] = (count, count, 0, incumbent, 1)
    arms.found[0] = value if incumbent >= 0 else np.inf


def phases(arms: int) -> int:
    """Rounds of halving until one of ``arms`` is left; at least 1."""
    return max(1, math.ceil(math.log2(max(arms, 1))))


@cold
def _simulate(P, root, scratch, work, buckets, noise, log, arms, leaf, truth):  # type: ignore[no-untyped-def]
    """The next arm's next simulation; DONE, or GROW if a log is too short (it then counts for nothing)."""
    arm = arms.order[arms.counter[NEXT]]
    before = noise.random[0]
    perturb(P, work, buckets, noise, arms.visits[arm])
    if arms.task[arm] == WAIT and arms.visits[arm] % 2 == 1:
        demote_ready(root, buckets, noise)
    restore(P, root, scratch, work)
    work.counter[SIMULATIONS] += 1
    status, value, finished = act(P, scratch, truth, arms.task[arm]), np.inf, False
    if status == DECIDE:
        status, value, finished = finish(P, scratch, work, buckets, leaf, truth, arms.found[0])
    better = finished and status == DONE and value < arms.found[0]
    if status != DONE or (better and not keep_log(scratch, log, work)):
        noise.random[0] = before
        return GROW
    arms.visits[arm] += 1
    arms.total[arm] += value
    if finished:
        arms.best[arm] = min(arms.best[arm], value)
    if better:
        arms.found[0] = value
        arms.counter[BEST] = arm
    arms.counter[NEXT] += 1
    if arms.counter[NEXT] >= arms.counter[ACTIVE]:
        arms.counter[NEXT] = 0
    return DONE


@entry
def play(P, root, scratch, work, buckets, noise, log, arms, leaf, truth, budget, rounds):  # type: ignore[no-untyped-def]
    """Spend the budget in equal rounds, the worse half of the arms dropped after each but the last.

    Within a round the active arms are simulated in turn; the first simulation of an arm follows the unperturbed keys.
    The best schedule found is logged in ``log``. Returns DONE; GROW if a log is too short, PAUSED from time to
    time: call again.
    """
    begin_call(budget)
    while True:
        turn = arms.counter[TURN]
        while more(budget, turn / rounds):
            if _simulate(P, root, scratch, work, buckets, noise, log, arms, leaf, truth) == GROW:
                return GROW
            if spend(budget, 1):
                return PAUSED
        if turn >= rounds:
            break
        _halve(arms)
        arms.counter[TURN] = turn + 1
    end_call(budget)
    return DONE


@inner
def _before(arms, a, b):  # type: ignore[no-untyped-def]
    """Whether arm a did better than arm b."""
    if arms.best[a] != arms.best[b]:
        return arms.best[a] < arms.best[b]
    if arms.visits[a] > 0 and arms.visits[b] > 0 and arms.total[a] * arms.visits[b] != arms.total[b] * arms.visits[a]:
        return arms.total[a] * arms.visits[b] < arms.total[b] * arms.visits[a]
    return a < b


@inner
def _halve(arms):  # type: ignore[no-untyped-def]
    """Order the active arms by the best found (then the mean, then their place) and drop the worse half."""
    count = arms.counter[ACTIVE]
    for k in range(1, count):
        arm = arms.order[k]
        hole = k
        while hole > 0 and _before(arms, arm, arms.order[hole - 1]):
            arms.order[hole] = arms.order[hole - 1]
            hole -= 1
        arms.order[hole] = arm
    arms.counter[ACTIVE] = max(1, (count + 1) // 2)
    arms.counter[NEXT] = 0


@entry
def halve(arms):  # type: ignore[no-untyped-def]
    """End a round: see :func:`play`."""
    _halve(arms)


drop_stale(play, kernel.__file__, rollout.__file__, leaf_value.__file__, budget.__file__)
