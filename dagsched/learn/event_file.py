"""The file that TensorBoard reads, written at once and in whole records."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from pathlib import Path
from typing import Any, BinaryIO

from dagsched.errors import ConfigError
from dagsched.files import cannot_write

_VERSION = "brain.Event:2"


class EventFile:
    """Events of one process, in a file that is made with the first of them.

    TensorBoard's own writer works in a thread: on a full disk that ends in a traceback, and leaves half a record.

    Args:
        folder: where the file comes to lie.
        first_step: what earlier files say of this step and later ones is hidden.
    """

    def __init__(self, folder: Path, first_step: int = 0) -> None:
        self._folder = folder
        self._first_step = first_step
        self._file: BinaryIO | None = None

    def add(self, summary: Any, step: int | None = None) -> None:
        """Write a ``Summary``; whole or, where that fails, not at all.

        Raises:
            ConfigError: naming the folder, if it cannot be written to.
        """
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        events = [Event(summary=summary, step=step)]
        if self._file is None:
            started = SessionLog(status=SessionLog.START)
            events[:0] = [Event(file_version=_VERSION), Event(step=self._first_step, session_log=started)]
        self._append(b"".join(map(_record, events)))

    def _append(self, data: bytes) -> None:
        size = 0
        try:
            file = self._file = self._file or self._open()
            size = file.tell()
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                if self._file is not None:
                    self._file.truncate(size)
                    self._file.seek(size)
            raise ConfigError(cannot_write(self._folder, "what TensorBoard shows", error)) from None

    def _open(self) -> BinaryIO:
        """A new file, which TensorBoard reads after those that lie there, also under a clock that was set back."""
        self._folder.mkdir(parents=True, exist_ok=True)
        there = (re.search(r"tfevents\.(\d+)", file.name) for file in self._folder.glob("*tfevents*"))
        number = max(int(time.time()), *(1 + int(found[1]) for found in there if found), 0)
        name = f"events.out.tfevents.{number:010d}.{socket.gethostname()}.{os.getpid()}"
        return (self._folder / name).open("xb", buffering=0)

    def close(self) -> None:
        """No more events."""
        if self._file is not None:
            self._file.close()


def _record(event: Any) -> bytes:
    """An event as the file has it: length, checksum, content, checksum."""
    from io import BytesIO

    from tensorboard.summary.writer.record_writer import RecordWriter

    event.wall_time = time.time()
    record = BytesIO()
    RecordWriter(record).write(event.SerializeToString())
    return record.getvalue()
