"""A stage that trains the network: steps of an algorithm, with a validation now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dagsched.learn.algorithm import Algorithm, TrainingStep, take_step
from dagsched.learn.config_sections import StageName
from dagsched.learn.learner import Learner
from dagsched.learn.training_instances import TrainingInstances
from dagsched.learn.training_run import TrainingRun

AlgorithmLoader = Callable[[Learner, Any], Algorithm[Any]]
"""Makes an algorithm from the network and the stage's section of the configuration; the class itself, as a rule."""


class NetworkStage:
    """Repeats the steps of an algorithm.

    Args:
        run: what the stages share.
        name: of the stage.
        number: of the stage; part of every seed.
        loader: of the algorithm.
    """

    def __init__(self, run: TrainingRun, name: StageName, number: int, loader: AlgorithmLoader) -> None:
        self._run, self._name, self._number, self._loader = run, name, number, loader
        self._section = run.config.section(name)
        self._instances = TrainingInstances(run.source, number)

    def train(self, stop: Callable[[], bool]) -> bool:
        """See :class:`dagsched.learn.stages.Stage`."""
        run, state, total = self._run, self._run.state, self._section.steps
        algorithm = self._loader(run.network(), self._section)
        if state.optimiser is not None:
            algorithm.load_state(state.optimiser, self._instances)
        note = ""
        while state.step < total:
            if stop():
                state.optimiser = algorithm.state()
                run.save()
                return False
            report = take_step(algorithm, self._step())
            state.step, state.total = state.step + 1, state.total + 1
            state.decisions += report.decisions
            run.log_step(report.scalars)
            if state.step % run.config.validation.every == 0 or state.step == total:
                state.optimiser = algorithm.state()
                note = self._validate(algorithm)
            run.report(self._name, state.step, total, note)
        return True

    def _step(self) -> TrainingStep:
        """What the next step is given: all from (seed, stage, step)."""
        step, section = self._run.state.step, self._section
        first = step * section.instances
        return TrainingStep(
            first=first,
            runners=self._instances.runners(first, section.instances),
            rng=np.random.default_rng([self._run.config.seed, self._number, step]),
            progress=self._progress,
        )

    @property
    def _progress(self) -> float:
        return float(min(1.0, self._run.state.step / max(1, self._section.steps - 1)))

    def _validate(self, algorithm: Algorithm[Any]) -> str:
        """Judge the network as it is, and save the run."""
        run = self._run
        seed = (run.config.seed, run.state.total)
        temperature = algorithm.temperature(self._progress)
        found = run.validation.network(run.network(), run.config.validation.samples, temperature, seed)
        note = run.consider("ppo", found)
        run.save()
        return note
