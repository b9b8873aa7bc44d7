"""Finding and reading inputs, with a progress bar, for every command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagsched.workload import Workload


def load_all(
    paths: Sequence[Path],
    *,
    format: str | None = None,  # noqa: A002
    strict: bool = False,
    processors: int = 4,
    known: Path | None = None,
) -> list[Workload]:
    """The workloads of all paths in order; large traces show how far the reading is."""
    from dagsched.cli.console import progress
    from dagsched.formats import load

    workloads: list[Workload] = []
    for path in paths:
        with progress(f"reading {path.name}") as update:
            workloads += load(
                path,
                format=format,
                strict=strict,
                processors=processors,
                known=known,
                progress=lambda share, update=update: update(round(100 * share), 100),  # type: ignore[misc]
            )
    return workloads


def existing_one(path: Path) -> Path:
    """The path itself or, where ``workloads/...`` does not exist, the shipped file or folder of that name.

    So the examples of the help also run outside a checkout. Anything else that is missing is left to the reader.
    """
    from dagsched.cli.console import say
    from dagsched.shipped import existing_or_shipped

    found = existing_or_shipped(path)
    if found != path:
        say(f"{path}: not in this folder; reading the shipped {found}")
    return found


def existing(paths: list[Path]) -> list[Path]:
    """:func:`existing_one` for each path."""
    return [existing_one(path) for path in paths]
