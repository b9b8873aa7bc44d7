"""The pages of ``docs/reference`` and other tables made from the code: ``python -m tests.reference`` writes them anew.

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->`` of any page of ``docs``; what is around it is
written by hand. ``--check`` writes nothing, names the pages that differ, and ends with 1.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import typer

from dagsched.cli import app
from dagsched.cli.command import fill_in
from dagsched.features import schema
from dagsched.features.linear import START
from dagsched.features.schema import Feature
from dagsched.formats import readers
from dagsched.generate.suite import Arrivals, MixtureEntry, Suite
from dagsched.learn.train_config import TrainConfig
from dagsched.policies.info import ALIASES
from dagsched.policies.registry import list_policies
from dagsched.replay import PLACEMENTS, SimulationOptions

DOCS = Path(__file__).resolve().parents[1] / "docs"
_TABLE = re.compile(r"(?<=<!-- table )([\w-]+) -->\n.*?(?=<!-- end -->)", re.DOTALL)
_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def main() -> int:
    """Write every page anew, or with ``--check`` name those that differ."""
    differ = [page for page in pages() if filled(text_of(page)) != text_of(page)]
    for page in differ:
        if "--check" in sys.argv[1:]:
            print(f"{page.relative_to(DOCS.parent)} differs; run: python -m tests.reference")
        else:
            page.write_text(filled(text_of(page)), encoding="utf-8")
            print(f"{page.relative_to(DOCS.parent)} written")
    return int("--check" in sys.argv[1:] and bool(differ))


def pages() -> list[Path]:
    """Pages with a table that is made from the code."""
    return [page for page in sorted(DOCS.rglob("*.md")) if _TABLE.search(text_of(page))]


def text_of(page: Path) -> str:
    """What stands on a page."""
    return page.read_text(encoding="utf-8")


def filled(page: str) -> str:
    """The page with every table as the code has it now."""
    made = tables()
    return _TABLE.sub(lambda found: f"{found[1]} -->\n{made[found[1]]}", page)


@cache
def tables() -> Mapping[str, str]:
    """Every table by name."""
    return {
        "task-features": features(schema.TASK_FEATURES, of_tasks=True),
        "global-features": features(schema.GLOBAL_FEATURES),
        "group-features": features(schema.GROUP_FEATURES),
        "start-rules": markdown(("start", "weights"), ((f"`{rule}`", _sum(named)) for rule, named in START.items())),
        "config": config(),
        "suite": suite(),
        "policies": policies(),
        "formats": markdown(("format", "what it reads"), ((f"`{n}`", r.description) for n, r in readers().items())),
        "commands": commands(),
    }


def features(rows: Sequence[Feature], *, of_tasks: bool = False) -> str:
    """Name, version, unit, range and meaning of each feature; of tasks also the block, and if the encoder reads it."""
    span = f"[-{schema.CLIP:g}, {schema.CLIP:g}]"
    head = ("feature", "version", *(("block", "encoder") if of_tasks else ()), "a raw 1 is", "normalised", "meaning")
    lines = []
    for f in rows:
        more = (f.block, "yes" if f.name in schema.NODE_FEATURES else "") if of_tasks else ()
        lines.append((f"`{f.name}`", str(f.version), *more, f.unit, span, f.meaning))
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


def suite() -> str:
    """Every key of a suite file, those of its parts as ``arrivals.load``; the meaning is what the docstring says."""
    made: list[Sequence[str]] = []
    for name, field in Suite.model_json_schema()["properties"].items():
        if name == "mixture":
            made += _suite_part(MixtureEntry, "mixture[].")
        elif name == "arrivals":
            made += _suite_part(Arrivals, "arrivals.")
        elif name == "options":
            made += _options_of_simulation()
        else:
            made.append(_suite_key(Suite, name, field, ""))
    return markdown(("key", "default", "allowed", "meaning"), made)


def _suite_part(part: type[MixtureEntry] | type[Arrivals], prefix: str) -> list[Sequence[str]]:
    return [_suite_key(part, name, field, prefix) for name, field in part.model_json_schema()["properties"].items()]


def _suite_key(of: type, name: str, field: Mapping[str, Any], prefix: str) -> Sequence[str]:
    default = _value(field["default"]) if "default" in field else "needed"
    allowed = _allowed(field, of.model_json_schema())  # type: ignore[attr-defined]
    return f"`{prefix}{name}`", default, "" if allowed == "any" else allowed, attributes(of)[name]


def _options_of_simulation() -> list[Sequence[str]]:
    made = []
    for field in dataclasses.fields(SimulationOptions):
        default = "inf" if field.default == math.inf else str(field.default)
        allowed = ", ".join(f"`{name}`" for name in PLACEMENTS) if field.name == "placement" else "number >= 0"
        made.append((f"`options.{field.name}`", f"`{default}`", allowed, attributes(SimulationOptions)[field.name]))
    return made


def attributes(of: type) -> Mapping[str, str]:
    """The ``Attributes`` of a class's docstring, by name; a line of several names stands for each of them."""
    text = inspect.getdoc(of) or ""
    lines = re.sub(r"\n {8,}", " ", text.partition("Attributes:\n")[2])
    found = {}
    for line in lines.splitlines():
        names, _, meaning = line.strip().partition(": ")
        meaning = (
            re.sub(r":\w+:`~?([\w.]+)`", lambda role: f"`{role[1]}`", meaning)
            .replace("``", "`")
            .replace("`None`", "`null`")
        )
        found.update(dict.fromkeys(names.split(", "), meaning.rstrip(".")))
    return found


def policies() -> str:
    """Every policy with its kind, second names and options."""
    made = []
    for info in list_policies():
        names = [info.name, *(second for second, first in ALIASES.items() if first == info.name)]
        options = "<br>".join(f"`{key}`: {meaning}" for key, meaning in info.options.items())
        made.append((", ".join(f"`{name}`" for name in names), info.kind, info.description, options))
    return markdown(("policy", "kind", "what it does", "options"), made)


def commands() -> str:
    """Every command with what it does, its arguments and its options."""
    group: Any = typer.main.get_command(app)
    parts = []
    for name, command in [("", group), *group.commands.items()]:
        if not command.hidden:
            fill_in(command)
            text = " ".join((command.help or "").split())
            lines = [_parameter(one) for one in command.params if not getattr(one, "hidden", False)]
            table = "\n" + markdown(("option", "value", "default", "meaning"), lines) if lines else ""
            parts.append(f"## {f'dagsched {name}'.strip()}\n\n{text}\n{table}")
    return "\n" + "\n".join(parts)


def _parameter(one: Any) -> Sequence[str]:
    words = " ".join((getattr(one, "help", None) or "").split())
    if one.param_type_name == "argument":
        more = "..." if one.nargs == -1 else ""
        return f"`{one.metavar or one.name.upper()}{more}`", "", "needed" if one.required else "", words
    flag = bool(one.is_flag)
    names = ", ".join(f"`{name}`" for name in [*one.opts, *one.secondary_opts])
    kinds = {int: "whole number", float: "number", Path: "path"}
    value = "" if flag else one.metavar or kinds.get(one.type_descriptor.annotation, "text")
    shown = "" if flag or one.default is None or one.default == math.inf else f"`{one.default}`"
    return names, value + ", may be repeated" * one.multiple, shown, words


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
    bounds = ", ".join(f"{sign} {_number(field[key])}" for key, sign in _BOUNDS.items() if key in field)
    return f"{words.get(kind, kind)} {bounds}".strip()


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.12g}"


def _value(value: Any) -> str:
    if value == "":
        return ""
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
    sys.exit(main())
