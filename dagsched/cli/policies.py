"""``dagsched policies``: what can stand behind ``--policies``."""

from __future__ import annotations

import json

from dagsched.cli import options
from dagsched.cli.console import examples

EXAMPLES = examples(
    "dagsched policies",
    "dagsched policies --json",
)


def policies(*, as_json: options.Json = False) -> None:
    """List every policy with its kind, a one-line description and its options."""
    from rich.markup import escape
    from rich.table import Table

    from dagsched.cli.console import output
    from dagsched.policies.info import ALIASES
    from dagsched.policies.registry import list_policies

    if as_json:
        found = [
            {"name": i.name, "kind": i.kind, "description": i.description, "options": dict(i.options)}
            for i in list_policies()
        ]
        print(json.dumps(found, indent=1, ensure_ascii=False))  # noqa: T201
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("what it does")
    for info in list_policies():
        names = [info.name, *(second for second, first in ALIASES.items() if first == info.name)]
        choices = [f"\n  {key}={meaning}" for key, meaning in info.options.items()]
        table.add_row(" = ".join(names), info.kind, escape("".join([info.description, *choices])))
    console = output()
    console.print(table)
    console.print(
        "Rules, trained policies and planners also take placement=RULE, the rule that picks the node. Your own rule: "
        "path/to/file.py:function[:key=value]... scores the eligible tasks, or names one and its node (see README).",
        markup=False,
        soft_wrap=True,
    )
