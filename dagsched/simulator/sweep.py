"""Step functions over time by vectorised event sweeps: how much of each node is held, and when."""

from __future__ import annotations

import numpy as np

from dagsched.workflow import FloatArray, IntArray


def occupation(
    node: IntArray, start: FloatArray, finish: FloatArray, amount: FloatArray, slack: float = 0.0
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Amount held on each node after every start and finish, over half-open intervals ``[start, finish)``.

    At equal times finishes count before starts, so the level never shows two intervals that only touch.

    Args:
        node: ``[A]``.
        start: ``[A]`` seconds.
        finish: ``[A]`` seconds.
        amount: ``[A]`` of one resource; empty intervals and zero amounts are left out.
        slack: relative rounding by which a finish may come early, at most a thousandth of the interval.

    Returns:
        ``(time, node, level)``, each ``[2 A']``, ordered by node, then time.
    """
    real = (finish > start) & (amount != 0)
    node, start, finish, amount = node[real], start[real], finish[real], amount[real]
    release = finish - np.minimum(slack * np.abs(finish), 1e-3 * (finish - start)) if slack else finish
    times = np.concatenate([release, start])
    nodes = np.concatenate([node, node])
    change = np.concatenate([-amount, amount])
    order = np.lexsort((change, times, nodes))
    return times[order], nodes[order], np.cumsum(change[order])
