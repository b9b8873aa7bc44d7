"""The ablation of a planner: variants of its spec that differ in one thing each, as ordinary policies of a comparison.

The set, in this order: the base policy alone, ``mcts-rules`` (search, nothing learned), the planner itself; one change
at a time where the mode that runs has a choice; and the planner at a quarter, 4 and 16 times its budget. Specs in,
specs out: nothing here runs a policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields

from dagsched.policies.info import parse_spec, policy_name
from dagsched.search.options import BUDGET_MS, FALLBACK, LEAVES, PLANNERS, SELECTIONS, SearchOptions

BUDGET_FACTORS = (0.25, 4.0, 16.0)
SCENARIO_FACTORS = (0.25, 4.0)
MODES = ("plan", "tree", "race")
_BUDGET = ("budget_ms", "simulations", "time_limit")
_FACTORS = {0.25: "a quarter of the budget", 0.5: "half the budget", 2.0: "twice the budget"}
_LEARNED_PRIORS = ("auto", "evolved", "ppo")
_SELECTION_WORDS = {"halving": "sequential halving", "puct": "PUCT", "uniform": "equal shares"}


def is_planner(spec: str) -> bool:
    """Whether a spec names a planner."""
    return policy_name(spec) in PLANNERS


def first_planner(specs: Iterable[str]) -> str | None:
    """The planner that an ablation is about: the first one named."""
    return next((spec for spec in specs if is_planner(spec)), None)


def with_planner(specs: Sequence[str]) -> list[str]:
    """The specs, with ``mcts`` at the end if no planner is among them."""
    return list(specs) if first_planner(specs) is not None else [*specs, PLANNERS[0]]


def expand(specs: Sequence[str], modes: Iterable[str], base: str, rule: str) -> tuple[str, ...]:
    """The specs of a comparison with the variants of its first planner put in; each spec once.

    Args:
        specs: as given, with at least one planner.
        modes: in which the planner runs on the replays: ``plan``, ``tree``, ``race``.
        base: spec of the policy that it starts from.
        rule: base policy of the variant without a trained one.

    Raises:
        ValueError: if no planner is among the specs.
        PolicyError: for a wrong option of the planner.
    """
    planner = first_planner(specs)
    if planner is None:
        raise ValueError("no planner among the specs")
    place = list(specs).index(planner)
    added = variants(planner, modes, base, rule)
    return tuple(dict.fromkeys([*specs[:place], base, planner, *added, *specs[place + 1 :]]))


def variants(planner: str, modes: Iterable[str], base: str, rule: str) -> tuple[str, ...]:
    """Variants of one planner: nothing learned, one change at a time, other budgets; see :func:`expand`."""
    options, running = options_of(planner), frozenset(modes)
    found = [without_learning(planner)]
    if "tree" in running:
        found += [changed(planner, leaf=leaf) for leaf in LEAVES if leaf not in ("auto", options.leaf)]
    if running & {"tree", "race"}:
        found.append(changed(planner, wait="0" if options.wait else "1"))
    if "tree" in running:
        found += [changed(planner, select=select) for select in SELECTIONS if select != options.select]
        found.append(changed(planner, commit="0" if options.commit else "1"))
    if running & {"tree", "race"} and base != rule:
        found.append(changed(planner, prior=rule))
    if "race" in running:
        found += [changed(planner, scenarios=max(2, round(f * options.scenarios))) for f in SCENARIO_FACTORS]
    found += [scaled(planner, factor) for factor in BUDGET_FACTORS]
    return tuple(spec for spec in dict.fromkeys(found) if not is_same(spec, planner))


def options_of(planner: str) -> SearchOptions:
    """The options of a planner's spec.

    Raises:
        PolicyError: for a wrong one.
    """
    return SearchOptions.parse(planner, parse_spec(planner)[1])


def changed(planner: str, **given: object) -> str:
    """A spec with other values of some options: in their place where it has them, else at the end."""
    name, options = parse_spec(planner)
    options |= {key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in given.items()}
    return _spec(name, options)


def without_learning(planner: str) -> str:
    """The planner as ``mcts-rules``: a rule as base policy stays, whatever is trained goes."""
    options = parse_spec(planner)[1]
    options.pop("checkpoint", None)
    if options.get("prior") in _LEARNED_PRIORS:
        del options["prior"]
    return _spec("mcts-rules", options)


def scaled(planner: str, factor: float) -> str:
    """The planner with so many times its budget, at least one simulation."""
    options = options_of(planner)
    if options.simulations:
        return changed(planner, simulations=max(1, round(factor * options.simulations)))
    timed: dict[str, object] = {}
    if options.time_limit < math.inf:  # of plan mode; the other modes go by the milliseconds
        timed["time_limit"] = factor * options.time_limit
    if options.time_limit == math.inf or options.budget_ms != BUDGET_MS:
        timed["budget_ms"] = factor * options.budget_ms
    return changed(planner, **timed)


def is_same(one: str, other: str) -> bool:
    """Whether two specs ask for the same, however they are written."""
    return not _differences(one, other)


def is_budget_of(spec: str, planner: str) -> bool:
    """Whether a spec is the planner itself or differs from it in its budget alone."""
    return set(_differences(planner, spec)) <= set(_BUDGET) and budget_of(spec)[0] == budget_of(planner)[0]


def budget_of(planner: str) -> tuple[str, float]:
    """(words for the unit, amount) of a planner's budget."""
    options = options_of(planner)
    if options.simulations:
        return "simulations a decision", float(options.simulations)
    if options.time_limit < math.inf:
        return "seconds in all", options.time_limit
    return "milliseconds a decision", options.budget_ms


