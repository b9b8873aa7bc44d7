"""Folders that appear whole or not at all, and reading them back with a reason for every refusal."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from dagsched.errors import CheckpointError, ConfigError
from dagsched.files import cannot_write, exists, is_dir
from dagsched.texts import shown_path

MOST_BYTES = 1 << 28
"""Larger files of weights are not read; networks here take a megabyte."""

MOST_JSON_BYTES = 1 << 22
"""Larger cards, schemas, normalisers and indexes are not read: parsed JSON takes many times its size."""

MARK = "card.json"
"""The file by which a folder is known to be a checkpoint, and may be replaced by one."""


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a temporary folder, flush them to disk, then rename it to ``path``.

    An earlier checkpoint at ``path`` is replaced; any other folder that holds something is left alone.

    Raises:
        ConfigError: naming the path, if it cannot be written or holds something else.
    """
    if exists(path) and not (is_dir(path) and ((path / MARK).is_file() or not any(path.iterdir()))):
        raise ConfigError(f"{path}: exists and is not a checkpoint; choose another folder")
    token = secrets.token_hex(6)
    temporary, old = path.with_name(f".{path.name}.{token}.tmp"), path.with_name(f".{path.name}.{token}.old")
    try:
        temporary.mkdir(parents=True)
        for name, content in files.items():
            with (temporary / name).open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        _flush_folder(temporary)
        if exists(path):
            path.rename(old)
        temporary.rename(path)
        _flush_folder(path.parent)
    except OSError as error:
        if old.exists() and not exists(path):
            old.rename(path)
        raise ConfigError(cannot_write(path, "the checkpoint", error)) from None
    finally:
        for left in (temporary, old):
            shutil.rmtree(left, ignore_errors=True)


def restore_folders(parent: Path) -> None:
    """Put right what a process that was killed in :func:`write_folder` left below ``parent``.

    A folder that was moved aside and not replaced comes back; half-written ones go.
    """
    for left in sorted(parent.glob(".*.old")) + sorted(parent.glob(".*.tmp")):
        name = re.fullmatch(r"\.(.+)\.[0-9a-f]{12}\.(old|tmp)", left.name)
        if name is None or not left.is_dir():
            continue
        if name[2] == "old" and not (parent / name[1]).exists():
            left.rename(parent / name[1])
        else:
            shutil.rmtree(left, ignore_errors=True)


def read_folder(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The content of the named files.

    Raises:
        CheckpointError: naming the folder or file that is missing, no regular file, or too large.
    """
    if not is_dir(path):
        what = "is a file; a checkpoint is a folder" if exists(path) else "there is no such checkpoint folder"
        raise CheckpointError(f"{path}: {what}")
    missing = [name for name in names if not (path / name).exists()]
    if missing:
        raise CheckpointError(f"{path}: not a whole checkpoint: {', '.join(missing)} is missing")
    found = {}
    for name in names:
        file = path / name
        try:
            info = file.stat()
            most = MOST_JSON_BYTES if name.endswith(".json") else MOST_BYTES
            if not stat.S_ISREG(info.st_mode) or info.st_size > most:
                raise CheckpointError(f"{shown_path(file)}: not a regular file of at most {most:,} bytes")
            found[name] = file.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{file}: cannot be read: {error.strerror or error}") from None
    return found


def _flush_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
