"""Reading a YAML configuration, changing keys of it, and saying in one line what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dagsched.errors import ConfigError
from dagsched.files import is_file
from dagsched.yaml_text import read_yaml


def read_config(file: Path) -> dict[str, Any]:
    """The mapping in a file, or a ``ConfigError`` that names it."""
    if not is_file(file):
        raise ConfigError(f"{file}: there is no such configuration file")
    data = read_yaml(file, "configuration file")
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: expected a mapping with name and suite, found {type(data).__name__}")
    return data
