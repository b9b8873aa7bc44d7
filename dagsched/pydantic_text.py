"""What pydantic finds wrong with a file, in one line."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ValidationError

from dagsched.errors import DagschedError, closest

_UNION_TAGS = ("str", "float", "int", "none")
#: What YAML calls the types for which pydantic has Python's names.
_YAML_TYPES = {"tuple_type": "a list", "dict_type": "a mapping", "model_type": "a mapping", "string_type": "a text"}


@contextmanager
def for_pydantic() -> Iterator[None]:
    """Pydantic adds the place to a :class:`ValueError`, but lets other exceptions through without it."""
    try:
        yield
    except DagschedError as error:
        raise ValueError(str(error)) from None


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first finding in one line; an unknown key with the closest known one."""
    errors = error.errors()
    same_key = [e for e in errors if e["loc"][:1] == errors[0]["loc"][:1]]  # several, for each type that it may have
    found = next((e for e in errors if e["type"] == "extra_forbidden"), max(same_key, key=lambda e: len(e["loc"])))
    where = ".".join(part for part in map(str, found["loc"]) if "[" not in part and part not in _UNION_TAGS)
    if found["type"] == "extra_forbidden":
        known = list(_model_at(model, found["loc"][:-1]).model_fields)
        keys = f"known keys: {', '.join(known)}"
        return f"unknown key {where!r}; {closest(found['loc'][-1], known, keys)}"
    if found["type"] == "missing":
        return f"{where} is missing"
    expected = _YAML_TYPES.get(found["type"])
    text = f"expected {expected}" if expected else found["msg"].removeprefix("Value error, ")
    if not where:
        return text
    return f"{where}: {text}" if found["type"] == "value_error" else f"{where} is {found['input']!r:.100}: {text}"


def _model_at(model: type[BaseModel], path: Sequence[int | str]) -> type[BaseModel]:
    """The section that a key path leads to; list indices and union tags are passed over."""
    for part in path:
        if part in model.model_fields:
            inner = _models_in(model.model_fields[str(part)].annotation)
            model = inner[0] if inner else model
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if (
        isinstance(annotation, type)
        and not isinstance(annotation, types.GenericAlias)
        and issubclass(annotation, BaseModel)
    ):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models_in(inner)]
