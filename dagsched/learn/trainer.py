"""A training run: the stages in order, validation, the best model, and its confirmation.

Start reading at :meth:`Trainer.run`. Everything random is drawn from (seed, stage, step), and a run is saved between
steps only, so that a resumed run equals one that never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dagsched.errors import ConfigError
from dagsched.features.builder import Normaliser
from dagsched.generate.suite import Split
from dagsched.learn.arena import Arena, linear_costs
from dagsched.learn.config import TrainConfig
from dagsched.learn.config_sections import Stage, start_folder
from dagsched.learn.confirm import Confirmation, confirm
from dagsched.learn.evolve import EvolveSettings, Progress, evolve
from dagsched.learn.instances import Source, open_source, replays_of
from dagsched.learn.judge import Judge
from dagsched.learn.learner import Learner
from dagsched.learn.logging import Log
from dagsched.learn.network_steps import Outcome, expert_step, imitate_step, ppo_step, self_label_step
from dagsched.learn.preparation import calibrate_scale, fit_normaliser, open_start, require_choice
from dagsched.learn.rollout import NetworkArena
from dagsched.learn.run_folder import STATE, RunFolder
from dagsched.learn.trainer_state import TrainerState
from dagsched.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.workflow import FloatArray

PREPARED = 32
"""Training instances to which the normaliser is fitted."""
_STAGE_IDS: dict[Stage, int] = {"evolve": 1, "imitate": 2, "ppo": 3, "self-label": 4, "expert": 5}
_SPLIT_BLOCK = 1 << 20
"""Training instances of different stages come from different blocks of indices."""


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
        self.config, self._command = config, command
        self._tell = progress or (lambda *_: None)
        self._say = say or (lambda _: None)
        self.folder = RunFolder(config, out, resume=resume)
        try:
            self._open(trace, command, resume=resume)
        except BaseException:
            self.folder.release()
            raise

    def _open(self, trace: Path | None, command: str, *, resume: bool) -> None:
        config = self.config
        self.source: Source = open_source(config, trace)
        self.objective = self.source.objective
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.state = TrainerState()
        self.learner: Learner | None = None
        self.start, digest = open_start(config.start, self.objective)
        self._data = self.source.describe() if digest is None else {**self.source.describe(), "start": digest}
        self._held = self._checked_splits()
        self._start_costs = self._require_room()
        if resume:
            self.folder.check_source(self._data)
            if self.folder.has_saved:  # else it was stopped before its first save: it begins again
                self._restore()
        else:
            self.folder.describe(self._data, command)

    def run(
        self, stop: Callable[[], bool] = lambda: False, *, confirm_stopped: Callable[[], bool] = lambda: False
    ) -> TrainResult:
        """All stages, then confirmation.

        Args:
            stop: asked between steps; a stopped run is saved.
            confirm_stopped: asked once it has stopped: confirm the best model so far?
        """
        config, state = self.config, self.state
        self._clock = time.monotonic() - state.elapsed
        self._log = Log(self.folder.tensorboard, state.total + 1 if state.history else 0)
        try:
            self._judge = Judge(
                self._held, self.objective, self.folder, config.validation.rules, config.threads,
                lambda done, total: self._tell("rules", done, total, ""),
            )  # fmt: skip
            if not state.history:
                self._consider("rule", *self._judge.linear(self.start))
            while state.stage < len(config.stages):
                stage = config.stages[state.stage]
                ended = self._evolve(stop) if stage == "evolve" else self._train_network(stage, stop)
                if not ended:
                    return (
                        self._confirm(False) if confirm_stopped() else TrainResult(self.folder.path, False, state.best)
                    )
                state.stage, state.step, state.optimiser = state.stage + 1, 0, None
                self._save()
            return self._confirm(True)
        finally:
            self._log.close()
            self.folder.release()

    # ------------------------------------------------------------------ stages

    def _evolve(self, stop: Callable[[], bool]) -> bool:
        """CMA-ES over linear priorities; a stopped search leaves the best so far, begins again, and finds the same."""
        section, state = self.config.evolve, self.state
        before, state.step, known = state.total - state.step, 0, (state.reached, state.evolved)
        self.folder.put_back()
        settings = EvolveSettings(
            section.steps, section.population, section.instances, section.refresh, section.sigma,
            section.validate_every, self.config.features.blocks, self.config.threads,
        )  # fmt: skip
        require_choice(self._arenas("evolve", 0, PREPARED), self.start)
        best = np.inf
        weights = self.start
        total = section.steps * section.seeds
        for number in range(section.seeds):
            seed = self.config.seed * 1000 + number
            for found in evolve(self.start, self._training, self._judge.arenas, settings, seed=seed, stop=stop):
                state.step = number * section.steps + found.step
                state.total = before + state.step
                scalars = {
                    "evolve/train": found.train,
                    "evolve/validation": found.validation,
                    "evolve/sigma": found.sigma,
                }
                self._log.scalars(scalars | self._times(), state.total)
                if found.validation < best:
                    best, weights = found.validation, found.weights
                self._tell("evolve", state.step, total, self._evolved_so_far(found))
            if stop():
                break
        judged = self._judge.linear(weights)
        if state.step == total:
            state.reached, state.evolved = 0, weights.tolist()
            self._consider("evolved", *judged)
            return True
        state.reached, state.evolved = state.total, weights.tolist()
        if known[1] is not None:
            earlier = self._judge.linear(np.array(known[1]))
            if earlier[0].mean() <= judged[0].mean():  # an attempt before this one found as good a priority
                (state.reached, state.evolved), judged = known, earlier
        state.step, state.total = 0, before
        self._save()
        self.folder.set_aside()  # a run that goes on searches and decides anew
        state.total = state.reached
        self._consider("evolved", *judged)
        return False

    def _evolved_so_far(self, found: Progress) -> str:
        """How the kept priority stands against the start; a share only where the start costs something everywhere."""
        if self._start_costs:
            return f"{found.validation - 1:+.2%} against {self.config.start}"
        return f"cost {found.costs[0]:.4g} against {found.costs[1]:.4g} of {self.config.start}"

    def _train_network(self, stage: Stage, stop: Callable[[], bool]) -> bool:
        """Steps of a stage that trains the network, with a validation now and then."""
        section, state, total = self.config.section(stage), self.state, self.config.steps_of(stage)
        learner = self.learner = self.learner or self._new_learner()
        optimiser = torch.optim.Adam(learner.model.parameters(), section.learning_rate, eps=1e-5)
        if state.optimiser is not None:
            optimiser.load_state_dict(state.optimiser)
        note = ""
        while state.step < total:
            if stop():
                state.optimiser = optimiser.state_dict()
                self._save()
                return False
            outcome = self._step(stage, learner, optimiser, section)
            state.step, state.total = state.step + 1, state.total + 1
            state.decisions += outcome.decisions
            self._log.scalars(outcome.scalars | self._times(), state.total)
            if state.step % self.config.validation.every == 0 or state.step == total:
                state.optimiser = optimiser.state_dict()
                note = self._validate(stage, learner)
            self._tell(stage, state.step, total, note)
        return True

    def _step(self, stage: Stage, learner: Learner, optimiser: torch.optim.Optimizer, section: Any) -> Outcome:
        step = self.state.step
        rng = np.random.default_rng([self.config.seed, _STAGE_IDS[stage], step])
        arenas = self._arenas(stage, step * section.instances, section.instances)
        if stage == "imitate":
            return imitate_step(learner, optimiser, arenas, section, rng)
        networks = [NetworkArena(arena) for arena in arenas]
        progress = step / max(1, section.steps - 1)
        if stage == "ppo":
            return ppo_step(learner, optimiser, networks, section, rng, progress)
        if stage == "expert":
            return expert_step(learner, optimiser, networks, section, rng, progress)
        return self_label_step(learner, optimiser, networks, section, rng)

    def _new_learner(self) -> Learner:
        """An untrained network on the base priority: the start rule or what evolve found."""
        config, state = self.config, self.state
        base = np.array(state.evolved) if state.evolved and config.network.base == "evolved" else self.start
        arenas = self._arenas("evolve", 0, PREPARED)
        scale = config.network.scale
        if scale == "auto":
            scale = calibrate_scale(arenas, base, config.network.entropy)
        state.scale = float(scale)
        return self._learner(base, fit_normaliser(arenas, base), float(scale))

    def _learner(self, base: FloatArray, normaliser: Normaliser, scale: float) -> Learner:
        shape = self.config.network.resolved(self.config.features, scale)
        return Learner(shape, base, normaliser, seed=self.config.seed, device=self.device, threads=self.config.threads)

    # ------------------------------------------------------------------ validation

    def _validate(self, stage: Stage, learner: Learner) -> str:
        """Judge the network as it is, and save the run."""
        state, section = self.state, self.config.section(stage)
        temperature = getattr(section, "temperature", 1.0)
        if stage == "ppo":
            temperature = section.temperature_at(state.step / max(1, section.steps - 1))
        seed = (self.config.seed, state.total)
        costs, schedule, beside = self._judge.network(learner, self.config.validation.samples, temperature, seed)
        note = self._consider("ppo", costs, schedule, beside)
        self._save()
        return note

    def _consider(
        self, kind: str, costs: FloatArray, schedule: Schedule, beside: Mapping[str, float] | None = None
    ) -> str:
        return self._judge.consider(
            self.state, self._log, kind, costs, schedule, beside or {}, lambda: self._checkpoint(kind)
        )

    def _checkpoint(self, kind: str) -> Checkpoint:
        card = self._card()
        if kind == "ppo":
            assert self.learner is not None
            return self.learner.checkpoint(self.objective, card)
        base = self.start if kind == "rule" or self.state.evolved is None else np.array(self.state.evolved)
        normaliser = self.learner.normaliser if self.learner is not None else _plain_normaliser()
        return Checkpoint("evolved", self.objective, base, normaliser, card=card)

    def _card(self) -> dict[str, Any]:
        return {
            "name": self.config.name,
            "origin": self.source.origin,
            "data": self._data,
            "seed": self.config.seed,
            "start": self.config.start,
            "stages": list(self.config.stages),
            "step": self.state.total,
            "validation": {"instances": len(self._judge.arenas), **self.state.best},
            "command": self._command,
        }

    def _confirm(self, finished: bool) -> TrainResult:
        """The chosen model against the rules on fresh instances; the result goes into its card."""
        best = self.state.best
        self._tell("confirm", 0, 1, "")
        chosen = load_checkpoint(self.folder.best)
        rules = tuple(self._judge.rules.costs)
        found = confirm(
            chosen, self._held_out("confirm"), self.objective, rules, self._trained_start(chosen), self.config.threads
        )
        save_checkpoint(self.folder.best, replace(chosen, card={**chosen.card, **found.card()}))
        against = {rule: d.to_dict() for rule, d in found.against.items()}
        self.folder.write_json(
            "eval/result.json",
            {
                "best": best,
                "rule": found.rule,
                "ship": found.ship,
                "against": against,
                "against_start": None if found.start is None else found.start.to_dict(),
            },
        )
        final = {
            "hparam/confirm_against_rule": found.against[found.rule].mean,
            **({} if best["ratio_best_rule"] is None else {"hparam/validation_ratio": best["ratio_best_rule"]}),
        }
        self._log.hyper_parameters(self.config.model_dump(mode="json"), final)
        self._tell("confirm", 1, 1, "")
        return TrainResult(self.folder.path, finished, best, found)

    def _trained_start(self, chosen: Checkpoint) -> FloatArray | None:
        """The trained priority that the chosen model has to improve on: a network's own, or the run's start."""
        base = self.start if chosen.network is None else chosen.base
        return None if start_folder(self.config.start) is None and np.array_equal(base, self.start) else base

    # ------------------------------------------------------------------ instances, state

    def _arenas(self, stage: Stage, first: int, count: int) -> list[Arena]:
        """Training instances; each stage has its own."""
        block = _STAGE_IDS[stage] * _SPLIT_BLOCK
        return [Arena(self.source.replay("train", block + first + k), self.objective) for k in range(count)]

    def _training(self, number: int) -> Arena:
        """Instance ``number`` of the evolve stage."""
        return self._arenas("evolve", number, 1)[0]

    def _wanted(self, split: Split) -> int:
        return self.config.validation.instances if split == "validation" else self.config.validation.confirm

    def _held_out(self, split: Split) -> list[Replay]:
        return replays_of(self.source, split, self._wanted(split))

    def _checked_splits(self) -> list[Replay]:
        """The validation instances, once training and confirmation have been seen to have what they will need.

        Raises:
            ConfigError: for a split without instances, one that cannot be drawn, or for ``slo`` one without deadlines.
        """
        held: dict[Split, list[Replay]] = {"train": [self.source.replay("train", 0)]}
        if self.source.left_out:
            self._say(f"trace: its last {self.source.left_out} workflows fill no window and are left out")
        for split in ("validation", "confirm"):
            held[split] = self._held_out(split)
            if len(held[split]) < self._wanted(split):
                self._say(f"{split}: the data has {len(held[split])} instances, {self._wanted(split)} were asked for")
            if not held[split]:
                raise ConfigError(f"{split}: the data has no instance for it; give more data")
            self._require_deadlines(split, held[split])
        return held["validation"]

    def _require_deadlines(self, split: Split, replays: Sequence[Replay]) -> None:
        if self.objective != "slo":
            return
        without = sum(not np.isfinite(replay.deadline).any() for replay in replays)
        if without == len(replays):
            raise ConfigError(
                f"{split}: objective slo, but no workflow of its {without} instances has a deadline; give some "
                "(deadlines of the suite, or of the trace), or train for flow_time"
            )
        if without:
            self._say(f"{split}: {without} of {len(replays)} instances have no deadline and always cost 0")

    def _require_room(self) -> bool:
        """Whether shares of the start's costs mean something: it costs on every instance, or on any if these are rates.

        Raises:
            ConfigError: where it costs nothing at all: no model could be better, and none be chosen.
        """
        arenas = [Arena(replay, self.objective) for replay in self._held]
        costs = linear_costs(self.start[None], arenas, self.config.threads)[0]
        if not costs.any():
            raise ConfigError(
                f"validation: under the start {self.config.start} each of {len(costs)} instances costs 0 "
                f"({self.objective}), which nothing can improve on; give more load, tighter deadlines or longer "
                "tasks"
            )
        return bool(costs.any() if self.objective == "slo" else costs.all())

    def _times(self) -> dict[str, float]:
        elapsed = time.monotonic() - self._clock
        self.state.elapsed = elapsed
        return {
            "time/time_elapsed": elapsed,
            "time/total_timesteps": float(self.state.decisions),
            "time/fps": self.state.decisions / max(elapsed, 1e-9),
        }

    def _save(self) -> None:
        """The run as it stands between two steps."""
        kind = "ppo" if self.learner is not None else "evolved"
        path = self.folder.checkpoint(self.state.total)
        save_checkpoint(path, self._checkpoint(kind), extra={STATE: self.state.to_bytes()})
        self.folder.forget_old()

    def _restore(self) -> None:
        path = self.folder.latest()
        self.state = TrainerState.from_file(path / STATE)
        saved = load_checkpoint(path)
        if saved.network is not None:
            assert self.state.scale is not None
            self.learner = self._learner(saved.base, saved.normaliser, self.state.scale)
            self.learner.load(saved.tensors)


def _plain_normaliser() -> Normaliser:
    """Of a policy without a network: changes nothing."""
    from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, NODE_FEATURES, TASK_NAMES

    parts = {"task": TASK_NAMES, "global": GLOBAL_NAMES, "group": GROUP_NAMES, "node": NODE_FEATURES}
    zeros = {f"{name}_mean": np.zeros(len(names)) for name, names in parts.items()}
    return Normaliser(**zeros, **{f"{name}_std": np.ones(len(names)) for name, names in parts.items()})
