"""The folder of one run: configuration, where it comes from, TensorBoard, checkpoints, the best model, evaluations.

runs/<name>-s<seed>/{config.yaml, meta.json, tb/, checkpoints/step_N/, best/, eval/}; ``best_before/`` where an evolve
stage was stopped: the ``best/`` from before that stage.
"""

from __future__ import annotations

import contextlib
import json
import platform
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dagsched.errors import ConfigError
from dagsched.features.schema import schema_hash
from dagsched.files import exists, is_dir, write_atomic
from dagsched.learn.train_config import TrainConfig
from dagsched.locks import NAME as LOCK
from dagsched.locks import FolderLock
from dagsched.models.folder import read_folder, restore_folders, write_folder
from dagsched.version import VERSION

STATE = "trainer_state.pt"
KEPT = 3
"""Checkpoints that are kept besides the best one."""


class RunFolder:
    """Paths of a run, and the files that describe it.

    Raises:
        ConfigError: if the folder holds another run, or none where one is to be resumed, or another process writes
            to it.
    """

    def __init__(self, config: TrainConfig, out: Path | None = None, *, resume: bool = False) -> None:
        self.path = out or Path("runs") / f"{config.name}-s{config.seed}"
        self._config = config
        if exists(self.path) and not is_dir(self.path):
            raise ConfigError(f"{self.path}: is a file; give a folder with --out")
        if resume and not (self.path / "config.yaml").is_file():
            raise ConfigError(f"{self.path}: there is no run to resume; start it without --resume")
        self._made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self._lock = FolderLock(self.path)
        try:
            self._check(resume=resume)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let other processes in; folders that were made for nothing go."""
        self._lock.release()
        with contextlib.suppress(OSError):  # something is in it
            for folder in self._made:
                folder.rmdir()

    def _check(self, *, resume: bool) -> None:
        config, file = self._config, self.path / "config.yaml"
        if resume:
            for folder in (self.path, self.path / "checkpoints"):
                restore_folders(folder)
            before = type(config).load(file)
            if before != config:
                changed = _differences(before.model_dump(), config.model_dump())
                raise ConfigError(
                    f"{self.path}: was started with another configuration ({'; '.join(changed[:3])}); resume with the "
                    "same one or choose another --out"
                )
        elif any(not _is_of_a_start(entry) for entry in self.path.iterdir()):
            raise ConfigError(f"{self.path}: exists; go on with --resume, or choose another --out")

    @property
    def best(self) -> Path:
        """The checkpoint chosen by validation."""
        return self.path / "best"

    @property
    def _before(self) -> Path:
        return self.path / "best_before"

    def set_aside(self) -> None:
        """Keep a copy of ``best/`` for :meth:`put_back`."""
        _copy(self.best, self._before)

    def put_back(self) -> None:
        """The ``best/`` that was set aside, if one was, takes its place again."""
        if self._before.is_dir():
            _copy(self._before, self.best)
            gone = self._before.with_name(f".{self._before.name}.{secrets.token_hex(6)}.tmp")
            self._before.rename(gone)  # at once: half of it must never take the place of best/
            shutil.rmtree(gone)

    @property
    def tensorboard(self) -> Path:
        """Event files."""
        return self.path / "tb"

    def checkpoint(self, step: int) -> Path:
        """The checkpoint after ``step`` steps in all."""
        return self.path / "checkpoints" / f"step_{step}"

    def describe(self, source: Mapping[str, Any], command: str) -> None:
        """Write ``config.yaml`` and ``meta.json``."""
        import torch

        meta = {
            "command": command,
            "source": dict(source),
            "features": schema_hash(),
            "versions": {"dagsched": VERSION, "python": platform.python_version(), "torch": torch.__version__},
        }
        self.write_json("meta.json", meta)
        write_atomic(self.path / "config.yaml", self._config.dump())  # last: where it is, there is a run

    def check_source(self, source: Mapping[str, Any]) -> None:
        """A resumed run must train on what it began with.

        Raises:
            ConfigError: if suites, trace or the checkpoint to start from have changed.
        """
        meta = self.read_json("meta.json")
        if not isinstance(meta, dict) or meta.get("source") != json.loads(json.dumps(source)):
            raise ConfigError(
                f"{self.path}: was started on other data (suites, trace or the checkpoint to start from); give the "
                f"same, or choose another --out"
            )

    def write_json(self, name: str, value: Any) -> None:
        """A JSON file below the folder."""
        write_atomic(self.path / name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def read_json(self, name: str) -> Any:
        """A JSON file below the folder; ``None`` if it is not there or not whole."""
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    @property
    def has_saved(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return bool(self._steps())

    def latest(self) -> Path:
        """The checkpoint to resume from; there is one if :attr:`has_saved`."""
        return self.checkpoint(self._steps()[-1])

    def forget_old(self) -> None:
        """Remove all but the newest checkpoints."""
        for step in self._steps()[:-KEPT]:
            shutil.rmtree(self.checkpoint(step), ignore_errors=True)

    def _steps(self) -> list[int]:
        names = [f.name for f in (self.path / "checkpoints").glob("step_*") if (f / STATE).is_file()]
        return sorted(int(name[5:]) for name in names if re.fullmatch(r"step_\d{1,12}", name))


def _is_of_a_start(entry: Path) -> bool:
    """Whether a file is of a run that was killed as it started: before there was anything to go on with."""
    return entry.name in (LOCK, "meta.json") or (entry.name.startswith(".") and entry.name.endswith(".tmp"))


def _copy(checkpoint: Path, to: Path) -> None:
    """Copy a checkpoint folder, whole or not at all."""
    write_folder(to, read_folder(checkpoint, sorted(file.name for file in checkpoint.iterdir())))


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> Sequence[str]:
    found: list[str] = []
    for key, old in before.items():
        new = after[key]
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append(f"{prefix}{key} {old!r}, now {new!r}")
    return found
