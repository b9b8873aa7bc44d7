"""Makes ``dagsched/Workflow-v0`` known to Gymnasium without importing Gymnasium, which takes a quarter of a second.

Gymnasium 1.4 no longer loads plugins by entry point, and ``gymnasium.make("dagsched:dagsched/Workflow-v0")`` does
nothing but import ``dagsched``, which may have been imported before Gymnasium was. Hence: register now if Gymnasium
is there, else at the moment it has been imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

ENV_ID = "dagsched/Workflow-v0"
_LAST_PART = "gymnasium.envs"
"""The part of Gymnasium that is imported last and fills its registry."""


def register() -> None:
    """Add the environment to Gymnasium's registry, unless it is there."""
    from gymnasium.envs import registration

    if ENV_ID not in registration.registry:
        registration.register(id=ENV_ID, entry_point="dagsched.env.workflow_env:WorkflowEnv")


def register_when_loaded() -> None:
    """Register now if Gymnasium has been imported, else as soon as it is."""
    if _LAST_PART in sys.modules:
        register()
    elif not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())


class _Watcher:
    """Finds Gymnasium's last part as usual and registers once it has run; steps aside then."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See :class:`importlib.abc.MetaPathFinder` (whose import would take 18 ms)."""
        if name != _LAST_PART:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            register()

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
