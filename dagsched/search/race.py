"""Search under uncertain durations: every first action against the base policy's own, on shared scenarios.

A scenario draws the duration of each unfinished task from the declared noise, given that it runs already for some time.
All actions meet the same scenarios (common random numbers), and after its one action each goes on as the unperturbed
base policy does ("rollout" in the sense of Bertsekas, Tsitsiklis and Wu, "Rollout algorithms for combinatorial
optimization", J. Heuristics 3, 1997). The base policy's action is left only if the paired difference is below zero by
``z`` standard errors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dagsched.search import budget, leaf_value, rollout
from dagsched.search.budget import PAUSED, begin_call, end_call, more, out_of_time, spend
from dagsched.search.leaf_value import finish
from dagsched.search.rollout import OPEN, SIMULATIONS, act, believed_end, cost, restore
from dagsched.simulator import kernel
from dagsched.simulator.compilation import cold, entry, inner
from dagsched.simulator.kernel import DECIDE, DONE, EVENTS, GROW, NOW, push_event
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.workflow import FloatArray, IntArray

# Slots of Race.counter.
COUNT, ACTIVE, SCENARIO, NEXT, TURN, SINCE = range(6)


class Race(NamedTuple):
    """First actions and their costs; action 0 is the base policy's."""

    task: IntArray  # [M] task, -1 = WAIT
    order: IntArray  # [M] active ones first
    value: FloatArray  # [M, K] cost in each scenario
    score: FloatArray  # [M] scratch
    counter: IntArray  # [6]


class Scenarios(NamedTuple):
    """Drawn durations as quantiles, so that a task keeps its luck from decision to decision."""

    quantile: FloatArray  # [K, T] in (0, 1)
    factor: FloatArray  # [K, T] actual / estimated duration there, for a task that has not started
    seconds: FloatArray  # [T, G] scratch: durations of the scenario being simulated
    sigma: FloatArray  # [1]


def new_race(arms: int, scenarios: int) -> Race:
    """Room for so many actions and scenarios."""
    return Race(
        task=np.zeros(arms, np.int64),
        order=np.zeros(arms, np.int64),
        value=np.zeros((arms, scenarios)),
        score=np.zeros(arms),
        counter=np.zeros(6, np.int64),
    )


def open_race(race: Race, task: IntArray) -> None:
    """Begin with these actions, the base policy's first."""
    count = len(task)
    race.task[:count] = task
    race.order[:count] = np.arange(count)
    race.counter[:] = (count, count, 0, 0, 1, 0)


@inner
def normal_below(z):  # type: ignore[no-untyped-def]
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-z * math.sqrt(0.5))


