"""The classic priority rules: one function a rule, each with its formula and source; larger key runs first.

Ties go to the larger upward rank, then earlier arrival, workflow name, task id (``Problem.tie``); of ``fcfs`` and
``round-robin`` to the earlier arrival, then place in the source (``Replay.place``). All read
estimates only. A key that depends on what else has arrived is no fixed priority; such rules are scored in
the kernel (``dagsched.simulator.kernel``, ``_score``).
"""

from __future__ import annotations

import numpy as np

from dagsched import graph
from dagsched.replay import Replay
from dagsched.simulator.kernel import Problem
from dagsched.simulator.state import area_below
from dagsched.workflow import FloatArray


def sjf(replay: Replay, problem: Problem) -> FloatArray:  # noqa: ARG001
    """Shortest job first: minus the mean estimate over the nodes that can hold the task."""
    return -problem.mean


def ljf(replay: Replay, problem: Problem) -> FloatArray:  # noqa: ARG001
    """Longest job first: the mean estimate over the nodes that can hold the task."""
    return problem.mean


def edf(replay: Replay, problem: Problem) -> FloatArray:
    """Earliest deadline first (Liu and Layland, 1973): minus the workflow's deadline."""
    return -replay.deadline[problem.workflow_of]


def llf(replay: Replay, problem: Problem) -> FloatArray:
    """Least laxity first (Mok, 1983): deadline - now - bottom level; ``now`` is common to all, so it is left out."""
    return problem.bottom - replay.deadline[problem.workflow_of]


def critical_path(replay: Replay, problem: Problem) -> FloatArray:  # noqa: ARG001
    """Longest remaining path, mean estimates, transfers taken as zero (Kwok and Ahmad, 1999: "b-level")."""
    return graph.mean_level(replay)


def _path_end(replay: Replay, problem: Problem) -> FloatArray:
    path = graph.critical_path(replay, realised=False)
    return np.asarray((replay.arrival + path)[problem.workflow_of])


def lst(replay: Replay, problem: Problem) -> FloatArray:
    """Minus the latest start: arrival + critical path - bottom level (Kolisch, 1996)."""
    return problem.bottom - _path_end(replay, problem)


def lft(replay: Replay, problem: Problem) -> FloatArray:
    """Minus the latest finish: arrival + critical path - (bottom level - own estimate) (Davis and Patterson, 1975)."""
    return problem.bottom - problem.fastest - _path_end(replay, problem)


def mts(replay: Replay, problem: Problem) -> FloatArray:
    """Most total successors: number of distinct descendants (Alvarez-Valdes and Tamarit, 1989)."""
    return graph.descendants(replay, problem.fastest)[1].astype(np.float64)


def graphene(replay: Replay, problem: Problem) -> FloatArray:
    """Troublesome tasks and all their ancestors first, most troublesome ahead; then by bottom level.

    A task's trouble is max(estimate / longest in its workflow, demand / largest node); what must run before
    a troublesome task inherits its trouble. Follows Grandl et al., "Graphene", OSDI 2016, section 4, without
    its offline packing search.
    """
    longest = np.maximum.reduceat(problem.fastest, replay.workflow_ptr[:-1])[problem.workflow_of]
    level = np.maximum.reduceat(problem.bottom, replay.workflow_ptr[:-1])[problem.workflow_of]
    with np.errstate(divide="ignore", invalid="ignore"):
        trouble = np.maximum(np.where(longest > 0, problem.fastest / longest, 0.0), problem.share)
        depth = np.where(level > 0, problem.bottom / level, 0.0)
    step = np.floor(10 * graph.max_over_descendants(replay, trouble)) / 10
    return step + 0.1 * depth


def cp_demand(replay: Replay, problem: Problem) -> FloatArray:  # noqa: ARG001
    """Bottom level / its maximum + largest demand / capacity of the largest node."""
    most = problem.bottom.max()
    return problem.share + (problem.bottom / most if most > 0 else 0.0)


def cp_demand_work(replay: Replay, problem: Problem) -> FloatArray:
    """Bottom level / max + 0.5 x demand / capacity + 0.3 x area of the task and its descendants / max."""
    most, below = problem.bottom.max(), area_below(replay)
    key = 0.5 * problem.share + (problem.bottom / most if most > 0 else 0.0)
    return key + (0.3 * below / below.max() if below.max() > 0 else 0.0)
