"""Finds the files that ship with the project: ``workloads/`` and ``checkpoints/``.

In a checkout they lie beside the package, in an installed wheel inside it.
"""

from __future__ import annotations

from pathlib import Path

from dagsched.errors import ConfigError
from dagsched.files import exists

_PACKAGE = Path(__file__).resolve().parent


def shipped(relative: str) -> Path:
    """Path of a shipped file or folder such as ``workloads/clusters/default.yaml``.

    Raises:
        ConfigError: if it is in neither place.
    """
    for root in (_PACKAGE, _PACKAGE.parent):
        if exists(root / relative):
            return root / relative
    raise ConfigError(f"{relative}: not found beside or inside the dagsched package; reinstall dagsched")
