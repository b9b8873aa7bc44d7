"""Ctrl-C that waits for a safe moment, is never lost, and is what SIGTERM does, too."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

_AGAIN_SECONDS = 0.05
_waiting: list[Callable[[int, FrameType | None], None]] = []
"""Who remembers a Ctrl-C now, innermost last."""
_program: list[bool] = []
"""In a program of our own: whether an interrupt has been raised. Elsewhere, as in a notebook, empty."""


@contextmanager
def remembered_interrupts(first: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Within, the first Ctrl-C is only remembered, and the second one interrupts at once.

    Yields whether it was pressed. In other threads than the main one, where Python allows no handlers, it never is.
    Where the process was started with Ctrl-C ignored, as a shell does in the background, it stays ignored.

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
            _interrupt(number, frame)
        pressed = True
        first()

    before = signal.getsignal(signal.SIGINT)
    ignored = before in (signal.SIG_IGN, None)
    if not ignored:
        signal.signal(signal.SIGINT, remember)
    _waiting.append(remember)
    try:
        yield lambda: pressed
    finally:
        _waiting.remove(remember)
        if not ignored:
            signal.signal(signal.SIGINT, before)


def take_signals() -> None:
    """For a program: SIGTERM does what Ctrl-C does, no Ctrl-C is lost, and one more after it was raised always ends.

    Python drops an exception that is raised inside a callback of C code or of the garbage collector, as happens while
    modules are imported and machine code is loaded; such a Ctrl-C is raised again a moment later. What is ignored when
    the program starts stays ignored: a shell ignores Ctrl-C for what it runs in the background.
    """
    _program[:] = [False]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
        sys.unraisablehook = _raise_again


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    if _program and _program[0]:  # it was raised before and did not end the program: the system does that
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    if _program:
        _program[0] = True
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> None:
    (_waiting[-1] if _waiting else _interrupt)(number, frame)


def _raise_again(dropped: Any) -> None:
    """See :data:`sys.unraisablehook`."""
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    _program[:] = [False]
    main = threading.main_thread().ident  # a signal, and not only its flag, to end a sleep
    again, where = (signal.pthread_kill, [main]) if hasattr(signal, "pthread_kill") else (_thread.interrupt_main, [])
    timer = threading.Timer(_AGAIN_SECONDS, again, [*where, signal.SIGTERM])
    timer.daemon = True
    timer.start()
