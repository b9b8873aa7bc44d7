"""A lock on a folder that one process at a time writes to; the system drops it when that process dies, however."""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from pathlib import Path

from dagsched.errors import ConfigError

NAME = ".lock"
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)


class FolderLock:
    """Held from its making until :meth:`release`, or until it or its process is gone.

    The file says which process holds it, but the lock is the system's: what a killed process or another boot left is
    free. File systems without locks, and systems without ``fcntl``, have none: there nothing is refused.

    Raises:
        ConfigError: if another one is held, or the folder cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = self._open()
        except OSError as error:
            raise ConfigError(
                f"{folder}: cannot write here: {error.strerror or error}; choose another folder with --out"
            ) from None
        self._finalizer = weakref.finalize(self, _release, descriptor, self.path)

    def _open(self) -> int:
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self._take(descriptor)
                if _is_same(descriptor, self.path):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # whoever held it has removed the file meanwhile

    def _take(self, descriptor: int) -> None:
        try:
            import fcntl
        except ImportError:  # not on every system
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _BUSY:
                return
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise ConfigError(
                f"{self.path.parent}: {who} is writing here; wait for it or choose another folder with --out"
            ) from None

    def release(self) -> None:
        """Let others in; nothing if that was done before."""
        self._finalizer()


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _release(descriptor: int, path: Path) -> None:
    if _is_same(descriptor, path):
        with contextlib.suppress(OSError):
            path.unlink()
    os.close(descriptor)
