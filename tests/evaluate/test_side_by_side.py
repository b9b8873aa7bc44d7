"""Comparisons in threads, under a clock that is set back, and many replays in a row."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dagsched.evaluate.compare import compare_baselines
from dagsched.generate import random_workload
from dagsched.policies.registry import make_policy
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate

POLICIES = ["fcfs", "heft", "tetris", "min-min", "mcts-rules:simulations=2"]


def compared(seed: int, out: Path) -> bytes:
    workload = random_workload("layered", np.random.default_rng(seed), tasks=25)
    compare_baselines(workload, POLICIES, seed=seed, out=out)
    return (out / "results.csv").read_bytes()


def test_comparisons_in_threads_are_those_in_a_row(tmp_path: Path) -> None:
    """Outside the main thread there are no signal handlers; nothing that changes is shared."""
    one = [compared(seed, tmp_path / f"one{seed}") for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        many = list(pool.map(lambda seed: compared(seed, tmp_path / f"many{seed}"), range(4)))
    assert many == one


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compared(5, tmp_path / "before")
    hours = itertools.count()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600.0 * next(hours))
    assert compared(5, tmp_path / "after") == before
    replay = Replay.build(random_workload("layered", np.random.default_rng(0), tasks=60))
    policy = make_policy("mcts-rules:time_limit=0.3")
    began = time.monotonic()
    schedule = simulate(replay, policy)
    validate(schedule)
    assert time.monotonic() - began < 30
    found = schedule.report["plan"]
    assert 0 <= found.seconds < 30
    elapsed = [progress.elapsed for progress in found.log]
    assert elapsed == sorted(elapsed)


def test_replays_leave_nothing_behind() -> None:
    """After ten replays the number of objects and arrays stays as it is."""
    workload = random_workload("layered", np.random.default_rng(0), tasks=25)

    def arrays() -> int:
        gc.collect()
        return sum(isinstance(thing, np.ndarray) for thing in gc.get_objects()) + len(gc.get_objects())

    counts = []
    for number in range(40):
        replay = Replay.build(workload, sigma=0.2, seed=number)
        for policy in ("fcfs", "heft", "tetris", "min-min", "mcts-rules:simulations=2"):
            validate(simulate(replay, policy, policy_seed=number))
        if number >= 10 and number % 10 == 9:
            counts.append(arrays())
    assert max(counts) - min(counts) < 50


@pytest.mark.slow
def test_memory_levels_off() -> None:
    """In a process of its own, 200 different replays simulated and compared."""
    command = [sys.executable, "-m", "tests.bench.memory"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
