"""``dagsched train``: evolve and train a scheduling policy."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagsched.cli import options
from dagsched.cli.console import examples
from dagsched.cli.loading import existing_one
from dagsched.texts import shown_path

if TYPE_CHECKING:
    from dagsched.learn.trainer import TrainResult

EXAMPLES = examples(
    "dagsched train workloads/train/build.yaml",
    "dagsched train workloads/train/build.yaml --time-budget 10m --seed 1",
    "dagsched train workloads/train/build.yaml --time-budget 10m --seed 1 --resume",
    "dagsched train workloads/train/build.yaml --set network.encoder=none --out runs/mlp",
    "dagsched train workloads/train/build.yaml --trace my/batch_task.csv --steps 100",
    "tensorboard --logdir runs",
)


def train(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            callback=existing_one,
            help="YAML file: suite, start rule, stages, network, hyper-parameters. That of a run folder resumes it.",
            show_default=False,
        ),
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            help="Train on this recorded trace instead of the suite: the first 70% of its time trains, then 10% each "
            "choose, confirm and test.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Steps of every stage; schedules run over them.", show_default=False)
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(
            "--time-budget",
            metavar="10m|1h30m",
            help="Stop after this time, confirm the best model so far; --resume goes on.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar=options.FLAG, help="Go on from the newest checkpoint of the run.")
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Instead of the file's.", show_default=False)] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change any key, such as ppo.steps=50.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Run folder; by default runs/NAME-sSEED.", show_default=False),
    ] = None,
) -> None:
    """Train a scheduling policy and confirm it against the best standard rule on fresh instances.

    The run folder holds TensorBoard events, checkpoints, and in best/ the model chosen by validation; Ctrl-C saves.
    """
    from dagsched.cli.console import Interrupted, output, say
    from dagsched.cli.durations import parse_budget
    from dagsched.extras import LEARN, require
    from dagsched.interrupts import remembered_interrupts
    from dagsched.learn.train_config import TrainConfig

    budget = parse_budget(time_budget)
    require("training", "learn", LEARN)
    chosen = TrainConfig.load(config, [*(changes or []), *([] if seed is None else [f"seed={seed}"])])
    if steps is not None:
        chosen = chosen.with_steps(steps)
    from dagsched.learn.trainer import Trainer

    begin = time.monotonic()
    with remembered_interrupts(_say_stopping) as interrupted, _bars() as tell:
        trainer = Trainer(
            chosen,
            out=out,
            trace=trace,
            resume=resume,
            command=" ".join(["dagsched", *sys.argv[1:]]),
            progress=tell,
            say=say,
        )
        result = trainer.run(
            lambda: interrupted() or time.monotonic() - begin >= budget, confirm_stopped=lambda: not interrupted()
        )
        stopped = interrupted()
    if stopped and not result.finished:
        raise Interrupted(f"interrupted; saved in {result.folder}, the same command with --resume goes on")
    _show(result, output())


def _say_stopping() -> None:
    from dagsched.cli.console import say

    say("stopping after this step; Ctrl-C again stops at once, without saving it")


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int, str], None]]:
    """One bar a stage with the time left; without a terminal, a line whenever there is news."""
    from rich.progress import Progress, TextColumn

    from dagsched.cli.console import bar_columns, notes, say

    console = notes()
    columns = (*bar_columns(), TextColumn("{task.fields[note]}", markup=False))
    last = ""
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks: dict[str, int] = {}

        def tell(what: str, done: int, total: int, note: str) -> None:
            nonlocal last
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, note="")
            progress.update(tasks[what], completed=done, total=total, note=note)  # type: ignore[arg-type]
            if not console.is_terminal and note and note != last:
                say(f"{what} {done}/{total}: {note}")
                last = note

        yield tell


def _show(result: TrainResult, console: object) -> None:
    from rich.console import Console
    from rich.text import Text

    assert isinstance(console, Console)
    best = result.best
    kind = "the start, which nothing improved on," if best["kind"] == "rule" else best["kind"]
    console.print(f"Best on validation: {kind} at step {best['step']}, cost {best['cost']:.5g}", markup=False)
    found = result.confirmed
    if found is not None:
        against = found.against[found.rule]
        costs = "" if against.relative else f" (costs {against.policy_cost:.4g} and {against.reference_cost:.4g})"
        console.print(
            f"Confirmed on {found.instances} fresh instances: {against} against {found.rule}{costs}", markup=False
        )
        if found.start is not None:
            tie = "" if found.start.significant or found.start.low is None else ": no significant difference"
            console.print(f"Against the trained priority that it started from: {found.start}{tie}", markup=False)
        verdict = (
            "below every standard rule: worth using"
            if found.ship
            else "not below every standard rule: use the best rule, or train longer"
        )
        console.print(Text(verdict, style="bold"))
    more = "" if result.finished else "; not finished, --resume goes on"
    console.print(
        f"Written to {shown_path(result.folder)}: best/, checkpoints/, eval/, tb/{more}", markup=False, soft_wrap=True
    )
