"""Suite files: finding and reading them, replacing values, and wording what is wrong with them in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dagsched.errors import ConfigError, closest
from dagsched.files import exists, is_file
from dagsched.shipped import shipped
from dagsched.yaml_text import parse_yaml, read_yaml


def find_suite(path: str | Path) -> Path:
    """The file of a suite: as given, else the shipped one of that name, with or without folder and suffix.

    Raises:
        ConfigError: if there is none, with the closest name.
    """
    if is_file(path):
        return Path(path)
    names = sorted(file.stem for file in shipped("workloads").glob("*.yaml"))
    stem = str(path).removeprefix("workloads/").removesuffix(".yaml")
    if stem in names:
        return shipped(f"workloads/{stem}.yaml")
    hint = closest(stem, names, f"shipped suites: {', '.join(names)}")
    raise ConfigError(f"{path}: no such suite; {hint}")


def read_suite(file: Path) -> dict[str, Any]:
    """The mapping that a suite file holds.

    Raises:
        ConfigError: naming the file.
    """
    data = read_yaml(file, "suite file")
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: expected a mapping with name, objective and mixture, found {type(data).__name__}")
    return data


def apply_change(data: dict[str, Any], change: str, *, example: str = "mixture.0.count=20") -> None:
    """``mixture.0.tasks=[10, 20]``: the value is read as YAML, here and in configurations of training.

    Raises:
        ConfigError: naming the change.
    """
    path, equals, text = change.partition("=")
    if not equals or not path:
        raise ConfigError(f"{change!r}: expected key=value, for example {example}")
    value = parse_yaml(text, repr(change))
    try:
        place: Any = data
        *parents, last = path.split(".")
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[int(last) if isinstance(place, list) else last] = value
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        raise ConfigError(f"{change!r}: cannot be applied; expected key=value, for example {example}") from None


def resolve_paths(data: dict[str, Any], folder: Path) -> None:
    """Files named in a suite are looked for beside it."""

    def resolved(value: Any) -> Any:
        beside = folder / value if isinstance(value, str) and value else None
        return str(beside) if beside is not None and exists(beside) and not exists(value) else value

    entries = data.get("mixture")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        keys = ("path", "profiles", "times")
        entry.update({key: resolved(entry[key]) for key in keys if key in entry})


def first_error(error: ValidationError, known: Mapping[str, Sequence[str]]) -> str:
    """The first of pydantic's findings in one line, with a suggestion for a misspelt key.

    ``known``: the keys of each part of the file, by its place.
    """
    found = error.errors()[0]
    where = ".".join(str(part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        return unknown_key(where, known[".".join(str(part) for part in found["loc"][:-1])])
    if found["type"] == "missing":
        return f"{where} is missing"
    text = " ".join(found["msg"].removeprefix("Value error, ").split())
    if found["type"] != "value_error":
        return f"{where} is {repr(found['input'])[:100]}: {text}"
    return text if text.startswith(f"{where} is ") else f"{where}: {text}"


def unknown_key(key: str, known: Sequence[str]) -> str:
    """What is wrong with a key that does not exist, with the closest one that does."""
    hint = closest(key.rsplit(".", 1)[-1], known, f"known keys: {', '.join(known)}")
    return f"unknown key {key!r}; {hint}"
