"""Optional parts of the installation, and the line that says how to add them."""

from __future__ import annotations

from importlib.util import find_spec

from dagsched.errors import ConfigError

LEARN = ("torch", "torch_geometric", "tensorboard", "cmaes")
"""What training needs; deciding by a trained model does not."""


def require(what: str, extra: str, modules: tuple[str, ...]) -> None:
    """Refuse to go on without the packages of an extra.

    Raises:
        ConfigError: naming what is missing and the command that installs it.
    """
    missing = [name for name in modules if not _is_there(name)]
    if missing:
        add = f"pip install 'dagsched[{extra}]' (in a checkout: pip install -e '.[{extra}]')"
        raise ConfigError(f"{what} needs {', '.join(missing)}; install it with: {add}")


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False
