"""``dagsched report``: the tables and the HTML report of a finished comparison again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dagsched.cli.console import examples

EXAMPLES = examples(
    "dagsched report runs/demo",
)


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that dagsched compare wrote.")],
) -> None:
    """Render report.html again from results.csv and summary.json, for example after an update of dagsched."""
    from dagsched.cli.console import say
    from dagsched.evaluate.results import render_again

    say(f"report written to {render_again(folder)} (Gantt charts are drawn by dagsched compare only)")
