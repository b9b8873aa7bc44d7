"""How long a plan may take: seconds of the clock that never goes back, and Ctrl-C, asked between pieces of work."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from dagsched.simulator.stepper import MANY

PIECE_SECONDS = 0.01
"""About what a piece of work takes between two looks at the clock."""
GRACE_SECONDS = 0.1
"""A run that ends within so many seconds is not cut: it would only be lost."""
_FIRST_PIECE, _GROWTH = 64, 4


class OutOfTimeError(Exception):
    """A run was cut; caught by whoever began it, never seen by users."""


class Allowance:
    """What is left of a time limit.

    Args:
        seconds: from now on; ``None`` = no limit.
        deadline: instead, a moment of ``time.monotonic()``, which all processes of a machine share.
        pressed: whether Ctrl-C was pressed.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        deadline: float = math.inf,
        pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.deadline = deadline if seconds is None else time.monotonic() + seconds
        self.pressed = pressed

    def share(self, part: float) -> Allowance:
        """The first part (0 to 1) of what is left."""
        left = self.left()
        return Allowance(None if left == math.inf else part * max(left, 0.0), pressed=self.pressed)

    def left(self) -> float:
        """Seconds; infinite without a limit, negative after it."""
        return self.deadline - time.monotonic()

    def is_over(self) -> bool:
        """Whether to stop."""
        return self.pressed() or self.left() <= 0

    def affords(self, seconds: float) -> bool:
        """Whether to begin what takes so many seconds, as far as one can tell."""
        return not self.pressed() and self.left() > seconds

    def pieces(self, go_on: Callable[[int], bool]) -> None:
        """Call ``go_on`` with so many steps, again and again, until it says that nothing is left.

        Raises:
            OutOfTimeError: if the time is over before that.
        """
        began, size = time.monotonic(), _FIRST_PIECE
        while True:
            before = time.monotonic()
            if not go_on(size):
                return
            now = time.monotonic()
            if self.is_over() and now - began > GRACE_SECONDS:
                raise OutOfTimeError
            if now - before < PIECE_SECONDS:
                size = min(_GROWTH * size, MANY)
            elif now - before > _GROWTH * PIECE_SECONDS:
                size = max(1, size // _GROWTH)
