"""``auto`` as a policy: which of its two ways a replay gets, and with which candidates."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dagsched.errors import PolicyError
from dagsched.policies.base import DeferredRun, Run
from dagsched.policies.learned.trained import LearnedOptions, make_runner
from dagsched.policies.registry import make_policy
from dagsched.policies.sampling.sampler import OBJECTIVES as PLANNED
from dagsched.policies.spec_options import option_int
from dagsched.search.allowance import Allowance
from dagsched.search.auto.past import PastWorkspace
from dagsched.search.auto.stream import Candidate, ReviewOptions, StreamRun
from dagsched.search.base_policies import LearnedBase, rule_base
from dagsched.search.mcts import MctsPolicy
from dagsched.search.options import SearchOptions
from dagsched.search.seed_schedules import LEARNED, Roller, best_of, contained_specs
from dagsched.simulator.stepper import Simulator

RULES: Mapping[str, tuple[str, ...]] = {
    "flow_time": ("srw*cp", "srw", "weighted-fair", "critical-path", "lft", "cp+demand", "tetris+srw", "sjf"),
    "makespan": ("critical-path", "cp+demand+work", "cp+demand", "lft", "srw*cp", "tetris"),
    "slo": ("srw*cp", "edf", "llf", "srw", "weighted-fair", "critical-path"),
}
"""Rules that may decide a stream; the first one does until a review says otherwise."""


@dataclass(frozen=True, slots=True)
class AutoPolicy:
    """The best of what there is for a batch; in a stream whatever the recent past speaks for.

    Attributes:
        name: the spec.
        options: of reviews.
        learned: ``objective`` and ``checkpoint``.
    """

    name: str
    options: ReviewOptions
    learned: Mapping[str, str] = field(default_factory=dict)
    reproducible: bool = True

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        replay = simulator.replay
        trained = LearnedOptions.parse(self.name, "evolved", self.learned)
        objective = trained.objective_of(replay)
        trained.check_named(replay)
        if replay.is_batch and objective in PLANNED:
            if replay.noise.kind == "exact":
                # what the planner begins with, and nothing more
                options = SearchOptions(self.name, search="plan", budget_ms=0.0, seed=self.options.seed)
                return MctsPolicy(self.name, options, self.learned).begin(simulator)
            return DeferredRun(lambda: best_on_estimates(simulator, objective, self.learned))
        return self.stream(simulator, objective)

    def stream(self, simulator: Simulator, objective: str) -> StreamRun:
        """A run with reviews."""
        workspace = PastWorkspace(simulator, objective)
        rules = RULES[objective]
        candidates = [Candidate(rule, make_policy(rule), rule_base(workspace, self.name, rule)) for rule in rules]
        given = {**self.learned, "objective": objective}
        for kind in LEARNED:
            with contextlib.suppress(PolicyError):  # no checkpoint fits
                checkpoint = LearnedOptions.parse(self.name, kind, given).load(simulator.replay)
                runner = make_runner(simulator, checkpoint, kind, problem=workspace.whole)
                policy = make_policy(kind, learned_options=given)
                candidates.append(Candidate(kind, policy, LearnedBase(kind, runner)))
        return StreamRun(simulator, objective, workspace, candidates, self.options)


def best_on_estimates(
    simulator: Simulator, objective: str, learned: Mapping[str, str]
) -> tuple[Run, Mapping[str, Any]]:
    """Under uncertain durations: the contained policy whose schedule on the estimates is best.

    The report has ``chosen``, what decides, and ``simulations``, the schedules that it was chosen from.
    """
    given = {**learned, "objective": objective}
    roller = Roller(simulator.placed_replay, objective, simulator.policy_seed, given)
    rolled = roller.roll_all(contained_specs(simulator.replay), Allowance(), LEARNED).incumbents
    chosen = best_of(rolled).source
    run = make_policy(chosen, learned_options=given).begin(simulator)
    return run, {"chosen": chosen, "simulations": len(rolled)}


def make_auto(spec: str, options: Mapping[str, str]) -> AutoPolicy:
    """The policy for a spec ``auto``; raises :class:`PolicyError` for wrong options."""
    learned, usual = LearnedOptions.parse(spec, "evolved", options), ReviewOptions()
    return AutoPolicy(
        spec,
        ReviewOptions(
            every=option_int(spec, options, "every", usual.every, 1),
            draws=option_int(spec, options, "draws", usual.draws, 1),
            memory=option_int(spec, options, "memory", usual.memory, 1),
            seed=option_int(spec, options, "seed", 0),
        ),
        {"objective": learned.objective, "checkpoint": learned.checkpoint},
    )
