"""``mcts`` and ``mcts-rules``: the planner as a policy, decision by decision or as one plan at the start.

What it searches with is chosen once for a replay (:func:`choose_mode`): ``plan`` searches whole schedules of a batch
(:mod:`dagsched.search.plan`), which is no tree search; ``tree`` is Monte Carlo tree search where estimates are exact,
carrying the best schedule found so far from decision to decision (:mod:`dagsched.search.tree_decider`); ``race``
compares first actions, or follows a list, under uncertain durations (:mod:`dagsched.search.race_decider`).
``docs/planning.md`` has the algorithms, their sources and what is guaranteed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dagsched.errors import PolicyError
from dagsched.policies.base import DeferredRun, Run
from dagsched.policies.learned.trained import LearnedOptions
from dagsched.policies.sampling.sampler import OBJECTIVES
from dagsched.replay import Replay
from dagsched.search.base_policies import make_base, rival_bases
from dagsched.search.options import SearchOptions
from dagsched.search.plan import begin_plan, plan_batch
from dagsched.search.plan_search import Improved, PlanResult
from dagsched.search.race_decider import RaceDecider, ScenarioDraws, race_or_list
from dagsched.search.stepwise import StepwiseRun, search_stream
from dagsched.search.tree_decider import TreeDecider
from dagsched.search.workspace import Workspace
from dagsched.simulator.stepper import Simulator


@dataclass(frozen=True, slots=True)
class MctsPolicy:
    """The planner; see the module.

    Attributes:
        name: the spec.
        options: see there.
        learned: ``objective`` and ``checkpoint``.
        learning: False for ``mcts-rules``, which reads no checkpoint.
        improved: told how plan mode gets on.
    """

    name: str
    options: SearchOptions
    learned: Mapping[str, str] = field(default_factory=dict)
    learning: bool = True
    improved: Improved | None = None

    @property
    def reproducible(self) -> bool:
        """Whether the budget is a number of simulations."""
        return self.options.reproducible

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        replay = simulator.replay
        objective = self.objective(replay)
        if self.learning:
            self._trained.check_named(replay)
        if choose_mode(replay, self.options, objective) == "plan":
            return DeferredRun(lambda: self._planned(simulator, objective))
        self._check_steps()
        return self.stepwise(simulator, objective)

    def _check_steps(self) -> None:
        """Refuse what only whole plans can heed."""
        options = self.options
        for name, given in (("time_limit", np.isfinite(options.time_limit)), ("workers", options.workers > 1)):
            if given:
                raise PolicyError(
                    f"policy {self.name!r}: {name} is for whole plans (a batch with exact durations); this replay is "
                    f"searched decision by decision: use budget_ms or simulations"
                )

    def stepwise(self, simulator: Simulator, objective: str) -> StepwiseRun:
        """A run that decides step by step, in a tree, by a race or by a list; not for plan mode."""
        options = self.options
        workspace = Workspace(simulator, objective)
        rng = search_stream(workspace, options)
        tree = choose_mode(simulator.replay, options, objective) == "tree"
        if not tree and options.prior == "auto" and objective == "makespan":
            rivals = rival_bases(workspace, self.name, self.learned, learning=self.learning)
            return StepwiseRun(workspace, options, lambda budget: race_or_list(workspace, rivals, options, budget, rng))
        base = make_base(workspace, self.name, options.prior, self.learned, learning=self.learning)
        if tree:
            return StepwiseRun(workspace, options, lambda budget: TreeDecider(workspace, base, options, budget, rng))
        draws = ScenarioDraws(workspace, options.scenarios, rng)
        return StepwiseRun(workspace, options, lambda budget: RaceDecider(workspace, base, options, budget, rng, draws))

    def objective(self, replay: Replay) -> str:
        """What is searched for: the one asked for, or the replay's."""
        return self._trained.objective_of(replay)

    @property
    def _trained(self) -> LearnedOptions:
        return LearnedOptions.parse(self.name, "evolved", self.learned)

    def _planned(self, simulator: Simulator, objective: str) -> tuple[Run, Mapping[str, Any]]:
        """(what follows the plan, ``search`` (plan), ``simulations``, the schedules generated, and ``plan``)."""
        found = self.plan(simulator.placed_replay, objective, simulator.policy_seed)
        report = {"search": "plan", "simulations": found.schedules, "plan": replace(found, ended=None)}
        return begin_plan(self.name, found, simulator, self.learned), report

    def plan(self, replay: Replay, objective: str, policy_seed: int = 0) -> PlanResult:
        """Search for a whole schedule of a batch with exact durations.

        Raises:
            PolicyError: see :func:`dagsched.search.plan.plan_batch`.
        """
        options, tasks = self.options, len(replay)
        limit = options.time_limit if np.isfinite(options.time_limit) else None
        by_count = options.simulations > 0
        return plan_batch(
            replay,
            objective=objective,
            base=None if options.prior == "auto" else options.prior,
            seconds=None if by_count or limit is not None else options.budget_ms * tasks / 1000.0,
            schedules=options.simulations * tasks if by_count else None,
            seed=options.seed,
            policy_seed=policy_seed,
            learned_options=self.learned,
            learning=self.learning,
            workers=options.workers,
            time_limit=limit,
            improved=self.improved,
        )


def make_mcts(spec: str, options: Mapping[str, str], *, learning: bool) -> MctsPolicy:
    """The policy for a spec ``mcts`` or ``mcts-rules``; raises :class:`PolicyError` for wrong options."""
    learned = LearnedOptions.parse(spec, "evolved", options)
    prior = options.get("prior", "auto")
    if not learning and prior in ("evolved", "ppo"):
        raise PolicyError(f"policy {spec!r}: mcts-rules uses no trained policy; choose a rule as prior")
    _check_prior(spec, prior)
    return MctsPolicy(
        spec,
        SearchOptions.parse(spec, options),
        {"objective": learned.objective, "checkpoint": learned.checkpoint},
        learning,
    )


def _check_prior(spec: str, prior: str) -> None:
    """Refuse a name that is no policy before anything is compiled."""
    from dagsched.policies.registry import closest_policy, list_policies

    if prior != "auto" and all(prior != info.name for info in list_policies()):
        raise PolicyError(
            f"policy {spec!r}: prior is {prior!r}, expected auto, evolved, ppo or a rule; {closest_policy(prior)}"
        )


def choose_mode(replay: Replay, options: SearchOptions, objective: str) -> str:
    """The kind of search for a replay.

    Raises:
        PolicyError: if the one asked for does not suit it.
    """
    exact = replay.noise.kind == "exact"
    if options.search == "auto":
        return "race" if not exact else "plan" if replay.is_batch and objective in OBJECTIVES else "tree"
    if options.search == "plan" and not (exact and replay.is_batch and objective in OBJECTIVES):
        raise PolicyError(
            f"policy {options.spec!r}: search=plan needs a batch with exact durations and makespan or flow_time as "
            f"objective; use search=auto here"
        )
    if options.search == "tree" and not exact:
        raise PolicyError(f"policy {options.spec!r}: search=tree needs exact durations; use search=race here")
    return options.search
