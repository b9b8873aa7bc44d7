"""What a run shows in TensorBoard, under the names Stable-Baselines3 uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dagsched.learn.event_file import EventFile
from dagsched.schedule import Schedule


class TensorBoardLog:
    """Scalars, Gantt images and hyper-parameters of one run.

    Args:
        folder: of the event files.
        first_step: on resuming, what was logged at this step and later ones is hidden.
    """

    def __init__(self, folder: Path, first_step: int = 0) -> None:
        self._folder = folder
        self._events = EventFile(folder, first_step)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """``tag: value``; what is not finite is left out."""
        from torch.utils.tensorboard.summary import scalar

        for tag, value in values.items():
            if math.isfinite(value):
                self._events.add(scalar(tag, value), step)

    def gantt(self, schedule: Schedule, step: int) -> None:
        """The schedule as an image, also kept as ``gantt.png`` beside the event files."""
        from matplotlib.image import imread
        from torch.utils.tensorboard.summary import image

        from dagsched.draw.gantt import save_gantt

        file = self._folder / "gantt.png"
        save_gantt(schedule, file)
        pixels = np.asarray(imread(file))[..., :3]
        self._events.add(image("eval/gantt", pixels, dataformats="HWC"), step)

    def hyper_parameters(self, config: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        """All keys of the configuration with the final metrics, in this same run."""
        from torch.utils.tensorboard.summary import hparams, scalar

        for summary in hparams(_flat(config), dict(metrics)):
            self._events.add(summary)
        for tag, value in metrics.items():
            self._events.add(scalar(tag, value))

    def close(self) -> None:
        """End the run."""
        self._events.close()


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
