"""Every policy by name, and the spec ``name[:key=value]...`` that makes one.

Start reading here to see what exists; the table at the bottom is all there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from dagsched.errors import PolicyError, closest
from dagsched.policies import cpsat, learned, rules, sampling
from dagsched.policies.base import Policy
from dagsched.policies.listing import ListPlanner
from dagsched.policies.options import option_float, option_int
from dagsched.policies.rule_file import load_rule
from dagsched.policies.runners import (
    BookingPolicy,
    FunctionPolicy,
    KeyFunction,
    PlanPolicy,
    PriorityPolicy,
    RandomPolicy,
    ScorePolicy,
)
from dagsched.replay import Replay
from dagsched.search import options as search_options
from dagsched.simulator import kernel

Options = Mapping[str, str]
_TRAINED = ("learned", "planner")
PUBLISHED_EPS = 0.0
TETRIS_OPTIONS = {
    "score": "published = alignment + eps x 1 / least estimate in s; ties: earlier arrival, then place in the source",
    "eps": f"seconds, with score=published ({PUBLISHED_EPS:g} = alignment alone, the packer)",
}


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """One registered policy.

    Attributes:
        name: what a spec begins with.
        description: one line.
        kind: ``rule``, ``list`` (static list scheduler), ``search``, ``learned``, ``planner`` or ``exact``.
        options: option names with their meaning.
        make: builds the policy from (full spec, options).
    """

    name: str
    description: str
    kind: str
    make: Callable[[str, Options], Policy] = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Split ``name:key=value:...`` into the name and its options.

    Raises:
        PolicyError: for an option without ``=`` or a repeated one.
    """
    name, *parts = spec.strip().split(":")
    options: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise PolicyError(f"policy {spec!r}: option {part!r} is not of the form key=value")
        if key in options:
            raise PolicyError(f"policy {spec!r}: option {key!r} is given twice")
        options[key] = value
    return name, options


def list_policies() -> tuple[PolicyInfo, ...]:
    """All registered policies, in the order ``dagsched policies`` shows them."""
    return tuple(_POLICIES.values())


def make_policy(spec: str, *, learned_options: Options = MappingProxyType({})) -> Policy:
    """Build a policy from its spec, or from ``path/to/file.py:function`` for a user's own rule.

    Args:
        spec: ``name[:key=value]...``.
        learned_options: ``objective`` and ``checkpoint`` of learned policies whose spec does not name them.

    Raises:
        PolicyError: for an unknown name or option (with the closest known one), or an unusable file.
    """
    if _is_file(spec):
        return _from_file(spec)
    name, options = parse_spec(spec)
    info = _POLICIES.get(name)
    if info is None:
        raise PolicyError(f"policy {spec!r}: there is no policy {name!r}; {closest_policy(name)}")
    for key in options:
        if key not in info.options:
            known = ", ".join(info.options) or "none"
            raise PolicyError(f"policy {spec!r}: unknown option {key!r}; options of {name}: {known}")
    options = {**{key: value for key, value in learned_options.items() if key in _given(info)}, **options}
    return info.make(spec, options)


def _is_file(spec: str) -> bool:
    return re.search(r"\.py:[^:=]+$", spec) is not None


def closest_policy(name: str) -> str:
    """What may have been meant by a name that is no policy."""
    return closest(name, _POLICIES, "`dagsched policies` lists them")


def _given(info: PolicyInfo) -> tuple[str, ...]:
    """Options that a comparison sets for a policy whose spec does not."""
    return tuple(key for key in ("objective", "checkpoint") if key in info.options) if info.kind in _TRAINED else ()


def policy_key(spec: str, learned_options: Options = MappingProxyType({})) -> str:
    """What a policy's results depend on besides the package's code: the spec, and the file or checkpoint behind it.

    Raises:
        PolicyError: for a rule file that is missing or fails.
    """
    if _is_file(spec):
        return f"{spec} {load_rule(spec.rpartition(':')[0]).digest}"
    name, options = parse_spec(spec)
    if name in _POLICIES and "checkpoint" in _given(_POLICIES[name]):
        return f"{spec} {learned.fingerprint({**learned_options, **options}.get('checkpoint', 'auto'))}"
    return spec


def _from_file(spec: str) -> FunctionPolicy:
    path, _, name = spec.rpartition(":")
    try:
        function = getattr(load_rule(path).module, name, None)
    except PolicyError as error:
        raise PolicyError(f"policy {spec!r}: {error}") from error
    if not callable(function):
        raise PolicyError(f"policy {spec!r}: {path} has no function {name!r}")
    return FunctionPolicy(spec, function)


def _planner(name: str, description: str, options: Options) -> PolicyInfo:
    def make(spec: str, options: Options) -> Policy:
        from dagsched.search.mcts import make_mcts

        return make_mcts(spec, options, learning=name == "mcts")

    return PolicyInfo(name, description, "planner", make, options)


def _make_random(spec: str, options: Options) -> Policy:
    return RandomPolicy(spec, option_int(spec, options, "seed", 0))


def _priority(name: str, description: str, key: KeyFunction | None) -> PolicyInfo:
    return PolicyInfo(name, description, "rule", lambda spec, _: PriorityPolicy(spec, key))


def _score(name: str, description: str, rule: int, batch_key: KeyFunction | None = None) -> PolicyInfo:
    needs_below = rule == kernel.CP_DEMAND_WORK

    def make(spec: str, options: Options) -> Policy:  # noqa: ARG001
        return ScorePolicy(spec, rule, needs_below, batch_key)

    return PolicyInfo(name, description, "rule", make)


