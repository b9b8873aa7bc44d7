"""Times of whole commands in fresh processes: start, compare (warm and cold), a large workload."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.bench.data import ROOT, data_path, wide
from tests.bench.figure import Figure

RULES = "critical-path,heft,cpop,peft,min-min,max-min,sufferage,cp+demand,tetris,srw,sjf,fcfs"


def run(arguments: list[str], **environment: str) -> tuple[float, str]:
    """(seconds, stdout + stderr) of ``python ...`` in the project's environment."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{arguments}: exit code {done.returncode}: {done.stderr[-800:]}")
    return seconds, done.stdout + done.stderr


def measure_start() -> list[Figure]:
    """``import dagsched`` and ``dagsched --help``."""
    imported = [run(["-c", "import dagsched"])[0] for _ in range(5)]
    helped = [run(["-m", "dagsched", "--help"])[0] for _ in range(5)]
    return [
        Figure("import_seconds", median(imported), 0.5, "lower", "median of 5 processes"),
        Figure("help_seconds", median(helped), 0.5, "lower", "median of 5 processes"),
    ]


def measure_compare() -> list[Figure]:
    """12 rules on the WfInstances 1.5 files, 2 processes; cold = an empty compilation cache."""
    files = data_path("wfinstances/1.5")
    with tempfile.TemporaryDirectory() as folder:
        cache = {"NUMBA_CACHE_DIR": str(Path(folder, "cache"))}
        command = ["-m", "dagsched", "compare", str(files), "--policies", RULES, "--jobs", "2", "--out"]
        cold, text = run([*command, str(Path(folder, "cold"))], **cache)
        warm, _ = run([*command, str(Path(folder, "warm"))], **cache)
    return [
        Figure("compare_12_rules_wfinstances_seconds", warm, 60, "lower", "2 processes, warm"),
        Figure("compare_cold_extra_seconds", cold - warm, 60, "lower", "first run ever, compiling"),
        Figure("compare_cold_says_compiling", float("compil" in text), 1, "higher"),
    ]


_LARGE = """
import resource, sys, time
from dagsched.formats import load
from dagsched.replay import Replay
from dagsched.run_policy import simulate
began = time.perf_counter()
workload = load(sys.argv[1])[0]
loaded = time.perf_counter()
schedule = simulate(Replay.build(workload), "critical-path")
ended = time.perf_counter()
assert len(schedule.task) == 100_000
print(loaded - began, ended - loaded, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)
"""


def measure_large() -> list[Figure]:
    """Load and replay a workflow of 100,000 tasks from a file, in a fresh process with a warm compilation cache."""
    from dagsched.formats import save

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.json")
        save(wide(100_000, seed=1), path)
        run(["-c", _LARGE, str(path)])
        _, text = run(["-c", _LARGE, str(path)])
    loading, replaying, gigabytes = (float(part) for part in text.split()[:3])
    return [
        Figure("load_100k_seconds", loading),
        Figure("replay_100k_seconds", replaying),
        Figure("load_and_replay_100k_seconds", loading + replaying, 5, "lower"),
        Figure("load_and_replay_100k_peak_gb", gigabytes, 1, "lower", "peak memory of the process"),
    ]
