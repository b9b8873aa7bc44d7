"""What runs cost on the test split of their family, kept in a file, so that seeds can be trained on different days.

``DIR/SUITE.csv`` has a row for each test replay: first what the rule costs, then, where whole batches can be planned,
the untrained best of n, then each run by its name.
"""

from __future__ import annotations

import csv
import io
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dagsched.cost import cost_function
from dagsched.errors import ConfigError, PolicyError
from dagsched.files import write_atomic
from dagsched.learn.baselines import best_rules, rule_costs
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.paired_costs import checkpoint_costs
from dagsched.models.checkpoint import load_checkpoint
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.workflow import FloatArray
from tests.bench.learned.families import FAMILIES, RUN, Family


@dataclass
class Judged:
    """Costs ``[N]`` on the test replays of a family."""

    objective: ObjectiveName
    columns: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def rule(self) -> str:
        """What the runs are compared with."""
        return next(iter(self.columns))

    @property
    def sampler(self) -> str | None:
        """The untrained sampler beside it."""
        return next((name for name in self.columns if name.startswith("sampling")), None)

    def arms(self) -> dict[str, dict[int, FloatArray]]:
        """Costs of each seed of each arm."""
        found: dict[str, dict[int, FloatArray]] = {}
        for name, costs in self.columns.items():
            if run := RUN.fullmatch(name):
                found.setdefault(run[1], {})[int(run[2])] = costs
        return {arm: dict(sorted(seeds.items())) for arm, seeds in sorted(found.items())}


def judge(name: str, runs: Mapping[str, Path], options: Namespace) -> Judged:
    """Every run on the test replays of family ``name``; those that ``--costs`` knows are not judged again."""
    family = FAMILIES.get(name, Family(name))
    suite = family.load(options.set)
    file = None if options.costs is None else Path(options.costs) / f"{name}.csv"
    found = Judged(suite.objective, _read(file, suite.test) if file is not None and file.exists() else {})
    missing = {run: best for run, best in runs.items() if run not in found.columns}
    if not missing:
        return found
    count = suite.test if options.limit is None else min(options.limit, suite.test)
    replays = [suite.replay("test", k) for k in range(count)]
    if not found.columns:
        known = [suite.replay("validation", k) for k in range(min(count, suite.validation))]
        rule = family.rule or best_rules(known, suite.objective).best
        reference = rule_costs(replays, suite.objective, rule)
        assert reference is not None
        found.columns[rule] = reference
        _add_sampler(found, replays, options.n or 256)
    runners = [EpisodeRunner(replay, suite.objective) for replay in replays]
    for run, best in missing.items():
        found.columns[run] = checkpoint_costs(load_checkpoint(best), runners, options.threads)
    if file is not None:
        _write(file, found.columns)
    return found


def _add_sampler(found: Judged, replays: list[Replay], n: int) -> None:
    spec = f"sampling:n={n}:rule=lft"
    try:
        costs = [cost_function(replay, "makespan")(simulate(replay, spec).task_finish) for replay in replays]
    except PolicyError:  # streams cannot be planned as a whole
        return
    found.columns[spec] = np.array(costs)


def _read(file: Path, count: int) -> dict[str, FloatArray]:
    head: list[str] = []
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            head, *body = csv.reader(lines)
        rows = np.array(body, np.float64)
    except (ValueError, csv.Error):
        rows = np.zeros((0, 0))
    if rows.shape != (count, len(head)) or not np.isfinite(rows).all():
        raise ConfigError(f"{file}: expected {count} rows of {len(head)} numbers; delete it to judge all runs anew")
    return {name: rows[:, k] for k, name in enumerate(head)}


def _write(file: Path, columns: Mapping[str, FloatArray]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([repr(float(value)) for value in row] for row in zip(*columns.values(), strict=True))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, text.getvalue())
