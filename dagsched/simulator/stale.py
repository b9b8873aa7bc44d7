"""Kernels in other modules that call this package's: numba does not notice when a callee in another file changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def drop_stale(callers: list[Any], *callees: str | None) -> None:
    """Delete the cached machine code of compiled functions that is older than a source file they depend on.

    Args:
        callers: numba dispatchers of one module, before their first call.
        callees: source files with kernels that they call.
    """
    newest = max(Path(source).stat().st_mtime for source in callees if source is not None)
    for caller in callers:
        folder, function = Path(caller.stats.cache_path), caller.py_func
        stem = Path(function.__code__.co_filename).stem
        for file in folder.glob(f"{stem}.{function.__qualname__}-*.nb?"):
            if file.stat().st_mtime < newest:
                file.unlink(missing_ok=True)
