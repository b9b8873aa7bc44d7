"""The cost of a whole run that training, samplers and search minimise: one function for each objective."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dagsched import graph
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay
from dagsched.workflow import FloatArray

TARDINESS = 0.05
"""Weight of mean tardiness over mean critical path in the ``slo`` cost."""


def cost_function(replay: Replay, objective: ObjectiveName) -> Callable[[FloatArray], float]:
    """The cost of finish times ``[T]``; lower is better, of the order of one.

    makespan / lower bound; weighted mean flow time / mean critical path; share of late workflows + 0.05 x mean
    tardiness / mean critical path. Given the finish times of the first so many workflows alone, what these add.
    """
    path = max(float(graph.critical_path(replay).mean()), 1e-9)
    if objective == "makespan":
        bound = max(graph.lower_bound(replay), 1e-9)
        return lambda finish: float(finish.max() - replay.first_arrival) / bound
    if objective == "flow_time":
        share = replay.weight_share

        def flow(finish: FloatArray) -> float:
            ends = _ends(replay, finish)
            return float(((ends - replay.arrival[: len(ends)]) * share[: len(ends)]).sum()) / path

        return flow

    if objective != "slo":
        raise ValueError(f"objective {objective!r} has no cost here")

    def late(finish: FloatArray) -> float:
        due = np.isfinite(replay.deadline)
        if not due.any():
            return 0.0
        ends = _ends(replay, finish)
        over = (ends - replay.deadline[: len(ends)])[due[: len(ends)]]
        return float((over > 0).sum() + TARDINESS * np.maximum(over, 0.0).sum() / path) / int(due.sum())

    return late


def _ends(replay: Replay, finish: FloatArray) -> FloatArray:
    """``[workflows]`` last finish of each of the workflows whose tasks' finish times these are."""
    return np.asarray(np.maximum.reduceat(finish, replay.workflow_ptr[:-1][replay.workflow_ptr[:-1] < len(finish)]))
