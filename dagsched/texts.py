"""Texts from strangers: what is a text at all, how it is shown on one line, and how it enters a table."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: lone halves of surrogate pairs, as in names of bytes, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_line(text: object) -> str:
    """The text with control characters and lone surrogates made visible, so that it never spans two lines."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def shorten(value: object, limit: int = 60) -> str:
    """``repr`` cut to ``limit`` characters, safe for values of any size."""
    if isinstance(value, str | bytes) and len(value) > limit:
        return f"{value[:limit]!r}..."
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return f"{kind} of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**limit:
        return f"a whole number of {value.bit_length()} bits"
    return repr(value)


def described(value: object) -> str:
    """A value of any type for an error: short, on one line, and never failing."""
    few = isinstance(value, dict | list) and len(value) <= 10
    try:
        text = one_line(repr(value) if few else shorten(value))
    except (ValueError, RecursionError):  # numbers too long to write, a list within itself
        text = one_line(shorten(value) if few else type(value).__name__)
    return text if len(text) <= 120 else f"{text[:117]}..."


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path as a text that can be written: bytes that are not UTF-8 become escapes such as a backslash and ``xe4``."""
    try:
        return os.fsencode(os.fspath(path)).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # no path of this machine
        return one_line(os.fspath(path))


def csv_text(text: str) -> str:
    """A text as it enters a cell of a CSV file, so that no spreadsheet takes it for a formula.

    Texts that begin like one (``= + - @``, tab, carriage return), or with the apostrophe that marks such texts, get an
    apostrophe in front, as OWASP advises ("CSV Injection"); :func:`text_from_csv` takes it off again. Numbers are no
    texts: they are written as they are, also below zero.
    """
    return f"'{text}" if text.startswith((*_FORMULA, "'")) else text


def csv_table(rows: Iterable[Iterable[str]]) -> str:
    """Lines of a CSV file, each ended by a line feed; cells with a comma, a quote or a line break are quoted.

    ``csv.writer`` leaves a carriage return unquoted where lines end in a line feed, and no reader gets such a row back.
    """
    return "".join(",".join(map(_quoted, row)) + "\n" for row in rows)


def _quoted(cell: str) -> str:
    if any(mark in cell for mark in ',"\r\n'):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def text_from_csv(cell: str) -> str:
    """What :func:`csv_text` was given."""
    return cell[1:] if cell.startswith("'") and cell[1:2] in (*_FORMULA, "'") and len(cell) > 1 else cell


def digits(value: float, *, fixed: bool = False) -> str:
    """About four significant digits without an exponent where it can be avoided; thousands separated by a comma.

    Trailing zeros after the point are dropped, unless ``fixed`` keeps them for columns of numbers.
    """
    size = abs(value)
    if size >= 1e9 or (0 < size < 1e-4):
        return f"{value:.3g}"
    if size >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.{max(0, 3 - (math.floor(math.log10(size)) if size >= 1e-9 else 0))}f}"
    return text if fixed and size > 0 else text.rstrip("0").rstrip(".") if "." in text else text