def _make_tetris(spec: str, options: Options) -> Policy:
    if "score" not in options:
        if "eps" in options:
            raise PolicyError(
                f"policy {spec!r}: eps is an option of score=published; write tetris:score=published:eps=..."
            )
        return ScorePolicy(spec, kernel.TETRIS)
    if options["score"] != "published":
        raise PolicyError(f"policy {spec!r}: score is {options['score']!r}, expected published")
    return ScorePolicy(spec, kernel.PACKER, shortness=option_float(spec, options, "eps", PUBLISHED_EPS, 0.0))


def _booking(name: str, description: str, rule: int) -> PolicyInfo:
    return PolicyInfo(name, description, "rule", lambda spec, _: BookingPolicy(spec, rule))


def _list_planner(kind: str, replay: Replay, policy_seed: int) -> ListPlanner:  # noqa: ARG001
    return ListPlanner(kind, replay)


def _list(name: str, description: str) -> PolicyInfo:
    def make(spec: str, options: Options) -> Policy:  # noqa: ARG001
        return PlanPolicy(spec, partial(_list_planner, name))

    return PolicyInfo(name, description, "list", make)


_POLICIES: dict[str, PolicyInfo] = {
    info.name: info
    for info in (
        PolicyInfo("random", "a random order, from its own seed", "rule", _make_random, {"seed": "random seed (0)"}),
        _priority("fcfs", "first come, first served: earliest ready first", None),
        _score("round-robin", "the workflow served least recently first", kernel.ROUND_ROBIN),
        _priority("sjf", "shortest estimate first", rules.sjf),
        _priority("ljf", "longest estimate first", rules.ljf),
        _score("hrrn", "highest response ratio (wait + estimate) / estimate first", kernel.HRRN),
        _priority("edf", "earliest workflow deadline first", rules.edf),
        _priority("llf", "least laxity (deadline - now - remaining path) first", rules.llf),
        _score("weighted-fair", "the workflow that got least service per weight first", kernel.WEIGHTED_FAIR),
        _booking("min-min", "ready task and node of least completion time, booked virtually", kernel.MIN_MIN),
        _booking("max-min", "ready task whose least completion time is greatest, booked virtually", kernel.MAX_MIN),
        _booking("sufferage", "ready task that loses most on its second-best node", kernel.SUFFERAGE),
        _priority("critical-path", "longest remaining path (mean estimates) first", rules.critical_path),
        _list("heft", "HEFT: upward rank, insertion, earliest finish (Topcuoglu et al. 2002)"),
        _list("cpop", "CPoP: critical path on one processor (Topcuoglu et al. 2002)"),
        _list("peft", "PEFT: optimistic cost table (Arabnejad and Barbosa 2014)"),
        _priority("lft", "earliest latest-finish time first (RCPSP)", rules.lft),
        _priority("lst", "earliest latest-start time first (RCPSP)", rules.lst),
        _priority("mts", "most total successors first (RCPSP)", rules.mts),
        _score("srw", "smallest remaining workflow work first", kernel.SRW),
        _score("srw*cp", "srw with 0.02 x bottom level against it", kernel.SRW_CP),
        PolicyInfo("tetris", "best alignment of demand with free capacity first", "rule", _make_tetris, TETRIS_OPTIONS),
        _score("tetris+srw", "alignment against remaining workflow work, each by its mean", kernel.TETRIS_SRW),
        _priority("graphene", "troublesome tasks and their ancestors first (after Grandl et al. 2016)", rules.graphene),
        _score("cp+demand", "bottom level / max + demand / capacity", kernel.CP_DEMAND, rules.cp_demand),
        _score(
            "cp+demand+work",
            "cp+demand with half the demand and 0.3 x work of all descendants",
            kernel.CP_DEMAND_WORK,
            rules.cp_demand_work,
        ),
        PolicyInfo(
            "sampling",
            "best of n whole schedules from one rule with Gumbel noise (batch, no noise)",
            "search",
            sampling.make_sampling,
            sampling.OPTIONS,
        ),
        PolicyInfo(
            "evolved",
            "linear priority tuned by an evolution strategy, from a checkpoint",
            "learned",
            learned.make_learned("evolved"),
            learned.OPTIONS,
        ),
        PolicyInfo(
            "ppo",
            "the evolved priority plus a network trained by PPO, from a checkpoint",
            "learned",
            learned.make_learned("ppo"),
            learned.OPTIONS,
        ),
        PolicyInfo(
            "evolved-sample",
            "best of n whole schedules of `evolved` with Gumbel noise (batch, no noise)",
            "learned",
            learned.make_sampler("evolved"),
            learned.SAMPLE_OPTIONS,
        ),
        PolicyInfo(
            "ppo-sample",
            "best of n whole schedules of `ppo` with Gumbel noise (batch, no noise)",
            "learned",
            learned.make_sampler("ppo"),
            learned.SAMPLE_OPTIONS,
        ),
        _planner(
            "mcts",
            "planner: search from rules and trained policies, by whole schedules, in a tree or over scenarios",
            {**search_options.OPTIONS, **learned.OPTIONS},
        ),
        _planner(
            "mcts-rules",
            "the same without anything trained",
            {**search_options.OPTIONS, "objective": learned.OPTIONS["objective"]},
        ),
        PolicyInfo(
            "cp-sat",
            "OR-Tools CP-SAT, ground truth to about 60 tasks (batch, no noise; extra 'cp')",
            "exact",
            cpsat.make_cp_sat,
            cpsat.OPTIONS,
        ),
    )
}
