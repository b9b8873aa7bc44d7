"""Ctrl-C that waits for a safe moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def remembered_interrupts(first: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Within, the first Ctrl-C is only remembered, and the second one interrupts at once.

    Yields whether it was pressed. In other threads than the main one, where Python allows no handlers, it never is.

    Args:
        first: called at the first Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, frame)
        pressed = True
        first()

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
