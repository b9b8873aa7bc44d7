"""The recent past, to be replayed under another policy: states as they were, outcomes as they have shown since.

A replay of the past starts from a state that was kept, and reveals arrivals and durations when they came. It reads
nothing of the future: work that has not finished gets drawn durations, the same for every candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dagsched.features import kernel as features
from dagsched.features.kernel import Tracker
from dagsched.replay import Replay
from dagsched.search import rollout
from dagsched.search.base_policies import Base, LearnedBase
from dagsched.search.workspace import Workspace
from dagsched.simulator import kernel
from dagsched.simulator.kernel import State
from dagsched.simulator.state import copy_into, new_state, read_only
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

_LEAST_RATIOS = 20
"""Finished tasks from which on their ratios stand for the error of estimates that is not known."""
_MOST_RATIOS = 2000


@dataclass(slots=True)
class Snapshot:
    """A state that was kept: whatever may still change of it.

    Attributes:
        state: with room for all; only what follows is filled.
        tracker: what learned policies remember at this moment.
        first_workflow: the first one that had not finished.
        first_alloc: the first allocation that is kept.
    """

    state: State
    tracker: Tracker | None
    first_workflow: int = 0
    first_alloc: int = 0

    @property
    def arrived(self) -> int:
        """Workflows that had arrived."""
        return int(self.state.counter[kernel.ARRIVED])


class Past:
    """Keeps snapshots of a simulator and knows what has shown since.

    Args:
        simulator: the live one, of which nothing is read that a policy may not know.
        problem: its problem, with the areas below.
        tracker: of learned candidates, brought up to date at each snapshot; ``None`` without any.
    """

    def __init__(self, simulator: Simulator, problem: Any, constants: Any, tracker: Tracker | None) -> None:
        self._simulator, self._problem, self._constants, self._tracker = simulator, problem, constants, tracker
        self._first_workflow, self._first_alloc = 0, 0
        self._spare: list[Snapshot] = []
        self._ratios: FloatArray = np.zeros(0)

    def finished(self) -> int:
        """Workflows that have finished so far."""
        arrived = int(self._simulator.state.counter[kernel.ARRIVED])
        while self._first_workflow < arrived and not self._open(self._first_workflow, self._first_workflow + 1)[0]:
            self._first_workflow += 1
        if self._first_workflow == arrived:
            return arrived
        return arrived - int(self._open(self._first_workflow, arrived).sum())

    def _open(self, first: int, last: int) -> BoolArray:
        """Which of the workflows ``first..last - 1`` have unfinished tasks."""
        pointers = self._simulator.replay.workflow_ptr[first : last + 1]
        unfinished = np.isnan(self._simulator.state.task["finish"][pointers[0] : pointers[-1]])
        return np.asarray(np.logical_or.reduceat(unfinished, pointers[:-1] - pointers[0]))

    def keep(self) -> Snapshot:
        """The present state, in a snapshot that was given back or in a new one."""
        live, replay = self._simulator.state, self._simulator.replay
        self.finished()
        kept = self._spare.pop() if self._spare else None
        if kept is None or len(kept.state.alloc) < len(live.alloc):
            blank = new_state(self._problem, len(live.alloc), 1)
            kernel.reset(self._problem, blank)
            tracker = None if self._tracker is None else features.new_tracker(self._problem)
            kept = Snapshot(blank, tracker)
        state, arrived = kept.state, int(live.counter[kernel.ARRIVED])
        first, last = int(replay.workflow_ptr[self._first_workflow]), int(replay.workflow_ptr[arrived])
        allocs = int(live.counter[kernel.ALLOCS])
        while self._first_alloc < allocs and live.alloc["task"][self._first_alloc] < first:
            self._first_alloc += 1
        kept.first_workflow, kept.first_alloc = self._first_workflow, self._first_alloc
        for name in ("clock", "counter", "free", "group_free", "node", "class_blocked"):
            np.copyto(getattr(state, name), getattr(live, name))
        for name, begin, end in (
            ("task", first, last),
            ("data_ready", first, last),
            ("workflow", self._first_workflow, arrived),
            ("alloc", self._first_alloc, allocs),
            ("event", 0, int(live.counter[kernel.EVENTS])),
            ("event_time", 0, int(live.counter[kernel.EVENTS])),
            ("ready", 0, int(live.counter[kernel.READY])),
        ):
            getattr(state, name)[begin:end] = getattr(live, name)[begin:end]
        if self._tracker is not None:
            assert kept.tracker is not None
            features.catch_up(self._problem, live, self._constants, self._tracker)
            copy_into(self._tracker, kept.tracker)
        return kept

    def give_back(self, snapshot: Snapshot) -> None:
        """Let the next snapshot use its memory."""
        self._spare.append(snapshot)

    def durations(self, since: Snapshot, rngs: Iterable[np.random.Generator]) -> Iterator[FloatArray]:
        """``[T, G]`` seconds with which the past since a snapshot is replayed, one draw for each generator.

        Of finished tasks the realised ones, on other groups scaled by realised / estimate; the others are drawn from
        the declared noise, those that run on condition of what has passed.
        """
        replay, live = self._simulator.replay, self._simulator.state
        first = int(replay.workflow_ptr[since.first_workflow])
        last = int(replay.workflow_ptr[live.counter[kernel.ARRIVED]])
        estimate = replay.estimate[first:last]
        revealed = self._revealed(live, since, first, last)
        known = ~np.isnan(revealed)
        if replay.noise.kind == "unknown":
            timed = known & (self._problem.task["fastest"][first:last] > 0)
            self._ratios = np.concatenate([self._ratios, revealed[timed]])[-_MOST_RATIOS:]
        for rng in rngs:
            ratio = np.where(known, revealed, self._drawn(live, first, last, rng))
            seconds = np.array(replay.estimate)
            seconds[first:last] = np.where(np.isfinite(estimate), estimate * ratio[:, None], estimate)
            yield seconds

    def _revealed(self, live: State, since: Snapshot, first: int, last: int) -> FloatArray:
        """``[tasks]`` realised / estimate of those of which an instance has finished, NaN elsewhere."""
        alloc = live.alloc[since.first_alloc : live.counter[kernel.ALLOCS]]
        done = np.ones(len(alloc), bool)
        running = live.event[: live.counter[kernel.EVENTS]] - since.first_alloc
        done[running[running >= 0]] = False
        done &= (alloc["task"] >= first) & (alloc["task"] < last)
        alloc = alloc[done]
        ratio = np.full(last - first, np.nan)
        ratio[alloc["task"] - first] = self._over_estimate(alloc, alloc["finish"] - alloc["execution"], 1.0)
        return ratio

    def _over_estimate(self, alloc: Any, seconds: FloatArray, otherwise: float) -> FloatArray:
        """``seconds`` of each allocation over its estimate; where that is 0, something else."""
        expected = self._simulator.replay.estimate[alloc["task"], self._problem.node_group[alloc["node"]]]
        share: FloatArray = np.divide(seconds, expected, out=np.full(len(alloc), otherwise), where=expected > 0)
        return share

    def _drawn(self, live: State, first: int, last: int, rng: np.random.Generator) -> FloatArray:
        """Actual / estimate of tasks of which nothing has finished."""
        noise = self._simulator.replay.noise
        uniform = rng.random(last - first)
        if noise.kind == "exact":
            return np.ones(last - first)
        passed = self._passed(live, first, last)
        if noise.kind == "lognormal":
            sigma = noise.sigma
            with np.errstate(divide="ignore"):
                below = ndtr((np.log(passed) + 0.5 * sigma * sigma) / sigma)
            quantile = below + uniform * (1.0 - below)
            return np.asarray(np.maximum(np.exp(sigma * ndtri(quantile) - 0.5 * sigma * sigma), passed))
        if len(self._ratios) < _LEAST_RATIOS:
            return np.maximum(1.0, passed)
        ordered = np.sort(self._ratios)
        below = np.searchsorted(ordered, passed, side="right") / len(ordered)
        place = np.minimum((below + uniform * (1.0 - below)) * len(ordered), len(ordered) - 1).astype(np.int64)
        return np.maximum(ordered[place], passed)

    def _passed(self, live: State, first: int, last: int) -> FloatArray:
        """``[tasks]`` elapsed execution / estimate of what runs, 0 elsewhere."""
        passed = np.zeros(last - first)
        alloc = live.alloc[live.event[: live.counter[kernel.EVENTS]]]
        alloc = alloc[(alloc["task"] >= first) & (alloc["task"] < last)]
        elapsed = np.maximum(self._simulator.now - alloc["execution"], 0.0)
        np.maximum.at(passed, alloc["task"] - first, self._over_estimate(alloc, elapsed, 0.0))
        return passed


class _At:
    """Stands for a simulator at a snapshot, for bases that read where the replay begins."""

    def __init__(self, replay: Replay, state: State, policy_seed: int) -> None:
        self.replay, self.state, self.policy_seed = replay, state, policy_seed


class PastWorkspace(Workspace):
    """What replays of the past work on; see :class:`dagsched.search.workspace.Workspace`."""

    def __init__(self, simulator: Simulator, objective: str) -> None:
        super().__init__(simulator, objective)
        self._snapshot: Snapshot | None = None

    def load(self, snapshot: Snapshot, seconds: FloatArray, arrived: int, bases: Sequence[Base]) -> None:
        """Replay from here, with these durations ``[T, G]``, the workflows that have arrived by now."""
        replay = self.simulator.replay
        self._snapshot = snapshot
        self.simulator = _At(replay, snapshot.state, self.simulator.policy_seed)  # type: ignore[assignment]
        self.problem = self.whole._replace(workflow=self.whole.workflow[:arrived])
        self.truth = read_only(seconds)
        self.arrived = arrived
        for base in bases:
            if isinstance(base, LearnedBase) and snapshot.tracker is not None:
                copy_into(snapshot.tracker, base.runner.tracker)
        self.take_root()

    def take_root(self) -> bool:
        """Copy the snapshot; running work ends as the durations say."""
        snapshot = self._snapshot
        assert snapshot is not None
        timed = self.problem._replace(estimate=self.truth)
        if len(self.work.live) < len(snapshot.state.alloc):
            self.grow()
        while True:
            self.work.counter[rollout.FIRST_WORKFLOW] = snapshot.first_workflow
            if rollout.take_root(timed, snapshot.state, self.root, self.scratch, self.work) != kernel.GROW:
                break
            self.grow()
        first, last = self._later()
        self.root.counter[kernel.LEFT] += last - first
        return False

    def restart(self) -> None:
        """Put the scratch back to the snapshot, and what arrives later to its beginning."""
        super().restart()
        assert self._snapshot is not None
        first, last = self._later()
        self.scratch.task[first:last] = self._snapshot.state.task[first:last]
        begin, end = self._snapshot.arrived, self.arrived
        self.scratch.workflow[begin:end] = self._snapshot.state.workflow[begin:end]

    def _later(self) -> tuple[int, int]:
        """Tasks of workflows that arrived after the snapshot."""
        assert self._snapshot is not None
        pointers = self.simulator.replay.workflow_ptr
        return int(pointers[self._snapshot.arrived]), int(pointers[self.arrived])

    def ends(self) -> tuple[IntArray, FloatArray]:
        """(workflows that were open at the snapshot or came later, their last finishes in seconds), after a roll."""
        assert self._snapshot is not None
        first = self._snapshot.first_workflow
        pointers = self.simulator.replay.workflow_ptr[first : self.arrived + 1]
        finish = self.scratch.task["finish"][pointers[0] : pointers[-1]]
        ends = np.maximum.reduceat(finish, pointers[:-1] - pointers[0])
        before = self._snapshot.state.task["finish"][pointers[0] : pointers[-1]]
        counted = np.logical_or.reduceat(np.isnan(before), pointers[:-1] - pointers[0])
        return first + np.flatnonzero(counted), ends[counted]
