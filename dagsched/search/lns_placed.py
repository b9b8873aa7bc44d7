"""Compiled search over orders and node groups, for several nodes, transfers and tasks of many instances.

A solution is an order of the tasks and the group of each; decoded by insertion
(:mod:`dagsched.policies.static.insertion`: the ready task earliest in the order goes where it finishes first) it is a
schedule. Most tasks keep their group, so that ties do not lose it; the ones a candidate touches are set free, sent to
another group, or kept out of theirs. Otherwise as in :mod:`dagsched.search.lns_pooled`: elites, windows taken from
another elite, a few tasks moved, a window shuffled, ties accepted, and justification: a backward pass over the
reversed problem in the same groups tells in which order a forward pass places the tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dagsched.graph import upward_rank
from dagsched.policies.base import Plan
from dagsched.policies.sampling import sgs
from dagsched.policies.sampling.sampler import OBJECTIVES
from dagsched.policies.sampling.sgs import objective_of_times
from dagsched.policies.static import insertion
from dagsched.policies.static.insertion import BLOCK, empty_profiles, plan_workflows
from dagsched.policies.static.listing import Inserter
from dagsched.replay import Replay
from dagsched.search import lns_pooled
from dagsched.search.lns_pooled import (
    CANDIDATES,
    ELITES,
    FAR,
    GROWTH,
    LADDER,
    NEAR,
    PASSES,
    SEEDED,
    draw_below,
    draw_gumbel,
)
from dagsched.simulator import kernel
from dagsched.simulator.kernel import uniform
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.simulator.state import read_only
from dagsched.workflow import FloatArray, IntArray, child_rows

MOST_ELITES = 24
LEAST_ELITES = 4
FREE, FORCED, KEPT_OUT = 0, 1, 2
# Chosen on the validation split of the suite transfers. Of the candidates, shares that move a whole part of a workflow,
# take a window from another elite, move a few tasks (the rest shuffle a window), and forget all groups; of moved tasks,
# shares that go with their family, else are set free, or kept out of their group (the rest go anywhere).
PART, CROSSOVER, MOVE, ALL_FREE = 0.1, 0.4, 0.4, 0.1
FAMILY, SET_FREE, SET_OUT = 0.3, 0.4, 0.2
SHUFFLED = 30  # tasks in a shuffled window, about
_NO_GROUP = -1

entry = njit(cache=True, nogil=True, no_cfunc_wrapper=True)
inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class NodePopulation(NamedTuple):
    """The state of a search between slices, for ``T`` tasks and ``G`` groups.

    Attributes:
        seed, seed_group: ``[S, T]`` places in the order and groups of known schedules, best first; no group is -1.
        rank, group: ``[E, T]`` of the elites; what stands first in the order is placed first.
        value: ``[E]`` their objectives, seconds.
        best: ``[1]`` objective of the best schedule generated; infinite before the first.
        best_order, best_mode, best_group: ``[T]`` what it was decoded from.
        random: ``[1]`` state of the stream.
        counter: schedules generated, elites, seeds used, candidates.
        key: ``[T]`` of the candidate, largest first.
        mode, wanted: ``[T]`` whether a task is free, forced into group ``wanted`` or kept out of it.
        several: ``[T]`` groups that can hold the task, 0 for milestones and tasks of many instances: always free.
        can_hold: ``[T, G]``.
        group_ptr: ``[G + 1]`` nodes of each group.
    """

    seed: FloatArray
    seed_group: IntArray
    rank: FloatArray
    group: IntArray
    value: FloatArray
    best: FloatArray
    best_order: IntArray
    best_mode: IntArray
    best_group: IntArray
    random: NDArray[np.uint64]
    counter: IntArray
    key: FloatArray
    mode: IntArray
    wanted: IntArray
    several: IntArray
    can_hold: NDArray[np.bool_]
    group_ptr: IntArray


class Decoder(NamedTuple):
    """Scratch of one decoding.

    Attributes:
        order, position: ``[T]`` tasks by key, and the inverse.
        node_from, node_to: ``[T]`` nodes a task may use.
        bias: ``[T, G]`` infinite for a group a task is kept out of, else 0.
        waiting, entry: ``[T]``, ``[T, 2]`` of the insertion kernel.
        finish: ``[T]`` seconds.
        group: ``[T]`` of the first entry, -1 for milestones.
    """

    order: IntArray
    position: IntArray
    node_from: IntArray
    node_to: IntArray
    bias: FloatArray
    waiting: IntArray
    entry: IntArray
    finish: FloatArray
    group: IntArray


@inner
def _empty(profiles, node_group, capacity):  # type: ignore[no-untyped-def]
    """All nodes idle again; they keep their room."""
    time, free, block_free, begin, _, size = profiles
    for n in range(len(node_group)):
        size[n] = 1
        time[begin[n]] = 0.0
        for r in range(free.shape[1]):
            free[begin[n], r] = capacity[node_group[n], r]
            block_free[begin[n] // BLOCK, r] = free[begin[n], r]


@inner
def _decode(population, decoder, key, problem, profiles, origin):  # type: ignore[no-untyped-def]
    """Fill position, finish and group of the ``decoder`` from keys and modes; (last finish, profiles)."""
    node_group, capacity = problem[10], problem[14]
    for t in range(len(key)):
        decoder.node_from[t], decoder.node_to[t] = 0, len(node_group)
        if population.mode[t] == FORCED:
            group = population.wanted[t]
            decoder.node_from[t], decoder.node_to[t] = population.group_ptr[group], population.group_ptr[group + 1]
        elif population.mode[t] == KEPT_OUT:
            decoder.bias[t, population.wanted[t]] = np.inf
    ordered = np.argsort(-key)
    for k in range(len(key)):
        decoder.order[k] = ordered[k]
        decoder.position[ordered[k]] = k
    _empty(profiles, node_group, capacity)
    scratch = decoder.waiting, decoder.finish, decoder.entry
    choice = decoder.node_from, decoder.node_to, decoder.bias
    placed, _, profiles = plan_workflows((decoder.order, decoder.position), origin, problem, choice, scratch, profiles)
    last = origin
    for t in range(len(key)):
        if population.mode[t] == KEPT_OUT:
            decoder.bias[t, population.wanted[t]] = 0.0
        first = decoder.entry[t, 0]
        if first == decoder.entry[t, 1]:
            decoder.group[t] = _NO_GROUP
        else:
            decoder.group[t] = node_group[placed[first, 1]]
        last = max(last, decoder.finish[t])
    return last, profiles


@inner
def _hold(population, t, group):  # type: ignore[no-untyped-def]
    """Keep a task in a group, or free if it cannot choose."""
    population.mode[t], population.wanted[t] = FREE, group
    if population.several[t] > 1 and group >= 0:
        population.mode[t] = FORCED


@inner
def _touch(population, t):  # type: ignore[no-untyped-def]
    """Set a task free, keep it out of its group, or send it to any group that can hold it."""
    if population.several[t] < 2:
        return
    choice = uniform(population.random)
    group = population.wanted[t]
    if choice < SET_FREE or group < 0:
        population.mode[t] = FREE
    elif choice < SET_FREE + SET_OUT:
        population.mode[t] = KEPT_OUT
    else:
        other = draw_below(population.random, population.can_hold.shape[1])
        if population.can_hold[t, other]:
            population.mode[t], population.wanted[t] = FORCED, other


@inner
def _send(population, t, group):  # type: ignore[no-untyped-def]
    """Force a task into a group if that can hold it."""
    if population.several[t] > 1 and population.can_hold[t, group]:
        population.mode[t], population.wanted[t] = FORCED, group


@inner
def _send_family(population, t, problem):  # type: ignore[no-untyped-def]
    """A task together with its parents, its children or both into the group of one of them or any other.

    Where transfers are slow, moving one task alone costs more than it gains.
    """
    child_ptr, child_idx, parent_ptr, parent_idx = problem[3:7]
    random = population.random
    group = draw_below(random, population.can_hold.shape[1])
    up, down = uniform(random) < 0.6, uniform(random) < 0.6
    _send(population, t, group)
    if up:
        for k in range(parent_ptr[t], parent_ptr[t + 1]):
            _send(population, parent_idx[k], group)
    if down:
        for k in range(child_ptr[t], child_ptr[t + 1]):
            _send(population, child_idx[k], group)


@inner
def _send_part(population, mine, workflow_of):  # type: ignore[no-untyped-def]
    """A whole workflow into one group, or what of it starts after a random moment, or before."""
    random, tasks = population.random, len(population.key)
    pick = draw_below(random, tasks)
    group = draw_below(random, population.can_hold.shape[1])
    side = draw_below(random, 3)
    for t in range(tasks):
        if workflow_of[t] != workflow_of[pick]:
            continue
        if side == 0 or (side == 1) == (population.rank[mine, t] >= population.rank[mine, pick]):
            _send(population, t, group)


@inner
def _fresh(population):  # type: ignore[no-untyped-def]
    """The next known schedule, or a perturbed one in which every task is free."""
    seeds, use, tasks = len(population.seed), population.counter[SEEDED], len(population.key)
    population.counter[SEEDED] += 1
    source, scale = use % seeds, 0.0
    if use >= seeds:
        first, last = population.seed[source, 0], population.seed[source, 0]
        for t in range(tasks):
            first, last = min(first, population.seed[source, t]), max(last, population.seed[source, t])
        scale = LADDER[(use // seeds) % 4] * (last - first) if last > first else 1.0
    for t in range(tasks):
        population.key[t] = -population.seed[source, t]
        _hold(population, t, population.seed_group[source, t])
        if scale > 0:
            population.key[t] += scale * draw_gumbel(population.random)
            population.mode[t] = FREE


@inner
def _propose(population, problem, workflow_of):  # type: ignore[no-untyped-def]
    """Fill keys and modes of a candidate; returns the elite it came from, -1 for a newcomer."""
    random, elites, tasks = population.random, population.counter[ELITES], len(population.key)
    room = min(MOST_ELITES, max(LEAST_ELITES, np.int64(np.sqrt(population.counter[PASSES]) * GROWTH)))
    if population.counter[SEEDED] < room:
        _fresh(population)
        return -1
    mine, rival = draw_below(random, elites), draw_below(random, elites)
    if population.value[rival] < population.value[mine]:
        mine = rival
    horizon = np.float64(tasks)
    for t in range(tasks):
        population.key[t] = -population.rank[mine, t]
        _hold(population, t, population.group[mine, t])
    if uniform(random) < PART:
        _send_part(population, mine, workflow_of)
        return mine
    choice = uniform(random)
    if choice < CROSSOVER and elites > 1:
        other = draw_below(random, elites - 1)
        if other >= mine:
            other += 1
        width = horizon * (0.2 + 0.5 * uniform(random))
        left = uniform(random) * (horizon + width) - width
        for t in range(tasks):
            if left <= population.rank[other, t] < left + width:
                population.key[t] = -population.rank[other, t]
                _hold(population, t, population.group[other, t])
    elif choice < CROSSOVER + MOVE:
        reach = horizon * (FAR if uniform(random) < 0.2 else NEAR)
        for _ in range(1 + draw_below(random, 3)):
            t = draw_below(random, tasks)
            population.key[t] += (2 * uniform(random) - 1) * reach
            if uniform(random) < FAMILY:
                _send_family(population, t, problem)
            else:
                _touch(population, t)
    else:
        width = min(horizon, SHUFFLED * (0.2 + uniform(random)))
        left = uniform(random) * (horizon + width) - width
        for t in range(tasks):
            if left <= population.rank[mine, t] < left + width:
                population.key[t] += (2 * uniform(random) - 1) * width
                if uniform(random) < 0.5:
                    population.mode[t] = FREE
    if uniform(random) < ALL_FREE:
        for t in range(tasks):
            population.mode[t] = FREE
    return mine


@inner
def _keep(population, decoder, mine, value):  # type: ignore[no-untyped-def]
    """Put the candidate into its elite's place unless it is worse, a newcomer beside them."""
    place = mine if mine >= 0 else population.counter[ELITES]
    if value <= population.value[place]:
        population.value[place] = value
        for t in range(len(population.key)):
            population.rank[place, t], population.group[place, t] = decoder.position[t], decoder.group[t]
        if place == population.counter[ELITES]:
            population.counter[ELITES] += 1


