"""What learning needs before its first step: where it starts, a network's normaliser, the scale of its base."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dagsched.errors import ConfigError
from dagsched.features.builder import Normaliser, node_features
from dagsched.features.linear import start_weights
from dagsched.learn.config_sections import start_folder
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.models.checkpoint import load_checkpoint
from dagsched.workflow import FloatArray

NO_CHOICE = (
    "no training instance leaves anything to decide: two tasks are never ready at once, or the cluster has room for "
    "all; use a smaller cluster or more work"
)
DECISIONS = 200
"""Decisions of each replay that are looked at."""


def open_start(start: str, objective: str) -> tuple[FloatArray, str | None]:
    """(``[F]`` raw weights of a rule, or of the linear priority of a checkpoint; that checkpoint's digest).

    Args:
        start: name of the rule, or the folder.
        objective: of the training.

    Raises:
        ConfigError: for a checkpoint of another objective.
        CheckpointError: see :mod:`dagsched.models.checkpoint`.
    """
    folder = start_folder(start)
    if folder is None:
        return start_weights(start), None
    checkpoint = load_checkpoint(folder)
    if checkpoint.objective != objective:
        raise ConfigError(
            f"start: {start} was trained for {checkpoint.objective}, these suites are for {objective}; start from one "
            f"for {objective}, or from a rule"
        )
    return checkpoint.base, checkpoint.digest


def fit_normaliser(runners: Sequence[EpisodeRunner], base: FloatArray) -> Normaliser:
    """Mean and deviation of every feature over decisions of the base priority's greedy runs.

    Args:
        runners: training replays.
        base: ``[F]`` raw weights.

    Raises:
        ConfigError: if no decision has a choice.
    """
    tasks: list[FloatArray] = []
    general: list[FloatArray] = []
    groups: list[FloatArray] = []
    nodes: list[FloatArray] = []
    for runner in runners:
        rows = runner.rows(base, DECISIONS)
        for kept, found in zip((tasks, general, groups), rows, strict=True):
            kept += found
        nodes.append(node_features(runner.replay, runner.constants))
    if not tasks:
        raise ConfigError(NO_CHOICE)
    return Normaliser.fit(np.vstack(tasks), np.vstack(general), np.vstack(groups), np.vstack(nodes))


def require_choice(runners: Sequence[EpisodeRunner], base: FloatArray) -> None:
    """Raise ``ConfigError`` if no decision of any replay has a choice: then there is nothing to learn."""
    if not any(runner.rows(base, DECISIONS)[0] for runner in runners):
        raise ConfigError(NO_CHOICE)


def calibrate_scale(runners: Sequence[EpisodeRunner], base: FloatArray, entropy: float) -> float:
    """The factor ``a`` at which ``softmax(a z)`` has a given mean entropy, as a share of that of a uniform choice.

    Logits too peaked do not explore; ``z`` is the base score standardised over the candidates of a decision.

    Args:
        runners: training replays.
        base: ``[F]`` raw weights.
        entropy: in (0, 1).
    """
    scores = [row @ base for runner in runners for row in runner.rows(base, DECISIONS)[0]]
    standard = [(s - s.mean()) / s.std() for s in scores if s.std() > 0]
    if not standard:
        return 1.0
    low, high = 0.0, 64.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _relative_entropy(standard, middle) > entropy else (low, middle)
    return float(0.5 * (low + high))


def _relative_entropy(standard: Sequence[FloatArray], scale: float) -> float:
    found = []
    for z in standard:
        share = np.exp(scale * (z - z.max()))
        share /= share.sum()
        found.append(float(-(share * np.log(np.maximum(share, 1e-300))).sum()) / np.log(len(z)))
    return float(np.mean(found))
