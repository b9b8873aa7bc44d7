"""Tables of ``docs/learning.md`` that are made from the code: ``python -m tests.tables`` writes them anew.

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``; ``tests/test_tables.py`` fails where one differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagsched.features import schema
from dagsched.features.linear import START
from dagsched.features.schema import Feature
from dagsched.learn.train_config import TrainConfig

PAGE = Path(__file__).resolve().parents[1] / "docs" / "learning.md"
_TABLE = re.compile(r"(?<=<!-- table )([\w-]+) -->\n.*?(?=<!-- end -->)", re.DOTALL)
_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def main() -> None:
    """Write every table of the page anew."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(page: str) -> str:
    """The page with every table as the code has it now."""
    made = tables()
    return _TABLE.sub(lambda found: f"{found[1]} -->\n{made[found[1]]}", page)


def tables() -> dict[str, str]:
    """Every table by name."""
    return {
        "task-features": features(schema.TASK_FEATURES, of_tasks=True),
        "global-features": features(schema.GLOBAL_FEATURES),
        "group-features": features(schema.GROUP_FEATURES),
        "start-rules": markdown(("start", "weights"), ((f"`{rule}`", _sum(named)) for rule, named in START.items())),
        "config": config(),
    }


def features(rows: Sequence[Feature], *, of_tasks: bool = False) -> str:
    """Name, unit, range and meaning of each feature; of tasks also the block, and whether the encoder reads it."""
    span = f"[-{schema.CLIP:g}, {schema.CLIP:g}]"
    head = ("feature", *(("block", "encoder") if of_tasks else ()), "a raw 1 is", "normalised", "meaning")
    lines = []
    for f in rows:
        more = (f.block, "yes" if f.name in schema.NODE_FEATURES else "") if of_tasks else ()
        lines.append((f"`{f.name}`", *more, f.unit, span, f.meaning))
    return markdown(head, lines)


def config() -> str:
    """Every key of a training configuration with its default, what it may be and what it does."""
    whole = TrainConfig.model_json_schema()
    return markdown(("key", "default", "allowed", "meaning"), _keys(whole, whole, ""))


def _keys(part: Mapping[str, Any], whole: Mapping[str, Any], prefix: str) -> Iterable[Sequence[str]]:
    for name, field in part["properties"].items():
        if "$ref" in field:
            yield from _keys(_referred(field, whole), whole, f"{prefix}{name}.")
            continue
        default = _value(field["default"]) if "default" in field else "needed"
        yield f"`{prefix}{name}`", default, _allowed(field, whole), field.get("description", "")


def _referred(field: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = whole["$defs"][field["$ref"].rpartition("/")[2]]
    return found


def _allowed(field: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_allowed(one, whole) for one in field["anyOf"])
    if "$ref" in field:
        return "{" + ", ".join(_referred(field, whole)["properties"]) + "}"
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_allowed(field['items'], whole)}"
    words = {"integer": "whole number", "boolean": "`true`, `false`", "string": "text", "null": "`null`"}
    bounds = ", ".join(f"{sign} {field[key]:,.12g}" for key, sign in _BOUNDS.items() if key in field)
    return f"{words.get(kind, kind)} {bounds}".strip()


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "`[" + ", ".join(map(str, value)) + "]`"
    shown = {True: "true", False: "false", None: "null"}.get(value) if value is None or value is True else None
    return f"`{'false' if value is False else shown or value}`"


def _sum(named: Mapping[str, float]) -> str:
    return " + ".join(f"{weight:g} `{name}`" for name, weight in named.items()).replace("+ -", "- ")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar within a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    main()
