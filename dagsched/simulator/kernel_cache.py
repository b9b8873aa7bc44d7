"""Kernels in other modules that call this package's: numba does not notice when a callee in another file changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def drop_stale(compiled: Any, *callees: str | None) -> None:
    """Delete the cached machine code of a module that is older than a source file it depends on.

    Args:
        compiled: any numba dispatcher of the module, before the first call of any of them.
        callees: source files with kernels that the module calls.
    """
    newest = max(Path(source).stat().st_mtime for source in callees if source is not None)
    stem = Path(compiled.py_func.__code__.co_filename).stem
    for file in Path(compiled.stats.cache_path).glob(f"{stem}.*.nb?"):
        if file.stat().st_mtime < newest:
            file.unlink(missing_ok=True)
