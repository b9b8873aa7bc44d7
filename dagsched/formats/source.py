"""Opening files from strangers: compression, encodings, size limits, and one way to word an error.

Everything a reader needs from the outside comes through here, so that no reader can hang on a device file,
fill memory from a gzip bomb, or let a decoding error escape.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from dagsched.errors import FormatError
from dagsched.texts import one_line, shorten, shown_path

MAX_BYTES = 256 * 2**20
"""Largest file (after decompression) that is read as a whole; streamed formats have no limit when plain."""

MAX_RATIO = 250
"""A compressed stream that expands more than this (text reaches about 20) is taken for a gzip bomb."""

MAX_LINE = 2**20
"""Longest line of a streamed file, in bytes."""

HEAD_BYTES = 2**16
"""How much of a file the format is recognised from."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_GZIP_MAGIC = b"\x1f\x8b"
_READ_ERRORS = (OSError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class Source:
    """A file being read; its methods raise :class:`FormatError` that name it."""

    path: Path

    @property
    def shown(self) -> str:
        """The path as a text that can be written."""
        return shown_path(self.path)

    def fail(self, where: str, field: str, found: object, expected: str, hint: str = "") -> NoReturn:
        """Raise a one-line error: file, record or line, field, what was found, what was expected."""
        place = f"{where}: " if where else ""
        advice = f"; {hint}" if hint else ""
        self.refuse(f"{place}{field} is {shorten(found)}, expected {expected}{advice}")

    def refuse(self, message: str) -> NoReturn:
        """Raise a one-line error about the file as a whole."""
        raise FormatError(one_line(f"{self.shown}: {message}")) from None

    def open(self) -> BinaryIO:
        """Open for binary reading, decompressing ``.gz`` content (told by its first bytes, not its name)."""
        try:
            mode = self.path.stat().st_mode
            if not stat.S_ISREG(mode):
                self.refuse("is not a regular file; give a file or a directory of files")
            raw = self.path.open("rb")
        except (OSError, ValueError) as error:
            self.refuse(f"cannot be read: {getattr(error, 'strerror', None) or error}")
        if raw.read(2) == _GZIP_MAGIC:
            raw.close()
            return gzip.open(self.path, "rb")  # type: ignore[return-value]
        raw.seek(0)
        return raw

    def read_some(self, stream: BinaryIO, count: int) -> bytes:
        """``stream.read`` with errors of the disk or the compression worded."""
        try:
            return stream.read(count)
        except _READ_ERRORS as error:
            self.refuse(f"is damaged or cut off: {error}; fetch the file again")

    def head(self) -> bytes:
        """The first bytes of the content, enough to recognise the format."""
        with self.open() as stream:
            return self.read_some(stream, HEAD_BYTES)

    def read(self, limit: int = MAX_BYTES) -> bytes:
        """The whole content, at most ``limit`` bytes."""
        with self.open() as stream:
            data = self.read_some(stream, limit + 1)
        if len(data) > limit:
            self.refuse(f"is larger than {limit // 2**20} MiB when unpacked; split it into smaller files")
        return data

    def text(self, limit: int = MAX_BYTES) -> str:
        """The whole content as text: UTF-8 with or without a byte-order mark, else Latin-1; line ends as in Unix."""
        return decode(self.read(limit)).replace("\r\n", "\n").replace("\r", "\n")

    def json(self) -> Any:
        """The whole content as one JSON value; see :meth:`parse_json`."""
        return self.parse_json(self.read(), "")

    def parse_json(self, data: bytes, where: str) -> Any:
        """Parse strict JSON: UTF-8, no repeated keys, no NaN or Infinity, no absurd nesting."""
        place = f"{where}: " if where else ""
        try:
            text = data.decode("utf-8-sig")
            value = _DECODER.decode(text)
            if _SURROGATE.search(text):
                json.dumps(value, ensure_ascii=False).encode()
            return value
        except UnicodeDecodeError as error:
            self.refuse(f"{place}is not UTF-8 text (byte {error.start}); JSON must be UTF-8")
        except UnicodeEncodeError:
            self.refuse(f"{place}holds half of a surrogate pair, which is no character")
        except RecursionError:
            self.refuse(f"{place}is nested too deeply to be a workflow")
        except ValueError as error:  # includes JSONDecodeError and integers of more digits than Python converts
            self.refuse(f"{place}is not valid JSON: {error}; the file is damaged or cut off")

    def lines(self, progress: Callable[[float], None] | None = None) -> Iterator[tuple[int, bytes, bool]]:
        """Stream ``(line number, line without its end, whether it had an end)``.

        ``progress`` receives the share of the file on disk that has been read, from 0 to 1.
        """
        total = max(1, self.path.stat().st_size)
        read = number = 0
        with self.open() as stream:
            raw = getattr(stream, "fileobj", None) or stream
            while True:
                try:
                    line = stream.readline(MAX_LINE + 1)
                except _READ_ERRORS as error:
                    self.refuse(f"line {number + 1}: is damaged or cut off: {error}; fetch the file again")
                if not line:
                    break
                number += 1
                read += len(line)
                if len(line) > MAX_LINE:
                    self.refuse(f"line {number}: is longer than {MAX_LINE} bytes; this is not a table")
                if raw is not stream and read > 2**24 and read > MAX_RATIO * raw.tell():
                    self.refuse(
                        f"expands more than {MAX_RATIO}-fold, which no trace does; unpack it first if it is one"
                    )
                if progress is not None and number % 20_000 == 0:
                    progress(min(1.0, raw.tell() / total))
                yield number, line.rstrip(b"\r\n"), line.endswith(b"\n")
        if progress is not None:
            progress(1.0)


def decode(data: bytes) -> str:
    """UTF-8 with or without a byte-order mark, else Latin-1 (PSPLIB's author names)."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def stem(path: Path) -> str:
    """The file name without ``.gz`` and without its last suffix: the name a workload gets from a file."""
    name = path.name[:-3] if path.name.endswith(".gz") else path.name
    return shown_path(Path(name).stem) or "workload"


def finite(value: object) -> float | None:
    """A JSON value as a finite float, or ``None`` if it is not one (booleans and texts are not numbers)."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def whole(text: str) -> int | None:
    """A token of at most 18 decimal digits, with an optional sign, as an integer, else ``None``."""
    digits = text[1:] if text[:1] in "+-" else text
    return int(text) if len(digits) <= 18 and digits.isascii() and digits.isdigit() else None


def first_repeated(names: Sequence[str]) -> str:
    """The first name that occurred before; there must be one."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name is repeated")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError(f"key {shorten(first_repeated([key for key, _ in pairs]))} appears twice in one object")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
