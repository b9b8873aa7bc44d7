"""Behaviour cloning: raise the probability of the actions in recorded decisions; as a stage, of a rule's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dagsched.learn.algorithm import OnPolicy, StepReport, TrainingStep, set_learning_rate
from dagsched.learn.config_sections import ImitateSection
from dagsched.learn.demonstrations import Demonstration, record_rule
from dagsched.learn.learner import Learner
from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import Batch


class Imitation(OnPolicy[list[Demonstration]]):
    """The stage ``imitate``: decisions of a rule on each instance, then cross-entropy on them."""

    def __init__(self, learner: Learner, settings: ImitateSection) -> None:
        super().__init__(learner, settings.learning_rate)
        self.settings = settings

    def collect(self, step: TrainingStep) -> list[Demonstration]:
        """One run of the rule on each instance."""
        learner = self.learner
        return [
            record_rule(
                runner,
                self.settings.rule,
                learner.base,
                learner.normaliser,
                learner.config.columns,
                wait=learner.config.wait,
            )
            for runner in step.runners
        ]

    def update(self, collected: list[Demonstration], step: TrainingStep) -> StepReport:
        """Several epochs on all decisions with a choice."""
        settings = self.settings
        set_learning_rate(self.optimiser, settings.learning_rate)
        scalars = {"rollout/ep_rew_mean": -float(np.mean([run.cost for run in collected]))}
        kept = [run for run in collected if len(run.action)]
        if kept:
            stats = imitate(
                self.learner.model,
                self.optimiser,
                self.learner.batch(kept),
                CloningSettings(settings.epochs, settings.minibatch),
                step.rng,
            )
            scalars |= stats.scalars()
        return StepReport(scalars, sum(len(run.action) for run in collected))


@dataclass(frozen=True, slots=True)
class CloningSettings:
    """How recorded actions are imitated.

    Attributes:
        epochs: passes over the decisions.
        minibatch: decisions a gradient step.
        entropy_weight: weight of the entropy over legal actions.
        max_grad_norm: gradients are scaled down to this norm.
        temperature: by which logits are divided.
    """

    epochs: int
    minibatch: int
    entropy_weight: float = 0.0
    max_grad_norm: float = 0.5
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class ImitationStats:
    """Means over the gradient steps: cross-entropy, share of decisions where the argmax is the label, entropy."""

    loss: float
    accuracy: float
    entropy: float
    n_updates: int

    def scalars(self) -> dict[str, float]:
        """As TensorBoard shows them."""
        return {"train/loss": self.loss, "train/accuracy": self.accuracy, "train/entropy_loss": -self.entropy}


def imitate(
    model: ActorCritic,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    settings: CloningSettings,
    rng: np.random.Generator,
) -> ImitationStats:
    """Several epochs of minus the mean log-probability of the recorded actions.

    Args:
        model: changed in place.
        optimiser: over its parameters.
        batch: decisions with the actions to imitate.
        settings: sizes and weights.
        rng: draws the minibatches.
    """
    sums, updates = np.zeros(3), 0
    for _ in range(settings.epochs):
        for part in np.array_split(rng.permutation(len(batch)), max(1, round(len(batch) / settings.minibatch))):
            chosen = batch.select(torch.from_numpy(part).to(batch.x.device))
            out = model(chosen, settings.temperature)
            cross, entropy = -out.log_prob.mean(), out.entropy.mean()
            optimiser.zero_grad()
            (cross - settings.entropy_weight * entropy).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimiser.step()
            sums += [float(cross.detach()), float(_hits(chosen, out.logits.detach())), float(entropy.detach())]
            updates += 1
    loss, accuracy, mean_entropy = (sums / max(1, updates)).tolist()
    return ImitationStats(loss, accuracy, mean_entropy, updates)


def _hits(batch: Batch, logits: torch.Tensor) -> torch.Tensor:
    """Share of decisions where no candidate's logit exceeds the label's."""
    rows = logits[: len(batch.x)]
    best = torch.full((len(batch),), -torch.inf, dtype=rows.dtype, device=rows.device)
    best = best.scatter_reduce(0, batch.decision, rows, "amax")
    return (logits[batch.chosen] >= best).float().mean()
