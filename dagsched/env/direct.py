"""Calls to a compiled function without the search for the types of its arguments, which took nine tenths of a step.

Numba looks at every array of every argument on each call (20 µs for the 110 arrays of a step; the step itself takes 2).
The types of an episode's arrays never change, so they are looked at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_known: dict[Any, Callable[..., Any]] = {}


def direct(function: Any, *arguments: Any) -> Callable[..., Any]:
    """The machine code of ``function`` for arguments of these types.

    Whoever calls it must pass arguments of the very same types: nothing checks them any more.

    Args:
        function: a numba dispatcher.
        arguments: one example of each argument: an array, a named tuple of arrays, or a whole number.
    """
    if not hasattr(function, "compile"):
        return function  # type: ignore[no-any-return]  # NUMBA_DISABLE_JIT
    key = (function, *(_kind(argument) for argument in arguments))
    if key not in _known:
        types = tuple(numba.int64 if isinstance(a, int) else numba.typeof(a) for a in arguments)
        _known[key] = function.compile(types)
    return _known[key]


def _kind(argument: Any) -> Any:
    """All that numba's type of an argument depends on."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return argument.dtype, argument.ndim, flags.c_contiguous, flags.writeable, flags.aligned
    if isinstance(argument, tuple):
        return type(argument), *(_kind(part) for part in argument)
    return type(argument)
