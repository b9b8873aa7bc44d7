"""Proximal policy optimisation over recorded decisions, top to bottom in this file.

Schulman et al., "Proximal policy optimization algorithms", 2017, with the details of Huang et al., "The 37
implementation details of PPO", 2022. Differences: decisions have varying numbers of actions, decisions with a single
action are not recorded, and the advantage may come from the rollouts of a group instead of the critic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dagsched.learn.advantage import gae, group_advantage, rewards_to_go, time_indexed_advantage
from dagsched.learn.ppo_settings import PPOSettings
from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import Batch
from dagsched.workflow import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """Means over the gradient steps of one round, under the names SB3 logs."""

    loss: float
    policy_gradient_loss: float
    value_loss: float
    entropy_loss: float
    approx_kl: float
    clip_fraction: float
    explained_variance: float
    n_updates: int


def advantages_of(
    reward: Sequence[FloatArray],
    time: Sequence[FloatArray],
    cost: FloatArray,
    group: IntArray,
    value: Sequence[FloatArray],
    settings: PPOSettings,
) -> tuple[FloatArray, FloatArray]:
    """``[D]`` advantages and ``[D]`` value targets of all decisions, trajectory by trajectory.

    Args:
        reward: one array ``[D_k]`` a trajectory.
        time: of each decision, s.
        cost: ``[K]``.
        group: ``[K]`` labels.
        value: what the critic said at each decision.
        settings: which kind of advantage.
    """
    to_go = [rewards_to_go(r, settings.gamma) for r in reward]
    if settings.advantage == "gae":
        pairs = [gae(r, v, settings.gamma, settings.lam) for r, v in zip(reward, value, strict=True)]
        advantage = np.concatenate([a for a, _ in pairs])
        deviation = max(float(advantage.std()), 1e-8)
        return (advantage - advantage.mean()) / deviation, np.concatenate([target for _, target in pairs])
    if settings.advantage == "group":
        whole = group_advantage(cost, group)
        return np.repeat(whole, [len(r) for r in reward]), np.concatenate(to_go)
    return np.concatenate(time_indexed_advantage(to_go, time, group)), np.concatenate(to_go)


def policy_loss(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Clipped surrogate, to be minimised: mean of -min(ratio A, clip(ratio, 1 - clip, 1 + clip) A)."""
    ratio = log_ratio.exp()
    return -torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()


def value_loss(value: Tensor, old: Tensor, target: Tensor, clip: float | None) -> Tensor:
    """Half the mean squared error; with ``clip``, the larger error of the value and of the clipped value."""
    error = (value - target) ** 2
    if clip is not None:
        error = torch.max(error, (old + (value - old).clamp(-clip, clip) - target) ** 2)
    return 0.5 * error.mean()


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """KL(old || new) from samples of old: mean of (ratio - 1) - log ratio (Schulman, 2020)."""
    return (log_ratio.exp() - 1 - log_ratio).mean()


def ppo_update(
    model: ActorCritic,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    advantage: Tensor,
    target: Tensor,
    settings: PPOSettings,
    rng: np.random.Generator,
    *,
    temperature: float,
    old: tuple[Tensor, Tensor] | None = None,
) -> UpdateStats:
    """Several epochs of clipped updates on one collection.

    Args:
        model: changed in place.
        optimiser: over its parameters, with the learning rate set.
        batch: ``D`` decisions.
        advantage: ``[D]`` float32.
        target: ``[D]`` float32, of the value.
        settings: hyper-parameters.
        rng: draws the minibatches.
        temperature: at which the actions were sampled.
        old: ``[D]`` log-probabilities and values of the sampling policy; by default computed here.
    """
    old_log_prob, old_value = evaluate_in_parts(model, batch, settings.minibatch, temperature) if old is None else old
    sums = np.zeros(6)
    updates = 0
    stop = False
    for _ in range(settings.epochs):
        for part in np.array_split(rng.permutation(len(batch)), max(1, round(len(batch) / settings.minibatch))):
            chosen = torch.from_numpy(part).to(advantage.device)
            out = model(batch.select(chosen), temperature)
            log_ratio = out.log_prob - old_log_prob[chosen]
            kl = float(approximate_kl(log_ratio.detach()))
            if settings.target_kl is not None and kl > 1.5 * settings.target_kl:
                stop = True
                break
            policy = policy_loss(log_ratio, advantage[chosen], settings.clip)
            critic = value_loss(out.value, old_value[chosen], target[chosen], settings.clip_value)
            entropy = out.entropy.mean()
            loss = policy + settings.value_weight * critic - settings.entropy_weight * entropy
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimiser.step()
            clipped = float(((log_ratio.detach().exp() - 1).abs() > settings.clip).float().mean())
            terms = torch.stack([loss, policy, critic, -entropy]).detach().tolist()
            sums += [*terms, kl, clipped]
            updates += 1
        if stop:
            break
    variance = float(target.var(unbiased=False))
    left = float((target - old_value).var(unbiased=False))
    explained = 1.0 - left / variance if variance > 0 else float("nan")
    mean_loss, mean_policy, mean_critic, mean_entropy, mean_kl, mean_clipped = (sums / max(1, updates)).tolist()
    return UpdateStats(mean_loss, mean_policy, mean_critic, mean_entropy, mean_kl, mean_clipped, explained, updates)


def evaluate_in_parts(model: ActorCritic, batch: Batch, size: int, temperature: float) -> tuple[Tensor, Tensor]:
    """``[D]`` log-probabilities of the chosen actions and ``[D]`` values, without gradients."""
    parts = torch.split(torch.arange(len(batch), device=batch.x.device), size)
    with torch.no_grad():
        embedding = model.embed_batch(batch)
        found = [model(batch.select(part), temperature, embedding) for part in parts]
    return torch.cat([out.log_prob for out in found]), torch.cat([out.value for out in found])
