"""``mcts`` and ``mcts-rules``: the planner as a policy, decision by decision or as one plan at the start.

``plan`` searches whole schedules of a batch (:mod:`dagsched.search.plan`). The other two decide step by step: ``tree``
where estimates are exact, carrying the best schedule found so far (the incumbent) from decision to decision; ``race``
under uncertain durations. ``docs/planning.md`` has the algorithms, their sources and what is guaranteed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dagsched.errors import PolicyError
from dagsched.policies.learned import LearnedOptions
from dagsched.policies.sampling import OBJECTIVES, is_pooled
from dagsched.replay import Replay
from dagsched.schedule import WAIT
from dagsched.search import exhaustive, rollout
from dagsched.search import leaf as leafing
from dagsched.search import race as racing
from dagsched.search import root as rooting
from dagsched.search import tree as growing
from dagsched.search.base import UNKNOWN_SIGMA, Base, Desk, KeyBase, make_base, rival_bases, roll_whole
from dagsched.search.budget import EACH, affordable, begin, is_empty, new_budget
from dagsched.search.options import SearchOptions
from dagsched.search.plan import begin_plan, plan_batch
from dagsched.search.plan_search import Improved, PlanResult
from dagsched.search.rolling import MOST_FOLLOWED, MOST_TASKS, Rolling
from dagsched.simulator import kernel
from dagsched.simulator.simulator import Simulator
from dagsched.simulator.state import read_only
from dagsched.workflow import FloatArray, IntArray

_DOMAIN = 0x4D435453
_Z = 2.0


class Incumbent:
    """The best schedule known, as its decisions to come."""

    def __init__(self) -> None:
        self.time: FloatArray = np.zeros(0)
        self.task: IntArray = np.zeros(0, np.int64)
        self.at = 0
        self.value = np.inf

    def replace(self, found: tuple[FloatArray, IntArray], value: float) -> None:
        """Take over a schedule: (seconds, tasks) of its decisions."""
        (self.time, self.task), self.at, self.value = found, 0, value

    def next(self, now: float) -> int | None:
        """Its decision at this moment; ``None`` if it is not about this moment."""
        if self.at >= len(self.task):
            return None
        return int(self.task[self.at]) if self.time[self.at] == now else None

    def rest(self) -> tuple[FloatArray, IntArray]:
        """(seconds, tasks) of the starts to come."""
        time_, task = self.time[self.at :], self.task[self.at :]
        return time_[task >= 0], task[task >= 0]


class Searcher:
    """What both kinds of step-by-step search share: the loop over decisions, candidates, room for logs.

    Attributes:
        horizon: decisions after which a simulation asks the value, as a multiple of the nodes.
        kind: one word for this kind of search.
        used: a list of one word, what decides: the kind, or ``list`` where a list takes the race's place.
    """

    horizon = 3
    kind = "tree"

    def __init__(self, simulator: Simulator, desk: Desk, base: Base, options: SearchOptions) -> None:
        self.simulator, self.desk, self.base, self.options = simulator, desk, base, options
        self.used = [self.kind]
        self.budget = new_budget(options.simulations, options.budget_ms / 1000.0)
        seed = np.random.SeedSequence([options.seed, simulator.policy_seed], spawn_key=(_DOMAIN,))
        self.rng = np.random.default_rng(seed)
        desk.noise.random[0] = seed.generate_state(1, np.uint64)[0]
        self._deadline = simulator.replay.deadline
        self._learned = 0
        horizon = self.horizon * len(desk.whole.node_group)
        ends = options.leaf
        if ends == "auto":
            ends = "rollout" if desk.objective == "makespan" else "value"  # a makespan hides what a prediction reads
        self.leaf = leafing.new_leaf(len(desk.whole.workflow), ends, max(horizon, _LEAST_HORIZON))

    def decide(self, legal: IntArray) -> int:
        """The task to start now, of those that may start, or WAIT."""
        raise NotImplementedError

    def must_wait(self) -> None:
        """The starvation guard lets nothing start now."""

    def run(self, most: int) -> None:
        """Go on until the end or for so many started tasks."""
        simulator = self.simulator
        going = not simulator.done
        if going and not kernel.any_eligible(simulator.problem, simulator.state):
            going = simulator.advance()
        while going and most > 0:
            legal = simulator.eligible()
            if not len(legal):  # overdue work fits nowhere: only WAIT is legal
                self.must_wait()
                going = simulator.wait()
                continue
            simulator.state.counter[kernel.FRESH] = 0
            begin(self.budget)
            task = self.decide(legal)
            if task == WAIT:
                going = simulator.wait()
                continue
            simulator.start(task)
            most -= 1
            if not kernel.any_eligible(simulator.problem, simulator.state):
                going = simulator.advance()

    def may_wait(self) -> bool:
        """Whether WAIT is legal and allowed; under the starvation guard it is not."""
        return self.options.wait and self.simulator.can_wait and not self.simulator.is_forced

    def candidates(self, legal: IntArray, first: int) -> IntArray:
        """``first``, then legal tasks by Gumbel-top-k on their keys, with each main rule's pick."""
        most = self.options.candidates
        others = legal[legal != first]
        if len(others) >= most:
            picks = self._rule_picks(others)
            rank = np.empty(len(others))
            rank[np.argsort(-self.desk.noise.key[others], kind="stable")] = np.arange(len(others))
            score = self.rng.gumbel(size=len(others)) - rank * (_PRIOR_SLOPE / most)
            score[np.isin(others, picks)] = np.inf
            others = others[np.argsort(-score, kind="stable")[: most - 1]]
        return np.concatenate([[first], others]).astype(np.int64)

    def _rule_picks(self, tasks: IntArray) -> IntArray:
        """The oldest, the one of the longest path, of the workflow with least left, shortest, earliest deadline."""
        state, problem = self.simulator.state, self.desk.whole
        workflow = problem.task["workflow"][tasks]
        keys = (
            state.task["ready_time"][tasks],
            -problem.task["bottom"][tasks],
            state.workflow["left"][workflow],
            problem.task["fastest"][tasks],
            self._deadline[workflow],
        )
        return np.unique([tasks[int(key.argmin())] for key in keys])

    def refit(self) -> None:
        """Let the value, if one is used, learn from the simulations so far."""
        counter = self.leaf.counter
        learned = counter[leafing.TAUGHT] - self._learned
        if counter[leafing.MODE] != leafing.ROLLOUT and (learned >= _REFIT or not counter[leafing.FITTED]):
            self._learned = int(counter[leafing.TAUGHT])
            leafing.refit(self.leaf)

    def search(self, call: Callable[[], int]) -> None:
        """Spend the budget, however often logs must grow: their room depends on what is yet to come."""
        while (status := call()) != kernel.DONE:
            if status == kernel.GROW:
                self.desk.regrow()

    def value(self) -> float:
        """Cost of the finished scratch, whose decisions become the log."""
        desk = self.desk
        return float(rollout.value_of(desk.problem, desk.scratch, desk.view, desk.log))

    def load_keys(self, tasks: IntArray) -> None:
        """Keys of the simulations: tasks in this order first (by their first mention), all in [-1, 0]."""
        key = self.desk.noise.key
        key[self.desk.open()] = -1.0
        key[tasks[::-1]] = -np.arange(len(tasks))[::-1] / max(len(tasks), 1)
        self.desk.noise.spacing[0] = 1.0 / max(len(tasks), 1)


