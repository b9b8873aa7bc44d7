"""Reads the compiled features of a simulator that anybody drives, and drives one at random."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dagsched.features import kernel
from dagsched.features.builder import observable
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, TASK_NAMES
from dagsched.replay import Replay
from dagsched.simulator import Simulator
from dagsched.simulator.kernel import node_fits, place
from tests.features.twin import FeatureTwin, Moment


class Watch:
    """A tracker with buffers; :meth:`observe` may be called at any decision, or left out."""

    def __init__(self, replay: Replay, *, most: int | None = None) -> None:
        self.problem, self.constants = observable(replay)
        self.tracker = kernel.new_tracker(self.problem)
        most = len(replay) if most is None else most
        self.candidates = np.zeros(most, np.int64)
        self.tasks = np.zeros((most, len(TASK_NAMES)))
        self.general = np.zeros(len(GLOBAL_NAMES))
        self.groups = np.zeros((len(replay.cluster.groups), len(GROUP_NAMES)))
        self.count = 0

    def observe(self, simulator: Simulator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(candidates, their rows, the state's features, the groups' features)."""
        self.count = kernel.observe(
            self.problem, simulator.state, self.constants, self.tracker, self.candidates, self.tasks, self.general,
            self.groups,
        )  # fmt: skip
        shown = min(self.count, len(self.candidates))
        return self.candidates[:shown].copy(), self.tasks[:shown].copy(), self.general.copy(), self.groups.copy()

    def fresh(self) -> Watch:
        """Another one that has seen nothing yet."""
        other = object.__new__(Watch)
        other.__dict__.update(self.__dict__)
        other.tracker = kernel.new_tracker(self.problem)
        return other


def play(simulator: Simulator, seed: int) -> Iterator[Simulator]:
    """Yield at every decision point, then decide at random: any legal task, node and number of instances, or WAIT."""
    rng = np.random.default_rng(seed)
    going = simulator.advance()
    while going:
        yield simulator
        able = simulator.eligible()
        if not len(able) or (simulator.can_wait and rng.random() < 0.15):
            going = simulator.wait()
            continue
        task = int(rng.choice(able))
        node = int(rng.integers(len(simulator.problem.node_group)))
        if rng.random() < 0.6 or not node_fits(simulator.problem, simulator.state, task, node):
            node = -1
        simulator.start(task, node=node, count=0 if rng.random() < 0.6 else int(rng.integers(1, 3)))
        going = len(simulator.eligible()) > 0 or simulator.advance()


def expected(
    twin: FeatureTwin, simulator: Simulator
) -> tuple[list[int], list[list[float]], list[float], list[list[float]]]:
    """The twin's answer to :meth:`Watch.observe`."""
    moment: Moment = twin.look(simulator.observe())
    rows = []
    for task in moment.eligible:
        node = int(place(simulator.problem, simulator.state, task))
        row = moment.task(task, node, expected_finish(twin, simulator, task, node))
        assert sorted(row) == sorted(TASK_NAMES)
        rows.append([row[name] for name in TASK_NAMES])
    general = moment.general()
    groups = [moment.group(g) for g in twin.groups]
    return (
        moment.eligible,
        rows,
        [general[name] for name in GLOBAL_NAMES],
        [[group[name] for name in GROUP_NAMES] for group in groups],
    )


def expected_finish(twin: FeatureTwin, simulator: Simulator, task: int, node: int) -> float:
    """When an instance started now on the node is expected to end, the parents' data awaited."""
    group, cluster = twin.group_of[node], twin.replay.cluster
    allocations = simulator.state.alloc[: simulator.state.counter[0]]
    begin = simulator.now
    for parent, size in twin.carried[task].items():
        for a in allocations[allocations["task"] == parent]:
            source = twin.group_of[a["node"]]
            if source != group:
                moved = size * a["count"] / twin.instances[parent] / cluster.bandwidth[source, group]
                begin = max(begin, float(a["finish"] + cluster.latency[source, group] + moved))
    return begin + twin.estimate[task][group]
