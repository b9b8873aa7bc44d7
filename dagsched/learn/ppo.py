"""Proximal policy optimisation over recorded decisions, top to bottom in this file.

Schulman et al., "Proximal policy optimization algorithms", 2017, with the details of Huang et al., "The 37
implementation details of PPO", 2022. Differences: decisions have varying numbers of actions, decisions with a single
action are not recorded, and the advantage may come from the rollouts of a group instead of the critic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dagsched.learn.advantage import gae, group_advantage, rewards_to_go, time_indexed_advantage
from dagsched.learn.algorithm import OnPolicy, StepReport, TrainingStep, set_learning_rate
from dagsched.learn.learner import Learner
from dagsched.learn.ppo_settings import PPOSettings
from dagsched.learn.rollout import Trajectory, network_runners, only
from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import Batch
from dagsched.workflow import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class RunSummary:
    """What remains of a rollout whose rows are not kept: fields as in ``Trajectory``."""

    reward: FloatArray
    time: FloatArray
    cost: float
    length: int
    wait: float
    g: NDArray[np.float32]
    q: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Rollouts:
    """All rollouts of a step in short, and the decisions ``kept[k]`` of each that are learned from."""

    runs: list[RunSummary]
    kept: list[IntArray]
    trajectories: list[Trajectory]

    def scalars(self, objective: str) -> dict[str, float]:
        """Mean return, length and waiting; rewards leave out what passed before the first choice."""
        runs = self.runs
        return {
            f"reward/{objective}": float(np.mean([run.reward.sum() for run in runs])),
            "rollout/ep_rew_mean": float(np.mean([-run.cost for run in runs])),
            "rollout/ep_len_mean": float(np.mean([run.length for run in runs])),
            "rollout/choices_mean": float(np.mean([len(run.reward) for run in runs])),
            "rollout/wait_max": max(run.wait for run in runs),
            "rollout/wait_min": min(run.wait for run in runs),
        }


class PPO(OnPolicy[Rollouts]):
    """The stage ``ppo``: several rollouts of each instance, then clipped updates on their decisions."""

    def __init__(self, learner: Learner, settings: PPOSettings) -> None:
        super().__init__(learner, settings.learning_rate)
        self.settings = settings

    def temperature(self, progress: float) -> float:
        """That of the rollouts at this point of the stage."""
        return self.settings.temperature_at(progress)

    def collect(self, step: TrainingStep) -> Rollouts:
        """Instance after instance, so that the rows of a few rollouts at most are held in full."""
        learner, settings, runners = self.learner, self.settings, network_runners(step.runners)
        temperature = settings.temperature_at(step.progress)
        seeds = learner.seeds(step.rng, len(runners), settings.rollouts)
        maximum = max(1, settings.decisions // (len(runners) * settings.rollouts))
        found = Rollouts([], [], [])
        for first in range(0, len(runners), learner.threads):
            part = slice(first, first + learner.threads)
            for group in learner.sample(runners[part], seeds[part], temperature=temperature):
                for run in group:
                    index = np.arange(len(run))
                    if len(run) > maximum:
                        index = np.sort(np.random.default_rng(run.seed).choice(len(run), maximum, replace=False))
                    found.runs.append(RunSummary(run.reward, run.time, run.cost, run.length, run.wait, run.g, run.q))
                    found.kept.append(index)
                    found.trajectories.append(run if len(index) == len(run) else only(run, index))
        return found

    def update(self, collected: Rollouts, step: TrainingStep) -> StepReport:
        """Advantages of all decisions, then :func:`ppo_update` on those that were kept."""
        learner, settings, runs = self.learner, self.settings, collected.runs
        rate, temperature = settings.learning_rate_at(step.progress), settings.temperature_at(step.progress)
        set_learning_rate(self.optimiser, rate)
        scalars = collected.scalars(step.runners[0].objective)
        scalars |= {"train/learning_rate": rate, "train/temperature": temperature}
        decisions = sum(run.length for run in runs)
        if not any(len(index) for index in collected.kept):
            return StepReport(scalars, decisions)
        values = [np.zeros(0)] * len(runs)
        if settings.advantage == "gae":
            values = [learner.values(run.g, run.q) for run in runs]
        advantage, target = advantages_of(
            [run.reward for run in runs],
            [run.time for run in runs],
            np.array([run.cost for run in runs]),
            np.repeat(np.arange(len(step.runners)), settings.rollouts),
            values,
            settings,
        )
        starts = np.cumsum([0, *(len(run.reward) for run in runs)])
        chosen = np.concatenate([start + index for start, index in zip(starts, collected.kept, strict=False)])
        stats = ppo_update(
            learner.model,
            self.optimiser,
            learner.batch(collected.trajectories),
            torch.from_numpy(advantage[chosen].astype(np.float32)).to(learner.device),
            torch.from_numpy(target[chosen].astype(np.float32)).to(learner.device),
            settings,
            step.rng,
            temperature=temperature,
        )
        return StepReport(scalars | {f"train/{name}": float(value) for name, value in asdict(stats).items()}, decisions)


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
    """
    old_log_prob, old_value = evaluate_in_parts(model, batch, settings.minibatch, temperature)
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
