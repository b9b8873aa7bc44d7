"""Every policy by name, and the spec ``name[:key=value]...`` that makes one.

To add policies, write a module with ``POLICIES`` and name it in ``_MODULES``. Modules are imported by name, so that
none of them has to lie below this one.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import MappingProxyType

from dagsched.errors import PolicyError, closest
from dagsched.policies.base import Policy
from dagsched.policies.info import ALIASES, Options, PolicyInfo, parse_spec
from dagsched.policies.learned.trained import fingerprint
from dagsched.policies.own.function import from_file, is_file_spec, rule_path
from dagsched.policies.own.rule_file import load_rule
from dagsched.policies.placed import OPTION, PlacedPolicy, check_placement

_TRAINED = ("learned", "planner", "auto")


# In the order in which `dagsched policies` lists them.
_MODULES = (
    "policies.classic",
    "policies.sampling.sampler",
    "policies.learned.trained",
    "search.policies",
    "policies.exact.cpsat",
)


@cache
def _policies() -> dict[str, PolicyInfo]:
    found = [info for module in _MODULES for info in import_module(f"dagsched.{module}").POLICIES]
    return {info.name: info for info in found}


def list_policies() -> tuple[PolicyInfo, ...]:
    """All registered policies, in the order ``dagsched policies`` shows them."""
    return tuple(_policies().values())


def make_policy(spec: str, *, learned_options: Options = MappingProxyType({})) -> Policy:
    """Build a policy from its spec, or from ``path/to/file.py:function[:key=value]...`` for a user's own rule.

    Args:
        spec: ``name[:key=value]...``.
        learned_options: ``objective`` and ``checkpoint`` of learned policies whose spec does not name them.

    Raises:
        PolicyError: for an unknown name or option (with the closest known one), or an unusable file.
    """
    if is_file_spec(spec):
        return from_file(spec)
    name, options = parse_spec(spec)
    info = _policies().get(name)
    if info is None:
        raise PolicyError(f"policy {spec!r}: there is no policy {name!r}; {closest_policy(name)}")
    taken = (*info.options, *([OPTION] if info.placed else []))
    for key in options:
        if key == OPTION and not info.placed:
            raise PolicyError(f"policy {spec!r}: {name} chooses its nodes itself and takes no {OPTION}")
        if key not in taken:
            known = ", ".join(taken) or "none"
            raise PolicyError(f"policy {spec!r}: unknown option {key!r}; options of {name}: {known}")
    options = {**{key: value for key, value in learned_options.items() if key in _given(info)}, **options}
    placement = options.pop(OPTION, None)
    made = info.make(spec, options)
    if placement is None:
        return made
    check_placement(spec, placement)
    return PlacedPolicy(spec, made, placement)


def closest_policy(name: str) -> str:
    """What may have been meant by a name that is no policy."""
    return closest(name, [*_policies(), *ALIASES], "`dagsched policies` lists them")


def _given(info: PolicyInfo) -> tuple[str, ...]:
    """Options that a comparison sets for a policy whose spec does not."""
    return tuple(key for key in ("objective", "checkpoint") if key in info.options) if info.kind in _TRAINED else ()


def policy_key(spec: str, learned_options: Options = MappingProxyType({})) -> str:
    """What a policy's results depend on besides the package's code: the spec, and the file or checkpoint behind it.

    Raises:
        PolicyError: for a rule file that is missing or fails.
    """
    if is_file_spec(spec):
        return f"{spec} {load_rule(rule_path(spec)).digest}"
    name, options = parse_spec(spec)
    if name in _policies() and "checkpoint" in _given(_policies()[name]):
        return f"{spec} {fingerprint({**learned_options, **options}.get('checkpoint', 'auto'))}"
    return spec
