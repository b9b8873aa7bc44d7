"""Train what ``arms`` compares: kinds of models on one family, every run with the same CPU time.

``python -m tests.bench.learned train --suite homog --seed 0 --runs runs/alone``; runs that are there already stay.
"""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

from dagsched.errors import ConfigError
from dagsched.learn.config import TrainConfig
from dagsched.learn.trainer import Trainer
from tests.bench.learned.families import ARMS, FAMILIES, RECIPE
from tests.bench.learned.rows import head, row


def train_arms(options: Namespace) -> None:
    """Each arm and seed of a family that ``--runs`` lacks, for ``--seconds`` of CPU time at most."""
    for option, given, known in (("suite", [options.suite], FAMILIES), ("arm", options.arm or [], ARMS)):
        for name in given:
            if name not in known:
                raise ConfigError(f"--{option} is {name!r}, expected one of {', '.join(known)}")
    family = FAMILIES[options.suite]
    head("run", "steps", "CPU s", "best on validation", "kind")
    for seed in options.seed or range(5):
        for arm in options.arm or ARMS:
            out = Path(options.runs) / options.suite / f"{arm}-s{seed}"
            if (out / "eval" / "result.json").is_file():
                continue
            changes = [*family.training(arm), f"seed={seed}"]
            began = time.process_time()
            end = began + options.seconds
            trainer = Trainer(TrainConfig.load(RECIPE, changes), out=out)
            result = trainer.run(lambda end=end: time.process_time() >= end, confirm_stopped=True)  # type: ignore[misc]
            best = result.best
            row(
                out,
                trainer.state.total,
                time.process_time() - began,
                f"{100 * (best['ratio_best_rule'] - 1):+.2f}%",
                best["kind"],
            )
