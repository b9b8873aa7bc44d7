"""Writing files so that a reader never meets half of one, and telling whether one has changed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from dagsched.errors import ConfigError
from dagsched.texts import shown_path


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether something lies there; unlike ``Path.exists``, no name (too long, with a null byte) makes this fail."""
    return os.path.exists(path)


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file lies there; never fails, see :func:`exists`."""
    return os.path.isfile(path)


def is_dir(path: str | os.PathLike[str]) -> bool:
    """Whether a folder lies there; never fails, see :func:`exists`."""
    return os.path.isdir(path)


def write_atomic(path: str | Path, content: bytes | str) -> None:
    """Write ``content`` so that ``path`` appears, or changes, only when complete.

    Texts are written as UTF-8, lone surrogates in them as escapes: no name of a file may stop a finished computation
    from being kept.

    The bytes go to a temporary file in the same folder, which is created when missing; they are flushed to
    disk, then the file is renamed. After a failure the old file is untouched and no temporary one is left.

    Raises:
        ConfigError: naming the path, if it cannot be written.
    """
    write_together({Path(path): content})


def write_together(contents: Mapping[Path, bytes | str]) -> None:
    """Write several files as :func:`write_atomic` does: none changes before all are on disk.

    Then each takes its place. The last one is away while the others change, so that files which belong together are
    never met beside one of before: a reader begins with the last.

    Raises:
        ConfigError: naming the path that cannot be written; then no file has changed, or as few as possible.
    """
    temporaries: dict[Path, Path] = {}
    path = Path()
    try:
        for path, content in contents.items():
            if not path.name or is_dir(path):
                raise ConfigError(
                    f"{shown_path(path)}: cannot write the file: this is a folder; give the path of a file"
                )
            data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
            temporaries[path] = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporaries[path].open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        if len(temporaries) > 1:
            path.unlink(missing_ok=True)
        for path, temporary in temporaries.items():
            temporary.replace(path)
    except OSError as error:
        raise ConfigError(cannot_write(path, "the file", error)) from None
    finally:
        for temporary in temporaries.values():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def no_room(number: int | None) -> bool:
    """Whether an error of the system says that the disk, or one's share of it, is full."""
    return number in (errno.ENOSPC, errno.EDQUOT)


def cannot_write(path: Path, what: str, error: OSError) -> str:
    """The line that says what could not be written where, why, and what to do."""
    advice = "free some space and start again" if no_room(error.errno) else "choose another output path"
    return f"{shown_path(path)}: cannot write {what}: {error.strerror or error}; {advice}"


def content_digest(path: str | Path) -> str:
    """SHA-256 over a file, or over all files below a folder with their names; of nothing where there is neither."""
    path, digest = Path(path), hashlib.sha256()
    if path.is_file():
        digest.update(path.read_bytes())
    for file in _below(path):
        digest.update(file.relative_to(path).as_posix().encode("utf-8", "surrogateescape") + b"\0")
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def stamp(path: str | Path) -> tuple[object, ...]:
    """A key for what was read from a large file, or from the files below a folder: another one after any change.

    The time of a change counts in ticks of some milliseconds, so that what changed in the last second never compares
    equal and is read again.
    """
    path = Path(path).absolute()
    found: list[object] = [str(path)]
    newest = 0
    for file in [path, *_below(path)]:
        with contextlib.suppress(OSError):
            info = file.stat()
            found += (str(file), info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            newest = max(newest, info.st_mtime_ns, info.st_ctime_ns)
    if newest > time.time_ns() - 10**9:
        found.append(time.monotonic_ns())
    return tuple(found)


def _below(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else []
