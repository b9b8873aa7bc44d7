"""What the stages of a run share: configuration, instances, progress, the network, the log; and how it is saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dagsched.features.builder import Normaliser
from dagsched.learn.cards import Cards
from dagsched.learn.initialise import calibrate_scale, fit_normaliser, open_start
from dagsched.learn.instances import InstanceSource, open_source
from dagsched.learn.learner import Learner
from dagsched.learn.run_folder import STATE, RunFolder
from dagsched.learn.splits import shares_mean_something, validation_replays
from dagsched.learn.tensorboard_log import TensorBoardLog
from dagsched.learn.train_config import TrainConfig
from dagsched.learn.trainer_state import TrainerState
from dagsched.learn.training_instances import EVOLVE, TrainingInstances
from dagsched.learn.validation import PolicyCosts, Validation
from dagsched.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from dagsched.workflow import FloatArray

PREPARED = 32
"""Training instances to which the normaliser is fitted."""


class TrainingRun:
    """One run.

    Args:
        config: what to do.
        folder: where.
        trace: train on this recorded trace instead of the configuration's suites.
        command: the command line, for cards.
        report: called with (what, done, total, note).
        say: prints one remark.

    Attributes:
        source: instances of every split.
        objective: what costs.
        data: what the run trains on, for its folder and for cards.
        start: ``[F]`` raw weights of the priority that learning starts from.
        start_costs: whether shares of the start's costs mean something.
        state: where the run stands.
        learner: the network, once there is one.
        log, validation: between :meth:`begin` and :meth:`end`.

    Raises:
        ConfigError: for a source that cannot be trained on.
    """

    log: TensorBoardLog
    validation: Validation

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        *,
        trace: Path | None,
        command: str,
        report: Callable[[str, int, int, str], None],
        say: Callable[[str], None],
    ) -> None:
        self.config, self.folder, self.report = config, folder, report
        self.source: InstanceSource = open_source(config, trace)
        self.objective = self.source.objective
        self.state = TrainerState()
        self.learner: Learner | None = None
        self.start, digest = open_start(config.start, self.objective)
        self.data: dict[str, Any] = self.source.describe() | ({} if digest is None else {"start": digest})
        self._validation_replays = validation_replays(self.source, config.validation, say)
        self.start_costs = shares_mean_something(
            self.start, config.start, self._validation_replays, self.objective, config.threads
        )
        self._cards = Cards(config, self.source, self.data, command, len(self._validation_replays))

    def begin(self) -> None:
        """Open the log, find out what the rules cost, and validate the start unless that has been done."""
        config, state = self.config, self.state
        self._clock = time.monotonic() - state.elapsed
        self.log = TensorBoardLog(self.folder.tensorboard, state.total + 1 if state.history else 0)
        try:
            self.validation = Validation(
                self._validation_replays, self.objective, self.folder, config.validation.rules, config.threads,
                lambda done, total: self.report("rules", done, total, ""),
            )  # fmt: skip
            if not state.history:
                self.consider("rule", self.validation.linear(self.start))
        except BaseException:
            self.log.close()
            raise

    def end(self) -> None:
        """Close the log."""
        self.log.close()

    def log_step(self, scalars: dict[str, float]) -> None:
        """Scalars of the step that ``state.total`` counts, with times."""
        state = self.state
        state.elapsed = time.monotonic() - self._clock
        times = {
            "time/time_elapsed": state.elapsed,
            "time/total_timesteps": float(state.decisions),
            "time/fps": state.decisions / max(state.elapsed, 1e-9),
        }
        self.log.scalars(scalars | times, state.total)

    def consider(self, kind: str, policy: PolicyCosts) -> str:
        """Log what a policy costs on validation; if none was better, keep it as the best; say how it stands."""
        return self.validation.consider(self.state, self.log, kind, policy, lambda: self._checkpoint(kind))

    # ------------------------------------------------------------------ the network

    def network(self) -> Learner:
        """The network in training; the first stage that asks for one gets it untrained."""
        if self.learner is None:
            self.learner = self.new_learner()
        return self.learner

    def new_learner(self) -> Learner:
        """An untrained network on the base priority: the start rule or what evolve found."""
        config, state = self.config, self.state
        base = np.array(state.evolved) if state.evolved and config.network.base == "evolved" else self.start
        runners = TrainingInstances(self.source, EVOLVE).runners(0, PREPARED)
        scale = config.network.scale
        if scale == "auto":
            scale = calibrate_scale(runners, base, config.network.entropy)
        state.scale = float(scale)
        return self._learner(base, fit_normaliser(runners, base), float(scale))

    def _learner(self, base: FloatArray, normaliser: Normaliser, scale: float) -> Learner:
        config = self.config
        shape = config.network.resolved(config.features, scale)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return Learner(shape, base, normaliser, seed=config.seed, device=device, threads=config.threads)

    # ------------------------------------------------------------------ on disk

    def save(self) -> None:
        """The run as it stands between two steps."""
        path = self.folder.checkpoint(self.state.total)
        kind = "evolved" if self.learner is None else "ppo"
        save_checkpoint(path, self._checkpoint(kind), extra={STATE: self.state.to_bytes()})
        self.folder.forget_old()

    def restore(self) -> None:
        """Go on from the newest checkpoint of the folder."""
        path = self.folder.latest()
        self.state = TrainerState.from_file(path / STATE)
        saved = load_checkpoint(path)
        if saved.network is not None:
            assert self.state.scale is not None
            self.learner = self._learner(saved.base, saved.normaliser, self.state.scale)
            self.learner.load(saved.tensors)

    def _checkpoint(self, kind: str) -> Checkpoint:
        if kind == "ppo":
            assert self.learner is not None
            return self._cards.network(self.state, self.learner)
        weights = self.start if kind == "rule" or self.state.evolved is None else np.array(self.state.evolved)
        return self._cards.linear(self.state, weights, self.learner)