def describe(planner: str, spec: str) -> str:
    """What a variant changes in a planner, in words."""
    if not is_planner(spec):
        return "no search"
    differing = _differences(planner, spec)
    if not differing:
        return "the planner"
    words = [_WORDS.get(key, _plain(key))(spec) for key in differing if key not in _BUDGET]
    if set(differing) & set(_BUDGET):
        words.append(_budget_words(planner, spec))
    return ", ".join(words)


def infer_base(policies: Sequence[str], objective: str) -> str | None:
    """The base policy of the first planner, if it was run: the one that its spec names, else evolved, else a rule."""
    planner = first_planner(policies)
    if planner is None:
        return None
    prior = options_of(planner).prior
    wanted = (prior,) if prior != "auto" else ("evolved", FALLBACK[objective])
    return next((base for base in wanted if base in policies), None)


def _differences(one: str, other: str) -> tuple[str, ...]:
    """Names of the options that differ; ``name`` first, if that differs."""
    mine, yours = options_of(one), options_of(other)
    names = [field.name for field in fields(SearchOptions) if field.name != "spec"]
    found = [name for name in names if getattr(mine, name) != getattr(yours, name)]
    (name, given), (second, others) = parse_spec(one), parse_spec(other)
    found += [key for key in ("checkpoint", "objective") if given.get(key) != others.get(key) and name == second]
    if name == second:
        return tuple(found)
    # what mcts-rules cannot have goes with the name and is no change of its own
    return ("name", *(key for key in found if key != "prior" or given.get("prior") not in (None, *_LEARNED_PRIORS)))


def _budget_words(planner: str, spec: str) -> str:
    (unit, amount), (own_unit, own) = budget_of(planner), budget_of(spec)
    if unit != own_unit or not amount:
        return f"{own:g} {own_unit}"
    factor = own / amount
    return _FACTORS.get(factor, f"{factor:.3g} × the budget")


def _plain(key: str) -> Callable[[str], str]:
    return lambda spec: f"{key} {parse_spec(spec)[1].get(key, getattr(options_of(spec), key, 'auto'))}"


_WORDS: Mapping[str, Callable[[str], str]] = {
    "name": lambda spec: "nothing learned" if spec.startswith("mcts-rules") else "with what is learned",
    "leaf": lambda spec: {"mix": "leaf: value and rollout"}.get(
        options_of(spec).leaf, f"leaf: {options_of(spec).leaf}"
    ),
    "wait": lambda spec: "with WAIT" if options_of(spec).wait else "without WAIT",
    "commit": lambda spec: (
        f"new schedules tried for {options_of(spec).commit:g} gaps"
        if options_of(spec).commit
        else "new schedules taken untried"
    ),
    "select": lambda spec: _SELECTION_WORDS[options_of(spec).select],
    "prior": lambda spec: f"starts from {options_of(spec).prior}",
    "scenarios": lambda spec: f"{options_of(spec).scenarios} scenarios",
}


def _spec(name: str, options: Mapping[str, str]) -> str:
    return ":".join([name, *(f"{key}={value}" for key, value in options.items())])
