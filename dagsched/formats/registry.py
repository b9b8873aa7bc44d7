"""The list of readers. To add a format, write one module with a ``READER`` and name it in ``_MODULES``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from dagsched.errors import ConfigError, closest
from dagsched.formats.source import Source
from dagsched.workload import Workload

ReadProgress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader may be told.

    Attributes:
        strict: turn every record that would be left out into an error.
        processors: number of processors for formats that describe none (STG).
        known: file or directory with published makespans, or ``None`` to look beside the instance.
        progress: called with the share read, from 0 to 1, by readers of large files.
    """

    strict: bool = False
    processors: int = 4
    known: Path | None = None
    progress: ReadProgress | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """One file format.

    Attributes:
        name: what ``format=`` accepts.
        description: one line for ``--help``.
        sniff: whether the first bytes of a file, as text, look like this format.
        read: all workloads of a file; raises :class:`dagsched.errors.DagschedError` for anything else.
    """

    name: str
    description: str
    sniff: Callable[[str], bool]
    read: Callable[[Source, ReadOptions], list[Workload]]


# In order of how certain their marks are: the first whose ``sniff`` agrees reads the file.
_MODULES = ("own", "tpch_batch", "wfformat", "psplib", "stg", "alibaba")


@cache
def readers() -> dict[str, Reader]:
    """Every reader by its format name, in sniffing order."""
    found = [import_module(f"dagsched.formats.{module}").READER for module in _MODULES]
    return {reader.name: reader for reader in found}


def reader_named(name: str) -> Reader:
    """The reader for a ``--format`` value.

    Raises:
        ConfigError: naming the formats there are.
    """
    if name not in readers():
        hint = closest(name, readers(), f"formats: {', '.join(readers())}")
        raise ConfigError(f"format {name!r} is not known; {hint}")
    return readers()[name]


def sniff(head: str) -> Reader | None:
    """The reader that recognises the beginning of a file, or ``None``."""
    return next((reader for reader in readers().values() if reader.sniff(head)), None)
