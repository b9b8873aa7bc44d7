"""Expert iteration: look ahead from decisions of the current policy and shift probability to what costs less.

Anthony, Tian and Barber, "Thinking fast and slow with deep learning and tree search", NeurIPS 2017; Ross and Bagnell,
"Reinforcement and imitation learning via interactive no-regret learning" (AggreVaTe), 2014; Sun et al., "Deeply
AggreVaTeD", ICML 2017. The expert is one step of improvement on a policy that goes on after each action (Bertsekas,
Tsitsiklis and Wu, 1997), and the loss reads the cost of all actions tried, so that no sampled action adds noise. We
differ: a divergence from the base priority holds back what the labels do not show clearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from dagsched.learn.algorithm import OnPolicy, StepReport, TrainingStep, set_learning_rate
from dagsched.learn.config_sections import ExpertSection
from dagsched.learn.learner import Learner
from dagsched.learn.lookahead import Lookahead
from dagsched.learn.rollout import NetworkEpisodeRunner, Trajectory, in_order, network_runners, only
from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import Batch
from dagsched.nn.masked import masked_categorical
from dagsched.schedule import WAIT
from dagsched.simulator import kernel
from dagsched.workflow import FloatArray, IntArray

MAX_ADVANTAGE = 5.0
"""Advantages are clipped at this multiple of their root mean square: one unlucky future must not decide a step."""


@dataclass(frozen=True, slots=True, eq=False)
class LookaheadRun:
    """A run and what looking ahead said of some of its decisions.

    Attributes:
        trajectory: these ``D`` decisions with their ``N`` rows.
        rows: ``[N]`` cost of each candidate less that of the greedy one; NaN = not tried.
        waits: ``[D]`` the same of WAIT.
    """

    trajectory: Trajectory
    rows: FloatArray
    waits: FloatArray

    def gains(self) -> FloatArray:
        """``[D]`` by how much the best action tried is cheaper than the greedy one, as a share of the run's cost.

        NaN where the run costs nothing.
        """
        rows = np.minimum.reduceat(np.nan_to_num(self.rows), self.trajectory.row_ptr[:-1]) if len(self.waits) else 0.0
        return np.asarray(-np.minimum(rows, np.nan_to_num(self.waits)) / (self.trajectory.cost or np.nan))


class ExpertIteration(OnPolicy[list[LookaheadRun]]):
    """The stage ``expert``: look ahead on the way of a run of each instance, then learn from what that says."""

    def __init__(self, learner: Learner, settings: ExpertSection) -> None:
        super().__init__(learner, settings.learning_rate)
        self.settings = settings

    def temperature(self, progress: float) -> float:  # noqa: ARG002
        """That of the runs on whose way decisions lie."""
        return self.settings.temperature

    def collect(self, step: TrainingStep) -> list[LookaheadRun]:
        """One sampled run of each instance, with the costs of actions at some of its decisions."""
        runners = network_runners(step.runners)
        seeds: list[int] = step.rng.integers(1, 2**62, len(runners)).tolist()
        self.learner.prepare(runners)
        pairs = list(zip(runners, seeds, strict=True))
        return in_order(lambda pair: look_ahead(pair[0], self.settings, pair[1]), pairs, self.learner.threads)

    def update(self, collected: list[LookaheadRun], step: TrainingStep) -> StepReport:
        """Several epochs on the decisions that were looked ahead from."""
        learner, settings = self.learner, self.settings
        rate = settings.learning_rate_at(step.progress)
        set_learning_rate(self.optimiser, rate)
        runs = [run.trajectory for run in collected]
        gains = np.concatenate([run.gains() for run in collected])
        scalars = {
            "rollout/ep_rew_mean": -float(np.mean([run.cost for run in runs])),
            "rollout/ep_len_mean": float(np.mean([run.length for run in runs])),
            "label/gain": float(np.nanmean(gains)) if np.isfinite(gains).any() else 0.0,
            "label/improved": float((gains > 0).mean()) if len(gains) else 0.0,
            "train/learning_rate": rate,
        }
        kept = [run for run in collected if len(run.trajectory)]
        if kept:
            rows, waits = (torch.from_numpy(part).to(learner.device) for part in advantages(kept))
            batch = learner.batch([run.trajectory for run in kept])
            stats = learn(learner.model, self.optimiser, batch, rows, waits, settings, step.rng)
            scalars |= {f"train/{name}": float(value) for name, value in asdict(stats).items()}
        return StepReport(scalars, sum(run.length for run in runs))


def look_ahead(runner: NetworkEpisodeRunner, settings: ExpertSection, seed: int) -> LookaheadRun:
    """A sampled run of the policy that the runner has, looking ahead from some of its decisions."""
    rng = np.random.default_rng(seed)
    ahead = Lookahead(runner, settings.arrivals, network=settings.follow == "network")
    share = min(1.0, settings.decisions / len(runner.inner.replay))
    places: list[int] = []
    rows: list[FloatArray] = []
    waits: list[float] = []
    runner.begin(seed=seed, temperature=settings.temperature)
    while runner.go_on(int(rng.geometric(share)) - 1, record=False) and _at_decision(runner):
        if runner.inner.simulator.is_forced:
            runner.go_on(1, record=False)
            continue
        tasks, logits = runner.logits()
        legal = np.flatnonzero(np.isfinite(logits))
        if len(legal) > 1:
            tried = _tried(logits, legal, settings, rng)
            cost = np.full(len(logits), np.nan)
            cost[tried] = ahead.costs(np.append(tasks, WAIT)[tried])
            cost -= cost[tried[0]]
            places.append(runner.recorded)
            rows.append(cost[:-1])
            waits.append(float(cost[-1]))
        runner.go_on(1, record=len(legal) > 1)  # a sampled WAIT records decisions after it, too: not in `places`
    trajectory = only(runner.trajectory(runner.inner.cost(), seed), np.array(places, np.int64))
    return LookaheadRun(trajectory, np.concatenate([np.zeros(0), *rows]), np.array(waits))


def _at_decision(runner: NetworkEpisodeRunner) -> bool:
    """Let time pass until a task is eligible; False if the run ends before."""
    inner = runner.inner
    return kernel.any_eligible(inner.problem, inner.simulator.state) or inner.simulator.advance()


def _tried(logits: FloatArray, legal: IntArray, settings: ExpertSection, rng: np.random.Generator) -> IntArray:
    """Places of the actions to try: the greedy one, then a draw without replacement (Gumbel-top-k)."""
    score = logits[legal] / settings.temperature + rng.gumbel(size=len(legal))
    score[np.argmax(logits[legal])] = np.inf
    return legal[np.argsort(-score, kind="stable")[: settings.actions]]


def advantages(looked: Sequence[LookaheadRun]) -> tuple[FloatArray, FloatArray]:
    """``[N]`` of the rows and ``[D]`` of WAIT over all runs, in units of their root mean square; NaN = not tried.

    Runs are weighted by their number of tasks: a decision of a long run stands for more that were not looked at.
    """
    rows = np.concatenate([run.rows * len(run.trajectory.replay) for run in looked])
    waits = np.concatenate([run.waits * len(run.trajectory.replay) for run in looked])
    scale = max(float(np.sqrt(np.nanmean(np.concatenate([rows, waits]) ** 2))), 1e-12)
    return tuple(np.clip(part / scale, -MAX_ADVANTAGE, MAX_ADVANTAGE) for part in (rows, waits))  # type: ignore[return-value]


def all_action_loss(
    logits: Tensor, base: Tensor, advantage: Tensor, decision: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Means over decisions: expected advantage, KL(policy || softmax of the base), entropy; over tried actions alone.

    Args:
        logits: ``[A]`` of the policy.
        base: ``[A]`` of its base priority.
        advantage: ``[A]`` cost less that of the greedy action; NaN = not tried.
        decision: ``[A]`` whose each action is.
        count: decisions.
    """
    tried = ~torch.isnan(advantage)
    policy = masked_categorical(logits, decision, count, tried)
    prior = masked_categorical(base, decision, count, tried)
    share = policy.log_prob.exp()
    expected = (share * torch.nan_to_num(advantage)).sum() / count
    ratio = torch.where(tried, policy.log_prob - prior.log_prob, torch.zeros_like(share))
    return expected, (share * ratio).sum() / count, policy.entropy.mean()


