"""The front door: a path in, workloads out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dagsched.checks import as_list, as_path
from dagsched.errors import ConfigError, DagschedError, FormatError
from dagsched.files import exists
from dagsched.formats.known import is_known_table
from dagsched.formats.registry import Reader, ReadOptions, reader_named, readers, sniff
from dagsched.formats.source import Source, decode
from dagsched.shipped import existing_or_shipped
from dagsched.texts import described, one_line, shown_path
from dagsched.workflow import Workflow, natural_key
from dagsched.workload import Workload

MAX_FILES = 100_000


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file of a directory that is not read, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What :func:`load` would read below a path.

    Attributes:
        files: (file, format name) in natural order.
        skipped: files that are no workload, with the reason; only ever filled for a directory.
    """

    files: tuple[tuple[Path, str], ...]
    skipped: tuple[Skipped, ...]


def load(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word users know, as in the --format option
    strict: bool = False,
    processors: int = 4,
    known: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Workload]:
    """Read a workload file, or every recognised file below a directory in natural order.

    Args:
        path: file or directory; gzip, byte-order marks and CRLF are understood. ``workloads/...`` is the shipped one
            where there is no such path.
        format: one of the names in :func:`readers`; by default recognised from the content.
        strict: make a record that would be left out (a job of a trace) an error.
        processors: machine count for STG, whose files do not say it.
        known: table (or directory of tables) of published makespans; by default those beside the instance.
        progress: called with the share of the file read, 0 to 1, for formats read in a stream.

    Returns:
        At least one workload, with distinct names: the file stem, or for stems that repeat within a directory
        the relative path.

    Raises:
        FormatError: in one line: file, record or line, field, what was found, what was expected.
        ConfigError: for an unknown format, processor count or missing ``known`` file.
    """
    root = existing_or_shipped(as_path(path))
    options = ReadOptions(strict, _processors(processors), _known(known), progress)
    found = scan(root, format=format)
    workloads: list[Workload] = []
    origins: list[Path] = []
    for file, name in found.files:
        read = _read(readers()[name], file, options)
        workloads += read
        origins += [file] * len(read)
    return _distinct(workloads, origins, root)


def workload_of(value: object, name: str = "workload") -> Workload:
    """A workload from what a notebook has at hand: a workload, a workflow, several workflows, or a path.

    Raises:
        ConfigError: for a path with several workloads.
        TypeError: for anything else.
    """
    if isinstance(value, Workload):
        return value
    if isinstance(value, Workflow):
        return Workload(value.name, (value,))
    if isinstance(value, str | os.PathLike):
        found = load(value)
        if len(found) > 1:
            names = ", ".join(workload.name for workload in found[:6])
            raise ConfigError(f"{value}: {len(found)} workloads ({names}, ...); choose one: load(path)[0]")
        return found[0]
    flows = as_list(value, Workflow)
    if not flows:
        raise TypeError(f"{name} is {described(value)}, expected a Workload, a Workflow, a list of them, or a path")
    return Workload(flows[0].name, tuple(flows))


def scan(path: str | os.PathLike[str], *, format: str | None = None) -> Scan:  # noqa: A002
    """Which files :func:`load` would read, and which of a directory it leaves out.

    Raises:
        FormatError: if there is nothing to read.
        ConfigError: for an unknown format.
    """
    root = existing_or_shipped(as_path(path))
    chosen = None if format is None else reader_named(format)
    try:
        is_directory = root.is_dir()
    except (OSError, ValueError) as error:
        raise FormatError(one_line(f"{shown_path(root)}: cannot be read: {error}")) from None
    if not is_directory:
        return Scan(((root, _recognise(root, chosen).name),), ())
    files: list[tuple[Path, str]] = []
    skipped: list[Skipped] = []
    for file in _files_below(root):
        result = _classify(file, chosen)
        if isinstance(result, str):
            skipped.append(Skipped(file, result))
        else:
            files.append((file, result.name))
    if not files:
        seen = f"{len(skipped)} files, none recognised" if skipped else "no files"
        wanted = chosen.name if chosen else ", ".join(readers())
        raise FormatError(one_line(f"{shown_path(root)}: holds {seen}; expected files of format {wanted}"))
    return Scan(tuple(files), tuple(skipped))


