"""Resident memory of one process over 200 different replays under five policies: it must level off.

``python -m tests.bench.memory`` simulates each replay, then gives each workload to ``compare_baselines``, every tenth
with a folder of results. Exit code 1 if the second half of either adds more than 8 MiB. ``--count 40`` is shorter.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dagsched.evaluate.compare import compare_baselines
from dagsched.formats import load
from dagsched.generate import poisson_arrivals, random_workload, with_deadlines
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate
from dagsched.workload import Workload

ROOT = Path(__file__).resolve().parents[2]
POLICIES = [
    "critical-path",
    "heft",
    f"evolved:checkpoint={ROOT}/checkpoints/default/flow",
    "min-min",
    "mcts:simulations=4",
]
SHAPES = ("layered", "fork-join", "pipelines", "montage-like", "tpch-like")
MOST_MEBIBYTES = 8.0
MOST_GIBIBYTES = 8


def made(number: int) -> Workload:
    """Four streams of five are random, one is a recorded workflow; each number gives another one."""
    rng = np.random.default_rng(number)
    if number % 5 == 4:
        files = sorted((ROOT / "workloads/wfcommons").glob("*.json"))
        [workload] = load(files[number // 5 % len(files)])
        return with_deadlines(workload, 1.5 + number / 100, seed=number)
    workload = random_workload(SHAPES[number // 5 % len(SHAPES)], rng, count=int(rng.integers(1, 6)))
    return poisson_arrivals(workload, float(rng.uniform(0.3, 1.2)), seed=number)


def simulated(number: int, _folder: Path) -> None:
    """One replay with its own noise, under every policy, checked."""
    replay = Replay.build(made(number), sigma=0.2, seed=number)
    for policy in POLICIES:
        validate(simulate(replay, policy, policy_seed=number))


def compared(number: int, folder: Path) -> None:
    """The same through the comparison."""
    out = folder / str(number) if number % 10 == 0 else None
    compare_baselines(made(number), POLICIES, noise=0.2, seed=number, out=out)


def resident() -> float:
    """MiB that this process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def growth(work: Callable[[int, Path], None], count: int, folder: Path) -> dict[int, float]:
    """MiB after a tenth, a half and the whole of the work."""
    found = {}
    for number in range(count):
        work(number, folder)
        if number + 1 in (count // 10, count // 2, count * 3 // 4, count):
            found[number + 1] = resident()
    return found


def main() -> int:
    """Print a row for each way and say whether both level off."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="replays; at least 20")
    count = max(20, parser.parse_args().count)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_GIBIBYTES << 30, MOST_GIBIBYTES << 30))
    grows = False
    for work in (simulated, compared):
        began, before = time.monotonic(), resident()
        with tempfile.TemporaryDirectory() as folder:
            found = growth(work, count, Path(folder))
        row = ", ".join(f"{mebibytes:.1f} after {done}" for done, mebibytes in found.items())
        print(f"{work.__name__}: {before:.1f} MiB at first, {row}; {time.monotonic() - began:.0f} s", flush=True)
        grows |= found[count] - found[count // 2] > MOST_MEBIBYTES
    print("grows" if grows else "levels off")
    return int(grows)


if __name__ == "__main__":
    sys.exit(main())