@inner
def _note(population, decoder, value):  # type: ignore[no-untyped-def]
    """Remember what the best schedule was decoded from."""
    if value < population.best[0]:
        population.best[0] = value
        for t in range(len(population.key)):
            population.best_order[t], population.best_mode[t], population.best_group[t] = (
                decoder.order[t],
                population.mode[t],
                population.wanted[t],
            )


@entry
def search_slice(population, decoder, forward, backward, profiles, origin, objective, owners, bound, until, limit):  # type: ignore[no-untyped-def]
    """Go on until ``until`` schedules have been generated, or the best reaches ``bound``.

    A candidate is never cut by a slice, only by ``limit``. ``forward`` and ``backward`` are problems of
    :mod:`dagsched.policies.static.insertion`, ``profiles`` its nodes (returned, since the pool may move), ``owners``
    is ``(workflow_of[T], share[W], latest[W], finish[T], position[T], group[T])``.
    """
    workflow_of, share, latest, finish, position, group = owners
    tasks = len(population.key)
    while population.counter[PASSES] < until and population.best[0] > bound:
        mine = _propose(population, forward, workflow_of)
        population.counter[CANDIDATES] += 1
        last, profiles = _decode(population, decoder, population.key, forward, profiles, origin)
        population.counter[PASSES] += 1
        value = objective_of_times(objective, last, origin, decoder.finish, workflow_of, share, latest)
        _note(population, decoder, value)
        improve = True
        while improve and population.counter[PASSES] + 2 <= limit and value > bound:
            for t in range(tasks):
                position[t], finish[t], group[t] = decoder.position[t], decoder.finish[t], decoder.group[t]
                _hold(population, t, decoder.group[t])
            _, profiles = _decode(population, decoder, finish, backward, profiles, 0.0)
            for t in range(tasks):
                population.key[t] = decoder.finish[t]
                _hold(population, t, group[t])
            shorter, profiles = _decode(population, decoder, population.key, forward, profiles, origin)
            population.counter[PASSES] += 2
            found = objective_of_times(objective, shorter, origin, decoder.finish, workflow_of, share, latest)
            _note(population, decoder, found)
            if found > value:
                for t in range(tasks):
                    decoder.position[t], decoder.finish[t], decoder.group[t] = position[t], finish[t], group[t]
                break
            improve = found < value
            value = found
        _keep(population, decoder, mine, value)
    return profiles


