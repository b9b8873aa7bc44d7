"""The one reader of YAML: cluster, suite and training files, and values after ``--set``.

Safe types only, and nothing that lets a small text become large or mean two things: no anchors and aliases (half a
kilobyte of them expands to gigabytes), no key twice in a mapping, no endless numbers, lists or nesting, no file above
1 MiB.
"""

from __future__ import annotations

import stat
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagsched.errors import ConfigError
from dagsched.texts import is_unicode, one_line, shown_path

if TYPE_CHECKING:
    import yaml

MOST_BYTES = 1 << 20
"""Largest file; descriptions of clusters, suites and trainings take a few kilobytes."""

LONGEST_NUMBER = 100
"""Most characters of a number; YAML's numbers to base 60 take time that grows with the square."""

MOST_VALUES = 100_000
"""Most scalars, lists and mappings together: each takes about 0.1 ms and a kilobyte."""

DEEPEST = 50
"""Most lists and mappings inside each other."""


def read_yaml(file: Path, what: str) -> Any:
    """The value in a YAML file.

    Args:
        file: UTF-8, with or without byte-order mark.
        what: what it should be, for the errors: ``cluster file``, ``suite file``, ``configuration file``.

    Raises:
        ConfigError: in one line that names the file.
    """
    try:
        details = file.stat()
        if not stat.S_ISREG(details.st_mode):
            raise ConfigError(f"{shown_path(file)}: is not a regular file; give a {what}")
        if details.st_size > MOST_BYTES:
            raise ConfigError(f"{shown_path(file)}: is larger than {MOST_BYTES:,} bytes, which is no {what}")
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{shown_path(file)}: cannot read the {what}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown_path(file)}: not valid YAML: is not UTF-8 text (byte {error.start})") from None
    except ValueError as error:  # a path with a null byte
        raise ConfigError(f"{shown_path(file)}: cannot read the {what}: {error}") from None
    return parse_yaml(text, shown_path(file))


def parse_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; raises :class:`ConfigError` that begins with ``where``."""
    import yaml

    try:
        return yaml.load(text, Loader=_loader())  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        place = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise ConfigError(f"{where}: not valid YAML{place}: {_worded(error.problem or error.context)}") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, AttributeError, LookupError) as error:
        raise ConfigError(f"{where}: not valid YAML: {_worded(error)}") from None


def _worded(error: object) -> str:
    """On one line, of bounded length, without control characters."""
    return one_line(" ".join(str(error).split())[:300])


@cache
def _loader() -> type[yaml.SafeLoader]:
    """Made on first use: PyYAML is imported only where YAML is read."""
    import yaml

    class Loader(yaml.SafeLoader):
        """``yaml.SafeLoader`` without aliases, repeated keys and endless numbers."""

        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.depth = self.values = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            name = getattr(event, "anchor", None)
            self.values += 1
            self.depth += 1
            problem = ""
            if name is not None:
                mark = "*" if isinstance(event, yaml.AliasEvent) else "&"
                problem = f"{mark}{name[:40]}: anchors and aliases are not read; write the value out where it is meant"
            elif self.values > MOST_VALUES or self.depth > DEEPEST:
                problem = f"more than {MOST_VALUES:,} values, or {DEEPEST} inside each other"
            if problem:
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            seen: set[Any] = set()
            for key, (at, _) in zip(keys, node.value, strict=True):
                try:
                    if key in seen:
                        problem = f"key {str(key)[:40]!r} is given twice in one mapping"
                        raise yaml.constructor.ConstructorError(None, None, problem, at.start_mark)
                    seen.add(key)
                except TypeError:
                    break  # a key that is a list or a mapping: PyYAML words it
            return super().construct_mapping(node, deep)

        def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
            if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > LONGEST_NUMBER:
                problem = f"a number of {len(node.value):,} characters, expected at most {LONGEST_NUMBER}"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            value = super().construct_scalar(node)
            if isinstance(value, str) and not is_unicode(value):
                problem = "holds half of a surrogate pair, which is no character"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            return value

    return Loader
