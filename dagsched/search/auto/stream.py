"""``auto`` in a stream: one policy at a time, replaced where replays of the recent past show another to be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dagsched.cost import TARDINESS
from dagsched.features import kernel as features
from dagsched.policies.base import Policy, Run
from dagsched.search.auto.past import Past, PastWorkspace, Snapshot
from dagsched.search.base_policies import Base, LearnedBase, roll_whole
from dagsched.simulator import kernel
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray, IntArray

_DOMAIN = 0x4155544F
LOOK_EVERY = 16
"""Decisions between looks at how many workflows have finished."""
BLOCKS = 4
"""Blocks of consecutive workflows into which a replay of the past is split; its interval is over them."""
_LEAST_BLOCK = 3
_Z = 2.0
_LEAST_GAIN = 0.005
"""Share of the cost below which a difference changes nothing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that can take over in any state.

    Attributes:
        name: its spec.
        policy: decides.
        base: replays the past.
    """

    name: str
    policy: Policy
    base: Base


@dataclass(frozen=True, slots=True)
class Review:
    """A look back.

    Attributes:
        time: seconds.
        finished: workflows that had finished.
        chosen: what decides from here on.
        cost: mean cost of a workflow under each candidate, over what is remembered.
    """

    time: float
    finished: int
    chosen: str
    cost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """How often and how far to look back.

    Attributes:
        every: finished workflows between two reviews.
        draws: durations drawn for what has not finished, in each.
        memory: reviews whose replays count.
        seed: of the draws.
    """

    every: int = 20
    draws: int = 2
    memory: int = 6
    seed: int = 0


class StreamRun:
    """A run that reviews its policy; see the module.

    Args:
        simulator: before its first arrival.
        objective: what costs mean.
        workspace: for replays of the past.
        candidates: the first one decides until a review says otherwise.
        options: see there.
    """

    def __init__(
        self,
        simulator: Simulator,
        objective: str,
        workspace: PastWorkspace,
        candidates: Sequence[Candidate],
        options: ReviewOptions,
    ) -> None:
        self.simulator, self.objective, self.workspace = simulator, objective, workspace
        self.candidates, self.options = list(candidates), options
        self.current = 0
        self.reviews: list[Review] = []
        self.replays = 0
        learned = [c.base.runner for c in self.candidates if isinstance(c.base, LearnedBase)]
        tracker = features.new_tracker(workspace.whole) if learned else None
        constants = learned[0].constants if learned else None
        self._past = Past(simulator, workspace.whole, constants, tracker)
        self._snapshot: Snapshot | None = None
        self._reviewed = 0
        self._blocks: list[tuple[FloatArray, FloatArray]] = []  # ([candidates, blocks] mean cost, [blocks] workflows)
        self._since_look = 0
        self._run: Run | None = None

    @property
    def current_name(self) -> str:
        """What decides now."""
        return self.candidates[self.current].name

    def advance(self, most: int) -> None:
        """See :class:`dagsched.policies.base.Run`."""
        while most > 0 and not self.simulator.done:
            if self._run is None:
                self._run = self.candidates[self.current].policy.begin(self.simulator)
            part = min(most, LOOK_EVERY - self._since_look)
            before = self.simulator.started
            self._run.advance(part)
            taken = self.simulator.started - before
            most -= taken
            self._since_look += taken
            if self._since_look >= LOOK_EVERY:
                self._since_look = 0
                self._look()

    def report(self) -> Mapping[str, Any]:
        """``chosen``: what decides; ``reviews``: every look back; ``simulations``: replays of the past."""
        return {"chosen": self.current_name, "reviews": tuple(self.reviews), "simulations": self.replays}

    def _look(self) -> None:
        """Keep a first state; review once enough workflows have finished since the last time."""
        if self._snapshot is None:
            self._snapshot, self._reviewed = self._past.keep(), self._past.finished()
            return
        finished = self._past.finished()
        if finished < self._reviewed + self.options.every:
            return
        self._review(self._snapshot, finished)
        self._past.give_back(self._snapshot)
        self._snapshot, self._reviewed = self._past.keep(), finished

    def _review(self, snapshot: Snapshot, finished: int) -> None:
        arrived = int(self.simulator.state.counter[kernel.ARRIVED])
        bases = [candidate.base for candidate in self.candidates]
        draws = 1 if self.simulator.replay.noise.kind == "exact" else self.options.draws
        seeds = [self.options.seed, self.simulator.policy_seed, len(self.reviews)]
        streams = [np.random.SeedSequence([*seeds, draw], spawn_key=(_DOMAIN,)) for draw in range(draws)]
        costs = []  # [draws, candidates, workflows]
        for seconds in self._past.durations(snapshot, map(np.random.default_rng, streams)):
            self.workspace.load(snapshot, seconds, arrived, bases)
            costs.append([self._cost_of(base) for base in bases])
        self.replays += draws * len(bases)
        self._remember(np.array(costs).sum(axis=0) / draws)
        self._choose(finished)

    def _cost_of(self, base: Base) -> FloatArray:
        """Cost of each workflow when the past is replayed under a candidate."""
        roll_whole(base, self.workspace)
        return self._costs(*self.workspace.ends())

    def _costs(self, owners: IntArray, ends: FloatArray) -> FloatArray:
        """Cost of each workflow, weighted seconds or lateness; the makespan is that of all of them."""
        replay = self.simulator.replay
        if self.objective == "flow_time":
            return np.asarray(replay.weight[owners] * (ends - replay.arrival[owners]))
        if self.objective == "slo":
            over = np.maximum(ends - replay.deadline[owners], 0.0)
            return np.asarray(
                (over > 0) + TARDINESS * over / max(self.workspace.mean_path(self.workspace.arrived), 1e-9)
            )
        return np.asarray(ends.max(keepdims=True) - replay.arrival[owners[:1]])

    def _remember(self, cost: FloatArray) -> None:
        """Mean costs by blocks of consecutive workflows ``[candidates, workflows]``."""
        count = max(1, min(BLOCKS, cost.shape[1] // _LEAST_BLOCK))
        parts = np.array_split(np.arange(cost.shape[1]), count)
        means = np.column_stack([cost[:, part].mean(axis=1) for part in parts])
        self._blocks = [*self._blocks, (means, np.array([float(len(part)) for part in parts]))][-self.options.memory :]

    def _choose(self, finished: int) -> None:
        """Another policy if the interval of its difference lies wholly below zero."""
        cost, size = np.hstack([c for c, _ in self._blocks]), np.concatenate([n for _, n in self._blocks])
        share = size / size.sum()
        mean = cost @ share
        best = int(mean.argmin())
        if best != self.current and len(size) > 2:
            level = cost[self.current]  # what a block costs grows with the queue
            if level.min() <= 0:
                level = np.full(len(level), max(mean[self.current], 1e-12))
            difference = (cost[best] - cost[self.current]) / level
            centre = float(difference @ share)
            error = float(np.sqrt(((share * (difference - centre)) ** 2).sum() * len(size) / (len(size) - 1)))
            if centre + _Z * error < 0 and -centre > _LEAST_GAIN:
                self._switch(best)
        costs = {candidate.name: float(value) for candidate, value in zip(self.candidates, mean, strict=True)}
        self.reviews.append(Review(self.simulator.now, finished, self.current_name, costs))

    def _switch(self, candidate: int) -> None:
        """Let another policy go on from here: to it everything that is ready is news."""
        self.current, self._run = candidate, None
        kernel.hand_over(self.simulator.state)
