"""``python -m tests.bench.auto [--limit N]``: ``auto`` in streams beside each of its candidates, on validation data.

For each family the mean flow time against the candidate that is best *over all its replays*, which nobody knows before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from dagsched import PolicyError, Replay, load, simulate, validate
from dagsched.cost import cost_function
from dagsched.evaluate.statistics import paired_bootstrap
from dagsched.generate.suite import Suite
from dagsched.policies.registry import make_policy
from dagsched.search.auto.policy import RULES
from dagsched.simulator import Simulator
from tests.data import data_files

CANDIDATES = (*RULES["flow_time"], "evolved", "ppo")


def families(limit: int) -> Iterator[tuple[str, list[Replay]]]:
    """(name, replays): streams of 200 synthetic workflows, redrawn recorded ones, recorded Spark queries."""
    for load_ in (0.7, 1.0):
        changes = ["noise=0.3", "mixture.0.count=200", f"arrivals.load={load_}"]
        suite = Suite.load("online-layered", changes)
        yield f"layered stream (synthetic), load {load_}", [suite.replay("validation", k) for k in range(limit)]
    suite = Suite.load("wfcommons", [])
    yield "wfcommons, recorded workflows redrawn", [suite.replay("validation", k) for k in range(limit)]
    spark = data_files("spark-stream/*.json")
    if spark:
        yield "recorded Spark queries, 50 jobs each", [Replay.build(load(path)[0]) for path in spark[:limit]]


def fits(spec: str, replay: Replay) -> bool:
    """Whether a trained policy has a checkpoint for such replays."""
    try:
        make_policy(spec, learned_options={"objective": "flow_time"}).begin(Simulator(replay))
    except PolicyError:
        return False
    return True


def main() -> None:
    """One row a family."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.auto", description=__doc__)
    parser.add_argument("--limit", type=int, default=20, help="replays of each family")
    parser.add_argument("--options", default="", help="of auto, such as :every=10")
    arguments = parser.parse_args()
    limit = arguments.limit
    print("family | replays | best candidate | auto against it | evolved against it | ms a decision")
    for name, replays in families(limit):
        candidates = [spec for spec in CANDIDATES if fits(spec, replays[0])]
        costs: dict[str, list[float]] = {spec: [] for spec in (*candidates, "auto")}
        spent, decisions = 0.0, 0
        for replay in replays:
            cost = cost_function(replay, "flow_time")
            for spec in costs:
                began = time.perf_counter()
                asked = f"{spec}:objective=flow_time" if spec in ("evolved", "ppo", "auto") else spec
                schedule = simulate(replay, asked + (arguments.options if spec == "auto" else ""))
                if spec == "auto":
                    spent, decisions = spent + time.perf_counter() - began, decisions + len(schedule.decision_task)
                validate(schedule)
                costs[spec].append(cost(schedule.task_finish))
        best = min(candidates, key=lambda spec: float(np.mean(costs[spec])))
        cells = []
        for spec in ("auto", "evolved"):
            ratio = np.log(np.array(costs[spec]) / np.array(costs[best]))
            found = paired_bootstrap(ratio, np.zeros(len(ratio), np.int64))
            middle, low, high = (100 * float(np.expm1(x)) for x in (found.mean, found.low or 0.0, found.high or 0.0))
            cells.append(f"{middle:+.2f}% [{low:+.2f}, {high:+.2f}]")
        print(" | ".join([name, str(len(replays)), best, *cells, f"{1e3 * spent / decisions:.3f}"]), flush=True)


if __name__ == "__main__":
    main()
