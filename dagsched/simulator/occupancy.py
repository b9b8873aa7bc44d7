"""Step functions over time by vectorised event sweeps: how much of each node is held, and when."""

from __future__ import annotations

import numpy as np

from dagsched.workflow import FloatArray, IntArray


def occupation(
    node: IntArray, start: FloatArray, finish: FloatArray, amount: FloatArray, slack: float = 0.0
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Amounts held on each node after every start and finish, over half-open intervals ``[start, finish)``.

    At equal times finishes count before starts, so the level never shows two intervals that only touch.

    Args:
        node: ``[A]``.
        start: ``[A]`` seconds.
        finish: ``[A]`` seconds.
        amount: ``[A, R]`` of each resource.
        slack: relative rounding by which a finish may come early, at most a thousandth of the interval.

    Returns:
        ``(time [K], node [K], level [K, R])`` ordered by node, then time; K is twice the number of intervals
        that are not empty.
    """
    real = finish > start
    node, start, finish, amount = node[real], start[real], finish[real], amount[real]
    release = finish - np.minimum(slack * np.abs(finish), 1e-3 * (finish - start)) if slack else finish
    time = np.concatenate([release, start])
    place = np.concatenate([node, node])
    order = np.lexsort((np.repeat([0, 1], len(node)), time, place))
    change = np.concatenate([-amount, amount])[order]
    return time[order], place[order], np.cumsum(change, axis=0)