_PRIOR_SLOPE = 4.0


class TreeSearcher(Searcher):
    """Exact estimates: simulate first actions, keep the best schedule found, take its next decision.

    Attributes:
        incumbent: the schedule that is followed.
        found: cost of the best schedule known at the last decision, whether or not it became the incumbent.
        most_walked: tasks yet to start up to which every continuation is gone through first, 0 = never.
    """

    def __init__(self, simulator: Simulator, desk: Desk, base: Base, options: SearchOptions) -> None:
        super().__init__(simulator, desk, base, options)
        self.incumbent = Incumbent()
        self.found = np.inf
        self.most_walked = exhaustive.MOST_TASKS
        self._best_is_known = False
        self._until, self._followed = -np.inf, np.nan  # see _pays
        self.arms = rooting.new_arms(options.candidates + 8)
        self.walks = exhaustive.new_walks()
        self.tree = growing.new_tree(_TREE_NODES if options.select == "puct" else options.candidates + 8)

    def decide(self, legal: IntArray) -> int:
        """See :meth:`Searcher.decide`."""
        arrived, now = self.desk.take_root(), self.simulator.now
        if arrived or not self._fits(legal, now):
            self._renew()
            self._best_is_known = False
        self.found = self.incumbent.value
        if not self._best_is_known:
            self._walk_all(now)
        waiting = self.may_wait()
        if not self._best_is_known and not self.simulator.is_forced and len(legal) + waiting > 1:
            self._search(legal, now, waiting)
        task = self.incumbent.next(now)
        assert task is not None
        self.incumbent.at += 1
        return task

    def must_wait(self) -> None:
        """See :meth:`Searcher.must_wait`; the incumbent has this WAIT among its decisions."""
        if self.incumbent.next(self.simulator.now) == WAIT:
            self.incumbent.at += 1

    def _fits(self, legal: IntArray, now: float) -> bool:
        task = self.incumbent.next(now)
        return task is not None and (task == WAIT or task in legal)

    def _renew(self) -> None:
        """A schedule of all that has arrived: the base policy's, or the old plan with new work put in."""
        when, old = self.incumbent.rest()
        roll_whole(self.base, self.desk)
        value = self.value()
        self.incumbent.replace(self.desk.taken(), value)
        self._until, self._followed = self.simulator.now + self._commitment(), value
        if len(old) and (self.options.simulations or self.options.budget_ms):
            time_, task = self.incumbent.rest()
            planned = np.full(len(self.desk.whole.task), np.inf)
            planned[task[::-1]] = time_[::-1]
            planned[old[::-1]] = when[::-1]
            self.load_keys(task[np.argsort(planned[task], kind="stable")])
            self._try_keys()
        self.load_keys(self.incumbent.rest()[1])

    def _try_keys(self) -> None:
        roll_whole(KeyBase("incumbent", self.desk.noise.key), self.desk)
        value = self.value()
        if value < self.incumbent.value:
            self.incumbent.replace(self.desk.taken(), value)
            self._until = -np.inf

    def _search(self, legal: IntArray, now: float, waiting: bool) -> None:
        self.refit()
        first = self.incumbent.next(now)
        assert first is not None
        tasks = self.candidates(legal, first) if first != WAIT else np.append(self.candidates(legal, legal[0]), WAIT)
        if waiting and first != WAIT:
            tasks = np.append(tasks, WAIT)
        best = self._grow(tasks, first) if self.options.select == "puct" else self._play(tasks, first)
        self._take(best, now)

    def _walk_all(self, now: float) -> None:
        """Where few tasks are left to start, go through every continuation, for half of the budget at most."""
        desk, walks, budget = self.desk, self.walks, self.budget
        unstarted = np.count_nonzero(self.simulator.state.task["unstarted"][desk.open()])
        if not 0 < unstarted <= self.most_walked or is_empty(budget):
            return
        exhaustive.open_walks(walks, self.incumbent.value, waiting=self.options.wait)

        def walk() -> int:
            return int(
                exhaustive.walk(
                    desk.problem, desk.root, desk.scratch, desk.view, desk.noise, desk.log, walks, desk.truth, budget,
                    _WALKED,
                )
            )  # fmt: skip

        self.search(walk)
        self._best_is_known = exhaustive.are_all_seen(walks)
        self._take(float(walks.found[0]), now)

    def _take(self, best: float, now: float) -> None:
        """Let the schedule logged last become the incumbent if it is better, and pays.

        The best of all needs not pay while the base policy goes on from where it is left: it is the planner that
        goes on, and finds the best again.
        """
        self.found = min(self.found, best)
        if best < self.incumbent.value:
            found = self.desk.taken()
            if self._best_is_known:
                self._until = -np.inf
            elif not self._pays(found, now):
                return
            self.incumbent.replace(found, best)
            self.load_keys(self.incumbent.rest()[1])

    def _commitment(self) -> float:
        """Seconds for which a schedule can be expected to be followed, from the arrivals so far; 0 = to the end."""
        arrival, arrived = self.simulator.replay.arrival, self.desk.arrived
        return self.options.commit * float(arrival[arrived - 1] - arrival[0]) / max(arrived - 1, 1)

    def _pays(self, found: tuple[FloatArray, IntArray], now: float) -> bool:
        """Whether a schedule is better also if it is followed for a while only, and the base policy goes on from there.

        At the next arrival the base policy's new schedule replaces nearly every old one, so that what a schedule
        gains after that is never seen.
        """
        commitment = self._commitment()
        if commitment == 0:
            return True
        if self._until < now + _LEAST_FOLLOWED * commitment:
            self._until = now + commitment
            self._followed = self._follow(*self.incumbent.rest())
        time_, task = found
        cost = self._follow(time_[task >= 0], task[task >= 0])
        if cost >= self._followed * (1.0 - _ROUNDING):
            return False
        self._followed = cost
        return True

    def _follow(self, time_: FloatArray, task: IntArray) -> float:
        """Cost of these starts up to ``_until`` and the base policy from there on; infinite if not possible."""
        desk, status = self.desk, kernel.GROW
        while status == kernel.GROW:
            desk.restart()
            status = rollout.follow(desk.problem, desk.scratch, desk.truth, time_, task, self._until)
            if status == kernel.DECIDE:
                status = self.base.roll(desk)
            if status == kernel.GROW:
                desk.regrow()
        return float(rollout.cost_of(desk.problem, desk.scratch, desk.view)) if status == kernel.DONE else np.inf

    def _play(self, tasks: IntArray, first: int) -> float:
        """Sequential halving (or equal shares) over first actions; the least cost found."""
        desk, arms = self.desk, self.arms

        rooting.open_arms(arms, tasks, int(np.flatnonzero(tasks == first)[0]), self.incumbent.value)
        rounds = 1 if self.options.select == "uniform" else rooting.phases(len(tasks))

        def play() -> int:
            return int(
                rooting.play(
                    desk.problem, desk.root, desk.scratch, desk.view, desk.buckets, desk.noise, desk.log, arms,
                    self.leaf, desk.truth, self.budget, rounds,
                )
            )  # fmt: skip

        self.search(play)
        return float(arms.found[0])

    def _grow(self, tasks: IntArray, first: int) -> float:
        """PUCT in a tree; the least cost found."""
        desk, grown = self.desk, self.tree

        def grow() -> int:
            return int(
                growing.grow(
                    desk.problem, desk.root, desk.scratch, desk.view, desk.buckets, desk.noise, desk.log, grown,
                    self.leaf, desk.truth, self.budget,
                )
            )  # fmt: skip

        rank = np.where(tasks == first, 0.0, np.arange(1.0, len(tasks) + 1))
        prior = 0.5 ** np.minimum(rank, 30.0)
        growing.open_tree(
            grown, tasks, prior / prior.sum(), self.incumbent.value, width=_WIDTH, waiting=self.options.wait
        )
        self.search(grow)
        return float(grown.range[growing.FOUND])


