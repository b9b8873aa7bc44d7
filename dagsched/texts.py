"""Texts from strangers: what is a text at all, how it is shown on one line, and how it enters a table."""

from __future__ import annotations

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


def csv_text(text: str) -> str:
    """A text as it enters a cell of a CSV file, so that no spreadsheet takes it for a formula.

    Texts that begin like one (``= + - @``, tab, carriage return), or with the apostrophe that marks such texts, get an
    apostrophe in front, as OWASP advises ("CSV Injection"); :func:`text_from_csv` takes it off again. Numbers are no
    texts: they are written as they are, also below zero.
    """
    return f"'{text}" if text.startswith((*_FORMULA, "'")) else text


def text_from_csv(cell: str) -> str:
    """What :func:`csv_text` was given."""
    return cell[1:] if cell.startswith("'") and cell[1:2] in (*_FORMULA, "'") and len(cell) > 1 else cell
