"""``search=race``: uncertain durations; first actions against each other on shared scenarios, or a list to follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dagsched.policies.sampling.sampler import is_pooled
from dagsched.schedule import WAIT
from dagsched.search import race as racing
from dagsched.search import sequential_halving
from dagsched.search.base_policies import Base, roll_whole
from dagsched.search.budget import EACH, Budget, affordable, begin, is_empty, new_budget
from dagsched.search.options import SearchOptions
from dagsched.search.reactive_list import MOST_FOLLOWED, MOST_TASKS, Rolling
from dagsched.search.stepwise import STREAM, Decider, SearchDecider
from dagsched.search.workspace import Workspace
from dagsched.simulator.state import read_only
from dagsched.workflow import IntArray

UNKNOWN_SIGMA = 0.3
_Z = 2.0
_DRAWS, _MOST_DRAWN_TASKS = 24, 20_000
_LEAST_DRAWS = 3
_FOLLOWED_SECONDS = 1e-7
"""About what following a list through a project takes, for each squared task."""
_PLAN_SHARE = 0.25
"""Decisions whose time the first plan of a list may take, as a share of the tasks."""
_RENEWALS = 12
"""Times that the base's order is rolled out anew while a workflow mix lasts."""
_LEAST_LOOKS = 6
"""Simulations that each way must get on average; with fewer, fewer ways take part."""


class ScenarioDraws:
    """Durations drawn for the tasks that have arrived, the same for every decision.

    Attributes:
        scenarios: see :class:`dagsched.search.race.Scenarios`.
        seed: of the draws.
    """

    def __init__(self, workspace: Workspace, count: int, rng: np.random.Generator) -> None:
        replay = workspace.simulator.replay
        sigma = {"exact": 0.0, "lognormal": replay.noise.sigma}.get(replay.noise.kind, UNKNOWN_SIGMA)
        self.scenarios = racing.Scenarios(
            quantile=np.zeros((count, len(replay))),
            factor=np.zeros((count, len(replay))),
            seconds=np.zeros(replay.estimate.shape),
            sigma=np.array([sigma]),
        )
        self.seed = int(rng.integers(2**40))
        self._workspace, self._drawn = workspace, 0

    def update(self) -> bool:
        """Take the present state as root; whether workflows have arrived, whose durations are then drawn."""
        workspace = self._workspace
        if not workspace.take_root():
            return False
        known = int(workspace.whole.workflow_ptr[workspace.arrived])
        racing.draw(self.scenarios, self.seed, self._drawn, known)
        self._drawn = known
        return True


