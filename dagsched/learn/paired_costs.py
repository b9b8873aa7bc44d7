"""What a trained policy costs, and how that differs from what another costs on the same replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dagsched.evaluate.statistics import paired_bootstrap
from dagsched.learn.episode_runner import EpisodeRunner, linear_costs
from dagsched.learn.rollout import NetworkEpisodeRunner
from dagsched.models.checkpoint import Checkpoint
from dagsched.workflow import FloatArray


@dataclass(frozen=True, slots=True)
class Difference:
    """A policy's cost against a reference's, paired by replay; negative = the policy is better.

    Attributes:
        mean: mean log ratio of costs as a relative change, or the mean difference where costs are rates (SLO).
        low, high: ends of the 95% interval; ``None`` with a single replay.
        relative: whether these are relative changes.
        policy_cost, reference_cost: mean costs.
        wins, ties, losses: replays.
        rate: whether costs are rates (SLO); only then, a difference is shown in points.
    """

    mean: float
    low: float | None
    high: float | None
    relative: bool
    policy_cost: float
    reference_cost: float
    wins: int
    ties: int
    losses: int
    rate: bool = False

    @property
    def significant(self) -> bool:
        """Whether the interval excludes no effect."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def __str__(self) -> str:
        """Such as ``-3.41% [-4.15%, -2.73%]``; differences of rates in points (of the cost), of others as they are."""
        if self.policy_cost == self.reference_cost == 0:
            return "no difference, both cost 0"
        ends = [end for end in (self.mean, self.low, self.high) if end is not None]
        mean, *interval = (
            f"{end:+.2%}" if self.relative else f"{100 * end:+.2f} points" if self.rate else f"{end:+.4g}"
            for end in ends
        )
        return f"{mean} [{', '.join(interval)}]" if interval else mean

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "significant": self.significant}


def difference(policy: FloatArray, reference: FloatArray, objective: str) -> Difference:
    """Compare costs ``[N]`` on the same replays, each of a workload of its own."""
    relative = objective != "slo" and bool((policy > 0).all() and (reference > 0).all())
    effect = np.log(policy / reference) if relative else policy - reference
    interval = paired_bootstrap(effect, np.arange(len(effect)))
    near = np.abs(policy - reference) <= 1e-9 * np.maximum(np.abs(policy), np.abs(reference))
    shown = [None if v is None else float(np.expm1(v)) if relative else float(v) for v in (interval.low, interval.high)]
    return Difference(
        mean=float(np.expm1(interval.mean)) if relative else interval.mean,
        low=shown[0],
        high=shown[1],
        relative=relative,
        policy_cost=float(policy.mean()),
        reference_cost=float(reference.mean()),
        wins=int(((policy < reference) & ~near).sum()),
        ties=int(near.sum()),
        losses=int(((policy > reference) & ~near).sum()),
        rate=objective == "slo",
    )


def checkpoint_costs(checkpoint: Checkpoint, runners: Sequence[EpisodeRunner], threads: int = 1) -> FloatArray:
    """``[runners]`` greedy cost of a saved policy."""
    if checkpoint.network is None:
        return np.asarray(linear_costs(checkpoint.base[None], runners, threads)[0])
    from dagsched.learn.learner import Learner  # torch: only where there is a network

    learner = Learner(checkpoint.network, checkpoint.base, checkpoint.normaliser, threads=threads)
    learner.load(checkpoint.tensors)
    return learner.greedy([NetworkEpisodeRunner(runner) for runner in runners])
