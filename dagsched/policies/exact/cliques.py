"""Groups of tasks no two of which can ever run together: redundant constraints for the exact solver.

Two tasks on one node exclude each other if they are on one path or if some resource cannot hold both (the
minimal forbidden pairs of RCPSP; Brucker et al., EJOR 107, 1998).
"""

from __future__ import annotations

import numpy as np

from dagsched.replay import FIT_TOLERANCE, Replay
from dagsched.workflow import IntArray

MAX_TASKS = 600
MOST = 100


def exclusive_cliques(replay: Replay) -> list[IntArray]:
    """At most ``MOST`` sets of pairwise exclusive tasks on a one-node cluster, longest total time first.

    One greedy clique is grown from each task of positive duration. Empty above ``MAX_TASKS`` tasks.
    """
    if len(replay) > MAX_TASKS or replay.cluster.node_count != 1:
        return []
    capacity = replay.cluster.capacity[0] * (1 + FIT_TOLERANCE)
    demand = replay.demand * replay.instances[:, None]
    seconds = replay.estimate[:, 0]
    exclusive = ((demand[:, None, :] + demand[None, :, :]) > capacity).any(axis=2) | _on_one_path(replay)
    np.fill_diagonal(exclusive, False)
    exclusive &= (seconds > 0) & (seconds > 0)[:, None] & (replay.instances == 1) & (replay.instances == 1)[:, None]
    cliques = set()
    for task in np.flatnonzero(seconds > 0).tolist():
        members, candidates = [task], exclusive[task].copy()
        while candidates.any():
            worth = seconds + 1e-3 * (exclusive[:, candidates] @ seconds[candidates])
            best = int(np.argmax(np.where(candidates, worth, -1.0)))
            members.append(best)
            candidates &= exclusive[best]
        if len(members) > 1:
            cliques.add(tuple(sorted(members)))
    ordered = sorted(cliques, key=lambda clique: (-seconds[list(clique)].sum(), clique))
    return [np.array(clique, np.int64) for clique in ordered[:MOST]]


def _on_one_path(replay: Replay) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """``[T, T]`` whether one task is an ancestor of the other."""
    reach = np.zeros((len(replay), len(replay)), np.bool_)
    for task in replay.topological_order[::-1].tolist():
        for child in replay.child_idx[replay.child_ptr[task] : replay.child_ptr[task + 1]].tolist():
            reach[task, child] = True
            reach[task] |= reach[child]
    return reach | reach.T
