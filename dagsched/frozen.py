"""Values that are pickled or copied deeply come back as they were: with arrays that cannot be written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np


def restore(self: Any, state: Sequence[Any]) -> None:
    """``__setstate__`` of a frozen dataclass with slots.

    NumPy gives unpickled arrays back writable, which would let a value change that is hashed and shared; and code
    that was compiled for read-only arrays would be compiled anew for them.
    """
    for field, value in zip(fields(self), state, strict=True):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(self, field.name, value)
