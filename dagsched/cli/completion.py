"""What a shell completes after ``--policies``, ``--policy``, ``--rules`` and ``--format``: names of the registries.

A shell asks by running the program, so that everything is imported here when it is asked for.
"""

from __future__ import annotations


def complete_policy(incomplete: str) -> list[tuple[str, str]]:
    """Policies that a spec can begin with, and what each does."""
    from dagsched.policies.info import ALIASES
    from dagsched.policies.registry import list_policies

    about = {info.name: info.description for info in list_policies()}
    about |= {second: f"second name of {first}" for second, first in ALIASES.items()}
    return [(name, text) for name, text in about.items() if name.startswith(incomplete)]


def complete_policies(incomplete: str) -> list[tuple[str, str]]:
    """The same for the last of several specs between commas."""
    before, comma, last = incomplete.rpartition(",")
    return [(f"{before}{comma}{name}", text) for name, text in complete_policy(last)]


def complete_format(incomplete: str) -> list[tuple[str, str]]:
    """Formats that can be read."""
    from dagsched.formats.registry import readers

    return [(name, r.description) for name, r in readers().items() if name.startswith(incomplete)]
