"""One step of each stage that trains a network: collect decisions, learn from them, say what happened.

Every step draws its random numbers from a generator of its own, so that a resumed run continues as if it had never
stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dagsched.learn.config_sections import ExpertSection, ImitateSection, SelfLabelSection
from dagsched.learn.demonstrations import record_rule
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.expert import advantages, learn
from dagsched.learn.imitation import imitate
from dagsched.learn.learner import Learner
from dagsched.learn.ppo import advantages_of, ppo_update
from dagsched.learn.ppo_settings import PPOSettings
from dagsched.learn.rollout import NetworkEpisodeRunner, Trajectory, only
from dagsched.learn.self_label import best_of
from dagsched.workflow import FloatArray, IntArray


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
    runners: Sequence[NetworkEpisodeRunner],
    settings: PPOSettings,
    rng: np.random.Generator,
    progress: float,
) -> Outcome:
    """Several rollouts of each instance, then PPO on their decisions; ``progress`` in [0, 1] drives the schedules."""
    temperature, rate = settings.temperature_at(progress), settings.learning_rate_at(progress)
    set_rate(optimiser, rate)
    played = _play(learner, runners, settings, rng, temperature)
    scalars = rollout_scalars(played.runs, runners[0].inner.objective)
    scalars |= {"train/learning_rate": rate, "train/temperature": temperature}
    decisions = sum(run.length for run in played.runs)
    if not any(len(index) for index in played.kept):
        return Outcome(scalars, decisions)
    values = [np.zeros(0)] * len(played.runs)
    if settings.advantage == "gae":
        values = [learner.values(run.g, run.q) for run in played.runs]
    advantage, target = advantages_of(
        [run.reward for run in played.runs],
        [run.time for run in played.runs],
        np.array([run.cost for run in played.runs]),
        np.repeat(np.arange(len(runners)), settings.rollouts),
        values,
        settings,
    )
    starts = np.cumsum([0, *(len(run.reward) for run in played.runs)])
    chosen = np.concatenate([start + index for start, index in zip(starts, played.kept, strict=False)])
    stats = ppo_update(
        learner.model,
        optimiser,
        learner.batch(played.trajectories),
        torch.from_numpy(advantage[chosen].astype(np.float32)).to(learner.device),
        torch.from_numpy(target[chosen].astype(np.float32)).to(learner.device),
        settings,
        rng,
        temperature=temperature,
    )
    return Outcome(scalars | {f"train/{name}": float(value) for name, value in asdict(stats).items()}, decisions)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """What remains of a rollout whose rows are not kept: fields as in ``Trajectory``."""

    reward: FloatArray
    time: FloatArray
    cost: float
    length: int
    wait: float
    g: NDArray[np.float32]
    q: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Played:
    """All rollouts of a step in short, and the decisions ``kept[k]`` of each that are learned from."""

    runs: list[_Run]
    kept: list[IntArray]
    trajectories: list[Trajectory]


def _play(
    learner: Learner,
    runners: Sequence[NetworkEpisodeRunner],
    settings: PPOSettings,
    rng: np.random.Generator,
    temperature: float,
) -> _Played:
    """Collect instance after instance, so that the rows of a few rollouts at most are held in full."""
    seeds = learner.seeds(rng, len(runners), settings.rollouts)
    most = max(1, settings.decisions // (len(runners) * settings.rollouts))
    played = _Played([], [], [])
    for first in range(0, len(runners), learner.threads):
        part = slice(first, first + learner.threads)
        for group in learner.sample(runners[part], seeds[part], temperature=temperature):
            for t in group:
                index = np.arange(len(t))
                if len(t) > most:
                    index = np.sort(np.random.default_rng(t.seed).choice(len(t), most, replace=False))
                played.runs.append(_Run(t.reward, t.time, t.cost, t.length, t.wait, t.g, t.q))
                played.kept.append(index)
                played.trajectories.append(t if len(index) == len(t) else only(t, index))
    return played


def self_label_step(
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    runners: Sequence[NetworkEpisodeRunner],
    settings: SelfLabelSection,
    rng: np.random.Generator,
) -> Outcome:
    """N rollouts of each instance, then cross-entropy on the best ones that beat the greedy policy."""
    set_rate(optimiser, settings.learning_rate)
    greedy = learner.greedy(runners)
    seeds = learner.seeds(rng, len(runners), settings.rollouts)
    groups = learner.sample(runners, seeds, temperature=settings.temperature, record=False)
    labels = best_of([[t.cost for t in group] for group in groups], greedy)
    runs = [t for group in groups for t in group]
    scalars = {
        "rollout/ep_rew_mean": -float(np.mean([t.cost for t in runs])),
        "rollout/ep_len_mean": float(np.mean([t.length for t in runs])),
        "label/gain": labels.gain,
        "label/improved": labels.improved,
    }
    again = learner.sample(
        [runners[k] for k in labels.instances],
        [[seeds[k][n]] for k, n in zip(labels.instances, labels.chosen, strict=True)],
        temperature=settings.temperature,
    )
    chosen = [t for group in again for t in group if len(t)]
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
    return Outcome(scalars, sum(t.length for t in runs))


def imitate_step(
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    runners: Sequence[EpisodeRunner],
    settings: ImitateSection,
    rng: np.random.Generator,
) -> Outcome:
    """Decisions of a rule on each instance, then cross-entropy on them."""
    set_rate(optimiser, settings.learning_rate)
    columns, wait = learner.config.columns, learner.config.wait
    recorded = [
        record_rule(runner, settings.rule, learner.base, learner.normaliser, columns, wait=wait) for runner in runners
    ]
    scalars = {"rollout/ep_rew_mean": -float(np.mean([r.cost for r in recorded]))}
    kept = [r for r in recorded if len(r.action)]
    if kept:
        stats = imitate(
            learner.model, optimiser, learner.batch(kept), rng, epochs=settings.epochs, minibatch=settings.minibatch
        )
        scalars |= {"train/loss": stats.loss, "train/accuracy": stats.accuracy, "train/entropy_loss": -stats.entropy}
    return Outcome(scalars, sum(len(r.action) for r in recorded))


def expert_step(
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    runners: Sequence[NetworkEpisodeRunner],
    settings: ExpertSection,
    rng: np.random.Generator,
    progress: float,
) -> Outcome:
    """Look ahead on the way of a run of each instance, then learn from what that says."""
    rate = settings.learning_rate_at(progress)
    set_rate(optimiser, rate)
    looked = learner.look_ahead(runners, rng.integers(1, 2**62, len(runners)).tolist(), settings)
    runs = [run.trajectory for run in looked]
    gains = np.concatenate([run.gains() for run in looked])
    scalars = {
        "rollout/ep_rew_mean": -float(np.mean([run.cost for run in runs])),
        "rollout/ep_len_mean": float(np.mean([run.length for run in runs])),
        "label/gain": float(np.nanmean(gains)) if np.isfinite(gains).any() else 0.0,
        "label/improved": float((gains > 0).mean()) if len(gains) else 0.0,
        "train/learning_rate": rate,
    }
    kept = [run for run in looked if len(run.trajectory)]
    if kept:
        rows, waits = (torch.from_numpy(part).to(learner.device) for part in advantages(kept))
        batch = learner.batch([run.trajectory for run in kept])
        stats = learn(learner.model, optimiser, batch, rows, waits, settings, rng)
        scalars |= {f"train/{name}": float(value) for name, value in asdict(stats).items()}
    return Outcome(scalars, sum(run.length for run in runs))


def rollout_scalars(trajectories: Sequence[_Run], objective: str) -> dict[str, float]:
    """Mean return, length and waiting of sampled runs; rewards leave out what passed before the first choice."""
    return {
        f"reward/{objective}": float(np.mean([t.reward.sum() for t in trajectories])),
        "rollout/ep_rew_mean": float(np.mean([-t.cost for t in trajectories])),
        "rollout/ep_len_mean": float(np.mean([t.length for t in trajectories])),
        "rollout/choices_mean": float(np.mean([len(t.reward) for t in trajectories])),
        "rollout/wait_max": max(t.wait for t in trajectories),
        "rollout/wait_min": min(t.wait for t in trajectories),
    }


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of all groups."""
    for group in optimiser.param_groups:
        group["lr"] = rate
