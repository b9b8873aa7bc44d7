"""What a value from Python must be: texts, names and numbers, told apart without surprises."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagsched.errors import ConfigError
from dagsched.texts import described, is_unicode

_NO_NUMBERS = (bool, np.bool_, str, bytes, bytearray, complex, np.complexfloating)


def check_type(value: object, kind: type, what: str) -> None:
    """Refuse a value of another type by the name that the caller knows it by.

    Raises:
        TypeError: naming it, what was found and what is expected.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{what} is {described(value)}, expected a {kind.__name__}")


def as_path(value: object, what: str = "path") -> Path:
    """A path from a text or a path.

    Raises:
        TypeError: for anything else.
        ConfigError: for an empty text, which would mean the current folder.
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{what} is {described(value)}, expected a text or a pathlib.Path")
    if value == "":
        raise ConfigError(f"{what} is empty, expected a file or folder")
    return Path(value)


def as_number(value: object) -> float | None:
    """A real number as a float, also of NumPy; ``None`` for texts, booleans, complex numbers and what has no float."""
    if type(value) is float:
        return value
    if isinstance(value, _NO_NUMBERS) or (
        isinstance(value, np.ndarray) and (value.ndim or value.dtype.kind not in "fiu")
    ):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def is_text(value: object) -> bool:
    """Whether a value is a text that can be written, also the empty one."""
    return isinstance(value, str) and (value.isascii() or is_unicode(value))


def is_name(value: object) -> bool:
    """Whether a value is a text that can be written and is not empty."""
    return is_text(value) and value != ""


def as_list(value: object, kind: type | tuple[type, ...] | None = None) -> list[Any] | None:
    """The items of a list, tuple or other iterable, all of one kind; ``None`` for texts, mappings and what has none."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return None
    items = list(value)
    return items if kind is None or all(isinstance(item, kind) for item in items) else None


def as_names(value: object) -> tuple[str, ...] | None:
    """The names of a list or tuple; ``None`` where one is no name."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return None
    return tuple(value) if all(map(is_name, value)) else None


def is_array(value: object, *, whole: bool = False) -> bool:
    """Whether a value is an array of real numbers, or of ``whole`` ones."""
    return isinstance(value, np.ndarray) and value.dtype.kind in ("iu" if whole else "fiu")


def as_matrix(value: object) -> NDArray[np.float64] | None:
    """Numbers, or rows of numbers, as an array of floats; ``None`` where something else is among them."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return np.array(array, np.float64) if array.dtype.kind in "fiu" else None
