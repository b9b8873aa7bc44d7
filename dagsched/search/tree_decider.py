"""``search=tree``: exact estimates; simulate first actions, keep the best schedule found, take its next decision."""

from __future__ import annotations

import numpy as np

from dagsched.schedule import WAIT
from dagsched.search import exhaustive, rollout, sequential_halving, tree
from dagsched.search.base_policies import Base, KeyBase, roll_whole
from dagsched.search.budget import Budget, is_empty
from dagsched.search.options import SearchOptions
from dagsched.search.stepwise import SearchDecider
from dagsched.search.workspace import Workspace
from dagsched.simulator import kernel
from dagsched.workflow import FloatArray, IntArray

_LEAST_FOLLOWED = 0.25
"""Share of the commitment below which the moment up to which schedules are followed moves on."""
_ROUNDING = 1e-12
_WIDTH = 4
_WALKED = 0.5
"""Share of the budget for going through every continuation; what that leaves is for sampling them."""
_TREE_NODES = 20_000


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


class TreeDecider(SearchDecider):
    """Exact estimates: simulate first actions, keep the best schedule found, take its next decision.

    Attributes:
        incumbent: the schedule that is followed.
        found: cost of the best schedule known at the last decision, whether or not it became the incumbent.
        most_walked: tasks yet to start up to which every continuation is gone through first, 0 = never.
    """

    kind = "tree"

    def __init__(
        self, workspace: Workspace, base: Base, options: SearchOptions, budget: Budget, rng: np.random.Generator
    ) -> None:
        super().__init__(workspace, base, options, budget, rng)
        self.incumbent = Incumbent()
        self.found = np.inf
        self.most_walked = exhaustive.MOST_TASKS
        self._best_is_known = False
        self._until, self._followed = -np.inf, np.nan  # see _pays
        self.arms = sequential_halving.new_arms(options.candidates + 8)
        self.walks = exhaustive.new_walks()
        self.tree = tree.new_tree(_TREE_NODES if options.select == "puct" else options.candidates + 8)

    def decide(self, legal: IntArray) -> int:
        """See :meth:`Decider.decide`."""
        arrived, now = self.workspace.take_root(), self.simulator.now
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
        """See :meth:`Decider.must_wait`; the incumbent has this WAIT among its decisions."""
        if self.incumbent.next(self.simulator.now) == WAIT:
            self.incumbent.at += 1

    def _fits(self, legal: IntArray, now: float) -> bool:
        task = self.incumbent.next(now)
        return task is not None and (task == WAIT or task in legal)

    def _renew(self) -> None:
        """A schedule of all that has arrived: the base policy's, or the old plan with new work put in."""
        when, old = self.incumbent.rest()
        roll_whole(self.base, self.workspace)
        value = self.workspace.value()
        self.incumbent.replace(self.workspace.taken(), value)
        self._until, self._followed = self.simulator.now + self._commitment(), value
        if len(old) and (self.options.simulations or self.options.budget_ms):
            time_, task = self.incumbent.rest()
            planned = np.full(len(self.workspace.whole.task), np.inf)
            planned[task[::-1]] = time_[::-1]
            planned[old[::-1]] = when[::-1]
            self.load_keys(task[np.argsort(planned[task], kind="stable")])
            self._try_keys()
        self.load_keys(self.incumbent.rest()[1])

    def _try_keys(self) -> None:
        roll_whole(KeyBase("incumbent", self.workspace.noise.key), self.workspace)
        value = self.workspace.value()
        if value < self.incumbent.value:
            self.incumbent.replace(self.workspace.taken(), value)
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
        workspace, walks, budget = self.workspace, self.walks, self.budget
        unstarted = np.count_nonzero(self.simulator.state.task["unstarted"][workspace.open()])
        if not 0 < unstarted <= self.most_walked or is_empty(budget):
            return
        exhaustive.open_walks(walks, self.incumbent.value, waiting=self.options.wait)

        def walk() -> int:
            return int(
                exhaustive.walk(
                    *workspace.states, workspace.noise, workspace.log, walks, workspace.truth, budget, _WALKED
                )
            )

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
            found = self.workspace.taken()
            if self._best_is_known:
                self._until = -np.inf
            elif not self._pays(found, now):
                return
            self.incumbent.replace(found, best)
            self.load_keys(self.incumbent.rest()[1])

    def _commitment(self) -> float:
        """Seconds for which a schedule can be expected to be followed, from the arrivals so far; 0 = to the end."""
        arrival, arrived = self.simulator.replay.arrival, self.workspace.arrived
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
        workspace, status = self.workspace, kernel.GROW
        while status == kernel.GROW:
            workspace.restart()
            status = rollout.follow(workspace.problem, workspace.scratch, workspace.truth, time_, task, self._until)
            if status == kernel.DECIDE:
                status = self.base.roll(workspace)
            if status == kernel.GROW:
                workspace.regrow()
        if status != kernel.DONE:
            return np.inf
        return float(rollout.cost_of(workspace.problem, workspace.scratch, workspace.work))

    def _play(self, tasks: IntArray, first: int) -> float:
        """Sequential halving (or equal shares) over first actions; the least cost found."""
        workspace, arms = self.workspace, self.arms

        sequential_halving.open_arms(arms, tasks, int(np.flatnonzero(tasks == first)[0]), self.incumbent.value)
        rounds = 1 if self.options.select == "uniform" else sequential_halving.phases(len(tasks))

        def play() -> int:
            return int(
                sequential_halving.play(
                    *workspace.states,
                    workspace.buckets,
                    workspace.noise,
                    workspace.log,
                    arms,
                    self.leaf,
                    workspace.truth,
                    self.budget,
                    rounds,
                )
            )

        self.search(play)
        return float(arms.found[0])

    def _grow(self, tasks: IntArray, first: int) -> float:
        """PUCT in a tree; the least cost found."""
        workspace, grown = self.workspace, self.tree

        def grow() -> int:
            return int(
                tree.grow(
                    *workspace.states,
                    workspace.buckets,
                    workspace.noise,
                    workspace.log,
                    grown,
                    self.leaf,
                    workspace.truth,
                    self.budget,
                )
            )

        rank = np.where(tasks == first, 0.0, np.arange(1.0, len(tasks) + 1))
        prior = 0.5 ** np.minimum(rank, 30.0)
        tree.open_tree(grown, tasks, prior / prior.sum(), self.incumbent.value, width=_WIDTH, waiting=self.options.wait)
        self.search(grow)
        return float(grown.range[tree.FOUND])
