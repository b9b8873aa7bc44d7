"""Published best makespans: PSPLIB tables, the STG optimum tables, and two-column CSV files.

They feed only the metric ``gap_known`` and tests; no policy sees them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dagsched.files import is_dir, stamp
from dagsched.formats.source import Source, stem, whole
from dagsched.texts import shorten

_PSPLIB_TABLE = re.compile(r"(.+?)(opt|hrs|lb)\.sm(\.gz)?$")
_CSV_TABLE = re.compile(r"Case\d+_\d+_OPT\.csv$|.*optimum\.csv$")
_PSPLIB_HEADINGS = ("paramter instance makespan", "parameter instance makespan", "par inst makespan", "par inst ub lb")
_PROVEN_KIND = {"opt": True, "hrs": False, "lb": False}
_MAX_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class KnownMakespan:
    """A published makespan of an instance.

    Attributes:
        value: in the instance's own time unit.
        proven: whether the table says that no schedule is shorter.
        source: the table it comes from.
    """

    value: float
    proven: bool
    source: str


def known_makespan(instance: Path, given: Path | None = None, processors: int | None = None) -> KnownMakespan | None:
    """The best published makespan of an instance file, or ``None`` where no table lists it.

    Args:
        instance: the instance file; tables are matched by its name (and, for STG, its folder).
        given: a table or a directory of tables; by default those beside the instance, in its parent
            directory, or in an ``optimum`` directory beside it.
        processors: the machine count that an STG table must be for.

    Raises:
        FormatError: for a table that cannot be read.
    """
    if given is not None:
        files = _tables_in(given) if is_dir(given) else [given]
    else:
        folder = instance.absolute().parent
        places = (folder, folder.parent, folder / "optimum", folder.parent / "optimum")
        files = [file for place in places for file in _tables_in(place)]
    found = [known for file in files for known in _lookup(file, instance, processors)]
    if not found:
        return None
    best = min(known.value for known in found)
    return next((k for k in found if k.value == best and k.proven), next(k for k in found if k.value == best))


def is_known_table(name: str, head: str) -> bool:
    """Whether a file is a table of makespans and not an instance."""
    if _PSPLIB_TABLE.match(name) and "file with basedata" not in head:
        return True
    first = head.lstrip("\ufeff").split("\n", 1)[0].strip()
    return first == "problem,optimum" or re.fullmatch(r"[^,;]+\.stg,\d+,\d+(,\d+)?", first) is not None


def _tables_in(folder: Path) -> tuple[Path, ...]:
    try:
        info = folder.stat()
        recent = info.st_mtime_ns > time.time_ns() - 10**9  # its time counts in ticks: a file may yet come within one
        key = (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, time.monotonic_ns() if recent else 0)
        return _tables_listed(folder.absolute(), key)
    except OSError:
        return ()


@lru_cache(maxsize=256)
def _tables_listed(folder: Path, _key: tuple[int, ...]) -> tuple[Path, ...]:
    """Cached, because every instance of a large directory asks."""
    names = sorted(name for name in os.listdir(folder) if _PSPLIB_TABLE.match(name) or _CSV_TABLE.match(name))
    return tuple(folder / name for name in names if (folder / name).is_file())


def _lookup(file: Path, instance: Path, processors: int | None) -> Iterator[KnownMakespan]:
    try:
        file.stat()
    except OSError as error:
        Source(file).refuse(f"cannot be read: {error.strerror}")
    table = _read_table(str(file), stamp(file))
    name = stem(instance)
    for key in (name, f"{instance.absolute().parent.name}/{name}"):
        for machine in (None, processors):
            row = table.get((key, machine))
            if row is not None and (machine is not None or processors is None):
                yield KnownMakespan(row[0], row[1], str(file))


_Table = dict[tuple[str, int | None], tuple[float, bool]]


@lru_cache(maxsize=64)
def _read_table(path: str, _stamp: tuple[object, ...]) -> _Table:
    """Best makespan and whether it is proven, by instance stem (STG: ``folder/stem``) and processor count."""
    source = Source(Path(path))
    text = source.text(_MAX_BYTES)
    if "file with basedata" in text[:1000]:
        return {}  # an instance whose name only looks like that of a table
    headings = [" ".join(line.lower().split()) for line in text.split("\n")]
    heading = next((n for n, line in enumerate(headings) if line.startswith(_PSPLIB_HEADINGS)), None)
    table = _csv_table(source, text) if heading is None else _psplib_table(source, text, heading)
    if not table:
        source.refuse(
            "holds no known makespans; expected a PSPLIB table (opt, hrs, lb), rows 'folder/file.stg,P,optimum' or a "
            "CSV file 'problem,optimum'"
        )
    return table


def _psplib_table(source: Source, text: str, heading: int) -> _Table:
    match = _PSPLIB_TABLE.match(source.path.name)
    kind = match[2] if match else ("lb" if " ub " in text.lower().split("\n")[heading] else "hrs")
    inside = re.search(r"\bj\d+(?=hrs|opt|lb|\.sm|\s)", text[:4000])
    if match is None and inside is None:
        source.refuse("does not say which instance set it is for; name it like j60hrs.sm")
    instance_set = match[1] if match else inside[0] if inside else ""
    table: _Table = {}
    for number, line in enumerate(text.split("\n")[heading + 1 :], heading + 2):
        fields = line.split()
        if not fields or not fields[0][:1].isdigit():
            continue  # rules, blank lines and remarks
        values = [whole(field) for field in fields[:3]]
        if len(values) < 3 or None in values:
            source.fail(f"line {number}", "row", line.strip(), "parameter, instance, makespan")
        parameter, instance, makespan = (int(v or 0) for v in values)
        proven = _PROVEN_KIND[kind] or (kind == "lb" and len(fields) > 3 and fields[2] == fields[3])
        _enter(source, number, table, (f"{instance_set}{parameter}_{instance}", None), (float(makespan), proven))
    return table


def _csv_table(source: Source, text: str) -> _Table:
    """STG rows ``file,P,optimum`` or ``file,P,bound,best``; or ``problem,optimum`` with that header."""
    table: _Table = {}
    for number, line in enumerate(text.split("\n"), 1):
        fields = [field.strip() for field in line.split(",")]
        if not line.strip() or fields == ["problem", "optimum"]:
            continue
        values = [whole(field) for field in fields[1:]]
        if not 1 <= len(values) <= 3 or None in values:
            source.fail(
                f"line {number}", "row", line.strip(), "'file,P,optimum', 'file,P,bound,best' or 'problem,optimum'"
            )
        numbers = [int(v or 0) for v in values]
        path = Path(fields[0])
        key = stem(path) if path.parent == Path() else f"{path.parent.name}/{stem(path)}"
        machine = numbers[0] if len(numbers) > 1 else None
        row = (float(numbers[-1]), len(numbers) != 3 or numbers[1] == numbers[2])
        _enter(source, number, table, (key, machine), row)
    return table


def _enter(source: Source, line: int, table: _Table, key: tuple[str, int | None], row: tuple[float, bool]) -> None:
    if table.setdefault(key, row) != row:
        source.refuse(
            f"line {line}: {shorten(key[0])} is listed twice, with {table[key][0]:g} and {row[0]:g}; give it one value"
        )
