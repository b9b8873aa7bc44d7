"""Processes beside the first one: how many, that a script can start them, and that they end when it ends."""

from __future__ import annotations

import ast
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from dagsched.errors import ConfigError


def cores() -> int:
    """Cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def useful(asked: int, work: int) -> tuple[int, str]:
    """(processes to use of so many asked for, for so many runs; why they are fewer, or ``""``)."""
    most = max(1, min(cores(), work))
    if asked <= most:
        return asked, ""
    why = f"there are {cores()} cores" if most == cores() else f"there are {work} runs to do"
    return most, f"{most} processes instead of {asked}: {why}"


def serve() -> None:
    """To be called first in a worker process: it leaves Ctrl-C to its parent, and ends when that dies, however."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # a pipe that the system closes, also after kill -9
        os._exit(1)


def check_spawnable(what: str) -> None:
    """Refuse to start processes that would run the caller's script again.

    Raises:
        ConfigError: if the script that is running calls without the usual guard around it.
    """
    again = getattr(multiprocessing.current_process(), "_inheriting", False)
    if again or not _is_guarded():
        script = getattr(sys.modules.get("__mp_main__" if again else "__main__"), "__file__", None) or "the script"
        raise ConfigError(
            f"{script}: {what} > 1 starts processes that load this script again; put what it does under "
            f'`if __name__ == "__main__":`, or use {what}=1'
        )


def _is_guarded() -> bool:
    """Whether the line of the main script that is running is not run again in a new process, as far as one can see."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            path = frame.f_globals.get("__file__")
            return not path or _has_guard(Path(path), frame.f_lineno)
        frame = frame.f_back
    return True


def _has_guard(path: Path, line: int) -> bool:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True
    for node in tree.body:
        if node.lineno > line:
            break
        if isinstance(node, ast.If):
            asks = any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))
            leaves = any(isinstance(part, ast.NotEq) for part in ast.walk(node.test))
            if asks and (leaves or line <= (node.end_lineno or line)):
                return True
    return False
