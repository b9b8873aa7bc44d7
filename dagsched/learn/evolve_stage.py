"""The stage ``evolve``: one or several searches for a linear priority, which begin again if the run is stopped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dagsched.learn.config_sections import StageName
from dagsched.learn.evolve import EvolveSettings, Generation, evolve
from dagsched.learn.initialise import require_choice
from dagsched.learn.training_instances import TrainingInstances
from dagsched.learn.training_run import PREPARED, TrainingRun
from dagsched.workflow import FloatArray


class EvolveStage:
    """CMA-ES over linear priorities; a stopped search leaves the best so far, begins again, and finds the same.

    Args:
        run: what the stages share.
        name: of the stage.
        number: of the stage.
    """

    def __init__(self, run: TrainingRun, name: StageName, number: int) -> None:
        self._run, self._name = run, name
        self._instances = TrainingInstances(run.source, number)

    def train(self, stop: Callable[[], bool]) -> bool:
        """See :class:`dagsched.learn.stages.Stage`."""
        run, state, section = self._run, self._run.state, self._run.config.evolve
        before, state.step, known = state.total - state.step, 0, (state.reached, state.evolved)
        run.folder.put_back()
        require_choice(self._instances.runners(0, PREPARED), run.start)
        weights = self._search(before, stop)
        found = run.validation.linear(weights)
        if state.step == section.steps * section.seeds:
            state.reached, state.evolved = 0, weights.tolist()
            run.consider("evolved", found)
            return True
        state.reached, state.evolved = state.total, weights.tolist()
        if known[1] is not None:
            earlier = run.validation.linear(np.array(known[1]))
            if earlier.costs.mean() <= found.costs.mean():  # an attempt before this one found as good a priority
                (state.reached, state.evolved), found = known, earlier
        state.step, state.total = 0, before
        run.save()
        run.folder.set_aside()  # a run that goes on searches and decides anew
        state.total = state.reached
        run.consider("evolved", found)
        return False

    def _search(self, before: int, stop: Callable[[], bool]) -> FloatArray:
        """``[F]`` weights of the best search by validation; ``before`` steps were done in earlier stages."""
        run, config, state = self._run, self._run.config, self._run.state
        section = config.evolve
        settings = EvolveSettings(
            section.steps, section.population, section.instances, section.refresh, section.sigma,
            section.validate_every, config.features.blocks, config.threads,
        )  # fmt: skip
        best, weights = np.inf, run.start
        for number in range(section.seeds):
            seed = config.seed * 1000 + number
            searched = evolve(run.start, self._instances.runner, run.validation.runners, settings, seed=seed, stop=stop)
            for found in searched:
                state.step = number * section.steps + found.step
                state.total = before + state.step
                run.log_step(
                    {"evolve/train": found.train, "evolve/validation": found.validation, "evolve/sigma": found.sigma}
                )
                if found.validation < best:
                    best, weights = found.validation, found.weights
                run.report(self._name, state.step, section.steps * section.seeds, self._standing(found))
            if stop():
                break
        return weights

    def _standing(self, found: Generation) -> str:
        """How the kept priority stands against the start; a share only where the start costs something everywhere."""
        start = self._run.config.start
        if self._run.start_costs:
            return f"{found.validation - 1:+.2%} against {start}"
        return f"cost {found.costs[0]:.4g} against {found.costs[1]:.4g} of {start}"
