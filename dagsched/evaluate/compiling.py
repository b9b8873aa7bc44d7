"""Whether the simulator's machine code is on disk already, so that the first wait can be announced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def ensure_compiled(say: Callable[[str], None]) -> None:
    """Compile now, with an announcement, unless the machine code is there: before any clock or process starts."""
    from dagsched.simulator import warmup

    if not is_compiled():
        say("compiling the simulator: this happens once and takes about a minute")
        warmup()


def is_compiled() -> bool:
    """Whether the compilation cache of the kernel is there and newer than its source.

    A wrong answer costs nothing but the announcement, or a moment of loading.
    """
    from dagsched.simulator import kernel

    source = Path(kernel.__file__)
    index = [
        path
        for name in ("run_by_priority", "run_by_score", "run_by_booking", "run_by_plan")
        for path in [_index(kernel, name)]
        if path is not None
    ]
    return len(index) == 4 and all(path.stat().st_mtime >= source.stat().st_mtime for path in index)


def _index(kernel: object, name: str) -> Path | None:
    """The newest index file of one compiled function."""
    stats = getattr(getattr(kernel, name, None), "stats", None)
    folder = getattr(stats, "cache_path", None)
    if not folder or not Path(folder).is_dir():
        return None
    found = sorted(Path(folder).glob(f"kernel.{name}-*.nbi"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None
