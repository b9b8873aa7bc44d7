"""Parameters of a suite that are drawn for each problem: ``[least, most]``, or ``{one-of: [...]}``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dagsched.errors import ConfigError
from dagsched.texts import described

PLAIN_LISTS = ("cores", "bytes_per_core")
"""Parameters that are lists themselves, so that a list is a value and not a range."""

_MOST = 1e18
"""Ends of a range beyond this cannot be drawn from as 64-bit whole numbers."""


def draw_parameters(given: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The parameters with every range drawn, in the order in which they are written."""
    return {key: draw(value, rng, plain=key in PLAIN_LISTS) for key, value in given.items()}


def draw(value: Any, rng: np.random.Generator, *, plain: bool = False) -> Any:
    """A value as it is; one from ``[least, most]`` (whole if both ends are, ends included); or one of ``one-of``.

    ``plain``: a list is a value and not a range.
    """
    if isinstance(value, Mapping):
        choices = value["one-of"]
        return draw(choices[int(rng.integers(len(choices)))], rng, plain=plain)
    if isinstance(value, list | tuple) and not plain:
        least, most = value
        if isinstance(least, int) and isinstance(most, int):
            return int(rng.integers(least, most + 1))
        return float(rng.uniform(least, most))
    return value


def check_range(name: str, value: Any, *, at_least: float = -math.inf, at_most: float = math.inf) -> Any:
    """The value with texts such as ``1e9``, which YAML does not take for numbers, made numbers.

    Raises:
        ConfigError: naming the parameter, for a list that is no range or a number outside the bounds.
    """
    if isinstance(value, Mapping):
        choices = value.get("one-of")
        if set(value) != {"one-of"} or not isinstance(choices, list) or not choices:
            raise ConfigError(
                f"{name} is {described(value)}, expected a value, [least, most] or {{one-of: [a, b, ...]}}"
            )
        return {"one-of": [check_range(name, choice, at_least=at_least, at_most=at_most) for choice in choices]}
    if isinstance(value, list | tuple) and name.rsplit(".", 1)[-1] not in PLAIN_LISTS:
        ends = [_number(end) for end in value]
        if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, int | float) for end in ends):
            raise ConfigError(f"{name} is {described(value)}, expected a number or [least, most]")
        for end in ends:
            check_range(name, end, at_least=at_least, at_most=at_most)
        if not -_MOST <= ends[0] <= ends[1] <= _MOST:
            raise ConfigError(f"{name} is {described(value)}, expected [least, most] with least <= most <= {_MOST:g}")
        return ends
    if isinstance(value, list | tuple):
        return [_number(part) for part in value]
    number = _number(value)
    bounded = at_least > -math.inf or at_most < math.inf
    if bounded and (
        isinstance(number, bool) or not isinstance(number, int | float) or not at_least <= number <= at_most
    ):
        upper = f" to {at_most:g}" if at_most < math.inf else ""
        raise ConfigError(f"{name} is {described(value)}, expected a number from {at_least:g}{upper}, or [least, most]")
    if isinstance(number, float) and not math.isfinite(number):
        raise ConfigError(f"{name} is {described(value)}, expected a finite number")
    return number


def _number(value: Any) -> Any:
    if isinstance(value, np.number):
        return value.item()
    if isinstance(value, str) and value[:1].isdigit():
        try:
            return float(value)
        except ValueError:
            return value
    return value
