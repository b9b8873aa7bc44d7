"""A training run: its stages in order, then the confirmation of the best model.

Everything random is drawn from (seed, stage, step), and a run is saved between steps only, so that a resumed run
equals one that never stopped. Reading order:

1. :meth:`Trainer.run` here: the loop over stages.
2. ``stages.py``: the table of stages. ``evolve_stage.py`` searches for a linear priority; ``network_stage.py`` repeats
   the steps of an algorithm.
3. ``algorithm.py``: what an algorithm is. ``ppo.py``, ``expert.py``, ``imitation.py``, ``self_label.py``: one each.
4. ``validation.py``: what a policy costs on instances that training never sees, and which is the best so far.
5. ``holdout.py``: the best one against the rules on instances that chose neither.
6. ``training_run.py``: what all of these share. ``cards.py``: what the saved models say of themselves.
   ``run_folder.py``, ``trainer_state.py``: what lies on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dagsched.learn.holdout import Confirmation, confirm_best
from dagsched.learn.run_folder import RunFolder
from dagsched.learn.stages import open_stage
from dagsched.learn.train_config import TrainConfig
from dagsched.learn.trainer_state import TrainerState
from dagsched.learn.training_run import TrainingRun


@dataclass(frozen=True, slots=True)
class TrainResult:
    """How a run ended.

    Attributes:
        folder: of the run.
        finished: False if it was stopped; resume it then.
        best: ``cost``, ``ratio_best_rule`` (``None`` where that rule costs 0), ``step`` and ``kind`` of the chosen
            checkpoint on validation.
        confirmed: the choice against the rules on fresh instances; ``None`` if that was left out.
    """

    folder: Path
    finished: bool
    best: Mapping[str, Any]
    confirmed: Confirmation | None = None


class Trainer:
    """One run in its folder.

    Args:
        config: what to do.
        out: the run folder; by default ``runs/<name>-s<seed>``.
        trace: train on this recorded trace instead of the configuration's suites.
        resume: go on from the newest checkpoint of the folder.
        command: the command line, for cards.
        progress: called with (what, done, total, note).
        say: prints one remark.

    Attributes:
        folder: the run folder.
        training: what the stages share.

    Raises:
        ConfigError: for a folder that holds another run, or a source that cannot be trained on: before it trains.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        out: Path | None = None,
        trace: Path | None = None,
        resume: bool = False,
        command: str = "",
        progress: Callable[[str, int, int, str], None] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        torch.set_num_threads(1)
        self.config = config
        self.folder = RunFolder(config, out, resume=resume)
        try:
            self.training = TrainingRun(
                config,
                self.folder,
                trace=trace,
                command=command,
                report=progress or (lambda *_: None),
                say=say or (lambda _: None),
            )
            if resume:
                self.folder.check_source(self.training.data)
                if self.folder.has_saved:  # else it was stopped before its first save: it begins again
                    self.training.restore()
            else:
                self.folder.describe(self.training.data, command)
        except BaseException:
            self.folder.release()
            raise

    @property
    def state(self) -> TrainerState:
        """Where the run stands."""
        return self.training.state

    def run(
        self, stop: Callable[[], bool] = lambda: False, *, confirm_stopped: Callable[[], bool] = lambda: False
    ) -> TrainResult:
        """All stages, then confirmation.

        Args:
            stop: asked between steps; a stopped run is saved.
            confirm_stopped: asked once it has stopped: confirm the best model so far?
        """
        run, state, stages = self.training, self.state, self.config.stages
        try:
            run.begin()
            try:
                while state.stage < len(stages):
                    if not open_stage(run, stages[state.stage]).train(stop):
                        return self._result(finished=False, confirmed=confirm_stopped())
                    state.stage, state.step, state.optimiser = state.stage + 1, 0, None
                    run.save()
                return self._result(finished=True, confirmed=True)
            finally:
                run.end()
        finally:
            self.folder.release()

    def _result(self, *, finished: bool, confirmed: bool) -> TrainResult:
        found = confirm_best(self.training) if confirmed else None
        return TrainResult(self.folder.path, finished, self.state.best, found)
