"""PEFT's optimistic cost table.

Arabnejad and Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table", IEEE
TPDS 25(3), 2014. Where we differ: processors are node groups, and data moves for free within a group.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dagsched.graph import mean_transfer
from dagsched.replay import Replay
from dagsched.workflow import FloatArray, child_rows


@njit(cache=True, nogil=True)
def _optimistic_cost(topological_order, child_ptr, child_idx, edge_seconds, estimate, can_hold):  # type: ignore[no-untyped-def]
    """PEFT's optimistic cost table ``[T, G]`` (Arabnejad & Barbosa 2014, eq. 8).

    ``edge_seconds`` is the mean transfer per edge in the order of ``child_idx``.
    """
    groups = estimate.shape[1]
    table = np.zeros((len(topological_order), groups))
    for k in range(len(topological_order) - 1, -1, -1):
        task = topological_order[k]
        for edge in range(child_ptr[task], child_ptr[task + 1]):
            child = child_idx[edge]
            least = np.inf
            for g in range(groups):
                if can_hold[child, g]:
                    least = min(least, table[child, g] + estimate[child, g])
            for g in range(groups):
                cost = least + edge_seconds[edge]
                if can_hold[child, g]:
                    cost = min(cost, table[child, g] + estimate[child, g])
                table[task, g] = max(table[task, g], cost)
    return table


def optimistic_costs(replay: Replay) -> FloatArray:
    """``[T, G]`` seconds: least time from a task's finish in a group to the end of its workflow."""
    child_ptr, child_idx, edge = child_rows(replay.parent_ptr, replay.parent_idx)
    seconds = mean_transfer(replay)[edge]
    table = _optimistic_cost(replay.topological_order, child_ptr, child_idx, seconds, replay.estimate, replay.can_hold)
    return np.asarray(table)


def mean_optimistic_cost(replay: Replay, table: FloatArray) -> FloatArray:
    """``[T]`` PEFT's rank in seconds: the table's mean over the nodes that can hold the task."""
    nodes = np.array([group.nodes for group in replay.cluster.groups], np.float64)
    weight = np.where(replay.can_hold, nodes, 0.0)
    return np.asarray((table * weight).sum(axis=1) / weight.sum(axis=1))