@dataclass(frozen=True, slots=True)
class ExpertStats:
    """Means over the gradient steps."""

    loss: float
    policy_gradient_loss: float
    kl_base: float
    entropy_loss: float
    n_updates: int


def learn(
    model: ActorCritic,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    rows: Tensor,
    waits: Tensor,
    settings: ExpertSection,
    rng: np.random.Generator,
) -> ExpertStats:
    """Several epochs on one collection.

    Args:
        model: changed in place.
        optimiser: over its parameters, with the learning rate set.
        batch: ``D`` decisions with ``N`` rows.
        rows: ``[N]`` advantages of the candidates.
        waits: ``[D]`` advantages of WAIT.
        settings: weights and sizes.
        rng: draws the minibatches.
    """
    sums, updates = np.zeros(4), 0
    for _ in range(settings.epochs):
        for part in np.array_split(rng.permutation(len(batch)), max(1, round(len(batch) / settings.minibatch))):
            index = torch.from_numpy(part).to(batch.x.device)
            _, owner, places = batch.rows_of(index)
            decision = torch.cat([owner, torch.arange(len(part), device=owner.device)])
            out = model(batch.select(index))
            expected, divergence, entropy = all_action_loss(
                out.logits, out.base, torch.cat([rows[places], waits[index]]), decision, len(part)
            )
            loss = expected + settings.kl_weight * divergence - settings.entropy_weight * entropy
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimiser.step()
            sums += torch.stack([loss, expected, divergence, -entropy]).detach().tolist()
            updates += 1
    mean_loss, mean_expected, mean_divergence, mean_entropy = (sums / max(1, updates)).tolist()
    return ExpertStats(mean_loss, mean_expected, mean_divergence, mean_entropy, updates)
