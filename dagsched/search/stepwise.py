"""Deciding step by step: the loop over decisions, and what every kind of decider shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dagsched.schedule import WAIT
from dagsched.search import leaf_value, rollout
from dagsched.search.base_policies import Base
from dagsched.search.budget import Budget, begin, new_budget
from dagsched.search.options import SearchOptions
from dagsched.search.workspace import Workspace
from dagsched.simulator import kernel
from dagsched.workflow import IntArray

STREAM = 0x4D435453
"""Domain of the planner's random streams."""
_PRIOR_SLOPE = 4.0
_LEAST_HORIZON = 14
_REFIT = 8
"""Simulations that the value learns from before it is fitted again."""


class Decider:
    """One way to decide which task to start now.

    Args:
        workspace: of the replay.
        budget: of one decision; whoever asks has begun it.

    Attributes:
        kind: one word for it.
    """

    kind = ""

    def __init__(self, workspace: Workspace, budget: Budget) -> None:
        self.workspace, self.budget, self.simulator = workspace, budget, workspace.simulator

    def decide(self, legal: IntArray) -> int:
        """The task to start now, of those that may start, or WAIT."""
        raise NotImplementedError

    def must_wait(self) -> None:
        """The starvation guard lets nothing start now."""


class SearchDecider(Decider):
    """A decider that simulates first actions.

    Args:
        workspace: of the replay.
        base: what simulations go on with.
        options: of the planner.
        budget: of one decision; whoever asks has begun it.
        rng: of the planner; see :func:`search_stream`.

    Attributes:
        horizon: decisions after which a simulation asks the value, as a multiple of the nodes.
    """

    horizon = 3

    def __init__(
        self, workspace: Workspace, base: Base, options: SearchOptions, budget: Budget, rng: np.random.Generator
    ) -> None:
        super().__init__(workspace, budget)
        self.base, self.options, self.rng = base, options, rng
        self._deadline = self.simulator.replay.deadline
        self._learned = 0
        horizon = self.horizon * len(workspace.whole.node_group)
        ends = options.leaf
        if ends == "auto":
            ends = "rollout" if workspace.objective == "makespan" else "value"  # a makespan hides what a value reads
        self.leaf = leaf_value.new_leaf(len(workspace.whole.workflow), ends, max(horizon, _LEAST_HORIZON))

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
            rank[np.argsort(-self.workspace.noise.key[others], kind="stable")] = np.arange(len(others))
            score = self.rng.gumbel(size=len(others)) - rank * (_PRIOR_SLOPE / most)
            score[np.isin(others, picks)] = np.inf
            others = others[np.argsort(-score, kind="stable")[: most - 1]]
        return np.concatenate([[first], others]).astype(np.int64)

    def _rule_picks(self, tasks: IntArray) -> IntArray:
        """The oldest, the one of the longest path, of the workflow with least left, shortest, earliest deadline."""
        state, problem = self.simulator.state, self.workspace.whole
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
        learned = counter[leaf_value.TAUGHT] - self._learned
        if counter[leaf_value.MODE] != leaf_value.ROLLOUT and (learned >= _REFIT or not counter[leaf_value.FITTED]):
            self._learned = int(counter[leaf_value.TAUGHT])
            leaf_value.refit(self.leaf)

    def search(self, call: Callable[[], int]) -> None:
        """Spend the budget, however often logs must grow: their room depends on what is yet to come."""
        while (status := call()) != kernel.DONE:
            if status == kernel.GROW:
                self.workspace.regrow()

    def load_keys(self, tasks: IntArray) -> None:
        """Keys of the simulations: tasks in this order first (by their first mention), all in [-1, 0]."""
        key = self.workspace.noise.key
        key[self.workspace.open()] = -1.0
        key[tasks[::-1]] = -np.arange(len(tasks))[::-1] / max(len(tasks), 1)
        self.workspace.noise.spacing[0] = 1.0 / max(len(tasks), 1)


def search_stream(workspace: Workspace, options: SearchOptions) -> np.random.Generator:
    """The planner's own random numbers on a replay; those of its compiled simulations begin anew, too."""
    seed = np.random.SeedSequence([options.seed, workspace.simulator.policy_seed], spawn_key=(STREAM,))
    workspace.noise.random[0] = seed.generate_state(1, np.uint64)[0]
    return np.random.default_rng(seed)


class StepwiseRun:
    """A planner's run that decides step by step.

    Args:
        workspace: of the replay.
        options: of the planner.
        make: makes the decider from the budget of a decision, which has begun; called at the first decision.

    Attributes:
        decider: what decides; ``None`` before the first decision.
    """

    def __init__(self, workspace: Workspace, options: SearchOptions, make: Callable[[Budget], Decider]) -> None:
        self.simulator, self.workspace = workspace.simulator, workspace
        self.budget = new_budget(options.simulations, options.budget_ms / 1000.0)
        self.decider: Decider | None = None
        self._make = make

    def advance(self, most: int) -> None:
        """See :class:`dagsched.policies.base.Run`."""
        simulator = self.simulator
        going = not simulator.done
        if going and not kernel.any_eligible(simulator.problem, simulator.state):
            going = simulator.advance()
        while going and most > 0:
            legal = simulator.eligible()
            if not len(legal):  # overdue work fits nowhere: only WAIT is legal
                if self.decider is not None:
                    self.decider.must_wait()
                going = simulator.wait()
                continue
            simulator.state.counter[kernel.FRESH] = 0
            begin(self.budget)
            task = self.prepare().decide(legal)
            if task == WAIT:
                going = simulator.wait()
                continue
            simulator.start(task)
            most -= 1
            if not kernel.any_eligible(simulator.problem, simulator.state):
                going = simulator.advance()

    def prepare(self) -> Decider:
        """The decider, made at the first call, which must come at a decision."""
        if self.decider is None:
            self.decider = self._make(self.budget)
        return self.decider

    def report(self) -> Mapping[str, Any]:
        """``search``, what decided (``tree``, ``race`` or ``list``), and ``simulations``, their number so far."""
        simulations = int(self.workspace.work.counter[rollout.SIMULATIONS])
        return {"search": self.decider.kind if self.decider is not None else "", "simulations": simulations}
