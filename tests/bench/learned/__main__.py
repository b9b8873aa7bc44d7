"""``python -m tests.bench.learned NAME... [--checkpoint DIR] [--limit N] ...``: print the Markdown rows of figures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from importlib import import_module

from dagsched.errors import DagschedError
from tests.bench.figure import Skip
from tests.bench.learned.rows import note

SUBJECTS = {
    "tpch": ("batches", "measure_tpch"),
    "psplib": ("batches", "measure_psplib"),
    "online": ("streams", "measure_online"),
    "stream": ("streams", "measure_stream"),
    "wfcommons": ("streams", "measure_wfcommons"),
    "wfinstances": ("streams", "measure_wfinstances"),
    "alibaba": ("streams", "measure_alibaba"),
    "load": ("streams", "measure_load"),
    "cluster": ("streams", "measure_cluster"),
    "sizes": ("streams", "measure_sizes"),
    "family": ("streams", "measure_family"),
    "arms": ("arms", "measure_arms"),
    "train": ("train_arms", "train_arms"),
    "time": ("arms", "measure_time"),
    "cards": ("arms", "measure_cards"),
    "latency": ("speed", "measure_latency"),
    "speed": ("speed", "measure_speed"),
}


def main() -> int:
    """Measure the subjects in order; exit code 1 at the first that cannot be measured here."""
    options = parser().parse_args()
    began = time.perf_counter()
    for name in options.names:
        module, function = SUBJECTS[name]
        measure: Callable[[argparse.Namespace], None]
        measure = getattr(import_module(f"tests.bench.learned.{module}"), function)
        try:
            measure(options)
        except (Skip, DagschedError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    command = " ".join(["python -m tests.bench.learned", *sys.argv[1:]])
    note(f"`{command}`, {time.perf_counter() - began:.0f} s")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m tests.bench.learned", description="Figures of learned policies.")
    made.add_argument("names", nargs="+", choices=SUBJECTS, metavar="NAME", help=", ".join(SUBJECTS))
    made.add_argument("--checkpoint", help="checkpoint or index; by default the shipped one")
    made.add_argument("--limit", type=_positive, help="only the first so many replays of each part")
    made.add_argument("--threads", type=_positive, default=1, help="replays at a time")
    made.add_argument("--n", type=_positive, help="samples of samplers (tpch 256, psplib 100)")
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a key of the suite; train: of the recipe",
    )
    made.add_argument("--load", action="append", type=float, help="load: these loads instead; may be repeated")
    made.add_argument("--suite", default="build", help="family, train: which suite")
    made.add_argument("--runs", default="runs/arms", help="arms, train, time: folder of run folders")
    made.add_argument("--costs", metavar="DIR", help="arms: keep what each run costs here, and judge only new ones")
    made.add_argument("--against", default="gnn", help="arms: the arm that others are compared with")
    made.add_argument("--seed", action="append", type=_seed, help="train: only these seeds; may be repeated")
    made.add_argument("--arm", action="append", help="train: only these arms; may be repeated")
    made.add_argument("--seconds", type=_seconds, default=290.0, help="train: CPU seconds of a run")
    return made


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{value} is not in 0 to 2147483647")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value


if __name__ == "__main__":
    sys.exit(main())
