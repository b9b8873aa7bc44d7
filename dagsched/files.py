"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from dagsched.errors import ConfigError


def write_atomic(path: str | Path, content: bytes | str) -> None:
    """Write ``content`` (texts as UTF-8) so that ``path`` appears, or changes, only when complete.

    The bytes go to a temporary file in the same folder, which is created when missing; they are flushed to
    disk, then the file is renamed. After a failure the old file is untouched and no temporary one is left.

    Raises:
        ConfigError: naming the path, if it cannot be written.
    """
    path = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    if not path.name or path.is_dir():
        raise ConfigError(f"{path}: cannot write the file: this is a folder; give the path of a file")
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{path}: cannot write the file: {reason}; choose another output path") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
