"""Where the real data lies: ``DAGSCHED_DATA``, by default ``../shared/data`` beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("DAGSCHED_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

needs_data = pytest.mark.skipif(
    not (DATA / "README.md").is_file(), reason=f"real data not found at {DATA}; set DAGSCHED_DATA to its directory"
)


def data_files(*patterns: str) -> list[Path]:
    """Files below ``DATA`` in order, or nothing where the data is absent."""
    return [file for pattern in patterns for file in sorted(DATA.glob(pattern)) if file.is_file()]


def data_id(file: Path) -> str:
    """A short test id."""
    return file.relative_to(DATA).as_posix() if file.is_relative_to(DATA) else file.name
