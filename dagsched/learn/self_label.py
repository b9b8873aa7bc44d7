"""Expert iteration: imitate the best of N sampled rollouts of the current policy, where it beats the greedy one.

Corsini et al., "Self-labeling the job shop scheduling problem", NeurIPS 2024. We differ: an instance whose best
rollout is no better than the greedy schedule teaches nothing, so that labels agree with what the policy does anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dagsched.learn.algorithm import OnPolicy, StepReport, TrainingStep, set_learning_rate
from dagsched.learn.config_sections import SelfLabelSection
from dagsched.learn.imitation import CloningSettings, imitate
from dagsched.learn.learner import Learner
from dagsched.learn.rollout import Trajectory, network_runners
from dagsched.workflow import FloatArray

MIN_GAIN = 1e-9
"""Share of the greedy cost by which a rollout must be better."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRollouts:
    """What a step has found.

    Attributes:
        chosen: the rollouts to imitate, recorded.
        scalars: of all rollouts.
        decisions: of all rollouts.
    """

    chosen: list[Trajectory]
    scalars: dict[str, float]
    decisions: int


class SelfLabelling(OnPolicy[LabelledRollouts]):
    """The stage ``self-label``: N rollouts of each instance, then imitation of the best that beat the greedy one."""

    def __init__(self, learner: Learner, settings: SelfLabelSection) -> None:
        super().__init__(learner, settings.learning_rate)
        self.settings = settings

    def temperature(self, progress: float) -> float:  # noqa: ARG002
        """That of the rollouts."""
        return self.settings.temperature

    def collect(self, step: TrainingStep) -> LabelledRollouts:
        """Costs of all rollouts first; only the chosen ones are run again and recorded."""
        learner, settings, runners = self.learner, self.settings, network_runners(step.runners)
        greedy = learner.greedy(runners)
        seeds = learner.seeds(step.rng, len(runners), settings.rollouts)
        groups = learner.sample(runners, seeds, temperature=settings.temperature, record=False)
        labels = best_of([[run.cost for run in group] for group in groups], greedy)
        again = learner.sample(
            [runners[k] for k in labels.instances],
            [[seeds[k][n]] for k, n in zip(labels.instances, labels.chosen, strict=True)],
            temperature=settings.temperature,
        )
        runs = [run for group in groups for run in group]
        scalars = {
            "rollout/ep_rew_mean": -float(np.mean([run.cost for run in runs])),
            "rollout/ep_len_mean": float(np.mean([run.length for run in runs])),
            "label/gain": labels.gain,
            "label/improved": labels.improved,
        }
        chosen = [run for group in again for run in group if len(run)]
        return LabelledRollouts(chosen, scalars, sum(run.length for run in runs))

    def update(self, collected: LabelledRollouts, step: TrainingStep) -> StepReport:
        """Several epochs on the decisions of the chosen rollouts."""
        settings = self.settings
        set_learning_rate(self.optimiser, settings.learning_rate)
        scalars = dict(collected.scalars)
        if collected.chosen:
            batch = self.learner.batch(collected.chosen)
            how = CloningSettings(
                settings.epochs,
                settings.minibatch,
                settings.entropy_weight,
                settings.max_grad_norm,
                settings.temperature,
            )
            stats = imitate(self.learner.model, self.optimiser, batch, how, step.rng)
            scalars |= stats.scalars()
        return StepReport(scalars, collected.decisions)


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
    """The rollout of lowest cost of each instance, kept if it beats the greedy policy.

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
