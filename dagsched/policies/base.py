"""What a scheduling policy is, and what it may see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dagsched.simulator.observation import ObservedState
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Where and when a static scheduler wants each task: the simulator keeps the order on every node.

    Entries may come in any order; the order on a node is that of ``start``, ties in entry order, which must
    be a topological order.

    Attributes:
        task, node, count: ``[P]`` flat task, node and number of instances.
        start: ``[P]`` planned seconds.
    """

    task: IntArray
    node: IntArray
    count: IntArray
    start: FloatArray


@dataclass(frozen=True, slots=True)
class Decision:
    """What a rule of one's own may return instead of scores: the task, and where it goes.

    Work that the starvation guard forces is started without asking, where the placement rule says.

    Attributes:
        task: one of ``state.eligible``; ``WAIT`` (-1) = start nothing now.
        node: start on this node alone; -1 = where the placement rule says.
        group: start on the node of this group that is left with least; -1 = any.
        count: start at most so many instances; 0 = as many as fit.
    """

    task: int
    node: int = -1
    group: int = -1
    count: int = 0


class ScoreFunction(Protocol):
    """A user's own rule: ``f(state)`` returns one score per eligible task (``[E]``); the largest runs next.

    A task with score NaN does not run now; NaN for every task means WAIT (legal while something runs, and at ticks
    under a finite ``max_wait``). It may return a :class:`Decision` instead, which can name the node.
    """

    def __call__(self, state: ObservedState) -> NDArray[np.float64] | Decision:
        """Scores ``[len(state.eligible)]``, or a decision."""
        ...


class Run(Protocol):
    """One policy on one replay, in progress."""

    def advance(self, most: int) -> None:
        """Take at most ``most`` decisions (tasks started, not waits); stops when the replay is done.

        One by one or all at once, the schedule is the same.
        """
        ...

    def report(self) -> Mapping[str, Any]:
        """What the policy has to say of the run so far, for ``Schedule.report``; mostly nothing."""
        ...


@dataclass(frozen=True, slots=True)
class PlainRun:
    """A run that has nothing to report."""

    advance: Callable[[int], None]

    def report(self) -> Mapping[str, Any]:
        """See :class:`Run`."""
        return {}


class DeferredRun:
    """A run that is chosen at the first decision, so that the time it takes to choose is measured with it.

    ``choose`` gives it, and what there is to report.
    """

    def __init__(self, choose: Callable[[], tuple[Run, Mapping[str, Any]]]) -> None:
        self._choose = choose
        self._run: Run | None = None
        self._report: Mapping[str, Any] = {}

    def advance(self, most: int) -> None:
        """See :class:`Run`."""
        if self._run is None:
            self._run, self._report = self._choose()
        self._run.advance(most)

    def report(self) -> Mapping[str, Any]:
        """See :class:`Run`."""
        return self._report


class Policy(Protocol):
    """Anything that can schedule a replay.

    Attributes:
        name: the spec it was made from.
        reproducible: False for policies with a wall-clock budget.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def reproducible(self) -> bool: ...  # noqa: D102

    def begin(self, simulator: Simulator) -> Run:
        """Prepare for a replay that stands before its first arrival.

        Raises:
            PolicyError: if the policy cannot handle this replay.
        """
        ...
