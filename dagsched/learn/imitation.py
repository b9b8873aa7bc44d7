"""Behaviour cloning: raise the probability of the actions in recorded decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import Batch


@dataclass(frozen=True, slots=True)
class ImitationStats:
    """Means over the gradient steps: cross-entropy, share of decisions where the argmax is the label, entropy."""

    loss: float
    accuracy: float
    entropy: float
    n_updates: int


def imitate(
    model: ActorCritic,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    rng: np.random.Generator,
    *,
    epochs: int,
    minibatch: int,
    entropy_weight: float = 0.0,
    max_grad_norm: float = 0.5,
    temperature: float = 1.0,
) -> ImitationStats:
    """Several epochs of minus the mean log-probability of the recorded actions.

    Args:
        model: changed in place.
        optimiser: over its parameters.
        batch: decisions with the actions to imitate.
        rng: draws the minibatches.
        epochs: passes over the decisions.
        minibatch: decisions a gradient step.
        entropy_weight: weight of the entropy over legal actions.
        max_grad_norm: gradients are scaled down to this norm.
        temperature: by which logits are divided.
    """
    sums, updates = np.zeros(3), 0
    for _ in range(epochs):
        for part in np.array_split(rng.permutation(len(batch)), max(1, round(len(batch) / minibatch))):
            chosen = batch.select(torch.from_numpy(part).to(batch.x.device))
            out = model(chosen, temperature)
            cross, entropy = -out.log_prob.mean(), out.entropy.mean()
            optimiser.zero_grad()
            (cross - entropy_weight * entropy).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
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
