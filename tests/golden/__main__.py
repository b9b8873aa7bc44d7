"""``python -m tests.golden record FILE`` before a refactoring, ``python -m tests.golden check FILE`` after it.

Compared are values, not layouts: rows of ``results.csv`` and ``summary.json`` of every policy on fixed suites, decision
logs, planner runs by simulations, greedy decisions of every shipped checkpoint, and a short training per algorithm.
What a refactoring renames stands in ``renamed.json``, from the old name to the new one, and recorded names are read
through it.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

ROOT = Path(__file__).parents[2]
RENAMED = Path(__file__).with_name("renamed.json")
RULES = (
    "random,fcfs,round-robin,sjf,ljf,hrrn,edf,llf,weighted-fair,min-min,max-min,sufferage,critical-path,heft,cpop,peft,"
    "lft,lst,mts,srw,srw*cp,tetris,tetris+srw,graphene,cp+demand,cp+demand+work"
)
PLANNERS = "mcts:simulations=24,mcts-rules:simulations=24,mcts-rules:simulations=12:select=puct"
BATCH = "sampling:n=16,evolved-sample:n=16"
COMPARISONS = {
    "batch": ("workloads/batch.yaml", f"{RULES},{BATCH},{PLANNERS},evolved,ppo"),
    "stream": ("workloads/online-layered.yaml", f"{RULES},{PLANNERS},evolved,ppo"),
    "noise": ("workloads/batch.yaml", "--noise", "0.3", f"{RULES},{PLANNERS},evolved,ppo"),
    "transfers": ("workloads/transfers.yaml", f"{RULES},evolved"),
    "projects": ("workloads/rcpsp-60.yaml", f"{RULES},{BATCH},{PLANNERS},evolved,ppo"),
    "deadlines": (
        "workloads/wfcommons", "--cluster", "small", "--arrivals", "poisson:0.8", "--deadlines", "3", "--replays", "1",
        "--objective", "slo", f"{RULES},mcts:simulations=12,evolved",
    ),
    "ticks": (
        "workloads/wfcommons", "--cluster", "small", "--arrivals", "poisson:0.8", "--decision-interval", "2",
        "--max-wait", "60", "--replays", "1", f"{RULES},evolved",
    ),
}  # fmt: skip
"""Arguments of ``compare``; the policies are last."""
HOMES = {
    "flow": "online-layered", "flow-ppo": "online-layered", "slo": "online-layered", "flow-pool": "online-tpch-like",
    "slo-pool": "online-tpch-like", "rcpsp": "rcpsp-60", "rcpsp-ppo": "rcpsp-60", "tpch-path": "tpch-like",
    "tpch-room": "tpch-like",
}  # fmt: skip
"""A suite for each shipped checkpoint."""
TRAININGS = {
    "quick": ("quick",),  # evolve, then ppo
    "imitate": ("build", "stages=[imitate]", "imitate.steps=2"),
    "expert": ("build-expert", "expert.steps=1", "expert.instances=2", "expert.decisions=4"),
}
TIMES = (
    "seconds",
    "_ms",
    "_s_",
    "timestamp",
    "time_",
    "elapsed",
    "git",
    "version",
    "digest",
    "host",
    "created",
    "command",
)
"""Parts of the names of columns and keys that differ from run to run or from version to version."""


def record() -> dict[str, Any]:
    """All golden results, by name."""
    found: dict[str, Any] = {}
    for name, (source, *arguments) in COMPARISONS.items():
        say(name)
        found |= compared(name, source, arguments[:-1], arguments[-1])
    for name, suite in HOMES.items():
        say(name)
        policy = "ppo" if name.endswith("-ppo") else "evolved"
        spec = f"{policy}:checkpoint=checkpoints/default/{name}"
        found |= compared(f"shipped {name}", f"workloads/{suite}.yaml", [], spec)
    for name, (config, *changes) in TRAININGS.items():
        say(name)
        found |= trained(name, f"workloads/train/{config}.yaml", changes)
    return found


def compared(name: str, source: str, arguments: list[str], policies: str) -> dict[str, Any]:
    """Rows, summary and decision logs of one comparison."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        files = [source]
        if source.endswith(".yaml"):
            files = [str(Path(folder) / f"{index}.json") for index in range(2)]
            for index, file in enumerate(files):
                run("generate", source, "--index", str(index), "--out", file)
        run("compare", *files, *arguments, "--policies", policies, "--seed", "7", "--save-schedules", "--out", str(out))
        with open(out / "results.csv", encoding="utf-8", newline="") as file:
            rows = [{key: value for key, value in row.items() if is_lasting(key)} for row in csv.DictReader(file)]
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        logs = {path.relative_to(out).as_posix(): log_digest(path) for path in sorted(out.rglob("*.npz"))}
        logs |= {
            path.relative_to(out).as_posix(): log_digest(path) for path in sorted((out / "schedules").rglob("*.json*"))
        }
    return {f"{name} rows": rows, f"{name} summary": lasting(summary), f"{name} logs": logs}


