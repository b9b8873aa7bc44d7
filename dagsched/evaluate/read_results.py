"""Reads a comparison folder back, and refuses one that is damaged: with the file, line and column."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dagsched.errors import ConfigError
from dagsched.evaluate.columns import KEY_COLUMNS
from dagsched.evaluate.table import Row
from dagsched.objective import OBJECTIVES
from dagsched.texts import text_from_csv

_TEXTS = (frozenset(KEY_COLUMNS) - {"workflow_count", "task_count", "replay"}) | {"search"}
_AGAIN = "run the comparison again"


def read_comparison(folder: Path) -> tuple[list[Row], list[Row], dict[str, Any]]:
    """(rows of results.csv, rows of timings.csv, content of summary.json).

    Raises:
        ConfigError: naming the file, and the line and column, that is missing or damaged.
    """
    about = _summary(folder / "summary.json")
    counts = about.get("rows", {})
    results = _rows(folder / "results.csv", ("workload", "replay", "policy", "makespan"), counts)
    return results, _rows(folder / "timings.csv", ("workload", "replay", "policy"), counts), about


def _summary(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON: {error}; {_AGAIN}") from None
    if not isinstance(about, dict) or "objective" not in about or "provenance" not in about:
        raise ConfigError(f"{path}: objective or provenance is missing; {_AGAIN}")
    if about["objective"] not in tuple(OBJECTIVES):
        raise ConfigError(f"{path}: objective is not one of {', '.join(OBJECTIVES)}; {_AGAIN}")
    for key in ("provenance", "rows"):
        if not isinstance(about.get(key, {}), Mapping):
            raise ConfigError(f"{path}: {key} is {about[key]!r}, expected an object; {_AGAIN}")
    refusals = about.get("refusals", [])
    if not isinstance(refusals, list) or not all(
        isinstance(e, dict) and {"policy", "reason"} <= set(e) for e in refusals
    ):
        raise ConfigError(f"{path}: refusals is not a list of objects with policy and reason; {_AGAIN}")
    return about


def _rows(path: Path, needed: Sequence[str], counts: Mapping[str, object]) -> list[Row]:
    text = _text(path)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    try:
        header = next(reader, [])
        for column in needed:
            if column not in header:
                raise ConfigError(f"{path}: line 1: column {column!r} is missing; {_AGAIN}")
        rows.extend(_row(f"{path}: line {reader.line_num}", header, cells) for cells in reader)
    except csv.Error as error:
        raise ConfigError(f"{path}: line {reader.line_num}: {error}; {_AGAIN}") from None
    expected = counts.get(path.name)
    if expected is not None and len(rows) != expected:
        raise ConfigError(
            f"{path}: line {reader.line_num}: ends after {len(rows):,} rows, summary.json says {expected}; {_AGAIN}"
        )
    if not text.endswith("\n"):
        raise ConfigError(f"{path}: line {reader.line_num}: the last line is cut off; {_AGAIN}")
    return rows


def _row(where: str, header: Sequence[str], cells: Sequence[str]) -> Row:
    if len(cells) != len(header):
        cut = f" (column {header[len(cells)]!r} is missing)" if len(cells) < len(header) else ""
        raise ConfigError(f"{where}: {len(cells)} cells, expected {len(header)}{cut}; {_AGAIN}")
    for column, cell in zip(header, cells, strict=True):
        if column not in _TEXTS and cell:
            try:
                finite = math.isfinite(float(cell))
            except ValueError:
                finite = False
            if not finite:
                raise ConfigError(f"{where}: column {column!r} is {cell[:40]!r}, expected a number; {_AGAIN}")
    pairs = zip(header, cells, strict=True)
    return {column: text_from_csv(cell) if column in _TEXTS else cell for column, cell in pairs}


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}; expected a folder that dagsched compare --out wrote"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start:,}; {_AGAIN}") from None
