"""Expert iteration: imitate the best of N sampled rollouts of the current policy, where it beats the greedy one.

Corsini et al., "Self-labeling the job shop scheduling problem", NeurIPS 2024. We differ: an instance whose best
rollout is no better than the greedy schedule teaches nothing, so that labels agree with what the policy does anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dagsched.learn.rollout import Trajectory
from dagsched.workflow import FloatArray

LEAST_GAIN = 1e-9
"""Share of the greedy cost by which a rollout must be better."""


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """What to imitate.

    Attributes:
        chosen: the best rollout of each instance that improved.
        gain: mean over all instances of 1 - best / greedy, 0 where nothing improved.
        improved: share of instances that improved.
    """

    chosen: tuple[Trajectory, ...]
    gain: float
    improved: float


def best_of(rollouts: Sequence[Sequence[Trajectory]], greedy: FloatArray) -> Labels:
    """The rollout of least cost of each instance, kept if it beats the greedy policy.

    Args:
        rollouts: N trajectories of each instance.
        greedy: ``[instances]`` cost of the greedy policy.
    """
    chosen: list[Trajectory] = []
    gains = np.zeros(len(greedy))
    for k, group in enumerate(rollouts):
        best = min(group, key=lambda t: t.cost)
        if best.cost < greedy[k] * (1 - LEAST_GAIN):
            chosen.append(best)
            gains[k] = 1 - best.cost / greedy[k]
    return Labels(tuple(chosen), float(gains.mean()), len(chosen) / max(1, len(greedy)))
