"""What the registry knows of a policy, and the spec ``name[:key=value]...`` that makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dagsched.errors import PolicyError
from dagsched.policies.base import Policy

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """One registered policy.

    Attributes:
        name: what a spec begins with.
        description: one line.
        kind: ``rule``, ``list`` (static list scheduler), ``search``, ``learned``, ``planner``, ``auto`` or ``exact``.
        options: option names with their meaning.
        placed: whether the placement rule picks its nodes, so that it takes the option ``placement``, too.
        make: builds the policy from (full spec, options).
    """

    name: str
    description: str
    kind: str
    make: Callable[[str, Options], Policy] = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    placed: bool = False


ALIASES: Mapping[str, str] = {
    "network": "ppo",  # it need not come from PPO
    "network-sample": "ppo-sample",
    "planner": "mcts",  # nor does each mode search in a tree
    "planner-rules": "mcts-rules",
}
"""Second names; results are written under the spec as it was given."""


def policy_name(spec: str) -> str:
    """The name that a spec begins with, whatever its options; for a second name the first one."""
    name = spec.strip().partition(":")[0]
    return ALIASES.get(name, name)


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Split ``name:key=value:...`` into the name, for a second name the first one, and its options.

    Raises:
        PolicyError: for an option without ``=`` or a repeated one.
    """
    _, *parts = spec.strip().split(":")
    options: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise PolicyError(f"policy {spec!r}: option {part!r} is not of the form key=value")
        if key in options:
            raise PolicyError(f"policy {spec!r}: option {key!r} is given twice")
        options[key] = value
    return policy_name(spec), options