_LEAST_HORIZON = 14
_LEAST_FOLLOWED = 0.25
"""Share of the commitment below which the moment up to which schedules are followed moves on."""
_ROUNDING = 1e-12
_REFIT = 8
"""Simulations that the value learns from before it is fitted again."""
_WIDTH = 4
_WALKED = 0.5
"""Share of the budget for going through every continuation; what that leaves is for sampling them."""
_TREE_NODES = 20_000


class RaceSearcher(Searcher):
    """Uncertain durations: leave the base policy's action only for one that is better on shared scenarios."""

    kind = "race"
    horizon = 1  # differences between actions show early; what comes later is mostly noise

    def __init__(
        self, simulator: Simulator, desk: Desk, base: Base, options: SearchOptions, rivals: Sequence[Base] = ()
    ) -> None:
        super().__init__(simulator, desk, base, options)
        self.rivals = list(rivals)
        self.race = racing.new_race(options.candidates + 8, options.scenarios)
        replay = simulator.replay
        sigma = {"exact": 0.0, "lognormal": replay.noise.sigma}.get(replay.noise.kind, UNKNOWN_SIGMA)
        self.scenarios = racing.Scenarios(
            quantile=np.zeros((options.scenarios, len(replay))),
            factor=np.zeros((options.scenarios, len(replay))),
            seconds=np.zeros(replay.estimate.shape),
            sigma=np.array([sigma]),
        )
        self._seed = int(self.rng.integers(2**40))
        self._drawn, self._fresh = 0, 0
        self.rolling: Rolling | None = None
        if self.rivals and options.wait and replay.is_batch and is_pooled(replay) and len(replay) <= MOST_TASKS:
            self.rolling = Rolling(desk, sigma, np.random.SeedSequence([self._seed], spawn_key=(_DOMAIN,)))

    def decide(self, legal: IntArray) -> int:
        """See :meth:`Searcher.decide`."""
        desk = self.desk
        if desk.take_root():
            known = int(desk.whole.workflow_ptr[desk.arrived])
            racing.draw(self.scenarios, self._seed, self._drawn, known)
            self._drawn, self._fresh = known, 0
            if self.rivals:
                self._choose_base()
        if self.simulator.is_forced:
            return int(legal[0])
        if self.rolling is not None:
            return self.rolling.decide(legal, self.budget)
        first = self._base_action(legal)
        waiting = self.may_wait()
        if len(legal) + waiting == 1 or is_empty(self.budget):
            return first
        tasks = self.candidates(legal, first)
        return self._search(np.append(tasks, WAIT) if waiting else tasks)

    def _choose_base(self) -> None:
        """At the first decision: the rival of least mean cost on drawn durations of what has arrived.

        A list that is planned anew at every event takes the place of the race if it is better than all of them.
        """
        desk, estimate = self.desk, self.desk.truth
        if self.rolling is not None:
            self._open_list(self.rolling)
            if self.rolling.is_empty:
                self.rolling = None
        costs = np.zeros(len(self.rivals))
        list_cost = 0.0
        tasks = max(len(desk.open()), 1)
        most = _MOST_DRAWN_TASKS // tasks if self.rolling is None else self._affordable_trials(tasks)
        draws = max(1, min(_DRAWS, len(self.scenarios.factor), most))
        for factor in self.scenarios.factor[:draws]:
            with np.errstate(invalid="ignore"):  # tasks that have not arrived
                desk.truth = read_only(estimate * factor[:, None])
            for number, rival in enumerate(self.rivals):
                roll_whole(rival, desk)
                costs[number] += self.value()
            if self.rolling is not None:
                self.rolling.roll()
                list_cost += self.value()
        desk.truth = estimate
        self.base = self.rivals[int(costs.argmin())]
        self.rivals = []
        if list_cost >= costs.min():
            self.rolling = None
        if self.rolling is not None:
            self.used[0] = "list"

    def _affordable_trials(self, tasks: int) -> int:
        """Drawn durations on which a list can be followed in about the time of the first plan; at least a few."""
        most = MOST_FOLLOWED // tasks**2
        if self.options.simulations:
            return most
        seconds = _PLAN_SHARE * tasks * self.options.budget_ms / 1000.0
        return max(_LEAST_DRAWS, min(most, int(seconds / (_FOLLOWED_SECONDS * tasks**2))))

    def _open_list(self, rolling: Rolling) -> None:
        """Improve the rivals' schedules on the estimates, for as long as many decisions may take."""
        options, starts = self.options, []
        for rival in self.rivals:
            roll_whole(rival, self.desk)
            starts.append(self.desk.scratch.task["start"].copy())
        share = _PLAN_SHARE * len(self.desk.open())
        simulations = max(1, round(share * options.simulations)) if options.simulations else 0
        budget = new_budget(simulations, share * options.budget_ms / 1000.0)
        begin(budget)
        rolling.open(np.array(starts), budget)

    def _base_action(self, legal: IntArray) -> int:
        """What the base policy does now; from time to time also the order in which it would go on."""
        if self._fresh > 0:
            self._fresh -= 1
            return self.base.pick(self.desk, legal)
        roll_whole(self.base, self.desk)
        self.value()
        task = self.desk.taken()[1]
        first, starts = int(task[0]), task[task >= 0]
        self.load_keys(starts)
        self._fresh = len(starts) // _RENEWALS
        return first

    def _search(self, tasks: IntArray) -> int:
        desk, race, budget = self.desk, self.race, self.budget
        self.refit()

        can_afford = affordable(budget)
        if can_afford < 2 * _LEAST_LOOKS:
            budget.seconds[EACH] *= 0.9  # one slow simulation must not end the search for good
            return int(tasks[0])
        tasks = tasks[: max(2, can_afford // _LEAST_LOOKS)]
        racing.open_race(race, tasks)
        np.copyto(desk.buckets.key, desk.noise.key)
        rounds = 1 + rooting.phases(len(tasks) - 1) if len(tasks) > 2 else 1

        def play() -> int:
            return int(
                racing.race(
                    desk.problem, desk.root, desk.scratch, desk.view, desk.buckets, self.scenarios, race, self.leaf,
                    budget, rounds,
                )
            )  # fmt: skip

        self.search(play)
        return int(race.task[racing.winner(race, _Z)])


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


@dataclass(frozen=True, slots=True)
class MctsPolicy:
    """The planner; see the module.

    Attributes:
        name: the spec.
        options: see there.
        learned: ``objective`` and ``checkpoint``.
        learning: False for ``mcts-rules``, which reads no checkpoint.
        improved: told how plan mode gets on.
        found: what plan mode found, newest last.
        counters: of the searches decision by decision, which count their simulations.
        used: one word a replay that was searched decision by decision; see :class:`Searcher`.
    """

    name: str
    options: SearchOptions
    learned: Mapping[str, str] = field(default_factory=dict)
    learning: bool = True
    improved: Improved | None = None
    found: list[PlanResult] = field(default_factory=list)
    counters: list[IntArray] = field(default_factory=list)
    used: list[list[str]] = field(default_factory=list)

    @property
    def search(self) -> str:
        """What decided in the last replay: ``plan``, ``tree``, ``race`` or ``list``; empty before the first."""
        return self.used[-1][0] if self.used else ""

    @property
    def reproducible(self) -> bool:
        """Whether the budget is a number of simulations."""
        return self.options.reproducible

    @property
    def simulations(self) -> int:
        """Schedules simulated so far, over all replays; those of the base policy on the way count too."""
        stepwise = sum(int(counter[rollout.SIMULATIONS]) for counter in self.counters)
        return stepwise + sum(plan.schedules for plan in self.found)

    def begin(self, simulator: Simulator) -> Callable[[int], None]:
        """See :class:`dagsched.policies.base.Policy`."""
        replay = simulator.replay
        objective = self.objective(replay)
        if self.learning and self.learned.get("checkpoint", "auto") != "auto":
            # whoever names a checkpoint wants it used; only the shipped ones may fit nothing
            LearnedOptions.parse(self.name, "evolved", {**self.learned, "objective": objective}).load(replay)
        if choose_mode(replay, self.options, objective) == "plan":
            return self._plan(simulator, objective)
        self._check_steps()
        return self.searcher(simulator, objective).run

    def _check_steps(self) -> None:
        """Refuse what only whole plans can heed."""
        options = self.options
        for name, given in (("time_limit", np.isfinite(options.time_limit)), ("workers", options.workers > 1)):
            if given:
                raise PolicyError(
                    f"policy {self.name!r}: {name} is for whole plans (a batch with exact durations); this replay is "
                    f"searched decision by decision: use budget_ms or simulations"
                )

    def searcher(self, simulator: Simulator, objective: str) -> Searcher:
        """What decides step by step; not for plan mode."""
        desk = Desk(simulator, objective)
        self.counters.append(desk.view.counter)  # the counter alone: a kept desk would hold a replay's memory
        tree = choose_mode(simulator.replay, self.options, objective) == "tree"
        searcher: Searcher
        if not tree and self.options.prior == "auto" and objective == "makespan":
            rivals = rival_bases(desk, self.name, self.learned, learning=self.learning)
            searcher = RaceSearcher(simulator, desk, rivals[0], self.options, rivals)
        else:
            base = make_base(desk, self.name, self.options.prior, self.learned, learning=self.learning)
            searcher = (TreeSearcher if tree else RaceSearcher)(simulator, desk, base, self.options)
        self.used.append(searcher.used)  # not the searcher: see above
        return searcher

    def objective(self, replay: Replay) -> str:
        """What is searched for: the one asked for, or the replay's."""
        given = self.learned.get("objective", "auto")
        return replay.objective if given == "auto" else given

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

    def _plan(self, simulator: Simulator, objective: str) -> Callable[[int], None]:
        """Plan at the first decision, so that its time is measured with it."""
        runner: Callable[[int], None] | None = None

        def run(most: int) -> None:
            nonlocal runner
            if runner is None:
                self.found.append(self.plan(simulator.replay, objective, simulator.policy_seed))
                self.used.append(["plan"])
                runner = begin_plan(self.name, self.found[-1], simulator, self.learned)
            runner(most)

        return run


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
