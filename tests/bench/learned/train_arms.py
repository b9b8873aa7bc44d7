"""Train what ``arms`` compares: kinds of models on one family, every run with the same CPU time.

``python -m tests.bench.learned train --suite homog --seed 0 --runs runs/alone``; runs that are there already stay.
"""

from __future__ import annotations

import shutil
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from dagsched.errors import ConfigError
from dagsched.interrupts import remembered_interrupts
from dagsched.learn.train_config import TrainConfig
from dagsched.learn.trainer import Trainer
from dagsched.run_policy import warmup as compile_all
from tests.bench.learned.families import ARMS, FAMILIES, RECIPE, is_finished
from tests.bench.learned.rows import head, note, row


def train_arms(options: Namespace) -> None:
    """Each arm and seed of a family that ``--runs`` lacks, for ``--seconds`` of CPU time at most."""
    for option, given, known in (("suite", [options.suite], FAMILIES), ("arm", options.arm or [], ARMS)):
        for name in given:
            if name not in known:
                raise ConfigError(f"--{option} is {name!r}, expected one of {', '.join(known)}")
    seeds = options.seed or list(range(5))
    runs = [
        (
            Path(options.runs) / options.suite / f"{arm}-s{seed}",
            TrainConfig.load(RECIPE, [*FAMILIES[options.suite].training(arm), *options.set, f"seed={seed}"]),
        )
        for seed in seeds
        for arm in options.arm or ARMS
    ]
    compile_all()  # else the first run would pay for it
    head("run", "steps", "CPU s", "best on validation", "kind")
    with remembered_interrupts() as interrupted:
        for out, config in runs:
            if is_finished(out):
                continue
            if (out / "config.yaml").is_file():
                shutil.rmtree(out)  # of a training that was interrupted: its time so far is not known
            if not _train(config, out, options.seconds, interrupted):
                note("interrupted; the same command goes on with what is missing")
                return


def _train(config: TrainConfig, out: Path, seconds: float, interrupted: Callable[[], bool]) -> bool:
    began = time.process_time()
    trainer = Trainer(config, out=out)
    result = trainer.run(
        lambda: interrupted() or time.process_time() - began >= seconds, confirm_stopped=lambda: not interrupted()
    )
    if not is_finished(out):
        return False
    best = result.best
    ratio = best["ratio_best_rule"]
    against = f"cost {best['cost']:.4g}" if ratio is None else f"{100 * (ratio - 1):+.2f}%"
    row(out, trainer.state.total, time.process_time() - began, against, best["kind"])
    return not interrupted()
