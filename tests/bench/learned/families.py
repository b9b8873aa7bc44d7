"""The families of workloads on which kinds of models ("arms") are compared, and how each arm is trained there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dagsched.generate.suite import Suite

RUN = re.compile(r"(.+)-s(\d+)")  # the name of a run: arm and seed
RECIPE = Path(__file__).resolve().parents[3] / "workloads" / "train" / "build.yaml"

_MLP = "network.encoder=none"
#: What each arm changes in the recipe, a graph network alone.
ARMS = {
    "evolved": ("stages=[evolve]", "features.typed=false"),
    "evolved-typed": ("stages=[evolve]",),
    "mlp": (_MLP, "features.typed=false"),
    "mlp-typed-khop": (_MLP, "features.khop=true"),
    "gnn": (),
}


@dataclass(frozen=True)
class Family:
    """A suite with the changes that make it this family, and how its arms are trained.

    Replays of thousands of tasks leave PPO few steps: there the networks correct a rule and learn on shorter replays.
    """

    suite: str
    start: str = "lft"
    suite_changes: tuple[str, ...] = ()
    train_changes: tuple[str, ...] = ()
    network_suite_changes: tuple[str, ...] | None = None
    network_changes: tuple[str, ...] = ()
    steps: tuple[int, int] | None = None  # of PPO that fit into 290 s: graph network, MLP
    rule: str | None = None  # to be compared with, where finding the best on validation takes long

    def load(self, changes: Sequence[str] = ()) -> Suite:
        """The suite that judges."""
        return Suite.load(self.suite, [*self.suite_changes, *changes])

    def training(self, arm: str) -> list[str]:
        """Changes of the recipe for an arm."""
        network = "stages=[evolve]" not in ARMS[arm]
        shorter = network and self.network_suite_changes is not None
        changes = self.network_suite_changes if shorter else self.suite_changes
        return [
            f"suite=[{{suite: {self.suite}, changes: {list(changes or ())}}}]",
            f"start={self.start}",
            "threads=1",
            *self.train_changes,
            *(self.network_changes if network else ()),
            *([f"ppo.steps={self.steps[_MLP in ARMS[arm]]}"] if network and self.steps else []),
            *ARMS[arm],
        ]


_JUDGED = ("validation.instances=100", "validation.confirm=20")
FAMILIES = {
    "build": Family("build"),
    "join": Family("join"),
    "homog": Family("homog"),
    "transfers": Family("transfers", "critical-path", train_changes=("validation.instances=100",)),
    "tpch-150": Family(
        "tpch-like",
        "cp+demand+work",
        ("mixture=[{kind: tpch-like, count: 150}]",),
        (*_JUDGED, "validation.rules=[cp+demand+work, cp+demand]", "evolve.instances=10", "evolve.steps=90"),
        ("mixture=[{kind: tpch-like, count: 75}]",),
        ("network.residual=true", "ppo.instances=8", "ppo.rollouts=4", "ppo.epochs=2"),
        (60, 100),
        "sufferage",
    ),
    "online-layered": Family(
        "online-layered",
        "srw*cp",
        (),
        (*_JUDGED, "validation.rules=[srw*cp, srw]", "evolve.instances=12", "evolve.steps=400"),
        ("mixture=[{kind: layered, count: 20, tasks: [10, 60]}]",),
        ("network.residual=true", "ppo.rollouts=4", "ppo.epochs=2"),
        (100, 190),
        "srw*cp",
    ),
}


def is_finished(run: Path) -> bool:
    """Whether a training ran to its end or its time, and was confirmed."""
    return (run / "eval" / "result.json").is_file()
