"""What a scheduling policy is, and what it may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dagsched.simulator.observation import ObservedState
from dagsched.simulator.simulator import Simulator
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


class ScoreFunction(Protocol):
    """A user's own rule: ``f(state)`` returns one score per eligible task (``[E]``); the largest runs next.

    A task with score NaN does not run now; NaN for every task means WAIT (legal while something runs, and at ticks
    under a finite ``max_wait``).
    """

    def __call__(self, state: ObservedState) -> NDArray[np.float64]:
        """Scores ``[len(state.eligible)]``."""
        ...


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

    def begin(self, simulator: Simulator) -> Callable[[int], None]:
        """Prepare for a replay that stands before its first arrival.

        The returned function takes at most the given number of decisions (tasks started, not waits) and
        stops when the replay is done. One by one or all at once, the schedule is the same.

        Raises:
            PolicyError: if the policy cannot handle this replay.
        """
        ...
