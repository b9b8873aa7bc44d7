"""Disks that are full or read-only, for an ordinary user: one line, the old files untouched, nothing half-written."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dagsched.cli import run
from dagsched.formats import save
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload

COMMANDS = {
    "generate": ["generate", "layered", "--tasks", "9", "--out", "{}/out.json"],
    "schedule": ["schedule", "{}/w.json", "--out", "{}/out.json"],
    "gantt": ["schedule", "{}/w.json", "--gantt", "{}/out.png"],
    "compare": ["compare", "{}/w.json", "--policies", "fcfs,sjf", "--jobs", "1", "--out", "{}/out"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tasks = [Task(f"t{k}", 1.0 + k, parents=[f"t{k - 1}"] if k else []) for k in range(5)]
    save(Workload("w", (Workflow.from_tasks("w", tasks),)), tmp_path / "w.json")
    return tmp_path


def of(command: str, folder: Path) -> list[str]:
    return [part.format(folder) for part in COMMANDS[command]]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_said_in_one_line_and_leaves_the_old_files(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(of(command, folder)) == 0
    before = content(folder)
    capsys.readouterr()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert run(of(command, folder)) == 2
    said = capsys.readouterr().err.strip().split("\n")
    assert said[-1].startswith(f"error: {folder}/out")
    assert "No space left on device" in said[-1]
    after = content(folder)
    assert {name: after[name] for name in before} == before
    assert all(".resume" in name for name in set(after) - set(before))
    assert run(of(command, folder)) == 0
    assert set(content(folder)) == set(before)


def as_nobody(command: Callable[[], int]) -> int:
    """The exit code of a command run by an ordinary user: root heeds no permissions."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            code = command()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_folder_is_said_in_one_line(command: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(of(command, folder)) == 0  # loads what an ordinary user may not be able to
    before = content(folder)
    for path in [folder, *(path for path in folder.rglob("*"))]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for path in folder.parents:
        if path.stat().st_uid == os.getuid() and path != path.parent:
            path.chmod(path.stat().st_mode | stat.S_IXOTH | stat.S_IXGRP)
    capfd.readouterr()
    try:
        assert as_nobody(lambda: run(of(command, folder))) == 2
        assert content(folder) == before
    finally:
        folder.chmod(0o755)
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
    said = capfd.readouterr().err.strip().split("\n")
    assert len(said) == 1, said
    assert said[0].startswith(f"error: {folder}/out")
    assert "ermission denied" in said[0]
