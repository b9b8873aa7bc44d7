"""The Gymnasium environment ``dagsched/Workflow-v0`` and batched stepping for training (``docs/environment.md``).

May import everything but ``learn``, ``search`` and ``cli``. Start reading at ``workflow_env.py``, then
``episode.py`` and the compiled ``kernel.py``. Importing this package costs nothing: its parts load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagsched.env.registration import ENV_ID, register_when_loaded

if TYPE_CHECKING:
    from dagsched.env.batched import BatchedWorkflows
    from dagsched.env.layout import flat_names
    from dagsched.env.workflow_env import WorkflowEnv

__all__ = ["ENV_ID", "BatchedWorkflows", "WorkflowEnv", "flat_names"]

_HOME = {
    "BatchedWorkflows": "dagsched.env.batched",
    "WorkflowEnv": "dagsched.env.workflow_env",
    "flat_names": "dagsched.env.layout",
}

register_when_loaded()


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'dagsched.env' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
