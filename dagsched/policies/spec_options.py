"""Reading the options of a policy's spec."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from dagsched.errors import PolicyError


def option_int(spec: str, options: Mapping[str, str], key: str, default: int, least: int = 0) -> int:
    """A whole number from the options of a spec.

    Raises:
        PolicyError: naming the option, what was found and what is expected.
    """
    text = options.get(key, str(default))
    if not re.fullmatch(r"\d{1,12}", text) or int(text) < least:
        expected = f"a whole number >= {least} of at most 12 digits"
        raise PolicyError(f"policy {spec!r}: {key} is {text!r}, expected {expected}")
    return int(text)


def option_float(spec: str, options: Mapping[str, str], key: str, default: float, least: float) -> float:
    """A number from the options of a spec.

    Raises:
        PolicyError: naming the option, what was found and what is expected.
    """
    text = options.get(key, str(default))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value < math.inf:
        raise PolicyError(f"policy {spec!r}: {key} is {text!r}, expected a number >= {least:g}")
    return value