def trained(name: str, config: str, changes: list[str]) -> dict[str, Any]:
    """Weights after a few steps."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        sets = [
            part
            for change in ("validation.instances=4", "validation.confirm=4", *changes)
            for part in ("--set", change)
        ]
        run("train", config, "--seed", "3", *sets, "--out", str(out))
        weights = {
            path.relative_to(out).as_posix(): tensors_digest(path) for path in sorted(out.rglob("*.safetensors"))
        }
    return {f"trained {name}": weights}


def run(*arguments: str) -> None:
    """The command line, as a user calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "dagsched", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"dagsched {' '.join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def log_digest(path: Path) -> str:
    """Of the numbers that a schedule file holds, whatever its layout."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            parts = [f"{key}{arrays[key].tolist()}" for key in sorted(arrays.files) if is_lasting(key)]
        return hashlib.sha256("".join(parts).encode()).hexdigest()
    content = json.loads(path.read_text(encoding="utf-8"))
    for key in ("decision_columns", "decisions"):  # columns for node and count came later
        rows = content.get(key, [])
        content[key] = rows[:3] if key == "decision_columns" else [row[:3] for row in rows]
    return hashlib.sha256(json.dumps(lasting(content)).encode()).hexdigest()


def tensors_digest(path: Path) -> str:
    """Of names, shapes and values."""
    digest = hashlib.sha256()
    for key, tensor in sorted(load_file(path).items()):
        digest.update(f"{key}{tensor.shape}".encode() + np.ascontiguousarray(tensor).tobytes())
    return digest.hexdigest()


def is_lasting(key: str) -> bool:
    """Whether a column or key should stay what it is from run to run."""
    return not any(part in key for part in TIMES)


def lasting(value: Any) -> Any:
    """Without the entries that differ from run to run."""
    if isinstance(value, dict):
        return {key: lasting(entry) for key, entry in value.items() if is_lasting(key)}
    if isinstance(value, list):
        return [lasting(entry) for entry in value]
    return value.replace(str(ROOT), "") if isinstance(value, str) else value


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Recorded values under today's names."""
    if isinstance(value, dict):
        return {names.get(key, key): renamed(entry, names) for key, entry in value.items()}
    if isinstance(value, list):
        return [renamed(entry, names) for entry in value]
    return names.get(value, value) if isinstance(value, str) else value


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """Where two records differ; what is new is not a difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        gone = [f"{where}/{key}: gone" for key in before if key not in after]
        return gone + [
            d for key in before if key in after for d in differences(before[key], after[key], f"{where}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            d for k, pair in enumerate(zip(before, after, strict=True)) for d in differences(*pair, f"{where}[{k}]")
        ]
    return [] if before == after else [f"{where}: {str(before)[:80]} -> {str(after)[:80]}"]


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Exit code 1 where a value differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description="Record or check golden results.")
    parser.add_argument("what", choices=("record", "check"))
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    found = record()
    if arguments.what == "record":
        arguments.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return 0
    names = json.loads(RENAMED.read_text(encoding="utf-8"))
    before = renamed(json.loads(arguments.file.read_text(encoding="utf-8")), names)
    found = json.loads(json.dumps(found))
    wrong = differences(before, found)
    print("\n".join(wrong[:40]) or f"{len(before)} golden results are equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
