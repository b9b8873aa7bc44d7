"""``python tests/light.py`` in an environment without torch: what needs no training works, and training says so.

Run by ``make light``, in a virtual environment that holds the package and its core dependencies only.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from dagsched.cli import run
from dagsched.extras import LEARN

SHIPPED = Path(__file__).parents[1] / "checkpoints"


def main() -> int:
    """Exit code 1 if something that must work does not."""
    present = [name for name in LEARN if find_spec(name) is not None]
    if present:
        print(f"this environment has {', '.join(present)}; run it in one without")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        stream, build = f"{folder}/stream.json", f"{folder}/build.json"
        wanted = [
            (0, ["generate", "layered", "--tasks", "12", "--count", "8", "--arrivals", "poisson:0.9", "--out", stream]),
            (0, ["compare", stream, "--policies", "evolved,ppo,mcts:simulations=4,srw", "--out", f"{folder}/run"]),
            (0, ["generate", "workloads/build.yaml", "--out", build]),
            (0, ["schedule", build, "--policy", f"ppo:checkpoint={SHIPPED / 'builds'}"]),  # a graph network
            (0, ["eval", str(SHIPPED / "default" / "flow"), "online-layered", "--limit", "1", "--rules", "srw"]),
            (2, ["train", "workloads/train/first.yaml", "--out", f"{folder}/train"]),
        ]
        for code, arguments in wanted:
            found = run(arguments)
            if found != code:
                print(f"dagsched {' '.join(arguments)}: exit code {found}, expected {code}")
                return 1
    assert not [name for name in LEARN if name in sys.modules]
    print("without torch: rules, shipped networks, planner, compare, report and eval work; train says what it needs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
