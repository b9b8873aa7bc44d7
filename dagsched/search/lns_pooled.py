"""Compiled search over activity lists for one pooled node: a growing population of elites, improved by justification.

A solution is the start times of a schedule; decoded by serial or parallel generation (largest key first, key = -start)
it gives itself or something shorter. A candidate changes the keys of one elite in one of three ways: it takes the times
of another elite inside a random window (after the peak crossover of Valls, Ballestin and Quintanilla, "A hybrid genetic
algorithm for the resource-constrained project scheduling problem", EJOR 185, 2008, which cuts at peaks of usage), it
moves a few tasks, or it shuffles the tasks that start inside a window. Every candidate is then justified backward and
forward as long as that shortens it ("double justification", Valls et al., EJOR 165, 2005), and takes the place of the
elite it came from unless it is worse: ties are accepted, so that a search walks over the plateaus of a makespan.

The population grows with the square root of the schedules generated, each newcomer a perturbed schedule of a contained
policy; few elites find good schedules early, many keep finding better ones. All draws come from one stream of
:mod:`dagsched.policies.sampling.sgs`: the same seed and number of schedules give the same result, however it is sliced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dagsched.policies.sampling import sgs
from dagsched.policies.sampling.sampler import OBJECTIVES, pooled_problem
from dagsched.policies.sampling.sgs import (
    copy_values,
    entry,
    inner,
    objective_of_times,
    parallel,
    reversed_problem,
    serial,
)
from dagsched.replay import Replay
from dagsched.search import budget
from dagsched.search.budget import PAUSED, begin_call, end_call, more, spend
from dagsched.search.budget import SIMULATIONS as BUDGETED
from dagsched.simulator import kernel
from dagsched.simulator.kernel import uniform
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.simulator.state import build_problem
from dagsched.workflow import FloatArray, IntArray

MOST_ELITES = 40
LEAST_ELITES = 6
SEED_DOMAIN = 0x4C4E5321
# Chosen on 20 generated problems (validation split of the suite rcpsp-120), none of them a published one.
CROSSOVER, MOVE = 0.4, 0.4
SERIAL_SHARE = 0.8
NEAR, FAR = 0.3, 1.2  # reach of a moved task, shares of the makespan
GROWTH = 0.1  # elites for each square root of the schedules generated
PASSES, ELITES, SEEDED, CANDIDATES = range(4)
LADDER = (0.01, 0.02, 0.05, 0.1)


class ListPopulation(NamedTuple):
    """The state of a search between slices, for ``T`` tasks in order of ties.

    Attributes:
        seed: ``[S, T]`` starts of known schedules, best first, seconds.
        start: ``[MOST_ELITES, T]`` starts of the elites, seconds.
        value: ``[MOST_ELITES]`` their objectives, seconds.
        best_start: ``[T]`` starts of the best schedule found.
        best: ``[1]`` its objective; infinite before the first schedule.
        random: ``[1]`` state of the stream.
        counter: schedules generated, elites, seeds used, candidates.
        tries: ``[6, T]`` scratch: keys, starts and finishes of a candidate.
    """

    seed: FloatArray
    start: FloatArray
    value: FloatArray
    best_start: FloatArray
    best: FloatArray
    random: NDArray[np.uint64]
    counter: IntArray
    tries: FloatArray


@inner
def draw_gumbel(random):  # type: ignore[no-untyped-def]
    """A standard Gumbel number."""
    return -np.log(-np.log(uniform(random)))


@inner
def draw_below(random, count):  # type: ignore[no-untyped-def]
    """A whole number from 0 to ``count`` - 1."""
    return min(np.int64(uniform(random) * count), count - 1)


@inner
def _fresh(population, key):  # type: ignore[no-untyped-def]
    """Keys of the next known schedule, or of a perturbed one when all have been used."""
    random, seeds = population.random, len(population.seed)
    use = population.counter[SEEDED]
    population.counter[SEEDED] += 1
    scale = 0.0
    source = population.seed[use % seeds]
    if use >= seeds:
        first, last = source[0], source[0]
        for t in range(len(key)):
            first, last = min(first, source[t]), max(last, source[t])
        scale = LADDER[(use // seeds) % 4] * (last - first) if last > first else 1.0
    for t in range(len(key)):
        key[t] = -source[t]
        if scale > 0:
            key[t] += scale * draw_gumbel(random)


@inner
def _cross(population, mine, other, horizon, origin, key):  # type: ignore[no-untyped-def]
    """The times of another elite for what it starts inside a random window, else one's own."""
    random = population.random
    width = horizon * (0.2 + 0.5 * uniform(random))
    left = origin + uniform(random) * (horizon + width) - width
    for t in range(len(key)):
        theirs = population.start[other, t]
        key[t] = -theirs if left <= theirs < left + width else -population.start[mine, t]


