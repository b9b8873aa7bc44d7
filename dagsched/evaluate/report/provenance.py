"""Provenance as label and value: what one needs to get the same numbers again."""

from __future__ import annotations

from collections.abc import Mapping


def provenance_pairs(about: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Scalars as they are; mappings as ``key value``; lists of described things as names with counts or digests."""
    pairs = []
    for key, value in about.items():
        if value is None or value in ("", [], (), {}):
            continue
        label = str(key).replace("_", " ")
        if isinstance(value, Mapping):
            pairs.append((label, ", ".join(f"{k} {v}" for k, v in value.items())))
        elif isinstance(value, list | tuple):
            pairs.append((label, "\n".join(_line(entry) for entry in value)))
        else:
            pairs.append((label, "yes" if value is True else "no" if value is False else str(value)))
    return tuple(pairs)


def _line(entry: object) -> str:
    if not isinstance(entry, Mapping):
        return str(entry)
    parts = [str(entry["name"])] if "name" in entry else []
    for key, value in entry.items():
        if key in ("name", "rejects") or value in (None, "", [], (), {}):
            continue
        if key == "description" and isinstance(value, Mapping):
            parts.append(_cluster_line(value))
        elif not isinstance(value, Mapping | list | tuple):
            parts.append(f"{key} {str(value)[:16] if key == 'digest' else value}")
    return ", ".join(parts)


def _cluster_line(description: Mapping[str, object]) -> str:
    groups = description.get("groups")
    if not isinstance(groups, list | tuple):
        return ""
    texts = []
    for group in groups:
        if isinstance(group, Mapping):
            capacity = group.get("capacity")
            size = ", ".join(f"{r} {a:g}" for r, a in capacity.items()) if isinstance(capacity, Mapping) else ""
            texts.append(f"{group.get('nodes')} × {group.get('name')} ({size}; speed {group.get('speed')})")
    return "; ".join(texts)


def reject_rows(about: Mapping[str, object]) -> tuple[tuple[str, str, int, str], ...]:
    """(workload, reason, count, example) of every kind of record that was left out while reading."""
    found = []
    workloads = about.get("workloads")
    for entry in workloads if isinstance(workloads, list | tuple) else ():
        rejects = entry.get("rejects") if isinstance(entry, Mapping) else None
        for reject in rejects if isinstance(rejects, list | tuple) else ():
            if isinstance(reject, Mapping):
                reason, example = str(reject.get("reason", "")), str(reject.get("example", ""))
                found.append((str(entry.get("name", "")), reason, int(reject.get("count", 0)), example))
    return tuple(found)
