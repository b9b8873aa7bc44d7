"""Times as people write them: ``90s``, ``10m``, ``1h30m``."""

from __future__ import annotations

import re

from dagsched.errors import ConfigError

_BUDGET = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def parse_budget(text: str | None, name: str = "time-budget") -> float:
    """Seconds of ``90``, ``90s``, ``10m`` or ``1h30m``; no limit for ``None``.

    Raises:
        ConfigError: for anything else.
    """
    if text is None:
        return float("inf")
    found = _BUDGET.fullmatch(text.strip().lower())
    parts = found.groups() if found else ()
    if not any(parts):
        raise ConfigError(f"{name} is {text!r}, expected a time such as 90s, 10m or 1h30m")
    return sum(float(part or 0) * unit for part, unit in zip(parts, (3600, 60, 1), strict=True))
