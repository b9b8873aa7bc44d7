"""Typed access to the fields of JSON objects that others wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dagsched.formats.source import Source, finite


@dataclass(frozen=True, slots=True)
class Fields:
    """Typed access to the fields of JSON objects; every failure names the place and the field."""

    source: Source

    def object(self, record: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
        """The object under a key."""
        value = record.get(key)
        if not isinstance(value, dict):
            self.source.fail(where, key, value, "an object")
        return value

    def objects(self, record: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
        """The list of objects under a key, at least one."""
        value = record.get(key)
        if not isinstance(value, list) or not value:
            self.source.fail(where, key, value, "a list that is not empty")
        for position, entry in enumerate(value):
            if not isinstance(entry, dict):
                self.source.fail(where, f"{key}[{position}]", entry, "an object")
        return value

    def text(self, record: Mapping[str, Any], key: str, where: str) -> str:
        """The text under a key, not empty."""
        value = record.get(key)
        if not isinstance(value, str) or not value:
            self.source.fail(where, key, value, "a text that is not empty")
        return value

    def texts(self, record: Mapping[str, Any], key: str, where: str) -> list[str] | None:
        """The list of texts under a key, or ``None`` where it is absent."""
        value = record.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            self.source.fail(where, key, value, "a list of texts")
        return value

    def amount(self, record: Mapping[str, Any], key: str, where: str) -> float | None:
        """The finite number >= 0 under a key, or ``None`` where it is absent."""
        value = record.get(key)
        if value is None:
            return None
        number = finite(value)
        if number is None or number < 0:
            self.source.fail(where, key, value, "a finite number >= 0")
        return number

    def cores(self, record: Mapping[str, Any], key: str, where: str) -> float | None:
        """The finite number under a key, of any sign, or ``None`` where it is absent."""
        value = record.get(key)
        if value is None:
            return None
        number = finite(value)
        if number is None:
            self.source.fail(where, key, value, "a finite number >= 1, or none to mean one core")
        return number

    def seconds(self, record: Mapping[str, Any], key: str, where: str) -> float:
        """The seconds under a key, which must be there."""
        value = self.amount(record, key, where)
        if value is None:
            self.source.refuse(f"{where}: {key} is missing, expected seconds >= 0")
        return value
