"""A project under uncertain durations, planned anew at every event: a list of tasks and what it means from here on.

Schedules of scarce resources gain most of what they gain over rules by leaving room on purpose, which no order of
starting whatever fits can say. So the plan is kept as an activity list and, whenever something ends, decoded by serial
generation from the present state on expected durations: what would start now starts, all else waits (predictive-
reactive scheduling; compare the activity-based policies of Stork, "Stochastic resource-constrained project scheduling",
2001, and Ballestin, "When it is worthwhile to work with the stochastic RCPSP?", J. Scheduling 10, 2007). What runs
counts with its expected remaining time, given that it has run so long. Between two decisions the search of
:mod:`dagsched.search.lns_pooled` goes on improving a few such lists.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dagsched.policies.sampling import sgs
from dagsched.policies.sampling.sampler import pooled_problem
from dagsched.policies.sampling.sgs import MAKESPAN, entry, inner, serial
from dagsched.schedule import WAIT
from dagsched.search import budget, lns_pooled, race, rollout
from dagsched.search.budget import PAUSED, Budget
from dagsched.search.lns_pooled import ELITES, MOST_ELITES, PASSES, new_population, refresh, search_budget
from dagsched.search.race import normal_below
from dagsched.search.rollout import SIMULATIONS
from dagsched.search.workspace import Workspace
from dagsched.simulator import kernel
from dagsched.simulator.kernel import (
    DECIDE,
    EVENTS,
    GROW,
    NOW,
    READY,
    ZERO,
    advance_clock,
    can_start,
    choose_node,
    logs_have_room,
    start_task,
)
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.workflow import FloatArray, IntArray

_DONE, _RUNNING = 2e18, 1e18
_LEAST_LEFT = 1e-6
_FIRST_SHARE = 0.7
MOST_TASKS = 600
"""Tasks up to which a list is kept: following one through a project takes time with their square."""
MOST_FOLLOWED = 1_000_000
"""Squared tasks times draws on which a list is tried before the first start."""


class Rest(NamedTuple):
    """What is left of the project at a moment, for schedule generation; ``T`` tasks in order of ties.

    A finished task takes no time and no room, a running one its remaining time; both are pinned to the front of every
    list, so that they start at the moment itself.
    """

    order: IntArray  # [T] flat index of each task
    duration: FloatArray  # [T] s
    demand: FloatArray  # [T, R]
    need: FloatArray  # [T, R] demand less the fit tolerance
    pin: FloatArray  # [T] key of a task that has started, 0 = has not
    estimate: FloatArray  # [T] s
    all_demand: FloatArray  # [T, R] of unfinished tasks
    all_need: FloatArray  # [T, R] the same
    sigma: FloatArray  # [1]


@inner
def expected_left(elapsed, estimate, sigma):  # type: ignore[no-untyped-def]
    """E[D - elapsed | D > elapsed] for a lognormal D of mean ``estimate``, in seconds."""
    if elapsed <= 0 or sigma <= 0 or estimate <= 0:
        return estimate - elapsed
    z = (math.log(elapsed / estimate) + 0.5 * sigma * sigma) / sigma
    tail = normal_below(-z)
    if tail < 1e-9:
        return 0.0
    return estimate * normal_below(sigma - z) / tail - elapsed


@inner
def _fold(S, rest):  # type: ignore[no-untyped-def]
    """Fill ``rest`` from a state; reads no finish of anything that runs."""
    now = S.clock[NOW]
    for k in range(len(rest.order)):
        task = rest.order[k]
        rest.pin[k] = 0.0
        rest.duration[k] = rest.estimate[k]
        finished = not np.isnan(S.task[task].finish)
        for r in range(rest.demand.shape[1]):
            rest.demand[k, r] = 0.0 if finished else rest.all_demand[k, r]
            rest.need[k, r] = -np.inf if finished else rest.all_need[k, r]
        if finished:
            rest.duration[k], rest.pin[k] = 0.0, _DONE
        elif not np.isnan(S.task[task].start):
            left = expected_left(now - S.task[task].start, rest.estimate[k], rest.sigma[0])
            rest.duration[k], rest.pin[k] = max(left, _LEAST_LEFT * rest.estimate[k]), _RUNNING


@entry
def fold(S, rest):  # type: ignore[no-untyped-def]
    """Fill the rest ``rest`` from a state."""
    _fold(S, rest)


@entry
def run_list(P, scratch, truth, rest, problem, work, list_key, tries):  # type: ignore[no-untyped-def]
    """Run the scratch to its end by a list (larger key first), decoded anew at every event; returns a status."""
    key, start, finish = tries[0], tries[1], tries[2]
    while True:
        now = scratch.clock[NOW]
        _fold(scratch, rest)
        for k in range(len(key)):
            key[k] = rest.pin[k] if rest.pin[k] > 0 else list_key[k]
        serial(key, problem, work, now, start, finish)
        for k in range(len(key)):
            if rest.pin[k] > 0 or start[k] > now:
                continue
            task = rest.order[k]
            if np.isnan(scratch.task[task].ready_time) or scratch.task[task].unstarted == 0:
                continue
            if not logs_have_room(P, scratch):
                return GROW
            node = choose_node(P, scratch, task)
            if node >= 0:
                start_task(P, scratch, truth, task, node, ZERO)
        if scratch.counter[EVENTS] == 0:  # by rounding nothing would start now: what fits does
            for k in range(scratch.counter[READY]):
                task = scratch.ready[k]
                if can_start(P, scratch, task):
                    if not logs_have_room(P, scratch):
                        return GROW
                    start_task(P, scratch, truth, task, choose_node(P, scratch, task), ZERO)
                    break
        status = advance_clock(P, scratch)
        if status != DECIDE:
            return status


class Rolling:
    """The lists of one replay: a batch on one pooled node (:func:`dagsched.policies.sampling.sampler.is_pooled`).

    Args:
        workspace: of the search.
        sigma: of the durations, log scale.
        stream: words of the random stream.
    """

    def __init__(self, workspace: Workspace, sigma: float, stream: np.random.SeedSequence) -> None:
        self.workspace = workspace
        replay = workspace.simulator.replay
        order = np.argsort(workspace.whole.task["tie"])
        duration, demand, need, *rest = pooled_problem(replay, order)
        self._rest = Rest(
            order, duration.astype(float), demand.astype(float), need.astype(float), np.zeros(len(order)),
            duration.astype(float), demand.astype(float), need.astype(float), np.array([sigma]),
        )  # fmt: skip
        self._problem = (self._rest.duration, self._rest.demand, self._rest.need, *rest)
        self._work = sgs.new_work(len(order), demand.shape[1])
        self._owners = replay.workflow_of[order], replay.weight_share, np.empty(len(replay.workflows))
        self._lengths = np.zeros(MOST_ELITES)
        self._stream = stream
        self._seen, self._waits = -np.inf, 0

    def open(self, starts: FloatArray, budget: Budget) -> None:
        """Begin with known schedules ``[S, T]`` (starts in seconds, flat order) and improve them."""
        self._population = new_population(np.ascontiguousarray(starts[:, self._rest.order]), self._stream)
        fold(self.workspace.simulator.state, self._rest)
        self._improve(budget)

    @property
    def is_empty(self) -> bool:
        """Whether there was no time for a single list."""
        return bool(self._population.counter[ELITES] == 0)

    def _improve(self, budget: Budget, part: float = 1.0) -> None:
        before = int(self._population.counter[PASSES])
        status = PAUSED
        while status == PAUSED:
            status = search_budget(
                self._population, self._lengths, self._problem, self._work, self.workspace.simulator.now, MAKESPAN,
                self._owners, self._rest.pin, budget, part,
            )  # fmt: skip
        self.workspace.work.counter[SIMULATIONS] += int(self._population.counter[PASSES]) - before

    def roll(self) -> None:
        """Run the scratch from the root to its end by the best list."""
        workspace, key = self.workspace, -self._population.best_start
        status = GROW
        while status == GROW:
            workspace.restart()
            status = run_list(
                workspace.problem, workspace.scratch, workspace.truth, self._rest, self._problem, self._work, key,
                self._population.tries,
            )  # fmt: skip
            if status == GROW:
                workspace.regrow()

    def decide(self, legal: IntArray, budget: Budget) -> int:
        """The next task of the best list that starts now, or WAIT.

        Only a moment that has not been seen brings anything new. All moments until the next start share one budget,
        the first taking most of it.
        """
        simulator, rest = self.workspace.simulator, self._rest
        if simulator.now != self._seen:
            self._seen = simulator.now
            fold(simulator.state, rest)
            part = _FIRST_SHARE * (1.0 - _FIRST_SHARE) ** self._waits
            refresh(
                self._population, self._lengths, self._problem, self._work, simulator.now, MAKESPAN, self._owners,
                rest.pin, budget, part,
            )  # fmt: skip
            self.workspace.work.counter[SIMULATIONS] += int(np.isfinite(self._population.value).sum())
            self._improve(budget, part)
        startable = np.flatnonzero(self._population.best_start <= simulator.now)
        tasks = rest.order[startable]
        tasks = tasks[np.isin(tasks, legal)]
        if len(tasks) or not simulator.can_wait:
            self._waits = 0
            return int(tasks[0] if len(tasks) else legal[0])
        self._waits += 1
        return WAIT


drop_stale(
    run_list, kernel.__file__, rollout.__file__, sgs.__file__, race.__file__, lns_pooled.__file__, budget.__file__
)
