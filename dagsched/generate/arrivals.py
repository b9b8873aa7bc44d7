"""Arrival processes: all at once, Poisson or in bursts at a given load of the cluster (``semantics.md``), recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from dagsched.cluster import Cluster
from dagsched.declared import Declared
from dagsched.errors import ConfigError
from dagsched.generate.mix import check_number, check_rng, check_seed, check_workload
from dagsched.replay import cluster_for
from dagsched.workflow import Workflow, natural_key
from dagsched.workload import Workload

ArrivalKind = Literal["at-once", "poisson", "bursty", "recorded"]


def arrive(
    workload: Workload,
    cluster: Cluster,
    kind: ArrivalKind,
    load: float | None,
    rng: np.random.Generator,
    *,
    burst: float = 10.0,
    burst_length: float = 10.0,
) -> Workload:
    """The same workflows under the arrivals of a kind.

    Raises:
        ConfigError: for an unknown kind or a missing load; see :func:`poisson_rate`.
    """
    if kind == "at-once":
        return _at_times(workload, workload.workflows, [0.0] * len(workload.workflows), closed=True)
    if kind == "recorded":
        return recorded(workload, cluster, load)
    if load is None:
        raise ConfigError(f"load is missing; {kind} arrivals need a number such as 0.9")
    if kind == "poisson":
        return poisson(workload, cluster, load, rng)
    if kind == "bursty":
        return bursty(workload, cluster, load, rng, burst=burst, burst_length=burst_length)
    raise ConfigError(f"arrivals is {kind!r}, expected at-once, poisson, bursty or recorded")


def poisson_rate(workload: Workload, cluster: Cluster, load: float) -> float:
    """Workflows per second at which the scarcest resource is busy for the share ``load`` of the time.

    rate = load x min over resources of (sum of capacity x speed over the nodes / mean workflow area), where a
    workflow's area of a resource is the sum of demand x instances x duration (on a node of speed 1).

    Raises:
        ConfigError: for a load that is not positive, or workflows without any work or capacity for it.
    """
    check_number("load", load, more_than=0)
    nodes = np.array([group.nodes for group in cluster.groups], np.float64)
    supply = dict(
        zip(cluster.resources, (cluster.capacity * (nodes * cluster.speed)[:, None]).sum(axis=0), strict=True)
    )
    areas = [w.demand * (w.instances * w.duration)[:, None] for w in workload.workflows]
    rates = []
    for column, resource in enumerate(workload.resources):
        # fsum rounds once, so that the order of workflows and tasks cannot change a digit of the rate
        amount = math.fsum(x for area in areas for x in area[:, column].tolist()) / len(areas)
        if amount > 0 and supply.get(resource, 0.0) <= 0:
            raise ConfigError(
                f"arrivals: the workflows need {resource!r}, which cluster {cluster.name!r} does not have"
            )
        if amount > 0:
            rates.append(float(supply[resource]) / amount)
    if not rates:
        raise ConfigError(
            f"arrivals: the workflows of {workload.name!r} hold no work, so that no rate follows from a load"
        )
    return float(load * min(rates))


def poisson(workload: Workload, cluster: Cluster, load: float, rng: np.random.Generator) -> Workload:
    """The same workflows arriving one by one at exponential intervals, in random order.

    The order is shuffled from the natural order of the names, so that the order of the input does not matter.
    Deadlines move with their workflow. The result is in order of arrival.

    Raises:
        ConfigError: see :func:`poisson_rate`.
    """
    check_rng(rng)
    rate = poisson_rate(workload, cluster, load)
    shuffled = _shuffled(workload, rng)
    times = np.cumsum(rng.exponential(1 / rate, len(shuffled))).tolist()
    _check_last(times, load)
    return _at_times(workload, shuffled, times)


def bursty(
    workload: Workload,
    cluster: Cluster,
    load: float,
    rng: np.random.Generator,
    *,
    burst: float = 10.0,
    burst_length: float = 10.0,
) -> Workload:
    """The same workflows in bursts, at the same mean load as :func:`poisson`.

    A Markov-modulated Poisson process of two states (Fischer and Meier-Hellstern 1993, Performance Evaluation 18):
    quiet, and burst with ``burst`` times the rate; on average ``burst_length`` workflows arrive in each visit of
    either state, so that quiet lasts ``burst`` times as long. The process starts in its stationary state.

    Raises:
        ConfigError: naming the parameter; see :func:`poisson_rate`.
    """
    check_rng(rng)
    check_number("burst", burst, at_least=1, at_most=1e6)
    check_number("burst_length", burst_length, at_least=1, at_most=1e6)
    mean = poisson_rate(workload, cluster, load)
    shuffled = _shuffled(workload, rng)
    # n workflows in n/quiet seconds of quiet and n in n/(burst quiet) seconds of burst: 2n over that time is the mean
    quiet = mean * (1 + 1 / burst) / 2
    rates = (quiet, quiet * burst)
    state = int(rng.random() < 1 / (1 + burst))
    clock = 0.0
    times: list[float] = []
    left = rng.exponential(burst_length / rates[state])
    while len(times) < len(shuffled):
        gap = rng.exponential(1 / rates[state])
        if gap < left:
            clock, left = clock + gap, left - gap
            times.append(clock)
        else:
            clock, state = clock + left, 1 - state
            left = rng.exponential(burst_length / rates[state])
    _check_last(times, load)
    return _at_times(workload, shuffled, times)


def recorded(workload: Workload, cluster: Cluster, load: float | None = None) -> Workload:
    """The workflows at the times they bring, moved so that the first arrives at 0.

    With a load, all times are stretched by one factor so that the workflows between the first and the last arrival
    offer that load on average.

    Raises:
        ConfigError: for a load where all workflows arrive at once; see :func:`poisson_rate`.
    """
    ordered = sorted(workload.workflows, key=lambda workflow: workflow.arrival)
    first, last = ordered[0].arrival, ordered[-1].arrival
    factor = 1.0
    if load is not None:
        rate = poisson_rate(workload, cluster, load)
        if last <= first:
            raise ConfigError(
                f"load is {load:g}, but the workflows of {workload.name!r} all arrive at once, so that no stretch of "
                f"their times gives a load; choose poisson or bursty"
            )
        factor = (len(ordered) - 1) / rate / (last - first)
    times = [(workflow.arrival - first) * factor for workflow in ordered]
    return _at_times(workload, ordered, times, closed=bool(workload.declared.closed))


def _shuffled(workload: Workload, rng: np.random.Generator) -> list[Workflow]:
    """In random order, from the natural order of the names, so that the order of the input does not matter."""
    ordered = sorted(workload.workflows, key=lambda workflow: natural_key(workflow.name))
    return [ordered[i] for i in rng.permutation(len(ordered))]


def _check_last(times: Sequence[float], load: float) -> None:
    if not math.isfinite(times[-1]):
        raise ConfigError(f"arrivals: a load of {load:g} gives times beyond any clock; choose a larger load")


def _at_times(
    workload: Workload, workflows: Sequence[Workflow], times: Sequence[float], *, closed: bool = False
) -> Workload:
    """The workflows moved to the times, each deadline with its workflow; generated arrivals are not known before.

    Workflows that arrive together stay in the order of the source.
    """
    moved = [
        workflow.with_(
            arrival=time,
            deadline=None if workflow.deadline is None else workflow.deadline - workflow.arrival + time,
        )
        for workflow, time in zip(workflows, times, strict=True)
    ]
    place = {workflow.name: k for k, workflow in enumerate(workload.workflows)}
    moved.sort(key=lambda workflow: (workflow.arrival, place[workflow.name]))
    timed = replace(workload, workflows=tuple(moved), known_makespan=None)  # published for other arrivals
    noise = (
        workload.nature.noise
    )  # closed sources state exact estimates by giving none; their arrivals do not change that
    return timed.declare(Declared(closed=closed, noise=noise))


def poisson_arrivals(workload: Workload, load: float, *, cluster: Cluster | None = None, seed: int = 0) -> Workload:
    """:func:`poisson` from a seed, on the workload's own or the default cluster unless one is given."""
    check_workload(workload, cluster)
    return poisson(workload, cluster or cluster_for(workload), load, check_seed(seed))
