"""A command whose help names what registries hold; they are read only when the help is shown."""

from __future__ import annotations

from typing import Any

import typer.core

FORMATS = "{formats}"
"""Stands in a help text for the names of all formats that can be read."""


class Command(typer.core.TyperCommand):
    """A command of ``dagsched``."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the names filled in."""
        fill_in(self)
        super().format_help(ctx, formatter)


def fill_in(command: Any) -> None:
    """Replace the placeholders in the help of a command's parameters."""
    from dagsched.formats.registry import readers

    for parameter in command.params:
        text = getattr(parameter, "help", None)
        if text and FORMATS in text:
            parameter.help = text.replace(FORMATS, ", ".join(readers()))
