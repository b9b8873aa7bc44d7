"""``python -m tests.bench.plan NAME... [--limit N] ...``: print the Markdown rows of figures of the planner."""

from __future__ import annotations

import argparse
import sys
import time

from dagsched.errors import DagschedError
from tests.bench import planner
from tests.bench.figure import Skip
from tests.bench.learned.rows import note

SUBJECTS = {
    "psplib": planner.measure_psplib,
    "tpch": planner.measure_tpch,
    "groups": planner.measure_groups,
    "nodes": planner.measure_nodes,
    "online": planner.measure_online,
    "noise": planner.measure_noise,
    "rates": planner.measure_rates,
}


def main() -> int:
    """Measure the subjects in order; exit code 1 at the first that cannot be measured here."""
    options = parser().parse_args()
    began = time.perf_counter()
    for name in options.names:
        try:
            SUBJECTS[name](options)
        except (Skip, DagschedError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    note(f"`{' '.join(['python -m tests.bench.plan', *sys.argv[1:]])}`, {time.perf_counter() - began:.0f} s")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m tests.bench.plan", description="Figures of the planner.")
    made.add_argument("names", nargs="+", choices=SUBJECTS, metavar="NAME", help=", ".join(SUBJECTS))
    made.add_argument("--limit", type=int, help="only the first so many problems of each part")
    made.add_argument("--step", type=int, default=1, help="psplib: every so-manieth project")
    made.add_argument("--family", action="append", choices=planner.PSPLIB_SECONDS, help="psplib: only this; repeatable")
    made.add_argument("--seconds", action="append", type=float, help="psplib: this budget instead; repeatable")
    made.add_argument("--schedules", action="append", type=int, help="psplib: this budget instead; repeatable")
    made.add_argument("--seeds", type=int, default=1, help="psplib: so many seeds of the search")
    made.add_argument("--cp-sat", action="store_true", help="psplib: CP-SAT with one worker beside each")
    made.add_argument("--ms", type=float, default=1.0, help="online, noise: milliseconds a decision")
    made.add_argument("--simulations", type=int, help="online, noise: this budget instead")
    made.add_argument("--also", action="append", default=[""], help="online, noise: options of further planners")
    return made


if __name__ == "__main__":
    sys.exit(main())