@inner
def _move(population, mine, horizon, key):  # type: ignore[no-untyped-def]
    """One to three tasks elsewhere, most often near by: far moves alone can leave the optima of small problems."""
    random = population.random
    reach = horizon * (FAR if uniform(random) < 0.2 else NEAR)
    for t in range(len(key)):
        key[t] = -population.start[mine, t]
    for _ in range(1 + draw_below(random, 3)):
        key[draw_below(random, len(key))] += (2 * uniform(random) - 1) * reach


@inner
def _shuffle(population, mine, horizon, origin, key):  # type: ignore[no-untyped-def]
    """What starts inside a random window in another order."""
    random = population.random
    width = horizon * (0.1 + 0.3 * uniform(random))
    left = origin + uniform(random) * (horizon + width) - width
    for t in range(len(key)):
        key[t] = -population.start[mine, t]
        if left <= population.start[mine, t] < left + width:
            key[t] += (2 * uniform(random) - 1) * width


@inner
def _propose(population, origin, length):  # type: ignore[no-untyped-def]
    """Fill the candidate's keys; returns the elite it came from, -1 for a newcomer. ``length[E]``: of the elites."""
    random, elites = population.random, population.counter[ELITES]
    key = population.tries[0]
    room = min(MOST_ELITES, max(LEAST_ELITES, np.int64(np.sqrt(population.counter[PASSES]) * GROWTH)))
    if population.counter[SEEDED] < room:
        _fresh(population, key)
        return -1
    mine, rival = draw_below(random, elites), draw_below(random, elites)
    if population.value[rival] < population.value[mine]:
        mine = rival
    horizon = length[mine]
    choice = uniform(random)
    if choice < CROSSOVER and elites > 1:
        other = draw_below(random, elites - 1)
        if other >= mine:
            other += 1
        _cross(population, mine, other, horizon, origin, key)
    elif choice < CROSSOVER + MOVE:
        _move(population, mine, horizon, key)
    else:
        _shuffle(population, mine, horizon, origin, key)
    return mine


@inner
def _is_known(population, value, mine, start):  # type: ignore[no-untyped-def]
    """Whether another elite than ``mine`` is this very schedule."""
    for e in range(population.counter[ELITES]):
        if e != mine and population.value[e] == value:
            same = True
            for t in range(len(start)):
                if population.start[e, t] != start[t]:
                    same = False
                    break
            if same:
                return True
    return False


@inner
def _keep(population, mine, value, length, lengths):  # type: ignore[no-untyped-def]
    """Put the candidate into its elite's place, a newcomer beside them."""
    start = population.tries[1]
    if value < population.best[0]:
        population.best[0] = value
        copy_values(start, population.best_start)
    place = mine if mine >= 0 else population.counter[ELITES]
    if value <= population.value[place] and not _is_known(population, value, place, start):
        population.value[place], lengths[place] = value, length
        copy_values(start, population.start[place])
        if place == population.counter[ELITES]:
            population.counter[ELITES] += 1


@inner
def _pin(pin, key):  # type: ignore[no-untyped-def]
    """Tasks that have started come first; an empty ``pin`` pins nothing."""
    for t in range(len(pin)):
        if pin[t] > 0:
            key[t] = pin[t]


@inner
def _try_candidate(population, lengths, problem, work, origin, objective, owners, bound, limit, pin):  # type: ignore[no-untyped-def]
    """Propose, decode and justify one candidate, and keep it unless it is worse than the elite it came from.

    Justification shortens a makespan; for the flow time the better one of the schedules before and after is kept.
    """
    workflow_of, share, latest = owners
    backward = reversed_problem(problem)
    tries = population.tries
    key, start, finish, late, later, second = tries[0], tries[1], tries[2], tries[3], tries[4], tries[5]
    third = population.tries[6]
    mine = _propose(population, origin, lengths)
    _pin(pin, key)
    population.counter[CANDIDATES] += 1
    if uniform(population.random) < SERIAL_SHARE or len(pin) > 0:  # parallel generation does not heed pins
        last = serial(key, problem, work, origin, start, finish)
    else:
        last = parallel(key, problem, work, origin, start, finish)
    population.counter[PASSES] += 1
    value = objective_of_times(objective, last, origin, finish, workflow_of, share, latest)
    while population.counter[PASSES] + 2 <= limit and value > bound:
        serial(finish, backward, work, 0.0, late, later)
        _pin(pin, later)
        shorter = serial(later, problem, work, origin, second, third)
        population.counter[PASSES] += 2
        found = objective_of_times(objective, shorter, origin, third, workflow_of, share, latest)
        if found > value:
            break
        better = found < value
        copy_values(second, start)
        copy_values(third, finish)
        value, last = found, shorter
        if not better:
            break
    _keep(population, mine, value, last - origin, lengths)


@entry
def search_slice(population, lengths, problem, work, origin, objective, owners, bound, until, limit):  # type: ignore[no-untyped-def]
    """Go on until ``until`` schedules have been generated, or the best reaches ``bound``.

    A candidate is never cut by a slice, only by ``limit``: slices of any size give the same search. ``problem`` and
    ``work`` are those of :mod:`dagsched.policies.sampling.sgs`, ``lengths[E]`` the lengths of the elites in seconds,
    ``owners`` ``(workflow_of[T], share[W], latest[W])``.
    """
    while population.counter[PASSES] < until and population.best[0] > bound:
        _try_candidate(
            population, lengths, problem, work, origin, objective, owners, bound, limit, population.seed[0, :0]
        )


