"""The hyper-parameters of PPO, one typed field with one line each (torch-free, so that configurations load at once)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class PPOSettings(BaseModel):
    """Every hyper-parameter of the stage; a *step* is one collection and the updates that follow it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(default=200, ge=0, description="collect-and-update rounds; schedules run over them")
    instances: int = Field(default=16, ge=1, description="training instances a step")
    rollouts: int = Field(default=8, ge=1, description="sampled rollouts of each instance: one group")
    decisions: int = Field(
        default=50_000, ge=1, description="decisions a step learns from; of more, a random part of each rollout"
    )
    advantage: Literal["group", "time", "gae"] = Field(
        default="time", description="group: whole cost within the group; time: time-indexed group baseline; gae: critic"
    )
    gamma: float = Field(default=1.0, gt=0, le=1, description="discount a decision: 1 for batches, 0.99 online")
    lam: float = Field(default=0.95, ge=0, le=1, description="lambda of GAE")
    learning_rate: float = Field(default=1e-3, gt=0, description="of Adam")
    anneal: bool = Field(default=True, description="learning rate falls linearly to a tenth over the steps")
    epochs: int = Field(default=4, ge=1, le=10, description="passes over the decisions of a step")
    minibatch: int = Field(default=2048, ge=1, description="decisions a gradient step")
    clip: float = Field(default=0.2, gt=0, description="largest change of a probability ratio that is rewarded")
    clip_value: float | None = Field(
        default=None, gt=0, description="largest change of a value that is rewarded; null = any"
    )
    value_weight: float = Field(default=0.5, ge=0, description="weight of the value loss")
    entropy_weight: float = Field(default=0.01, ge=0, description="weight of the entropy over legal actions")
    max_grad_norm: float = Field(default=0.5, gt=0, description="gradients are scaled down to this norm")
    target_kl: float | None = Field(
        default=0.02, gt=0, description="a step's updates end beyond 1.5 times this; null = never"
    )
    temperature: float = Field(default=1.0, gt=0, description="by which logits are divided at the first step")
    temperature_end: float = Field(default=1.0, gt=0, description="the same at the last step")

    def temperature_at(self, progress: float) -> float:
        """Geometric path from ``temperature`` to ``temperature_end``; ``progress`` in [0, 1]."""
        return float(self.temperature * (self.temperature_end / self.temperature) ** min(1.0, max(0.0, progress)))

    def learning_rate_at(self, progress: float) -> float:
        """``learning_rate``, falling to a tenth with ``anneal``."""
        return annealed(self.learning_rate, progress) if self.anneal else self.learning_rate


def annealed(rate: float, progress: float) -> float:
    """``rate``, falling linearly to a tenth while ``progress`` goes from 0 to 1."""
    return rate * (1.0 - 0.9 * min(1.0, max(0.0, progress)))
