"""What a run shows in TensorBoard, under the names Stable-Baselines3 uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dagsched.schedule import Schedule


class TensorBoardLog:
    """Scalars, Gantt images and hyper-parameters of one run.

    Args:
        folder: of the event files.
        first_step: on resuming, what was logged at later steps is hidden.
    """

    def __init__(self, folder: Path, first_step: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = folder
        self._writer = SummaryWriter(str(folder), purge_step=first_step)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """``tag: value``; what is not finite is left out."""
        for tag, value in values.items():
            if math.isfinite(value):
                self._writer.add_scalar(tag, value, step)

    def gantt(self, schedule: Schedule, step: int) -> None:
        """The schedule as an image, also kept as ``gantt.png`` beside the event files."""
        from matplotlib.image import imread

        from dagsched.draw.gantt import save_gantt

        file = self._folder / "gantt.png"
        save_gantt(schedule, file)
        image = np.asarray(imread(file))[..., :3]
        self._writer.add_image("eval/gantt", image, step, dataformats="HWC")

    def hyper_parameters(self, config: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        """All keys of the configuration with the final metrics, in this same run."""
        from torch.utils.tensorboard.summary import hparams

        file_writer = self._writer.file_writer
        assert file_writer is not None
        for summary in hparams(_flat(config), dict(metrics)):
            file_writer.add_summary(summary)
        for tag, value in metrics.items():
            self._writer.add_scalar(tag, value)

    def flush(self) -> None:
        """Write out what is buffered."""
        self._writer.flush()

    def close(self) -> None:
        """End the run."""
        self._writer.close()


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, bool | int | float | str) else str(value)
    return flat


def waiting(schedule: Schedule) -> dict[str, float]:
    """Least and largest seconds between a task's becoming ready and its start."""
    wait = schedule.task_start - schedule.ready
    return {"eval/wait_min": float(wait.min()), "eval/wait_max": float(wait.max())}
