"""Poisson arrivals at a given load of the cluster (``semantics.md``)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dagsched.cluster import Cluster
from dagsched.errors import ConfigError
from dagsched.generate.mix import check_number, check_rng
from dagsched.replay import cluster_for
from dagsched.workflow import natural_key
from dagsched.workload import Workload


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
    ordered = sorted(workload.workflows, key=lambda workflow: natural_key(workflow.name))
    shuffled = [ordered[i] for i in rng.permutation(len(ordered))]
    times = np.cumsum(rng.exponential(1 / rate, len(shuffled))).tolist()
    if not math.isfinite(times[-1]):
        raise ConfigError(f"arrivals: a load of {load:g} gives times beyond any clock; choose a larger load")
    moved = [
        workflow.with_(
            arrival=time,
            deadline=None if workflow.deadline is None else workflow.deadline - workflow.arrival + time,
        )
        for workflow, time in zip(shuffled, times, strict=True)
    ]
    return replace(workload, workflows=tuple(moved), known_makespan=None)  # published for other arrivals


def poisson_arrivals(workload: Workload, load: float, *, cluster: Cluster | None = None, seed: int = 0) -> Workload:
    """:func:`poisson` from a seed, on the workload's own or the default cluster unless one is given."""
    return poisson(workload, cluster or cluster_for(workload), load, np.random.default_rng(seed))
