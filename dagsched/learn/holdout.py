"""Whether a trained policy is worth shipping: its costs against the rules' on instances that chose neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dagsched.learn.baselines import best_rules
from dagsched.learn.config_sections import start_folder
from dagsched.learn.episode_runner import EpisodeRunner, linear_costs
from dagsched.learn.instances import replays_of
from dagsched.learn.paired_costs import Difference, checkpoint_costs, difference
from dagsched.learn.training_run import TrainingRun
from dagsched.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay
from dagsched.workflow import FloatArray


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A policy against several rules on fresh instances.

    Attributes:
        rule: the one that was best on validation, or here if that one cannot run.
        against: by rule.
        start: the same against the trained priority that learning began with; ``None`` if that was a rule.
        instances: how many.
        tasks: smallest and largest number of tasks.
    """

    rule: str
    against: Mapping[str, Difference]
    start: Difference | None
    instances: int
    tasks: tuple[int, int]

    @property
    def ship(self) -> bool:
        """Whether the policy is below every one of the rules, thus also below the best."""
        return all(found.mean < 0 for found in self.against.values())

    def card(self) -> dict[str, Any]:
        """What goes into the checkpoint's card."""
        sides = {"beaten": True, "lost": False}
        return {
            "sizes": {"tasks": list(self.tasks)},
            "confirm": {"instances": self.instances, "rule": self.rule, **self.against[self.rule].to_dict()},
            **({} if self.start is None else {"against_start": self.start.to_dict()}),
            **{
                side: {rule: round(d.mean, 5) for rule, d in self.against.items() if (d.mean < 0) == below}
                for side, below in sides.items()
            },
            "ship": self.ship,
        }


def confirm(
    checkpoint: Checkpoint,
    replays: Sequence[Replay],
    objective: ObjectiveName,
    rules: Sequence[str],
    start: FloatArray | None = None,
    threads: int = 1,
) -> Confirmation:
    """Costs of a policy against rules, the first of which is the one to beat, and a trained priority ``start`` [F]."""
    runners = [EpisodeRunner(replay, objective) for replay in replays]
    costs = checkpoint_costs(checkpoint, runners, threads)
    found = best_rules(replays, objective, rules)
    against = {rule: difference(costs, other, objective) for rule, other in found.costs.items()}
    began = None if start is None else difference(costs, linear_costs(start[None], runners, threads)[0], objective)
    sizes = [len(replay) for replay in replays]
    best = rules[0] if rules[0] in against else found.best
    return Confirmation(best, against, began, len(replays), (min(sizes), max(sizes)))


def confirm_best(run: TrainingRun) -> Confirmation:
    """The model that validation chose, against the rules on fresh instances; the result goes into its card."""
    best, config = run.state.best, run.config
    run.report("confirm", 0, 1, "")
    chosen = load_checkpoint(run.folder.best)
    fresh = replays_of(run.source, "confirm", config.validation.confirm)
    rules = tuple(run.validation.rules.costs)
    found = confirm(chosen, fresh, run.objective, rules, _trained_start(run, chosen), config.threads)
    save_checkpoint(run.folder.best, replace(chosen, card={**chosen.card, **found.card()}))
    run.folder.write_json(
        "eval/result.json",
        {
            "best": best,
            "rule": found.rule,
            "ship": found.ship,
            "against": {rule: d.to_dict() for rule, d in found.against.items()},
            "against_start": None if found.start is None else found.start.to_dict(),
        },
    )
    final = {
        "hparam/confirm_against_rule": found.against[found.rule].mean,
        **({} if best["ratio_best_rule"] is None else {"hparam/validation_ratio": best["ratio_best_rule"]}),
    }
    run.log.hyper_parameters(config.model_dump(mode="json"), final)
    run.report("confirm", 1, 1, "")
    return found


def _trained_start(run: TrainingRun, chosen: Checkpoint) -> FloatArray | None:
    """The trained priority that the chosen model has to improve on: a network's own, or the run's start."""
    base = run.start if chosen.network is None else chosen.base
    return None if start_folder(run.config.start) is None and np.array_equal(base, run.start) else base
