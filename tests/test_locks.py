"""One process at a time writes to a folder; what killed processes leave does not lock anything."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dagsched.errors import ConfigError
from dagsched.evaluate.compare import compare_baselines
from dagsched.locks import NAME, FolderLock
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload

HOLD = "import sys, time; from pathlib import Path; from dagsched.locks import FolderLock\n"
HOLD += "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(ConfigError, match=rf"process {os.getpid()} is writing here; wait for it or choose another"):
        FolderLock(tmp_path)
    lock.release()
    assert not (tmp_path / NAME).exists()
    FolderLock(tmp_path).release()


def test_a_lock_goes_with_the_object_that_holds_it(tmp_path: Path) -> None:
    FolderLock(tmp_path)
    gc.collect()
    FolderLock(tmp_path).release()


def test_the_lock_of_a_killed_process_and_of_another_boot_is_free(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=f"process {holder.pid} is writing here"):
            FolderLock(tmp_path)
        holder.kill()
        holder.wait()
    assert (tmp_path / NAME).read_text() == f"{holder.pid}\n"
    FolderLock(tmp_path).release()
    (tmp_path / NAME).write_text("1\n")  # a process that is alive but does not hold it
    FolderLock(tmp_path).release()


def test_a_second_comparison_in_the_same_folder_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    workload = Workload("w", (Workflow.from_tasks("w", [Task("a", 1.0)]),))
    compare_baselines(workload, ["fcfs"], out=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    lock = FolderLock(tmp_path)
    with pytest.raises(ConfigError, match="is writing here"):
        compare_baselines(workload, ["sjf"], out=tmp_path)
    lock.release()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    compare_baselines(workload, ["sjf"], out=tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write here"):
        FolderLock(tmp_path / "file" / "below")
