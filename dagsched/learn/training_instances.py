"""The training instances of one stage by number, without end."""

from __future__ import annotations

from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.instances import InstanceSource
from dagsched.replay import Replay

EVOLVE = 1
"""Number of the stage ``evolve``, on whose first instances networks are initialised as well."""
_BLOCK = 1 << 20
"""Training instances of different stages come from different blocks of indices."""


class TrainingInstances:
    """Instances that no other stage trains on; the same number is the same instance, whoever asks.

    Args:
        source: of the run.
        stage: number of the stage (see :data:`dagsched.learn.stages.ALGORITHMS`).
    """

    def __init__(self, source: InstanceSource, stage: int) -> None:
        self._source, self._first = source, stage * _BLOCK

    def replay(self, number: int) -> Replay:
        """Instance ``number``."""
        return self._source.replay("train", self._first + number)

    def runner(self, number: int) -> EpisodeRunner:
        """Instance ``number``, ready to run."""
        return EpisodeRunner(self.replay(number), self._source.objective)

    def runners(self, first: int, count: int) -> list[EpisodeRunner]:
        """Instances ``first`` to ``first + count - 1``, ready to run."""
        return [self.runner(first + k) for k in range(count)]
