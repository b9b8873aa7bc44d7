"""Provenance as label and value: what one needs to get the same numbers again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MOST_CLUSTERS = 4


def provenance_pairs(about: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Scalars as they are; mappings as ``key value``; lists of described things as names with counts or digests."""
    pairs = []
    for key, value in about.items():
        if value is None or value in ("", [], (), {}):
            continue
        label = str(key).replace("_", " ")
        if isinstance(value, Mapping):
            pairs.append((label, ", ".join(f"{k} {v}" for k, v in value.items())))
        elif key == "clusters" and isinstance(value, list | tuple):
            pairs.append((label, "\n".join(_cluster_lines(value))))
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
        if key in ("name", "rejects", "assumed") or value in (None, "", [], (), {}):
            continue
        if key == "description" and isinstance(value, Mapping):
            parts.append(_cluster_line(value))
        elif not isinstance(value, Mapping | list | tuple):
            parts.append(f"{key} {str(value)[:16] if key == 'digest' else value}")
    return ", ".join(parts)


def _cluster_lines(clusters: Sequence[object]) -> list[str]:
    """One line a cluster; many different ones of one name are counted, and a few of them described."""
    named: dict[str, list[object]] = {}
    for entry in clusters:
        named.setdefault(str(entry.get("name", "")) if isinstance(entry, Mapping) else str(entry), []).append(entry)
    lines = []
    for name, entries in named.items():
        if len(entries) <= _MOST_CLUSTERS:
            lines += [_line(entry) for entry in entries]
            continue
        sizes = sorted({_node_count(entry) for entry in entries})
        size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        nodes = "node" if sizes == [1] else "nodes"
        lines.append(f"{name}: {len(entries):,} different clusters of {size} {nodes}; the first {_MOST_CLUSTERS}:")
        lines += [_line(entry) for entry in entries[:_MOST_CLUSTERS]]
        lines.append(f"and {len(entries) - _MOST_CLUSTERS:,} more, in summary.json")
    return lines


def _node_count(entry: object) -> int:
    description = entry.get("description") if isinstance(entry, Mapping) else None
    groups = description.get("groups") if isinstance(description, Mapping) else None
    counts = [group.get("nodes") for group in groups or () if isinstance(group, Mapping)] if _listed(groups) else []
    return sum(count for count in counts if isinstance(count, int))


def _listed(value: object) -> bool:
    return isinstance(value, list | tuple)


def _cluster_line(description: Mapping[str, object]) -> str:
    groups = description.get("groups")
    if not isinstance(groups, list | tuple):
        return ""
    texts = []
    for group in groups:
        if isinstance(group, Mapping):
            capacity = group.get("capacity")
            size = (
                ", ".join(f"{r} {a:g}" if isinstance(a, int | float) else f"{r} {a}" for r, a in capacity.items())
                if isinstance(capacity, Mapping)
                else ""
            )
            texts.append(f"{group.get('nodes')} × {group.get('name')} ({size}; speed {group.get('speed')})")
    return "; ".join(texts)


def reject_rows(about: Mapping[str, object]) -> tuple[tuple[str, str, int, str], ...]:
    """(workload, reason, count, example) of every kind of record that was left out while reading."""
    return _counted_rows(about, "rejects", "reason")


def assumed_rows(about: Mapping[str, object]) -> tuple[tuple[str, str, int, str], ...]:
    """(workload, rule, count, example) of every kind of value that was read by a rule."""
    return _counted_rows(about, "assumed", "rule")


def _counted_rows(about: Mapping[str, object], part: str, text: str) -> tuple[tuple[str, str, int, str], ...]:
    found = []
    workloads = about.get("workloads")
    for entry in workloads if isinstance(workloads, list | tuple) else ():
        rows = entry.get(part) if isinstance(entry, Mapping) else None
        for row in rows if isinstance(rows, list | tuple) else ():
            if isinstance(row, Mapping):
                reason, example = str(row.get(text, "")), str(row.get("example", ""))
                count = row.get("count", 0)
                number = count if isinstance(count, int) else 0
                found.append((str(entry.get("name", "")), reason, number, example))
    return tuple(found)
