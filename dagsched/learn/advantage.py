"""How much better an action was than expected: a critic with GAE, or a baseline from the other rollouts of a group.

Rewards add up to minus the cost, so ``to_go`` at a decision is minus the cost still to come. Rollouts of one *group*
share the instance, the durations and the arrivals; their differences are due to the actions alone, and their scale is
the instance's own, which is why a group is standardised by itself. References: Schulman et al., "High-dimensional
continuous control using generalized advantage estimation", ICLR 2016; Mao et al., "Variance reduction for
reinforcement learning in input-driven environments", ICLR 2019 (the time-indexed baseline).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dagsched.workflow import FloatArray, IntArray

MIN_DEVIATION = 1e-8
"""Groups whose costs differ by less than this teach nothing: their advantages are 0."""


def rewards_to_go(reward: FloatArray, gamma: float) -> FloatArray:
    """``[D]`` discounted sum of the rewards from each decision on."""
    out = np.zeros(len(reward))
    total = 0.0
    for k in range(len(reward) - 1, -1, -1):
        total = out[k] = reward[k] + gamma * total
    return out


def gae(reward: FloatArray, value: FloatArray, gamma: float, lam: float) -> tuple[FloatArray, FloatArray]:
    """Generalised advantage estimates of one finished trajectory.

    Args:
        reward: ``[D]`` between each decision and the next one, the last until the end.
        value: ``[D]`` expected ``to_go`` at each decision; after the end it is 0.
        gamma: discount a decision.
        lam: 0 = one-step errors, 1 = ``to_go`` minus value.

    Returns:
        ``[D]`` advantages, and ``[D]`` targets of the value: advantage + value.
    """
    advantage = np.zeros(len(reward))
    following, carried = 0.0, 0.0
    for k in range(len(reward) - 1, -1, -1):
        error = reward[k] + gamma * following - value[k]
        carried = advantage[k] = error + gamma * lam * carried
        following = float(value[k])
    return advantage, advantage + value


def standardise(values: FloatArray) -> FloatArray:
    """Mean 0 and deviation 1; all 0 where they hardly differ."""
    deviation = values.std()
    return (values - values.mean()) / deviation if deviation > MIN_DEVIATION else np.zeros_like(values)


def group_advantage(cost: FloatArray, group: IntArray) -> FloatArray:
    """``[K]`` minus the cost of each trajectory, standardised within its group: one number for all its decisions.

    Args:
        cost: ``[K]`` of whole trajectories, lower is better.
        group: ``[K]`` label of (instance, duration seed, arrival seed).
    """
    out = np.zeros(len(cost))
    for label in np.unique(group):
        members = group == label
        out[members] = standardise(-cost[members])
    return out


def time_indexed_advantage(
    to_go: Sequence[FloatArray], time: Sequence[FloatArray], group: IntArray
) -> list[FloatArray]:
    """``to_go`` minus the group's mean ``to_go`` at the same moment, divided by the group's deviation.

    Between its decisions a trajectory's ``to_go`` is that of the line through them; before the first and after the
    last one it is kept. In a stream, arrivals later than the moment then cancel out.

    Args:
        to_go: ``K`` arrays ``[D_k]`` of discounted rewards to come.
        time: ``K`` arrays ``[D_k]`` of seconds, ascending.
        group: ``[K]`` labels.
    """
    out: list[FloatArray] = [np.zeros(0)] * len(to_go)
    for label in np.unique(group):
        members = np.flatnonzero(group == label).tolist()
        raw: list[FloatArray] = []
        for i in members:
            others = [_at(time[i], time[j], to_go[j]) for j in members if len(time[j])]
            raw.append(to_go[i] - np.mean(others, axis=0) if len(time[i]) else np.zeros(0))
        deviation = float(np.concatenate(raw).std()) if sum(map(len, raw)) else 0.0
        for i, values in zip(members, raw, strict=True):
            out[i] = values / deviation if deviation > MIN_DEVIATION else np.zeros_like(values)
    return out


def _at(moments: FloatArray, time: FloatArray, to_go: FloatArray) -> FloatArray:
    """``to_go`` at ``moments``; of several decisions at one time the last counts."""
    last: NDArray[np.bool_] = np.append(time[1:] > time[:-1], True)
    return np.interp(moments, time[last], to_go[last])