@inner
def normal_quantile(p):  # type: ignore[no-untyped-def]
    """Inverse of the standard normal distribution function (Acklam's rational approximation, error below 2e-9)."""
    if p <= 0.0:
        return -np.inf
    if p >= 1.0:
        return np.inf
    if p < 0.02425 or p > 1.0 - 0.02425:
        q = math.sqrt(-2.0 * math.log(min(p, 1.0 - p)))
        top = -7.784894002430293e-03 * q - 3.223964580411365e-01
        top = ((top * q - 2.400758277161838) * q - 2.549732539343734) * q + 4.374664141464968
        top = top * q + 2.938163982698783
        low = (7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996
        low = (low * q + 3.754408661907416) * q + 1.0
        return top / low if p < 0.5 else -top / low
    q = p - 0.5
    r = q * q
    top = (-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02
    top = ((top * r + 1.383577518672690e02) * r - 3.066479806614716e01) * r + 2.506628277459239
    low = (-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02
    low = ((low * r + 6.680131188771972e01) * r - 1.328068155288572e01) * r + 1.0
    return top * q / low


@inner
def drawn_factor(quantile, sigma, least):  # type: ignore[no-untyped-def]
    """exp(sigma Z - sigma^2 / 2) at a quantile of its distribution above ``least`` > 0."""
    if sigma <= 0:
        return max(1.0, least)
    floor = normal_below((math.log(least) + 0.5 * sigma * sigma) / sigma)
    quantile = floor + quantile * (1.0 - floor)
    if quantile >= 1.0:
        return least
    return max(math.exp(sigma * normal_quantile(quantile) - 0.5 * sigma * sigma), least)


def draw(scenarios: Scenarios, seed: int, first: int, last: int) -> None:
    """Draw tasks ``first`` to ``last``; a number depends on the seed, its scenario and its task alone."""
    many = np.arange(len(scenarios.quantile), dtype=np.uint64)[:, None] << np.uint64(40)
    z = (np.uint64(seed) ^ many ^ np.arange(first, last, dtype=np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # SplitMix64, as in kernel.uniform
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    quantile = ((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    sigma = float(scenarios.sigma[0])
    scenarios.quantile[:, first:last] = quantile
    scenarios.factor[:, first:last] = np.exp(sigma * ndtri(quantile) - 0.5 * sigma**2)


@inner
def _load_scenario(P, root, scratch, work, scenarios, k):  # type: ignore[no-untyped-def]
    """Durations of scenario ``k``: all open tasks, and the ends of what runs (the scratch is at the root)."""
    for at in range(work.counter[OPEN]):
        task = work.open[at]
        factor = scenarios.factor[k, task]
        for group in range(P.estimate.shape[1]):
            scenarios.seconds[task, group] = P.estimate[task, group] * factor
    now = root.clock[NOW]
    running = scratch.counter[EVENTS]
    scratch.counter[EVENTS] = 0
    for at in range(running):  # in place: pushing writes no further than the place just read
        alloc = scratch.event[at]
        task, group = scratch.alloc[alloc].task, P.node_group[scratch.alloc[alloc].node]
        seconds = P.estimate[task, group]
        elapsed = now - scratch.alloc[alloc].execution
        if seconds > 0 and elapsed > 0:
            seconds *= drawn_factor(scenarios.quantile[k, task], scenarios.sigma[0], elapsed / seconds)
        else:
            seconds = scenarios.seconds[task, group]
        scratch.alloc[alloc].finish = believed_end(scratch.alloc[alloc].execution, seconds, now)
        push_event(scratch, alloc)


@cold
def _simulate(P, root, scratch, work, buckets, scenarios, leaf, k, task):  # type: ignore[no-untyped-def]
    """(status, cost) of one action in scenario ``k``, then the order of ``buckets.key``, to the end or to the value."""
    restore(P, root, scratch, work)
    work.counter[SIMULATIONS] += 1
    _load_scenario(P, root, scratch, work, scenarios, k)
    status = act(P, scratch, scenarios.seconds, task)
    if status != DECIDE:
        return status, cost(P, scratch, work)
    status, value, _ = finish(P, scratch, work, buckets, leaf, scenarios.seconds, -np.inf)
    return status, value


@entry
def race(P, root, scratch, work, buckets, scenarios, actions, leaf, budget, rounds):  # type: ignore[no-untyped-def]
    """Spend the budget on whole scenarios over the active actions, the worse half dropped after each round.

    The first rounds share a half of the budget, the last one, whose costs alone count in the end, has the other.
    Returns DONE; GROW if a log is too short, PAUSED from time to time: call again.
    """
    begin_call(budget)
    while True:
        turn = actions.counter[TURN]
        part = 1.0 if turn >= rounds else 0.5 * turn / max(rounds - 1, 1)
        last = np.int64(actions.value.shape[1] * part)
        while actions.counter[SCENARIO] < last:
            if out_of_time(budget) or (actions.counter[NEXT] == 0 and not more(budget, part)):
                break
            arm = actions.order[actions.counter[NEXT]]
            status, value = _simulate(
                P, root, scratch, work, buckets, scenarios, leaf, actions.counter[SCENARIO], actions.task[arm]
            )
            if status == GROW:
                return GROW
            actions.value[arm, actions.counter[SCENARIO]] = value
            actions.counter[NEXT] += 1
            if actions.counter[NEXT] >= actions.counter[ACTIVE]:
                actions.counter[NEXT] = 0
                actions.counter[SCENARIO] += 1
            if spend(budget, 1):
                return PAUSED
        if turn >= rounds:
            break
        if actions.counter[SCENARIO] > 0:
            _drop_worse(actions)
        actions.counter[TURN] = turn + 1
    end_call(budget)
    return DONE


@inner
def _mean_difference(actions, arm, since):  # type: ignore[no-untyped-def]
    """Mean over the whole scenarios since then of the cost of an action less that of the base."""
    total = 0.0
    for k in range(since, actions.counter[SCENARIO]):
        total += actions.value[arm, k] - actions.value[0, k]
    return total / max(actions.counter[SCENARIO] - since, 1)


@inner
def _drop_worse(actions):  # type: ignore[no-untyped-def]
    active = actions.counter[ACTIVE]
    for k in range(1, active):
        actions.score[actions.order[k]] = _mean_difference(actions, actions.order[k], 0)
    for k in range(2, active):  # insertion, by score and then by place
        arm, hole = actions.order[k], k
        while hole > 1:
            other = actions.order[hole - 1]
            if actions.score[other] < actions.score[arm] or (
                actions.score[other] == actions.score[arm] and other < arm
            ):
                break
            actions.order[hole] = other
            hole -= 1
        actions.order[hole] = arm
    actions.counter[ACTIVE] = 1 + active // 2
    actions.counter[NEXT] = 0
    actions.counter[SINCE] = actions.counter[SCENARIO]


@entry
def drop_worse(actions):  # type: ignore[no-untyped-def]
    """Keep the better half of the active actions by mean difference; the base policy's always stays, first."""
    _drop_worse(actions)


@entry
def winner(actions, z):  # type: ignore[no-untyped-def]
    """Place of the action to take: the best by mean difference if that is below 0 by ``z`` standard errors, else 0.

    Only whole scenarios since actions were last dropped count: what an action was chosen by flatters it.
    """
    since, done = actions.counter[SINCE], actions.counter[SCENARIO]
    if done - since < _LEAST_SCENARIOS:
        return 0
    best, best_mean = 0, 0.0
    for k in range(1, actions.counter[ACTIVE]):
        mean = _mean_difference(actions, actions.order[k], since)
        if mean < best_mean:
            best, best_mean = actions.order[k], mean
    if best == 0:
        return 0
    squares = 0.0
    for k in range(since, done):
        squares += (actions.value[best, k] - actions.value[0, k] - best_mean) ** 2
    error = np.sqrt(squares / (done - since - 1) / (done - since))
    return best if best_mean + z * error < 0 else 0


_LEAST_SCENARIOS = 4


drop_stale(race, kernel.__file__, rollout.__file__, leaf_value.__file__, budget.__file__)