@entry
def search_budget(population, lengths, problem, work, origin, objective, owners, pin, budget, part):  # type: ignore[no-untyped-def]
    """Go on until this part of the budget is spent, with the tasks of ``pin > 0`` at the front of every list.

    Returns DONE; PAUSED from time to time: call again.
    """
    begin_call(budget)
    while more(budget, part):
        before = population.counter[PASSES]
        _try_candidate(population, lengths, problem, work, origin, objective, owners, -np.inf, np.int64(2**62), pin)
        if spend(budget, population.counter[PASSES] - before):
            return PAUSED
    end_call(budget)
    return kernel.DONE


@inner
def _decode_again(population, lengths, problem, work, origin, objective, owners, pin, e):  # type: ignore[no-untyped-def]
    key, start, finish = population.tries[0], population.tries[1], population.tries[2]
    for t in range(len(key)):
        key[t] = -population.start[e, t]
    _pin(pin, key)
    last = serial(key, problem, work, origin, start, finish)
    workflow_of, share, latest = owners
    population.value[e], lengths[e] = (
        objective_of_times(objective, last, origin, finish, workflow_of, share, latest),
        last - origin,
    )
    copy_values(start, population.start[e])
    if population.value[e] < population.best[0]:
        population.best[0] = population.value[e]
        copy_values(start, population.best_start)


@entry
def refresh(population, lengths, problem, work, origin, objective, owners, pin, budget, part):  # type: ignore[no-untyped-def]
    """Decode every elite anew after the problem has changed; the best of them becomes the best found.

    The best so far comes first. Those for which this part of the budget leaves no time keep their order but count
    as worse than anything.
    """
    first = 0
    for e in range(population.counter[ELITES]):
        if population.value[e] < population.value[first]:
            first = e
    population.best[0] = np.inf
    _decode_again(population, lengths, problem, work, origin, objective, owners, pin, first)
    for e in range(population.counter[ELITES]):
        if e != first:
            population.value[e] = np.inf
            if budget.counter[BUDGETED] > 0 or more(budget, part):
                _decode_again(population, lengths, problem, work, origin, objective, owners, pin, e)


def new_population(seed: FloatArray, stream: np.random.SeedSequence) -> ListPopulation:
    """A search that has not begun; ``seed`` as in :class:`ListPopulation`."""
    tasks = seed.shape[1]
    return ListPopulation(
        seed=seed,
        start=np.zeros((MOST_ELITES, tasks)),
        value=np.full(MOST_ELITES, np.inf),
        best_start=np.zeros(tasks),
        best=np.full(1, np.inf),
        random=stream.generate_state(1, np.uint64).astype(np.uint64),
        counter=np.zeros(4, np.int64),
        tries=np.zeros((7, tasks)),
    )


class Neighbourhood:
    """The search on one replay; :meth:`advance` it as long as there is time.

    Args:
        replay: one node, one instance a task, decisions at any time (see ``is_pooled`` of the sampler).
        seeds: ``[S, T]`` starts in seconds of known schedules, best first; at least one.
        objective: ``makespan`` or ``flow_time``.
        bound: seconds at which to stop; minus infinity = never.
        stream: words of the random stream.
    """

    def __init__(
        self, replay: Replay, seeds: FloatArray, *, objective: str, bound: float, stream: np.random.SeedSequence
    ) -> None:
        tie = build_problem(replay).tie
        order = np.argsort(tie)
        tasks = len(replay)
        self._place = tie
        self._problem = pooled_problem(replay, order)
        self._work = sgs.new_work(tasks, replay.demand.shape[1])
        self._owners = replay.workflow_of[order], replay.weight_share, np.empty(len(replay.workflows))
        self._objective, self._bound, self._origin = OBJECTIVES[objective], bound, replay.first_arrival
        self._lengths = np.zeros(MOST_ELITES)
        self._population = new_population(np.ascontiguousarray(seeds[:, order]), stream)

    @property
    def schedules(self) -> int:
        """Generated so far; a round of justification counts 2."""
        return int(self._population.counter[PASSES])

    @property
    def value(self) -> float:
        """Objective of the best schedule in seconds, infinite before the first."""
        return float(self._population.best[0])

    @property
    def start(self) -> FloatArray:
        """``[T]`` starts of the best schedule in seconds."""
        return np.asarray(self._population.best_start[self._place])

    def advance(self, until: int, limit: int) -> None:
        """Generate schedules until there are ``until``, and never more than ``limit``."""
        search_slice(
            self._population, self._lengths, self._problem, self._work, self._origin, self._objective, self._owners,
            self._bound, until, limit,
        )  # fmt: skip


drop_stale(search_slice, kernel.__file__, sgs.__file__, budget.__file__)
