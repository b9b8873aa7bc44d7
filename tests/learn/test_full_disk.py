"""Training on a full disk and under a clock that is set back: one line, nothing half-written, the same in the end."""

from __future__ import annotations

import errno
import io
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from dagsched.cli import run
from dagsched.errors import ConfigError
from dagsched.learn import event_file
from dagsched.learn.event_file import EventFile
from dagsched.learn.tensorboard_log import TensorBoardLog
from dagsched.learn.trainer import Trainer
from dagsched.models.checkpoint import load_checkpoint
from tests.learn.test_trainer import SMALL, config

STAGES = {"stages": ["evolve", "ppo"]}


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def trained(folder: Path, *, resume: bool = False, stop: Callable[[Trainer], bool] = lambda _: False) -> Path:
    trainer = Trainer(config(**STAGES), out=folder, resume=resume, command="the same")
    trainer.run(lambda: stop(trainer))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """What two runs of the same must have in common: all but events and the seconds in a saved state."""
    files = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder): path for path in files}
    return {str(name): p.read_bytes() for name, p in names.items() if p.suffix != ".pt" and name.parts[0] != "tb"}


def steps(folder: Path) -> dict[str, list[int]]:
    """The steps that TensorBoard shows for each tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tb"))
    events.Reload()
    return {tag: [event.step for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("whole") / "run")


def go_on(folder: Path, whole: Path) -> None:
    """What a failure left is whole, and comes to the same once there is room."""
    assert not list(folder.rglob(".*"))
    for card in folder.rglob("card.json"):
        load_checkpoint(card.parent)
    trained(folder, resume=(folder / "config.yaml").is_file())
    assert content(folder) == content(whole)
    assert steps(folder) == steps(whole)


@pytest.mark.parametrize("room_for", [0, 2, 4, 14, 26, 34])
def test_a_disk_that_fills_up(room_for: int, tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for so many files; what TensorBoard shows still fits."""
    flushed, flush = itertools.count(), os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: full() if next(flushed) >= room_for else flush(file))
        with pytest.raises(ConfigError, match=r"No space left on device; free some space"):
            trained(tmp_path / "run")
    go_on(tmp_path / "run", whole)


@pytest.mark.parametrize("room_for", [0, 1, 60_000])
def test_no_room_for_what_tensorboard_shows(
    room_for: int, tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small(io.FileIO):
        def write(self, data) -> int:  # type: ignore[no-untyped-def, override]
            room = room_for - self.tell()
            return super().write(data[:room]) if room > 0 else full() or 0

    def opened(self: EventFile) -> Small:
        self._folder.mkdir(parents=True, exist_ok=True)
        return Small(self._folder / "events.out.tfevents.0000000001.host.1", "xb")

    with monkeypatch.context() as patch:
        patch.setattr(EventFile, "_open", opened)
        with pytest.raises(ConfigError, match=r"tb: cannot write what TensorBoard shows: No space left"):
            trained(tmp_path / "run")
    steps(tmp_path / "run")  # no half record
    go_on(tmp_path / "run", whole)


def test_the_command_says_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No thread is left that would have its own say."""
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL | {"stages": ["evolve"]}))
    command = ["train", str(tmp_path / "small.yaml"), "--out", str(tmp_path / "run")]
    threads = threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(EventFile, "_open", full)
        assert run(command) == 2
    assert threading.active_count() == threads
    said = capfd.readouterr().err.strip().split("\n")
    assert len(said) == 1
    assert said[0].startswith(f"error: {tmp_path}/run/tb: cannot write")
    assert run([*command, "--resume"]) == 0


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour at every look; stopped and gone on with, TensorBoard reads the files in the order of their making."""
    hours, now = itertools.count(), time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600.0 * next(hours))
    monkeypatch.setattr(time, "time_ns", lambda: int((now - 3600.0 * next(hours)) * 1e9))
    trained(tmp_path / "run", stop=lambda trainer: trainer.state.total == 4)
    trained(tmp_path / "run", resume=True, stop=lambda trainer: trainer.state.total == 6)
    trained(tmp_path / "run", resume=True)
    assert content(tmp_path / "run").keys() > {"best/model.safetensors", "eval/result.json"}
    for name in ("best", "checkpoints/step_7"):
        assert load_checkpoint(tmp_path / "run" / name).digest == load_checkpoint(whole / name).digest
    assert steps(tmp_path / "run") == steps(whole)


def test_later_files_of_events_are_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for moment, first, value in ((2e9, 0, 1.0), (1e9, 3, 2.0), (0.0, 5, 3.0)):
        monkeypatch.setattr(event_file.time, "time", lambda moment=moment: moment)
        log = TensorBoardLog(tmp_path / "tb", first)
        for step in range(first or 1, 7):
            log.scalars({"tag": value, "left out": float("nan")}, step)
        log.close()
    assert steps(tmp_path) == {"tag": [1, 2, 3, 4, 5, 6]}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A function that mounts a file system of so many KiB, or gives it another size."""
    place = tmp_path / "disk"
    place.mkdir()

    def of(kibibytes: int) -> Path:
        again = "remount," if place.is_mount() else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{again}size={kibibytes}k", "tmpfs", str(place)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("only root may mount file systems, and not everywhere")
        return place

    yield of
    if place.is_mount():
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("kibibytes", [12, 90, 290])
def test_a_small_disk(kibibytes: int, small_disk: Callable[[int], Path], whole: Path) -> None:
    folder = small_disk(kibibytes) / "run"
    with pytest.raises(ConfigError, match=r"No space left on device; free some space"):
        trained(folder)
    small_disk(20_000)
    go_on(folder, whole)


@pytest.mark.slow
def test_small_disks_of_any_size(small_disk: Callable[[int], Path], whole: Path) -> None:
    for kibibytes in range(4, 600, 16):
        folder = small_disk(kibibytes) / "run"
        try:
            trained(folder)
        except ConfigError:
            small_disk(20_000)
            go_on(folder, whole)
        else:
            assert content(folder) == content(whole)
            break
        subprocess.run(["umount", str(folder.parent)], check=True)
    else:
        raise AssertionError("never enough")
