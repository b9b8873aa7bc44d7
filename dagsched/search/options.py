"""Options of the planner, as in a spec ``mcts:search=tree:simulations=200`` and on the command line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dagsched.errors import PolicyError
from dagsched.policies.info import policy_name
from dagsched.policies.spec_options import option_int

MODES = ("plan", "tree", "race")
SEARCHES = ("auto", *MODES)
SELECTIONS = ("halving", "puct", "uniform")
LEAVES = ("auto", "rollout", "value", "mix")
BUDGET_MS = 2.0
FALLBACK: Mapping[str, str] = {"makespan": "critical-path", "flow_time": "srw*cp", "slo": "srw*cp"}
"""Base rule where no checkpoint fits: among the best of the standard rules on most suites (``docs/results.md``)."""
OPTIONS: Mapping[str, str] = {
    "search": "auto, plan (whole schedules, batch with exact durations), tree (decision by decision, exact durations) "
    "or race (uncertain durations) (auto)",
    "budget_ms": f"milliseconds of search for each decision; plan: times the tasks, spent at the start ({BUDGET_MS:g})",
    "simulations": "simulated schedules for each decision instead of milliseconds: reproducible; plan: times the tasks",
    "time_limit": "plan: seconds in all instead, of rules (the first one always completes) and search",
    "scenarios": "race: most scenarios for each decision (64)",
    "candidates": "most first actions looked at (8)",
    "leaf": "what a simulation ends with: rollout, value (learned in place) or mix (auto: rollout for makespan)",
    "prior": "base policy: ppo, evolved or a rule (auto: evolved if a checkpoint fits, else the best rule)",
    "select": "tree: halving, puct or uniform (halving)",
    "commit": "tree, streams: mean gaps between arrivals for which a new schedule must pay if the base policy goes on "
    "from there; 0 = it need only be better to the end (1)",
    "wait": "1 = WAIT is an action (1)",
    "workers": "plan: processes, at most one a core (1)",
    "seed": "random seed (0)",
}
"""Those of the search itself; ``objective`` and ``checkpoint`` are as for trained policies."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What a spec asks for; see ``OPTIONS``.

    Attributes:
        simulations: for each decision; 0 = by ``budget_ms``.
        time_limit: seconds of plan mode in all; infinite = ``budget_ms`` x tasks.
    """

    spec: str
    search: str = "auto"
    budget_ms: float = BUDGET_MS
    simulations: int = 0
    time_limit: float = math.inf
    scenarios: int = 64
    candidates: int = 8
    leaf: str = "auto"
    prior: str = "auto"
    select: str = "halving"
    commit: float = 1.0
    wait: bool = True
    workers: int = 1
    seed: int = 0

    @property
    def reproducible(self) -> bool:
        """Whether the budget is a number of simulations and not time."""
        return self.simulations > 0

    @classmethod
    def parse(cls, spec: str, options: Mapping[str, str]) -> SearchOptions:
        """Read the options of a spec.

        Raises:
            PolicyError: naming the option, what was found and what is expected.
        """

        def pick(key: str, known: tuple[str, ...]) -> str:
            value = options.get(key, known[0])
            if value not in known:
                raise PolicyError(f"policy {spec!r}: {key} is {value!r}, expected one of {', '.join(known)}")
            return value

        if "simulations" in options and ("budget_ms" in options or "time_limit" in options):
            raise PolicyError(f"policy {spec!r}: give simulations or a time (budget_ms, time_limit), not both")
        wait = options.get("wait", "1")
        if wait not in ("0", "1"):
            raise PolicyError(f"policy {spec!r}: wait is {wait!r}, expected 0 or 1")
        return cls(
            spec=spec,
            search=pick("search", SEARCHES),
            budget_ms=_number(spec, options, "budget_ms", BUDGET_MS),
            simulations=option_int(spec, options, "simulations", 1, 1) if "simulations" in options else 0,
            time_limit=_number(spec, options, "time_limit", math.inf),
            scenarios=option_int(spec, options, "scenarios", 64, 2),
            candidates=option_int(spec, options, "candidates", 8, 1),
            leaf=pick("leaf", LEAVES),
            prior=options.get("prior", "auto"),
            select=pick("select", SELECTIONS),
            commit=_number(spec, options, "commit", 1.0),
            wait=wait == "1",
            workers=option_int(spec, options, "workers", 1, 1),
            seed=option_int(spec, options, "seed", 0),
        )


PLANNERS = ("mcts", "mcts-rules")


def with_options(spec: str, given: Mapping[str, object]) -> str:
    """A planner's spec with options that it does not set itself; any other spec as it is. ``None`` = not given."""
    name, *parts = spec.split(":")
    if policy_name(spec) not in PLANNERS:
        return spec
    known = {part.partition("=")[0] for part in parts}
    added = [f"{key}={value}" for key, value in given.items() if value is not None and key not in known]
    return ":".join([name, *parts, *added])


def _number(spec: str, options: Mapping[str, str], key: str, default: float) -> float:
    text = options.get(key)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise PolicyError(f"policy {spec!r}: {key} is {text!r}, expected a finite number >= 0")
    return value
