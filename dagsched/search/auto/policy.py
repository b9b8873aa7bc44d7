"""``auto`` as a policy: which of its two ways a replay gets, and with which candidates."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dagsched.errors import PolicyError
from dagsched.policies.base import Run
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
        given = self.learned.get("objective", "auto")
        objective = replay.objective if given == "auto" else given
        if self.learned.get("checkpoint", "auto") != "auto":  # whoever names one wants it used
            LearnedOptions.parse(self.name, "evolved", {**self.learned, "objective": objective}).load(replay)
        if replay.is_batch and objective in PLANNED:
            if replay.noise.kind == "exact":
                # what the planner begins with, and nothing more
                options = SearchOptions(self.name, search="plan", budget_ms=0.0, seed=self.options.seed)
                return MctsPolicy(self.name, options, self.learned).begin(simulator)
            return BatchRun(simulator, objective, self.learned)
        return self.stream(simulator, objective)

    def stream(self, simulator: Simulator, objective: str) -> StreamRun:
        """A run with reviews."""
        workspace = PastWorkspace(simulator, objective)
        rules = RULES[objective]
        candidates = [Candidate(rule, make_policy(rule), rule_base(workspace, self.name, rule)) for rule in rules]
        for kind in LEARNED:
            with contextlib.suppress(PolicyError):  # no checkpoint fits
                options = LearnedOptions.parse(self.name, kind, {**self.learned, "objective": objective})
                checkpoint = options.load(simulator.replay)
                if kind == "ppo" and checkpoint.network is None:
                    continue
                runner = make_runner(simulator, checkpoint, kind, problem=workspace.whole)
                policy = make_policy(kind, learned_options={**self.learned, "objective": objective})
                candidates.append(Candidate(kind, policy, LearnedBase(kind, runner)))
        return StreamRun(simulator, objective, workspace, candidates, self.options)


class BatchRun:
    """Under uncertain durations: the contained policy whose schedule on the estimates is best."""

    def __init__(self, simulator: Simulator, objective: str, learned: Mapping[str, str]) -> None:
        self._simulator, self._objective, self._learned = simulator, objective, learned
        self._run: Run | None = None
        self._chosen = ""
        self._rolled = 0

    def advance(self, most: int) -> None:
        """See :class:`dagsched.policies.base.Run`."""
        if self._run is None:
            self._run = self._choose()
        self._run.advance(most)

    def _choose(self) -> Run:
        simulator = self._simulator
        given = {**self._learned, "objective": self._objective}
        roller = Roller(simulator.placed_replay, self._objective, simulator.policy_seed, given)
        rolled = roller.roll_all(contained_specs(simulator.replay), Allowance(), LEARNED)
        self._chosen, self._rolled = best_of(rolled.incumbents).source, len(rolled.incumbents)
        return make_policy(self._chosen, learned_options=given).begin(simulator)

    def report(self) -> Mapping[str, Any]:
        """``chosen``: what decides; ``simulations``: schedules on the estimates that it was chosen from."""
        return {"chosen": self._chosen, "simulations": self._rolled}


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
