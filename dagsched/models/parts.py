"""The parts of a checkpoint folder: parsing each one, with a reason for every refusal; and the card as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagsched.errors import CheckpointError
from dagsched.features import schema


def card_text(described: Mapping[str, Any], tensors: Mapping[str, Any]) -> str:
    """``card.md``: what a person wants to know before using the policy.

    Args:
        described: the content of ``card.json``.
        tensors: weights by name.
    """
    network = described["network"]
    weights = sum(value.size for value in tensors.values())
    shape = "none" if network is None else f"encoder {network['encoder']}, {weights:,} weights"
    lines = [f"# {described['kind']} policy for {described['objective']}", "", f"- network: {shape}"]
    lines += [f"- {key}: {_short(value)}" for key, value in described["card"].items()]
    lines += ["", "Base priority (weight of each raw feature; the largest sum runs first):", ""]
    ordered = sorted(described["base"].items(), key=lambda item: -abs(item[1]))
    lines += [f"- `{name}` {weight:+.4g}" for name, weight in ordered] or ["- none"]
    return "\n".join([*lines, "", f"Digest `{described['digest']}`", ""])


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def check_schema(file: Path, found: dict[str, Any], task: Collection[str], *, network: bool) -> None:
    """The features that a model reads must be here as they were when it was trained.

    What they mean in words, and features that it does not read, may change. A network reads all features of the state
    and of the groups, by their place.

    Args:
        file: for the message.
        found: content of ``schema.json``.
        task: names of the task features that the model reads.
        network: whether it has one.
    """
    expected = json.loads(json.dumps(schema.to_dict()))
    differences = []
    for part in expected:
        theirs, ours = found.get(part), expected[part]
        if not isinstance(ours, list) or not isinstance(theirs, list):
            if theirs != ours:
                differences.append(f"{part} {theirs!r:.60} there, {ours!r:.60} here")
            continue
        if part != "task" and not network:
            continue
        there, here = _computed(theirs), _computed(ours)
        if part == "task":
            there, here = ({name: what for name, what in one.items() if name in task} for one in (there, here))
        lost, new = [n for n in there if n not in here], [n for n in here if n not in there]
        text = "; ".join(t for t in (listed("only there", lost), listed("only here", new)) if t)
        changed = [name for name in there if name in here and there[name] != here[name]]
        other = "another order" if part != "task" and list(there) != list(here) else ""
        if text or changed or other:
            differences.append(f"{part} features: {text or listed('changed', changed) or other}")
    differences += [f"unknown part {part!r}" for part in found if part not in expected]
    if differences:
        raise CheckpointError(
            f"{file}: made for other features than this version computes: {'. '.join(differences)}. Train again"
        )


def _computed(entries: list[Any]) -> dict[str, object]:
    """Unit and version by name: what a value of a feature is."""
    return {
        _name(entry): (entry.get("unit"), entry.get("version", 1)) if isinstance(entry, dict) else None
        for entry in entries
    }


def of_today(found: dict[str, Any], normaliser: dict[str, Any]) -> dict[str, Any]:
    """A normaliser for the features of this version, from one for those of its own schema; unread ones get 0, 1."""
    today = json.loads(json.dumps(schema.to_dict()))
    result = dict(normaliser)
    for part in ("task", "global", "group", "node"):
        theirs, rows = found.get(part), normaliser.get(part)
        if isinstance(theirs, list) and isinstance(rows, dict) and list(rows) == [_name(entry) for entry in theirs]:
            result[part] = {_name(entry): rows.get(_name(entry), [0.0, 1.0]) for entry in today[part]}
    return result


def _name(entry: object) -> str:
    return str(entry.get("name")) if isinstance(entry, dict) else str(entry)


def listed(what: str, names: list[str]) -> str:
    """``missing a, b and 3 more``; nothing for no names."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{what} {', '.join(names[:5])}{more}" if names else ""


def read_tensors(file: Path, data: bytes) -> dict[str, NDArray[np.float32]]:
    """All tensors of a safetensors file; anything that could hold code is refused unread."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if (
        len(data) > 8 and data[8:9] != b"{" and (data[:1] == b"\x80" or data[:2] == b"PK")
    ):  # safetensors: 8 bytes of length, then JSON
        raise CheckpointError(
            f"{file}: is a pickle or torch archive, which could run code; only safetensors files are read"
        )
    try:
        return dict(load(data))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file}: not a whole safetensors file: {error}; copy it again") from None


def read_json(file: Path, data: bytes) -> dict[str, Any]:
    """A JSON mapping of finite numbers."""

    def refuse(text: str) -> None:
        raise ValueError(f"{text} is no JSON number")

    try:
        found = json.loads(data.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: not valid JSON: {error}; copy it again") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{file}: expected a mapping, found {type(found).__name__}")
    return found
