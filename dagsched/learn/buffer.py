"""A replay buffer: the decisions of the newest runs, sampled uniformly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from dagsched.learn.rollout import Trajectory
from dagsched.replay import Replay
from dagsched.workflow import IntArray

_NUMBERS = ("cost", "length", "wait", "seed")
_ARRAYS = tuple(field.name for field in fields(Trajectory) if field.name not in ("replay", *_NUMBERS))


class ReplayBuffer:
    """Whole recorded runs, first in, first out, so that the decision after a sampled one is at hand.

    Args:
        capacity: decisions. The oldest runs leave until no more are held; the newest one always stays.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._runs: deque[tuple[int, Trajectory]] = deque()
        self._decisions = 0

    def __len__(self) -> int:
        """Decisions held."""
        return self._decisions

    @property
    def runs(self) -> list[Trajectory]:
        """Oldest first."""
        return [run for _, run in self._runs]

    def add(self, number: int, run: Trajectory) -> None:
        """Add a run of training instance ``number``; one without decisions is left out."""
        if not len(run):
            return
        self._runs.append((number, run))
        self._decisions += len(run)
        while self._decisions > self.capacity and len(self._runs) > 1:
            self._decisions -= len(self._runs.popleft()[1])

    def sample(self, count: int, rng: np.random.Generator) -> list[tuple[Trajectory, IntArray]]:
        """``count`` different decisions, each as likely as any other; all, if fewer are held.

        Returns:
            For each run that is touched, oldest first: the run and ``[n]`` places of decisions in it, ascending. Use
            :func:`dagsched.learn.rollout.only` to cut them out.
        """
        chosen = np.sort(rng.choice(len(self), min(count, len(self)), replace=False))
        found, begin = [], 0
        for run in self.runs:
            low, high = np.searchsorted(chosen, [begin, begin + len(run)])
            if high > low:
                found.append((run, chosen[low:high] - begin))
            begin += len(run)
        return found

    def state(self) -> dict[str, Any]:
        """Numbers and tensors; replays by the number of their instance."""
        return {
            "runs": [
                {
                    "number": number,
                    **{name: getattr(run, name) for name in _NUMBERS},
                    **{name: torch.from_numpy(getattr(run, name)) for name in _ARRAYS},
                }
                for number, run in self._runs
            ]
        }

    def load_state(self, state: Mapping[str, Any], replay_of: Callable[[int], Replay]) -> None:
        """Hold what a saved buffer held.

        Args:
            state: what :meth:`state` gave.
            replay_of: training instance by number; each is asked for once.
        """
        self._runs.clear()
        self._decisions = 0
        replays: dict[int, Replay] = {}
        for saved in state["runs"]:
            number = int(saved["number"])
            if number not in replays:
                replays[number] = replay_of(number)
            numbers = {name: saved[name] for name in _NUMBERS}
            arrays = {name: saved[name].numpy() for name in _ARRAYS}
            self._runs.append((number, Trajectory(replay=replays[number], **numbers, **arrays)))
            self._decisions += len(arrays["action"])
