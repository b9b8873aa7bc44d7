"""Finds the files that ship with the project: ``workloads/`` and ``checkpoints/``.

In a checkout they lie beside the package, in an installed wheel inside it.
"""

from __future__ import annotations

from pathlib import Path

from dagsched.errors import ConfigError
from dagsched.files import exists

_PACKAGE = Path(__file__).resolve().parent


def existing_or_shipped(path: Path) -> Path:
    """The path itself or, where ``workloads/...`` does not exist, the shipped file or folder of that name."""
    if path.is_absolute() or path.parts[:1] != ("workloads",) or ".." in path.parts or exists(path):
        return path
    try:
        return shipped(path.as_posix())
    except ConfigError:
        return path  # left to the reader, which says what is missing


def shipped(relative: str) -> Path:
    """Path of a shipped file or folder such as ``workloads/clusters/default.yaml``.

    Raises:
        ConfigError: if it is in neither place.
    """
    for root in (_PACKAGE, _PACKAGE.parent):
        if exists(root / relative):
            return root / relative
    raise ConfigError(f"{relative}: not found beside or inside the dagsched package; reinstall dagsched")
