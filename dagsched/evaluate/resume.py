"""Keeps the finished rows of an interrupted comparison, so that running it again goes on from there.

One append-only file of JSON lines: a header that names the configuration, then one line per finished
(workload, replay, policy). A torn last line, the mark of a killed process, is dropped. The folder is
removed when the comparison is complete. The files of an earlier, finished comparison stay until the new ones are
complete and take their place.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from dagsched.errors import ConfigError
from dagsched.files import write_atomic

FOLDER = ".resume"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Key:
    """Identity of one finished row.

    Attributes:
        workload: digest of the workload and its cluster.
        replay: number of the replay.
        policy: spec, followed by the digest of the file for a user's own rule.
    """

    workload: str
    replay: int
    policy: str


class ResumeLog:
    """The rows finished so far of one comparison folder.

    Attributes:
        entries: what was kept, by key; the values are those given to :meth:`add`.
        note: one line for the user if an earlier run was found: continued, or started over.
    """

    def __init__(self, out: Path, config_digest: str) -> None:
        self.folder = out / FOLDER
        self.entries: dict[Key, dict[str, Any]] = {}
        self.note = ""
        self._path = self.folder / "rows.jsonl"
        header = json.dumps({"format": _FORMAT, "config": config_digest})
        try:
            lines = self._read()
            if lines and lines[0] == header:
                self._take(lines[1:])
                if self.entries:
                    self.note = f"resuming: {len(self.entries)} finished runs are kept from an interrupted comparison"
            elif lines:
                self.note = "starting over: the interrupted comparison in this folder had other settings or code"
            if not self.entries:
                shutil.rmtree(self.folder, ignore_errors=True)
            kept = [header, *(_line(key, value) for key, value in self.entries.items())]
            write_atomic(self._path, "\n".join(kept) + "\n")
            self._file: TextIOWrapper = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{out}: cannot write here: {error.strerror or error}; choose another folder with --out"
            ) from None

    def _read(self) -> list[str]:
        if not self._path.exists():
            return []
        text = self._path.read_text(encoding="utf-8", errors="replace")
        return text.split("\n")[:-1]  # what follows the last line break is torn

    def _take(self, lines: list[str]) -> None:
        for line in lines:
            try:
                entry = json.loads(line)
                self.entries[Key(*entry["key"])] = entry["value"]
            except (ValueError, TypeError, KeyError):
                continue

    def add(self, key: Key, value: dict[str, Any]) -> None:
        """Keep one finished run; it survives the process from here on."""
        self.entries[key] = value
        with self._named():
            self._file.write(_line(key, value) + "\n")
            self._file.flush()

    def forget(self, key: Key) -> None:
        """Drop a run that no longer applies."""
        self.entries.pop(key, None)

    def close(self) -> None:
        """Flush to disk and leave the folder for the next run."""
        if not self._file.closed:
            with self._named():
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """A failed write, as on a full disk, does not say which file it was: add that."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def remove(self) -> None:
        """The comparison is complete: delete the folder."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _line(key: Key, value: dict[str, Any]) -> str:
    return json.dumps({"key": [key.workload, key.replay, key.policy], "value": value})
