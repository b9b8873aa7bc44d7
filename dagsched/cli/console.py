"""Where commands print: results to stdout, progress and notes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn


class Interrupted(Exception):  # noqa: N818 - it is not an error of the program
    """Ctrl-C, with a line that says how to go on."""


def examples(*commands: str) -> str:
    """The epilog of a command's help: one example a line."""
    return "\n\n".join(["[bold]Examples[/]", *(f"$ {command}" for command in commands)])


def plural(number: int, what: str) -> str:
    """``1 replay``, ``2 replays``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def output() -> Console:
    """The console for results."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def notes() -> Console:
    """The console for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


_quiet = False
"""Whether the process keeps remarks to itself: ``dagsched --quiet``."""


def say(text: str) -> None:
    """Print one plain remark on stderr."""
    from dagsched.texts import shown_path

    if not _quiet:
        print(shown_path(text), file=sys.stderr, flush=True)  # noqa: T201


def be_quiet(quiet: bool) -> None:
    """Whether from now on there are no remarks and no progress, only results and errors."""
    global _quiet
    _quiet = quiet


def complain(text: str, *, code: int = 2) -> int:
    """Print one line on stderr and return the exit code."""
    from dagsched.texts import shown_path

    line = " ".join(text.split())
    print(shown_path(line if code == 130 else f"error: {line}"), file=sys.stderr, flush=True)  # noqa: T201
    return code


def bar_columns() -> tuple[ProgressColumn, ...]:
    """What every progress bar shows: title, bar, count, time gone and time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with the time left on stderr; yields ``update(done, total)``."""
    from rich.progress import Progress

    console = notes()
    hidden = _quiet or not console.is_terminal
    with Progress(*bar_columns(), console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield update
