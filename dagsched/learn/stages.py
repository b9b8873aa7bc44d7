"""The stages of training by name. A new learner is a class as in :mod:`dagsched.learn.algorithm`, and an entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dagsched.learn.config_sections import StageName
from dagsched.learn.evolve_stage import EvolveStage
from dagsched.learn.expert import ExpertIteration
from dagsched.learn.imitation import Imitation
from dagsched.learn.network_stage import AlgorithmLoader, NetworkStage
from dagsched.learn.ppo import PPO
from dagsched.learn.self_label import SelfLabelling
from dagsched.learn.training_instances import EVOLVE
from dagsched.learn.training_run import TrainingRun


class Stage(Protocol):
    """One stage of a run."""

    def train(self, stop: Callable[[], bool]) -> bool:
        """Do what is left of the stage, ``state.step`` steps of which are done.

        Args:
            stop: asked between steps.

        Returns:
            False if it was stopped: then the run is saved.
        """
        ...


@dataclass(frozen=True, slots=True)
class StageEntry:
    """How a stage is opened.

    Attributes:
        number: of the stage: part of every seed, and which training instances are its own. It never changes.
        open: from (run, name, number).
    """

    number: int
    open: Callable[[TrainingRun, StageName, int], Stage]


def trains(loader: AlgorithmLoader) -> Callable[[TrainingRun, StageName, int], Stage]:
    """A stage that repeats the steps of an algorithm."""
    return lambda run, name, number: NetworkStage(run, name, number, loader)


ALGORITHMS: dict[str, StageEntry] = {
    "evolve": StageEntry(EVOLVE, EvolveStage),
    "imitate": StageEntry(2, trains(Imitation)),
    "ppo": StageEntry(3, trains(PPO)),
    "self-label": StageEntry(4, trains(SelfLabelling)),
    "expert": StageEntry(5, trains(ExpertIteration)),
}
"""Every stage that ``stages`` of a configuration may name."""


def open_stage(run: TrainingRun, name: StageName) -> Stage:
    """The stage of this name."""
    entry = ALGORITHMS[name]
    return entry.open(run, name, entry.number)
