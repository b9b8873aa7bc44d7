"""A checkpoint against the standard rules on a suite's replays, paired replay by replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dagsched.errors import ConfigError, PolicyError
from dagsched.generate.suite import Split, Suite
from dagsched.learn.baselines import rule_costs, standard_rules
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.paired_costs import Difference, checkpoint_costs, difference
from dagsched.models.checkpoint import load_checkpoint
from dagsched.models.index import choose
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay
from dagsched.workflow import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Benchmark:
    """Costs on the same ``N`` replays; lower is better.

    Attributes:
        name: of the checkpoint.
        suite, split, objective: what was run.
        costs: ``[N]`` of the checkpoint.
        rules: ``[N]`` of each rule, best mean first.
        against: the checkpoint against each rule.
        skipped: rules that refuse such replays.
        digests: of the checkpoints used.
    """

    name: str
    suite: str
    split: str
    objective: str
    costs: FloatArray
    rules: Mapping[str, FloatArray]
    against: Mapping[str, Difference]
    skipped: tuple[str, ...]
    digests: tuple[str, ...]

    @property
    def best(self) -> str:
        """The rule of lowest mean cost on these replays."""
        return next(iter(self.rules))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "checkpoint": self.name,
            "digests": list(self.digests),
            "suite": self.suite,
            "split": self.split,
            "objective": self.objective,
            "replays": len(self.costs),
            "cost": float(self.costs.mean()),
            "best_rule": self.best,
            "against": {rule: found.to_dict() for rule, found in self.against.items()},
            "skipped": list(self.skipped),
            "costs": {"checkpoint": self.costs.tolist(), **{rule: c.tolist() for rule, c in self.rules.items()}},
        }


def benchmark(
    checkpoint: Path,
    suite: Suite,
    *,
    split: Split = "test",
    limit: int | None = None,
    rules: Sequence[str] = (),
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Benchmark:
    """Run a checkpoint and rules on a split.

    Args:
        checkpoint: a checkpoint folder, or one with an index of several.
        suite: what to run; its objective decides the cost.
        split: which part.
        limit: maximum number of replays.
        rules: names; none = every standard rule.
        threads: compiled simulations at a time.
        progress: called with (rules done, rules in all).

    Raises:
        CheckpointError: if the checkpoint cannot be used.
        PolicyError: if every rule refuses such replays.
    """
    size = suite.size(split)
    count = limit if size is None else size if limit is None else min(limit, size)
    if count is None or count < 1:
        raise ConfigError(f"limit is {limit}, expected a whole number >= 1; training replays never end")
    objective: ObjectiveName = suite.objective
    replays = [suite.replay(split, k) for k in range(count)]
    report = progress or (lambda *_: None)
    costs, digests = _costs(checkpoint, replays, objective, threads)
    names = tuple(rules) or standard_rules()
    found: dict[str, FloatArray] = {}
    for done, rule in enumerate(names):
        report(done, len(names))
        of_rule = rule_costs(replays, objective, rule)
        if of_rule is not None:
            found[rule] = of_rule
    report(len(names), len(names))
    if not found:
        raise PolicyError(f"none of the rules can handle the replays of suite {suite.name!r}")
    ordered = dict(sorted(found.items(), key=lambda item: float(item[1].mean())))
    return Benchmark(
        name=str(checkpoint),
        suite=suite.name,
        split=split,
        objective=objective,
        costs=costs,
        rules=ordered,
        against={rule: difference(costs, other, objective) for rule, other in ordered.items()},
        skipped=tuple(rule for rule in names if rule not in found),
        digests=digests,
    )


def _costs(
    checkpoint: Path, replays: Sequence[Replay], objective: ObjectiveName, threads: int
) -> tuple[FloatArray, tuple[str, ...]]:
    """Each replay under the checkpoint that the index names for it."""
    costs, digests = np.zeros(len(replays)), []
    places: dict[Path, list[int]] = {}
    for k, replay in enumerate(replays):
        places.setdefault(choose(checkpoint, replay, objective), []).append(k)
    for path, members in places.items():
        loaded = load_checkpoint(path)
        digests.append(loaded.digest)
        costs[members] = checkpoint_costs(loaded, [EpisodeRunner(replays[k], objective) for k in members], threads)
    return costs, tuple(digests)
