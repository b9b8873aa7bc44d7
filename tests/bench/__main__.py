"""``python -m tests.bench [--only NAME]... [--out FILE]``: measure, print a table, write the figures."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from dagsched.files import write_atomic
from tests.bench.figure import Figure, Skip

SUBJECTS = {
    "kernel": ("kernel", "measure"),
    "growth": ("kernel", "measure_growth"),
    "crowds": ("crowds", "measure"),
    "nodes": ("kernel", "measure_nodes"),
    "large": ("commands", "measure_large"),
    "start": ("commands", "measure_start"),
    "peers": ("peers", "measure"),
    "lft": ("rcpsp", "measure_lft"),
    "sampling": ("rcpsp", "measure_sampling"),
    "compare": ("commands", "measure_compare"),
    "cp-sat": ("rcpsp", "measure_cp_sat"),
    "env": ("env", "measure"),
}


def main() -> int:
    """Run the chosen subjects; exit code 1 if a figure misses its target."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Speed and quality figures.")
    parser.add_argument("--only", action="append", choices=SUBJECTS, help="only this subject; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/bench.json"), help="JSON file, one key a figure")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    print(f"{'figure':<46}{'measured':>14}{'target':>14}  verdict  note")
    for name in arguments.only or SUBJECTS:
        module, function = SUBJECTS[name]
        measure: Callable[[], list[Figure]] = getattr(import_module(f"tests.bench.{module}"), function)
        began = time.perf_counter()
        try:
            found = measure()
        except Skip as reason:
            print(f"{name}: skipped: {reason}")
            continue
        for figure in found:
            print(line(figure), flush=True)
        figures += found
        print(f"  ({name}: {time.perf_counter() - began:.0f} s)", flush=True)
    write_atomic(arguments.out, json.dumps(merged(arguments.out, figures), indent=1) + "\n")
    failed = [figure.key for figure in figures if figure.verdict == "FAIL"]
    print(f"{len(figures)} figures written to {arguments.out}; " + (f"missed: {', '.join(failed)}" if failed else "ok"))
    return 1 if failed else 0


def line(figure: Figure) -> str:
    """One row of the table."""
    sign = {"higher": ">= ", "lower": "<= "}[figure.better]
    target = "" if figure.target is None else f"{sign}{figure.target:,.6g}"
    return f"{figure.key:<46}{figure.value:>14,.6g}{target:>14}  {figure.verdict:<7}  {figure.note}"


def merged(path: Path, figures: list[Figure]) -> dict[str, float]:
    """Figures of this run over those of earlier ones, so that ``--only`` refreshes a part."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        known = {}
    return (known if isinstance(known, dict) else {}) | {figure.key: figure.value for figure in figures}


if __name__ == "__main__":
    sys.exit(main())