def _files_below(root: Path) -> list[Path]:
    found: list[Path] = []
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if not name.startswith(".")]
        if len(found) > MAX_FILES:
            raise FormatError(
                one_line(f"{shown_path(root)}: holds more than {MAX_FILES} files; give a narrower directory")
            )
    return sorted(found, key=lambda file: natural_key(file.relative_to(root).as_posix()))


def _classify(file: Path, chosen: Reader | None) -> Reader | str:
    """The reader of a file in a directory, or why it is skipped."""
    try:
        head = decode(Source(file).head())
    except FormatError as error:
        reader = chosen if chosen is not None and file.suffix == ".gz" else None
        return reader or str(error).removeprefix(f"{file}: ")
    if is_known_table(file.name, head):
        return "a table of known makespans"
    if file.stem.endswith("_measured"):
        return "measured durations that belong to the trace beside it"
    reader = sniff(head)
    if reader is None:
        return "no known workload format"
    if chosen is not None and reader.name != chosen.name:
        return f"format {reader.name}, but {chosen.name} was asked for"
    return reader


def _recognise(file: Path, chosen: Reader | None) -> Reader:
    """The reader of a single file; a file that none recognises is an error."""
    source = Source(file)
    head = source.head()
    if chosen is not None:
        return chosen
    if not head.strip():
        source.refuse("is empty; expected a workload file")
    text = decode(head)
    if is_known_table(file.name, text):
        source.refuse("is a table of known makespans, not a workload; give it as known=FILE (--known FILE)")
    reader = sniff(text)
    if reader is None:
        source.refuse(
            f"is in no known workload format; expected one of {', '.join(readers())}; if it is one of them, say so "
            f"with format=NAME (--format NAME)"
        )
    return reader


def _read(reader: Reader, file: Path, options: ReadOptions) -> list[Workload]:
    try:
        return reader.read(Source(file), options)
    except (FormatError, ConfigError):
        raise
    except DagschedError as error:
        raise FormatError(one_line(f"{shown_path(file)}: {error}")) from None


def _processors(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**6:
        raise ConfigError(f"processors is {value!r}, expected a whole number from 1 to 1000000")
    return value


def _known(path: str | os.PathLike[str] | None) -> Path | None:
    if path is not None and not exists(path):
        raise ConfigError(one_line(f"known makespans: {path} does not exist"))
    return None if path is None else Path(path)


def _distinct(workloads: list[Workload], origins: list[Path], root: Path) -> list[Workload]:
    """Rename workloads whose names repeat after their path below ``root`` (50/rand0000, 100/rand0000).

    A workflow that bears its workload's name follows, so that streams merged from a directory keep distinct
    names and distinct noise.
    """
    counts: dict[str, int] = {}
    for workload in workloads:
        counts[workload.name] = counts.get(workload.name, 0) + 1
    if all(count == 1 for count in counts.values()):
        return workloads
    result = []
    for workload, origin in zip(workloads, origins, strict=True):
        if counts[workload.name] == 1:
            result.append(workload)
            continue
        folder = shown_path(origin.parent.relative_to(root).as_posix())
        name = workload.name if folder == "." else f"{folder}/{workload.name}"
        workflows = tuple(w.with_(name=name) if w.name == workload.name else w for w in workload.workflows)
        result.append(replace(workload, name=name, workflows=workflows))
    return _numbered(result)


def _numbered(workloads: list[Workload]) -> list[Workload]:
    """The last resort for names that still repeat (``a.json`` and ``a.json.gz``): ``a``, ``a#2``."""
    seen: dict[str, int] = {}
    result = []
    for workload in workloads:
        seen[workload.name] = seen.get(workload.name, 0) + 1
        repeat = seen[workload.name]
        if repeat > 1:
            name = f"{workload.name}#{repeat}"
            workflows = tuple(w.with_(name=name) if w.name == workload.name else w for w in workload.workflows)
            workload = replace(workload, name=name, workflows=workflows)
        result.append(workload)
    return result
