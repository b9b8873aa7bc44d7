"""Deadlines as a multiple of the critical path on estimates (``semantics.md``)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dagsched.cluster import Cluster
from dagsched.declared import Declared
from dagsched.errors import ConfigError
from dagsched.generate.mix import check_number, check_rng, check_seed, check_workload
from dagsched.replay import Replay, cluster_for
from dagsched.texts import described
from dagsched.workflow import natural_key
from dagsched.workload import Workload

TIGHT = (1.2, 2.0)
"""``tight``: the factor of each workflow is uniform in this range."""


def deadlines(
    workload: Workload, cluster: Cluster, factor: float | Literal["tight"], rng: np.random.Generator
) -> Workload:
    """The same workflows, due at arrival + factor x critical path (estimates, fastest group that can hold each task).

    Factors are drawn in the natural order of the workflow names, so that the order of the input does not matter.

    Raises:
        ConfigError: for a factor that is neither ``tight`` nor a positive number.
        InvalidReplayError: if a task fits no node of the cluster.
    """
    from dagsched.graph import critical_path

    check_rng(rng)
    tight = isinstance(factor, str) and factor == "tight"
    if isinstance(factor, str) and not tight:
        raise ConfigError(f"deadlines is {described(factor)}, expected 'tight' or a factor > 0")
    if not tight:
        check_number("deadlines", factor, more_than=0)
    replay = Replay.build(workload, cluster)
    paths = critical_path(replay, realised=False).tolist()
    length = {workflow.name: path for workflow, path in zip(replay.workflows, paths, strict=True)}
    names = sorted((workflow.name for workflow in workload.workflows), key=natural_key)
    factors = rng.uniform(*TIGHT, len(names)).tolist() if tight else [float(factor)] * len(names)
    factor_of = dict(zip(names, factors, strict=True))
    due = [w.with_(deadline=w.arrival + factor_of[w.name] * length[w.name]) for w in workload.workflows]
    return workload.with_workflows(due).declare(Declared(all_have_deadlines=True))


def with_deadlines(
    workload: Workload, factor: float | Literal["tight"], *, cluster: Cluster | None = None, seed: int = 0
) -> Workload:
    """:func:`deadlines` from a seed, on the workload's own or the default cluster unless one is given."""
    check_workload(workload, cluster)
    return deadlines(workload, cluster or cluster_for(workload), factor, check_seed(seed))
