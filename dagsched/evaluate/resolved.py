"""What a planner's spec comes to on given replays: the modes in which it runs and the base policy it starts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagsched.errors import PolicyError
from dagsched.replay import Replay
from dagsched.search.options import FALLBACK

if TYPE_CHECKING:
    from dagsched.search.mcts import MctsPolicy


@dataclass(frozen=True, slots=True)
class Resolved:
    """What runs.

    Attributes:
        modes: ``plan``, ``tree`` and ``race``, those that occur, in order of appearance.
        base: spec of the base policy on the first replay on which the planner runs.
        rule: the base policy there if nothing is trained.
    """

    modes: tuple[str, ...]
    base: str
    rule: str


def resolve(planner: str, replays: Iterable[Replay], learned_options: Mapping[str, str]) -> Resolved:
    """Look at each replay without running the planner.

    Raises:
        PolicyError: if it refuses every replay.
    """
    from dagsched.policies.registry import make_policy
    from dagsched.search.mcts import MctsPolicy, choose_mode

    policy = make_policy(planner, learned_options=learned_options)
    assert isinstance(policy, MctsPolicy)
    modes: list[str] = []
    base = rule = ""
    refusal: PolicyError | None = None
    for replay in replays:
        objective = policy.objective(replay)
        try:
            modes.append(choose_mode(replay, policy.options, objective))
        except PolicyError as error:
            refusal = refusal or error
            continue
        if not base:
            base, rule = _base(policy, replay, objective), FALLBACK[objective]
    if not modes:
        raise PolicyError(f"ablation: {refusal}") from None
    return Resolved(tuple(dict.fromkeys(modes)), base, rule)


def _base(policy: MctsPolicy, replay: Replay, objective: str) -> str:
    from dagsched.search.base_policies import make_base
    from dagsched.search.workspace import Workspace
    from dagsched.simulator.stepper import Simulator

    options = policy.options
    if options.prior != "auto":
        return options.prior
    workspace = Workspace(Simulator(replay), objective)
    workspace.take_root()
    return make_base(workspace, policy.name, options.prior, policy.learned, learning=policy.learning).name
