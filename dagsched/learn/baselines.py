"""The rules to beat: what each standard rule costs on the same replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dagsched.cost import cost_function
from dagsched.errors import PolicyError
from dagsched.objective import ObjectiveName
from dagsched.policies.registry import list_policies, make_policy
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.workflow import FloatArray

SCREENED = 8
"""Replays on which every rule runs first ..."""
KEPT = 6
"""... and the number of best rules that run on all of them: some rules take seconds a replay."""


@dataclass(frozen=True, slots=True, eq=False)
class RuleCosts:
    """Costs ``[N]`` of rules on the same replays, best mean first."""

    costs: dict[str, FloatArray]

    @property
    def best(self) -> str:
        """The rule of lowest mean cost."""
        return next(iter(self.costs))


def standard_rules() -> tuple[str, ...]:
    """Every registered rule and list scheduler, ``random`` left out."""
    return tuple(p.name for p in list_policies() if p.kind in ("rule", "list") and p.name != "random")


def rule_costs(replays: Sequence[Replay], objective: ObjectiveName, rule: str) -> FloatArray | None:
    """``[N]`` costs of one rule; ``None`` if it refuses any of the replays."""
    try:
        return np.array([cost_function(r, objective)(simulate(r, rule).task_finish) for r in replays])
    except PolicyError:
        return None


def best_rules(
    replays: Sequence[Replay],
    objective: ObjectiveName,
    rules: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> RuleCosts:
    """Costs of the best rules on all replays.

    Args:
        replays: at least one.
        objective: what costs.
        rules: names; none = :func:`standard_rules`, of which the worst drop out after a few replays.
        progress: called with (done, total).

    Raises:
        PolicyError: for a rule that does not exist, or if every rule refuses these replays.
    """
    for rule in rules:
        make_policy(rule)
    names = tuple(rules) or standard_rules()
    report = progress or (lambda *_: None)
    few = replays[:SCREENED]
    tried: dict[str, FloatArray] = {}
    total = len(names) + (min(KEPT, len(names)) if len(replays) > len(few) else 0)
    for done, name in enumerate(names):
        report(done, total)
        costs = rule_costs(few, objective, name)
        if costs is not None:
            tried[name] = costs
    if not tried:
        raise PolicyError("no rule can handle these replays")
    if len(replays) > len(few):
        kept = sorted(tried, key=lambda name: float(tried[name].mean()))[:KEPT] if not rules else list(tried)
        for done, name in enumerate(kept):
            report(len(names) + done, total)
            rest = rule_costs(replays[len(few) :], objective, name)
            if rest is None:
                del tried[name]
            else:
                tried[name] = np.concatenate([tried[name], rest])
        tried = {name: costs for name, costs in tried.items() if len(costs) == len(replays)}
    report(total, total)
    return RuleCosts(dict(sorted(tried.items(), key=lambda item: float(item[1].mean()))))
