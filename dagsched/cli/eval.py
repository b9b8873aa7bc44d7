"""``dagsched eval``: a checkpoint against the standard rules on a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagsched.cli.compare import split_policies
from dagsched.cli.completion import complete_policies
from dagsched.cli.console import examples, plural
from dagsched.texts import shown_path

if TYPE_CHECKING:
    from dagsched.learn.benchmark import Benchmark

EXAMPLES = examples(
    "dagsched eval runs/build-s0/best build",
    "dagsched eval runs/build-s0/best workloads/join.yaml --limit 50 --out runs/join.json",
    "dagsched eval runs/build-s0/best rcpsp-60 --rules lft,lst,mts",
)


def evaluate(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="Checkpoint folder, or one with an index.", show_default=False)
    ],
    suite: Annotated[
        str, typer.Argument(metavar="SUITE", help="Suite file or name of a shipped one.", show_default=False)
    ],
    split: Annotated[str, typer.Option("--split", help="test, confirm or validation.")] = "test",
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only the first so many replays.", show_default=False)
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="a,b,...",
            help="Rules to compare with; by default every standard one.",
            autocompletion=complete_policies,
            show_default=False,
        ),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", help="Simulations at a time; results do not depend on it.")] = 2,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="JSON file with every cost and difference.", show_default=False)
    ] = None,
) -> None:
    """Compare a trained policy with every standard rule on the same replays, with paired 95% intervals."""
    import json

    from dagsched.cli.console import output, progress
    from dagsched.errors import ConfigError
    from dagsched.files import write_atomic
    from dagsched.generate.suite import Suite
    from dagsched.learn.benchmark import benchmark

    if split not in ("test", "confirm", "validation"):
        raise ConfigError(f"split is {split!r}, expected test, confirm or validation")
    if threads < 1:
        raise ConfigError(f"threads is {threads}, expected a whole number >= 1")
    with progress("rules") as update:
        found = benchmark(
            checkpoint,
            Suite.load(suite),
            split=split,  # type: ignore[arg-type]
            limit=limit,
            rules=() if rules is None else split_policies(rules),
            threads=threads,
            progress=update,
        )
    _show(found, output())
    if out is not None:
        write_atomic(out, json.dumps(found.to_dict(), indent=1) + "\n")
        output().print(f"Written to {shown_path(out)}", markup=False, soft_wrap=True)


def _show(found: Benchmark, console: object) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    assert isinstance(console, Console)
    where = f"{plural(len(found.costs), 'replay')} of {found.suite} ({found.split})"
    title = f"{found.objective} cost on {where}, lower is better"
    grid = Table(title=Text(title, "bold"), title_justify="left", box=None)
    grid.add_column("policy", no_wrap=True)
    grid.add_column("cost", justify="right", no_wrap=True)
    grid.add_column("checkpoint against it [95% interval]", no_wrap=True)
    grid.add_column("wins/ties/losses", justify="right", no_wrap=True)
    grid.add_row(Text("checkpoint"), f"{found.costs.mean():.5g}", "", "", style="bold")
    for rule, difference in found.against.items():
        style = "green" if difference.significant and difference.mean < 0 else None
        grid.add_row(
            Text(rule),
            f"{difference.reference_cost:.5g}",
            Text(str(difference)),
            f"{difference.wins}/{difference.ties}/{difference.losses}",
            style=style,
        )
    console.print(grid)
    console.print()
    console.print(Text(verdict(found), style="bold"))
    if found.skipped:
        console.print(f"Skipped, they refuse such replays: {', '.join(found.skipped)}", markup=False)


def verdict(found: Benchmark) -> str:
    """One plain sentence about the best rule."""
    best = found.against[found.best]
    if not best.significant:
        return f"No significant difference between the checkpoint and the best rule here, {found.best}."
    return f"The checkpoint is {'better' if best.mean < 0 else 'worse'} than the best rule here, {found.best}."
