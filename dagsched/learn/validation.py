"""Validation: what each policy costs on instances that training never sees, and which one is the best so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dagsched.evaluate.metrics import metrics
from dagsched.learn.baselines import RuleCosts, best_rules
from dagsched.learn.episode_runner import EpisodeRunner, linear_costs
from dagsched.learn.learner import Learner
from dagsched.learn.rollout import NetworkEpisodeRunner
from dagsched.learn.run_folder import RunFolder
from dagsched.learn.tensorboard_log import TensorBoardLog, waiting
from dagsched.learn.trainer_state import TrainerState
from dagsched.models.checkpoint import Checkpoint, save_checkpoint
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.workflow import FloatArray

_DOMAIN = 9


@dataclass(frozen=True, slots=True, eq=False)
class PolicyCosts:
    """What a policy costs on the validation instances.

    Attributes:
        costs: on each.
        schedule: of the first of them.
        scalars: what else is logged.
    """

    costs: FloatArray
    schedule: Schedule
    scalars: dict[str, float] = field(default_factory=dict)


class Validation:
    """The validation instances of a run with what the rules cost there.

    Args:
        replays: validation instances.
        objective: what costs.
        folder: where ``eval/`` and ``best/`` lie.
        rules: names to beat; none = every standard rule.
        threads: compiled simulations at a time.
        report: called with (done, total) while the rules run.
    """

    def __init__(
        self,
        replays: Sequence[Replay],
        objective: ObjectiveName,
        folder: RunFolder,
        rules: Sequence[str],
        threads: int,
        report: Callable[[int, int], None],
    ) -> None:
        self.runners = [EpisodeRunner(replay, objective) for replay in replays]
        self._networks = [NetworkEpisodeRunner(runner) for runner in self.runners]
        self._folder, self._threads = folder, threads
        self.rules = _rule_costs(replays, objective, folder, rules, report)

    def linear(self, weights: FloatArray) -> PolicyCosts:
        """Of a linear priority ``[F]``."""
        costs = linear_costs(weights[None], self.runners, self._threads)[0]
        self.runners[0].run_linear(weights)
        return PolicyCosts(costs, self.runners[0].simulator.schedule("linear"))

    def network(self, learner: Learner, samples: int, temperature: float, seed: Sequence[int]) -> PolicyCosts:
        """Of a network's greedy policy, and what sampling costs beside it on the first ``samples`` instances."""
        some = self._networks[:samples]
        greedy = learner.greedy(self._networks)
        rng = np.random.default_rng([_DOMAIN, *seed])
        groups = learner.sample(some, learner.seeds(rng, len(some), 1), temperature=temperature, record=False)
        sampled, cost = float(np.mean([t.cost for group in groups for t in group])), float(greedy[: len(some)].mean())
        beside = {"eval/cost_sampled": sampled}
        if cost > 0:
            beside["eval/sampled_over_greedy"] = sampled / cost
        return PolicyCosts(greedy, learner.schedule(self._networks[0]), beside)

    def consider(
        self,
        state: TrainerState,
        log: TensorBoardLog,
        kind: str,
        policy: PolicyCosts,
        checkpoint: Callable[[], Checkpoint],
    ) -> str:
        """Log a policy's costs; if none was better, keep it in ``best/`` and draw it; say how it stands.

        Args:
            state: its history and best are updated.
            log: where the scalars go.
            kind: ``rule``, ``evolved`` or ``ppo``.
            policy: what it costs.
            checkpoint: makes the checkpoint if it is to be kept; ``state.best`` is then up to date.
        """
        schedule, rule, cost = policy.schedule, self.rules.best, float(policy.costs.mean())
        of_rule = float(self.rules.costs[rule].mean())
        ratio = cost / of_rule if of_rule > 0 else None  # nothing is a share of nothing
        shown = {f"eval/{name}": float(value) for name, value in metrics(schedule).items() if value is not None}
        share = {} if ratio is None else {"eval/ratio_best_rule": ratio}
        found = {"eval/cost": cost, **share, **policy.scalars, **waiting(schedule)}
        log.scalars(shown | found, state.total)
        state.history.append({"step": state.total, "kind": kind, **found})
        self._folder.write_json("eval/validation.json", state.history)
        if not state.best or cost < state.best["cost"]:
            state.best = {"cost": cost, "ratio_best_rule": ratio, "step": state.total, "kind": kind}
            save_checkpoint(self._folder.best, checkpoint())
            log.gantt(schedule, state.total)
        best = state.best["cost"]
        if ratio is None:
            return f"{kind} cost {cost:.4g} against {of_rule:.4g} of {rule}, best {best:.4g}"
        return f"{kind} {ratio - 1:+.2%} against {rule}, best {best / of_rule - 1:+.2%}"


def _rule_costs(
    replays: Sequence[Replay],
    objective: ObjectiveName,
    folder: RunFolder,
    rules: Sequence[str],
    report: Callable[[int, int], None],
) -> RuleCosts:
    """Costs of the rules on validation, kept in the run folder."""
    kept: Any = folder.read_json("eval/rules.json")
    if isinstance(kept, dict) and kept and all(len(costs) == len(replays) for costs in kept.values()):
        return RuleCosts({name: np.array(costs) for name, costs in kept.items()})
    found = best_rules(replays, objective, rules, report)
    folder.write_json("eval/rules.json", {name: costs.tolist() for name, costs in found.costs.items()})
    return found
