"""The one place where illegal actions are masked.

Decisions have different numbers of actions, so all actions of a batch lie in one flat array and ``decision`` says
whose each one is. Illegal actions get probability 0 and take no part in the entropy: with 0 log 0 left in, its
gradient would be NaN, and with a large negative logit instead it would reward the masked ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Categorical:
    """Distributions over the legal actions of ``D`` decisions, ``A`` actions in all.

    Attributes:
        log_prob: ``[A]`` log probability; ``-inf`` where illegal.
        entropy: ``[D]`` nats, over legal actions only.
    """

    log_prob: Tensor
    entropy: Tensor


def masked_categorical(logits: Tensor, decision: Tensor, count: int, legal: Tensor | None = None) -> Categorical:
    """Softmax of ``logits [A]`` within each of ``count`` decisions; every decision needs a legal action.

    Args:
        logits: ``[A]`` float.
        decision: ``[A]`` int64 index of the decision of each action.
        count: number of decisions ``D``.
        legal: ``[A]`` bool; all by default.
    """
    masked = logits if legal is None else logits.masked_fill(~legal, -torch.inf)
    highest = torch.full((count,), -torch.inf, dtype=logits.dtype, device=logits.device)
    highest = highest.scatter_reduce(0, decision, masked.detach(), "amax")
    shifted = masked - highest[decision]
    total = torch.zeros(count, dtype=logits.dtype, device=logits.device).index_add(0, decision, shifted.exp())
    log_prob = shifted - total.log()[decision]
    finite = log_prob if legal is None else torch.where(legal, log_prob, torch.zeros_like(log_prob))
    share = log_prob.exp()
    entropy = torch.zeros(count, dtype=logits.dtype, device=logits.device).index_add(0, decision, -share * finite)
    return Categorical(log_prob, entropy)
