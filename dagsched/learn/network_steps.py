"""One step of each stage that trains a network: collect decisions, learn from them, say what happened.

Every step draws its random numbers from a generator of its own, so that a resumed run continues as if it had never
stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from dagsched.learn.arena import Arena
from dagsched.learn.config_sections import ImitateSection, SelfLabelSection
from dagsched.learn.imitation import imitate
from dagsched.learn.learner import Learner
from dagsched.learn.ppo import advantages_of, evaluate_in_parts, ppo_update
from dagsched.learn.ppo_settings import PPOSettings
from dagsched.learn.record import record_rule
from dagsched.learn.rollout import NetworkArena, Trajectory
from dagsched.learn.self_label import best_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step did.

    Attributes:
        scalars: TensorBoard tags and values.
        decisions: simulated decisions.
    """

    scalars: dict[str, float]
    decisions: int


def ppo_step(
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    arenas: Sequence[NetworkArena],
    settings: PPOSettings,
    rng: np.random.Generator,
    progress: float,
) -> Outcome:
    """Several rollouts of each instance, then PPO on their decisions; ``progress`` in [0, 1] drives the schedules."""
    temperature, rate = settings.temperature_at(progress), settings.learning_rate_at(progress)
    set_rate(optimiser, rate)
    groups = learner.sample(arenas, settings.rollouts, rng, temperature=temperature)
    trajectories = [t for group in groups for t in group]
    scalars = rollout_scalars(trajectories, arenas[0].arena.objective) | {
        "train/learning_rate": rate,
        "train/temperature": temperature,
    }
    played = sum(t.length for t in trajectories)
    if not any(len(t) for t in trajectories):
        return Outcome(scalars, played)
    batch = learner.batch(trajectories)
    old = evaluate_in_parts(learner.model, batch, settings.minibatch, temperature)
    ends = np.cumsum([len(t) for t in trajectories])[:-1]
    advantage, target = advantages_of(
        [t.reward for t in trajectories],
        [t.time for t in trajectories],
        np.array([t.cost for t in trajectories]),
        np.repeat(np.arange(len(groups)), settings.rollouts),
        np.split(old[1].cpu().numpy().astype(np.float64), ends),
        settings,
    )
    stats = ppo_update(
        learner.model,
        optimiser,
        batch,
        torch.from_numpy(advantage.astype(np.float32)).to(learner.device),
        torch.from_numpy(target.astype(np.float32)).to(learner.device),
        settings,
        rng,
        temperature=temperature,
        old=old,
    )
    return Outcome(scalars | {f"train/{name}": float(value) for name, value in asdict(stats).items()}, played)


def self_label_step(
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    arenas: Sequence[NetworkArena],
    settings: SelfLabelSection,
    rng: np.random.Generator,
) -> Outcome:
    """N rollouts of each instance, then cross-entropy on the best ones that beat the greedy policy."""
    set_rate(optimiser, settings.learning_rate)
    greedy = learner.greedy(arenas)
    groups = learner.sample(arenas, settings.rollouts, rng, temperature=settings.temperature)
    trajectories = [t for group in groups for t in group]
    labels = best_of(groups, greedy)
    scalars = rollout_scalars(trajectories, arenas[0].arena.objective) | {
        "label/gain": labels.gain,
        "label/improved": labels.improved,
    }
    chosen = [t for t in labels.chosen if len(t)]
    if chosen:
        stats = imitate(
            learner.model,
            optimiser,
            learner.batch(chosen),
            rng,
            epochs=settings.epochs,
            minibatch=settings.minibatch,
            entropy_weight=settings.entropy_weight,
            max_grad_norm=settings.max_grad_norm,
            temperature=settings.temperature,
        )
        scalars |= {"train/loss": stats.loss, "train/accuracy": stats.accuracy, "train/entropy_loss": -stats.entropy}
    return Outcome(scalars, sum(t.length for t in trajectories))


def imitate_step(
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    arenas: Sequence[Arena],
    settings: ImitateSection,
    rng: np.random.Generator,
) -> Outcome:
    """Decisions of a rule on each instance, then cross-entropy on them."""
    set_rate(optimiser, settings.learning_rate)
    columns, wait = learner.config.columns, learner.config.wait
    recorded = [
        record_rule(arena, settings.rule, learner.base, learner.normaliser, columns, wait=wait) for arena in arenas
    ]
    scalars = {"rollout/ep_rew_mean": -float(np.mean([r.cost for r in recorded]))}
    kept = [r for r in recorded if len(r.action)]
    if kept:
        stats = imitate(
            learner.model, optimiser, learner.batch(kept), rng, epochs=settings.epochs, minibatch=settings.minibatch
        )
        scalars |= {"train/loss": stats.loss, "train/accuracy": stats.accuracy, "train/entropy_loss": -stats.entropy}
    return Outcome(scalars, sum(len(r.action) for r in recorded))


def rollout_scalars(trajectories: Sequence[Trajectory], objective: str) -> dict[str, float]:
    """Mean return, length and waiting of sampled runs; rewards leave out what passed before the first choice."""
    return {
        f"reward/{objective}": float(np.mean([t.reward.sum() for t in trajectories])),
        "rollout/ep_rew_mean": float(np.mean([-t.cost for t in trajectories])),
        "rollout/ep_len_mean": float(np.mean([t.length for t in trajectories])),
        "rollout/choices_mean": float(np.mean([len(t) for t in trajectories])),
        "rollout/wait_max": max(t.wait for t in trajectories),
        "rollout/wait_min": min(t.wait for t in trajectories),
    }


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of all groups."""
    for group in optimiser.param_groups:
        group["lr"] = rate
