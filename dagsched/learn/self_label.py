"""Expert iteration: imitate the best of N sampled rollouts of the current policy, where it beats the greedy one.

Corsini et al., "Self-labeling the job shop scheduling problem", NeurIPS 2024. We differ: an instance whose best
rollout is no better than the greedy schedule teaches nothing, so that labels agree with what the policy does anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dagsched.workflow import FloatArray

MIN_GAIN = 1e-9
"""Share of the greedy cost by which a rollout must be better."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What to imitate.

    Attributes:
        instances: those that improved.
        chosen: the best rollout of each of them.
        gain: mean over all instances of 1 - best / greedy, 0 where nothing improved.
        improved: share of instances that improved.
    """

    instances: tuple[int, ...]
    chosen: tuple[int, ...]
    gain: float
    improved: float


def best_of(costs: Sequence[Sequence[float]], greedy: FloatArray) -> Labels:
    """The rollout of least cost of each instance, kept if it beats the greedy policy.

    Args:
        costs: of the N rollouts of each instance.
        greedy: ``[instances]`` cost of the greedy policy.
    """
    instances: list[int] = []
    chosen: list[int] = []
    gain = 0.0
    for k, group in enumerate(costs):
        best = int(np.argmin(group))
        if group[best] < greedy[k] * (1 - MIN_GAIN):
            instances.append(k)
            chosen.append(best)
            gain += 1 - group[best] / float(greedy[k])
    count = max(1, len(greedy))
    return Labels(tuple(instances), tuple(chosen), gain / count, len(instances) / count)
