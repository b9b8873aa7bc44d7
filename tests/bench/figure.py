"""One measured number and what it must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number.

    Attributes:
        key: flat key in ``bench.json``, unit included.
        value: what was measured.
        target: what it must reach; ``None`` = for information.
        better: whether ``value`` must be at least (``higher``) or at most (``lower``) the target.
        note: how it was measured, in a few words.
    """

    key: str
    value: float
    target: float | None = None
    better: Literal["higher", "lower"] = "lower"
    note: str = ""

    @property
    def verdict(self) -> str:
        """``pass``, ``FAIL`` or an empty text where there is no target."""
        if self.target is None:
            return ""
        met = self.value >= self.target if self.better == "higher" else self.value <= self.target
        return "pass" if met else "FAIL"


class Skip(Exception):  # noqa: N818 - not an error
    """The figure cannot be measured here; the text says why."""