class RaceDecider(SearchDecider):
    """Leave the base policy's action only for one that is better on shared scenarios."""

    kind = "race"
    horizon = 1  # differences between actions show early; what comes later is mostly noise

    def __init__(
        self,
        workspace: Workspace,
        base: Base,
        options: SearchOptions,
        budget: Budget,
        rng: np.random.Generator,
        draws: ScenarioDraws,
    ) -> None:
        super().__init__(workspace, base, options, budget, rng)
        self.draws = draws
        self.race = racing.new_race(options.candidates + 8, options.scenarios)
        self._fresh = 0

    def decide(self, legal: IntArray) -> int:
        """See :meth:`Decider.decide`."""
        if self.draws.update():
            self._fresh = 0
        if self.simulator.is_forced:
            return int(legal[0])
        first = self._base_action(legal)
        waiting = self.may_wait()
        if len(legal) + waiting == 1 or is_empty(self.budget):
            return first
        tasks = self.candidates(legal, first)
        return self._search(np.append(tasks, WAIT) if waiting else tasks)

    def _base_action(self, legal: IntArray) -> int:
        """What the base policy does now; from time to time also the order in which it would go on."""
        if self._fresh > 0:
            self._fresh -= 1
            return self.base.pick(self.workspace, legal)
        roll_whole(self.base, self.workspace)
        self.workspace.value()
        task = self.workspace.taken()[1]
        first, starts = int(task[0]), task[task >= 0]
        self.load_keys(starts)
        self._fresh = len(starts) // _RENEWALS
        return first

    def _search(self, tasks: IntArray) -> int:
        workspace, race, budget = self.workspace, self.race, self.budget
        self.refit()

        can_afford = affordable(budget)
        if can_afford < 2 * _LEAST_LOOKS:
            budget.seconds[EACH] *= 0.9  # one slow simulation must not end the search for good
            return int(tasks[0])
        tasks = tasks[: max(2, can_afford // _LEAST_LOOKS)]
        racing.open_race(race, tasks)
        np.copyto(workspace.buckets.key, workspace.noise.key)
        rounds = 1 + sequential_halving.phases(len(tasks) - 1) if len(tasks) > 2 else 1

        def play() -> int:
            return int(
                racing.race(*workspace.states, workspace.buckets, self.draws.scenarios, race, self.leaf, budget, rounds)
            )

        self.search(play)
        return int(race.task[racing.winner(race, _Z)])


class ListDecider(Decider):
    """Follow a list that is decoded anew at every event and improved meanwhile."""

    kind = "list"

    def __init__(self, workspace: Workspace, budget: Budget, rolling: Rolling) -> None:
        super().__init__(workspace, budget)
        self._rolling = rolling

    def decide(self, legal: IntArray) -> int:
        """See :meth:`Decider.decide`."""
        self.workspace.take_root()
        if self.simulator.is_forced:
            return int(legal[0])
        return self._rolling.decide(legal, self.budget)


def race_or_list(
    workspace: Workspace, rivals: Sequence[Base], options: SearchOptions, budget: Budget, rng: np.random.Generator
) -> Decider:
    """At the first decision: the rival of least mean cost on drawn durations of what has arrived becomes the base.

    A list that is planned anew at every event takes the place of the race if it is better than all of them.
    """
    draws = ScenarioDraws(workspace, options.scenarios, rng)
    draws.update()
    rolling = _open_list(workspace, rivals, options, draws)
    costs = np.zeros(len(rivals))
    list_cost, estimate = 0.0, workspace.truth
    tasks = max(len(workspace.open()), 1)
    most = _MOST_DRAWN_TASKS // tasks if rolling is None else _affordable_trials(options, tasks)
    factors = draws.scenarios.factor
    for factor in factors[: max(1, min(_DRAWS, len(factors), most))]:
        with np.errstate(invalid="ignore"):  # tasks that have not arrived
            workspace.truth = read_only(estimate * factor[:, None])
        for number, rival in enumerate(rivals):
            roll_whole(rival, workspace)
            costs[number] += workspace.value()
        if rolling is not None:
            rolling.roll()
            list_cost += workspace.value()
    workspace.truth = estimate
    if rolling is not None and list_cost < costs.min():
        return ListDecider(workspace, budget, rolling)
    return RaceDecider(workspace, rivals[int(costs.argmin())], options, budget, rng, draws)


def _open_list(
    workspace: Workspace, rivals: Sequence[Base], options: SearchOptions, draws: ScenarioDraws
) -> Rolling | None:
    """The rivals' schedules as lists, improved on the estimates for as long as many decisions may take.

    ``None`` where lists do not apply, or where there was no time for a single one.
    """
    replay = workspace.simulator.replay
    if not (options.wait and replay.is_batch and is_pooled(replay) and len(replay) <= MOST_TASKS):
        return None
    stream = np.random.SeedSequence([draws.seed], spawn_key=(STREAM,))
    rolling = Rolling(workspace, float(draws.scenarios.sigma[0]), stream)
    starts = []
    for rival in rivals:
        roll_whole(rival, workspace)
        starts.append(workspace.scratch.task["start"].copy())
    share = _PLAN_SHARE * len(workspace.open())
    simulations = max(1, round(share * options.simulations)) if options.simulations else 0
    budget = new_budget(simulations, share * options.budget_ms / 1000.0)
    begin(budget)
    rolling.open(np.array(starts), budget)
    return None if rolling.is_empty else rolling


def _affordable_trials(options: SearchOptions, tasks: int) -> int:
    """Drawn durations on which a list can be followed in about the time of the first plan; at least a few."""
    most = MOST_FOLLOWED // tasks**2
    if options.simulations:
        return most
    seconds = _PLAN_SHARE * tasks * options.budget_ms / 1000.0
    return max(_LEAST_DRAWS, min(most, int(seconds / (_FOLLOWED_SECONDS * tasks**2))))