class NodeSearch:
    """The search on one replay; :meth:`advance` it as long as there is time.

    Args:
        replay: any batch.
        seeds: ``[S, T]`` starts in seconds of known schedules, best first; at least one.
        groups: ``[S, T]`` their groups, -1 for milestones.
        objective: ``makespan`` or ``flow_time``.
        bound: seconds at which to stop; minus infinity = never.
        stream: words of the random stream.
    """

    def __init__(
        self,
        replay: Replay,
        seeds: FloatArray,
        groups: IntArray,
        *,
        objective: str,
        bound: float,
        stream: np.random.SeedSequence,
    ) -> None:
        tasks, cluster = len(replay), replay.cluster
        self._inserter = Inserter(replay)
        self._forward, self._backward = _problems(replay)
        node_group = np.ascontiguousarray(cluster.node_group)
        self._group_ptr = np.searchsorted(node_group, np.arange(len(cluster.groups) + 1)).astype(np.int64)
        self._profiles: Any = empty_profiles(np.ascontiguousarray(cluster.capacity), node_group, 0.0)
        self._owners = (
            replay.workflow_of,
            replay.weight_share,
            np.empty(len(replay.workflows)),
            np.empty(tasks),
            np.empty(tasks, np.int64),
            np.empty(tasks, np.int64),
        )
        self._origin, self._bound, self._objective = replay.first_arrival, bound, OBJECTIVES[objective]
        # First HEFT itself: by upward rank, every task free. Its starts alone would not give its schedule back.
        orders = np.vstack([-upward_rank(replay)[None, :], seeds])
        several = np.where(replay.milestone | (replay.instances > 1), 0, replay.can_hold.sum(axis=1))

        def whole() -> IntArray:
            return np.zeros(tasks, np.int64)

        self._population = NodePopulation(
            seed=np.argsort(np.argsort(orders, axis=1, kind="stable"), axis=1).astype(np.float64),
            seed_group=np.vstack([np.full((1, tasks), _NO_GROUP), groups]),
            rank=np.zeros((MOST_ELITES, tasks)),
            group=np.zeros((MOST_ELITES, tasks), np.int64),
            value=np.full(MOST_ELITES, np.inf),
            best=np.full(1, np.inf),
            best_order=whole(),
            best_mode=whole(),
            best_group=whole(),
            random=stream.generate_state(1, np.uint64).astype(np.uint64),
            counter=np.zeros(4, np.int64),
            key=np.zeros(tasks),
            mode=whole(),
            wanted=whole(),
            several=several.astype(np.int64),
            can_hold=replay.can_hold,
            group_ptr=self._group_ptr,
        )
        self._decoder = Decoder(
            order=whole(),
            position=whole(),
            node_from=whole(),
            node_to=whole(),
            bias=np.zeros((tasks, len(cluster.groups))),
            waiting=whole(),
            entry=np.zeros((tasks, 2), np.int64),
            finish=np.zeros(tasks),
            group=whole(),
        )

    @property
    def schedules(self) -> int:
        """Generated so far, backward ones included."""
        return int(self._population.counter[PASSES])

    @property
    def value(self) -> float:
        """Objective of the best schedule in seconds, infinite before the first."""
        return float(self._population.best[0])

    def advance(self, until: int, limit: int) -> None:
        """Generate schedules until there are ``until``, and never more than ``limit``."""
        self._profiles = search_slice(
            self._population, self._decoder, self._forward, self._backward, self._profiles,
            self._origin, self._objective, self._owners, self._bound, until, limit,
        )  # fmt: skip

    def plan(self) -> Plan:
        """The best schedule generated, decoded again."""
        P, inserter = self._population, self._inserter
        forced, group = P.best_mode == FORCED, P.best_group
        inserter.node_from[:] = np.where(forced, self._group_ptr[group], 0)
        inserter.node_to[:] = np.where(forced, self._group_ptr[group + 1], self._group_ptr[-1])
        bias = np.zeros(self._decoder.bias.shape)
        out = np.flatnonzero(P.best_mode == KEPT_OUT)
        bias[out, group[out]] = np.inf
        inserter.clear()
        return inserter.plan(P.best_order, self._origin, bias)


def _problems(replay: Replay) -> tuple[Any, Any]:
    """The problem of the insertion kernel, and the one in which time runs backward."""
    cluster = replay.cluster
    reversed_ptr, reversed_idx, edge = child_rows(replay.parent_ptr, replay.parent_idx)
    latency, bandwidth = read_only(cluster.latency), read_only(cluster.bandwidth)
    head = replay.estimate, replay.demand, replay.can_hold
    middle = replay.instances, replay.milestone, np.ascontiguousarray(cluster.node_group)
    tail = replay.has_transfers, np.ascontiguousarray(cluster.capacity)
    edges = replay.child_ptr, replay.child_idx, replay.parent_ptr, replay.parent_idx, replay.parent_bytes
    turned = replay.parent_ptr, replay.parent_idx, reversed_ptr, reversed_idx, replay.parent_bytes[edge]
    return (
        (*head, *edges, *middle, latency, bandwidth, *tail),
        (*head, *turned, *middle, read_only(latency.T), read_only(bandwidth.T), *tail),
    )


drop_stale(search_slice, kernel.__file__, sgs.__file__, insertion.__file__, lns_pooled.__file__)
