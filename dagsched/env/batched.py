"""Many episodes stepped together, for training: one row of every array per episode, nothing copied.

Steps run one after another, about 4 µs of compiled code each at 100 tasks; threads were tried and gained nothing,
since dealing the rows out costs more than it saves. Use one process per core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagsched.env.episode import Episode
from dagsched.env.episodes import draw
from dagsched.env.layout import Arrays, Layout
from dagsched.env.settings import Settings
from dagsched.errors import ConfigError
from dagsched.objective import ObjectiveName
from dagsched.workflow import FloatArray


class BatchedWorkflows:
    """``count`` independent episodes; one that ends is followed by the next at once.

    Attributes:
        observation: arrays ``[count, ...]`` by key, overwritten by every step; the flat form has the key ``flat``.
        mask: ``[count, max_candidates + 1]`` int8, legal actions.
        finished: makespan (s) of the episodes that ended in the last step, by row.

    Args:
        count: number of episodes.
        seed: of all draws; each row has its own generator.
        options: fields of :class:`~dagsched.env.settings.Settings`; ``max_steps``, ``on_illegal`` and ``copy`` have
            no meaning here.

    Raises:
        ConfigError: for an option that does not exist or is out of range.
    """

    def __init__(self, count: int, *, seed: int = 0, **options: Any) -> None:
        for name in ("max_steps", "on_illegal", "illegal_penalty", "copy"):
            if name in options:
                raise ConfigError(f"{name} has no meaning for batched episodes; leave it out")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"count is {count!r}, expected a whole number >= 1")
        settings = Settings.of(options)
        self._source = settings.source()
        self.layout: Layout = settings.layout(self._source)
        self.objective: ObjectiveName = settings.objective or self._source.objective
        self._rules = settings.rules()
        self.observation: Arrays = self.layout.arrays(count)
        flat = self.layout.kind == "flat"
        self.mask: NDArray[np.int8] = (
            np.zeros((count, self.layout.actions), np.int8) if flat else self.observation["action_mask"]
        )
        rows = [{name: array[k] for name, array in self.observation.items()} for k in range(count)]
        self._views = [self.layout.view(row, mask) for row, mask in zip(rows, self.mask, strict=True)]
        self._rngs = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(count)]
        self._episodes: list[Episode] = []
        self.finished: dict[int, float] = {}
        self._reward, self._done = np.zeros(count), np.zeros(count, bool)

    def reset(self) -> Arrays:
        """Begin an episode in every row; returns ``observation``."""
        self._episodes = [self._begin(k) for k in range(len(self._views))]
        return self.observation

    def step(self, actions: Sequence[int] | NDArray[np.integer[Any]]) -> tuple[Arrays, FloatArray, NDArray[np.bool_]]:
        """One decision in every row.

        Args:
            actions: ``[count]``.

        Returns:
            ``observation`` (of the next episode where one has ended), ``[count]`` rewards, ``[count]`` ended.

        Raises:
            PolicyError: for an illegal action; the rows before it have been stepped.
        """
        chosen = np.asarray(actions).tolist()
        if len(chosen) != len(self._episodes):
            raise ConfigError(f"step: {len(chosen)} actions for {len(self._episodes)} episodes; call reset() first")
        self.finished = {}
        for k, action in enumerate(chosen):
            self._step_row(k, int(action))
        return self.observation, self._reward.copy(), self._done.copy()

    def _step_row(self, k: int, action: int) -> None:
        episode = self._episodes[k]
        if not episode.step(action):
            raise episode.refuse(action)
        self._reward[k] = episode.take_reward().of(self.objective)
        self._done[k] = episode.done
        if episode.done:
            self.finished[k] = float(episode.simulator.state.task["finish"].max()) - episode.replay.first_arrival
            self._episodes[k] = self._begin(k)

    def _begin(self, k: int) -> Episode:
        replay = draw(self._source, self._rngs[k])
        known = self._episodes[k] if k < len(self._episodes) else None
        if known is None or known.replay is not replay:
            known = Episode(replay, self.layout, self._rules, self._views[k])
        known.reset()
        return known
