"""``dagsched/Workflow-v0``: one step = one scheduling decision."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from dagsched.env.episode import Episode
from dagsched.env.episodes import draw
from dagsched.env.layout import Arrays, Layout
from dagsched.env.settings import Settings
from dagsched.errors import ConfigError, PolicyError
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay
from dagsched.schedule import Schedule

_KEPT_EPISODES = 64


class WorkflowEnv(gymnasium.Env[Any, Any]):
    """A Gymnasium environment over replays of workflows.

    Args:
        render_mode: ``rgb_array``, or ``None``.
        options: fields of :class:`~dagsched.env.settings.Settings`, which documents them.

    Raises:
        ConfigError: for an option that does not exist or is out of range.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, *, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode is {render_mode!r}, expected rgb_array or None")
        self.render_mode = render_mode
        self.settings = settings = Settings.of(options)
        self._source = settings.source()
        self.layout: Layout = settings.layout(self._source)
        self.objective: ObjectiveName = settings.objective or self._source.objective
        self._rules = settings.rules()
        self.action_space = spaces.Discrete(self.layout.actions)
        self.observation_space = self.layout.space()
        self._arrays: Arrays = self.layout.arrays()
        self._view = self.layout.view(self._arrays)
        self._episodes: dict[int, Episode] = {}
        self._episode: Episode | None = None
        self._ended = True
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of the draws of replays and noise; ``None`` goes on with the generator.
            options: ``replay``: a ``Replay`` to run; or ``index``: number of the workload or suite problem.

        Raises:
            ConfigError: for an unknown option or index, or a replay that the observation has no room for.
        """
        super().reset(seed=seed)
        asked = dict(options or {})
        replay, index = asked.pop("replay", None), asked.pop("index", None)
        if asked:
            raise ConfigError(f"reset: unknown option {next(iter(asked))!r}; known options: replay, index")
        if replay is None:
            replay = draw(self._source, self.np_random, index)
        elif not isinstance(replay, Replay):
            raise ConfigError(f"reset: replay is a {type(replay).__name__}, expected a Replay (Replay.build makes one)")
        self._episode = episode = self._episode_of(replay)
        episode.reset()
        self._ended, self._steps = False, 0
        return self._observation(), {"time": episode.simulator.now, "action_mask": self._view.mask.copy()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a decision; see ``docs/environment.md`` for observation, reward and ``info``.

        Raises:
            PolicyError: for an illegal action, unless ``on_illegal="penalise"``; without ``reset`` before.
        """
        episode = self._episode
        if episode is None or self._ended:
            raise PolicyError("step: no episode is running; call reset() first")
        settings, action = self.settings, int(action)
        penalty = 0.0
        if not episode.step(action):
            if settings.on_illegal == "raise":
                raise episode.refuse(action)
            penalty = settings.illegal_penalty
            episode.step(int(self._view.mask.argmax()))
        self._steps += 1
        parts = episode.take_reward()
        self._ended = episode.done
        truncated = not self._ended and self._steps == settings.max_steps
        info: dict[str, Any] = parts.as_info()
        info["reward/illegal"] = -penalty
        info["time"] = episode.simulator.now
        info["action_mask"] = self._view.mask.copy()
        if self._ended:
            from dagsched.evaluate.metrics import metrics

            info["metrics"] = metrics(self.schedule())
        reward = parts.of(self.objective) - penalty
        terminated = self._ended
        self._ended = terminated or truncated
        return self._observation(), reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """``[max_candidates + 1]`` legal actions; the name that sb3-contrib looks for."""
        return self._view.mask.astype(bool)

    def candidates(self) -> list[int]:
        """Flat index of the task that each legal action starts, in order of actions; -1 = WAIT."""
        episode = self._running()
        return [-1] if episode.done else [episode.task_of(action) for action in episode.legal()]

    @property
    def replay(self) -> Replay:
        """The replay of the present episode."""
        return self._running().replay

    def schedule(self) -> Schedule:
        """The schedule of an episode that has terminated.

        Raises:
            PolicyError: before the last task has finished.
        """
        return self._running().schedule()

    def render(self) -> Any:
        """``[480, 880, 3]`` uint8: a Gantt chart of the schedule so far; ``None`` without a render mode."""
        if self.render_mode is None:
            return None
        from dagsched.env.picture import picture

        return picture(self._running().simulator)

    def _running(self) -> Episode:
        if self._episode is None:
            raise PolicyError("no episode is running; call reset() first")
        return self._episode

    def _episode_of(self, replay: Replay) -> Episode:
        """Prepared replays are kept, so that training on a few of them does not prepare each anew."""
        known = self._episodes.pop(id(replay), None)
        if known is None or known.replay is not replay:
            known = Episode(replay, self.layout, self._rules, self._view)
        self._episodes[id(replay)] = known
        if len(self._episodes) > _KEPT_EPISODES:
            del self._episodes[next(iter(self._episodes))]
        return known

    def _observation(self) -> Any:
        arrays = self._arrays
        if self.layout.kind == "flat":
            return arrays["flat"].copy() if self.settings.copy else arrays["flat"]
        return {name: array.copy() for name, array in arrays.items()} if self.settings.copy else dict(arrays)
