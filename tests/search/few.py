"""Tiny batches and streams, and the best continuation of what has arrived by going through all of them.

Going through all is done with the twin of the simulator (:mod:`tests.twin.machine`), which shares no code with the
planner: every sequence of eligible tasks and legal WAITs from the present state, each state looked at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np

from dagsched.cluster import Cluster, NodeGroup
from dagsched.cost import TARDINESS
from dagsched.declared import EXACT, Declared
from dagsched.graph import upward_rank
from dagsched.replay import Replay, SimulationOptions
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.twin import Machine, NumpyDice

WAIT = -1
OPTIONS = (
    SimulationOptions(),
    SimulationOptions(),
    SimulationOptions(),
    SimulationOptions(placement="best-fit"),
    SimulationOptions(decision_interval=2.0),
    SimulationOptions(max_wait=6.0),
    SimulationOptions(max_wait=9.0, decision_interval=4.0),
    SimulationOptions(instances_per_decision=1),
    SimulationOptions(placement="least-loaded"),
)
CLUSTERS = (
    Cluster.pooled({"cpu": 2.0}),
    Cluster.pooled({"cpu": 4.0}),
    Cluster.pooled({"cpu": 4.0, "mem": 4.0}),
    Cluster((NodeGroup("a", 2, {"cpu": 2.0}),)),
    Cluster((NodeGroup("slow", 1, {"cpu": 2.0}), NodeGroup("fast", 1, {"cpu": 2.0}, 2.0))),
    Cluster((NodeGroup("slow", 1, {"cpu": 2.0}), NodeGroup("fast", 1, {"cpu": 1.0}, 4.0)), bandwidth=1.0, latency=0.5),
    Cluster((NodeGroup("a", 2, {"cpu": 1.0}), NodeGroup("b", 1, {"cpu": 4.0}, 0.5)), bandwidth=4.0),
)


def draw_few(seed: int, *, most: int = 4) -> Replay:
    """At most so many tasks in a batch (even seeds), twice as many that arrive one after another in a stream."""
    dice = NumpyDice(seed)
    cluster = dice.pick(CLUSTERS)
    batch = seed % 2 == 0
    left = dice.whole(2, most) if batch else dice.whole(3, 2 * most)
    arrival, workflows = 0.0, []
    while left:
        size = min(left, dice.pick((1, 1, 2, 3)))
        left -= size
        tasks = [_draw_task(dice, number, cluster) for number in range(size)]
        path = sum(task.duration for task in tasks)
        deadline = dice.pick((None, arrival + path * dice.pick((1.0, 1.5, 2.0)) + dice.whole(0, 12)))
        weight = dice.pick((1.0, 1.0, 3.0, 0.5))
        name = f"w{len(workflows)}"
        workflows.append(
            Workflow.from_tasks(
                name, tasks, resources=cluster.resources, arrival=arrival, deadline=deadline, weight=weight
            )
        )
        arrival += 0.0 if batch else float(dice.whole(0, 16))
    return Replay.build(
        Workload("few", tuple(workflows), declared=Declared(closed=batch, noise=EXACT)),
        cluster,
        options=dice.pick(OPTIONS),
    )


def _draw_task(dice: NumpyDice, number: int, cluster: Cluster) -> Task:
    parents = [f"t{number - 1}"] if number and dice.whole(0, 1) else []
    home = dice.pick(cluster.groups)
    demand = {r: float(dice.whole(0 if r != "cpu" else 1, int(room))) for r, room in home.capacity.items()}
    seconds = float(dice.whole(1, 20)) if dice.whole(0, 11) else 0.0
    own = {g.name: float(dice.whole(1, 20)) for g in cluster.groups} if dice.whole(0, 7) == 0 else {}
    carried = {p: float(dice.whole(0, 8)) for p in parents}
    instances = dice.pick((1, 1, 1, 1, 1, 2, 3)) if seconds else 1
    return Task(f"t{number}", seconds, demand, parents, instances=instances, edge_bytes=carried, group_durations=own)


class TooManyError(Exception):
    """More states than are worth the time."""


class Known:
    """The best that can still be reached with the workflows that have arrived, by a machine that knows no others."""

    def __init__(self, replay: Replay, arrived: int, objective: str) -> None:
        self.objective = objective
        known = Workload("known", replay.workload.workflows[:arrived], declared=Declared(noise=EXACT))
        self.replay = Replay.build(known, replay.cluster, options=replay.options)
        assert [w.name for w in self.replay.workflows] == [w.name for w in replay.workflows[:arrived]]
        self.path = self._mean_path()
        self.most = 5_000
        self.memory: dict[tuple[object, ...], float] = {}

    def after(self, taken: Sequence[tuple[float, int]]) -> Machine:
        """A machine on which these decisions (seconds, task or WAIT) have been taken."""
        machine = Machine(self.replay)
        machine.upward_rank = upward_rank(self.replay).tolist()
        machine.to_decision()
        for now, action in taken:
            assert machine.now == now
            move(machine, action)
        return machine

    def least(self, machine: Machine) -> float:
        """Cost of the best continuation."""
        key = state(machine)
        if key not in self.memory:
            if len(self.memory) > self.most:
                raise TooManyError
            self.memory[key] = min(self.least_after(machine, action) for action in legal(machine))
        return self.memory[key]

    def least_after(self, machine: Machine, action: int) -> float:
        """Cost of the best continuation that begins with this action."""
        copied = clone(machine)
        return self.least(copied) if move(copied, action) else self.cost(copied)

    def cost(self, machine: Machine) -> float:
        """Seconds, weighted seconds, or lateness, of a machine at its end."""
        last = self._last(machine)
        if self.objective == "makespan":
            return max(last)
        return sum(self._of_workflow(w, end) for w, end in enumerate(last))

    def past(self, machine: Machine) -> float:
        """What of the cost is that of workflows that have finished; a makespan is no sum."""
        if self.objective == "makespan":
            return 0.0
        return sum(self._of_workflow(w, end) for w, end in enumerate(self._last(machine)) if end < math.inf)

    def _last(self, machine: Machine) -> list[float]:
        """When each workflow has finished, s; infinite = it has not."""
        ends: list[list[float]] = [[] for _ in self.replay.workflows]
        for task in machine.tasks:
            end = machine.finished[task]
            ends[machine.workflow[task]].append(math.inf if end is None else end)
        return [max(of) for of in ends]

    def _of_workflow(self, w: int, end: float) -> float:
        if self.objective == "flow_time":
            return float(self.replay.weight[w]) * (end - float(self.replay.arrival[w]))
        over = max(0.0, end - float(self.replay.deadline[w]))
        return (over > 0) + TARDINESS * over / max(self.path, 1e-9)

    def _mean_path(self) -> float:
        """Of the critical paths of workflows on the fastest groups, s."""
        replay = self.replay
        fastest = np.where(replay.can_hold, replay.estimate, np.inf).min(axis=1)
        down = np.zeros(len(replay))
        for task in reversed(range(len(replay))):
            children = replay.child_idx[replay.child_ptr[task] : replay.child_ptr[task + 1]]
            down[task] = fastest[task] + (down[children].max() if len(children) else 0.0)
        return float(np.mean([down[replay.workflow_of == w].max() for w in range(len(replay.workflows))]))


def legal(machine: Machine) -> list[int]:
    forced = machine.forced()
    if forced is not None:
        return [forced]
    return machine.eligible() + ([WAIT] if machine.may_wait else [])


def move(machine: Machine, action: int) -> bool:
    """Take an action and go to the next decision; False at the end."""
    if action == WAIT:
        return machine.wait()
    machine.start(action)
    return bool(machine.eligible()) or machine.to_decision()  # work of no duration ends when nothing more starts


def clone(machine: Machine) -> Machine:
    copied = copy(machine)
    for name in ("ready", "finished", "unstarted", "decisions", "started", "last_served"):
        setattr(copied, name, list(getattr(machine, name)))
    copied.allocations = [copy(a) for a in machine.allocations]
    return copied


def state(machine: Machine) -> tuple[object, ...]:
    """All that what is still to come depends on."""
    placed = tuple(sorted((a.task, a.node, a.count, a.start, a.finish, a.running) for a in machine.allocations))
    return machine.now, machine.cursor, machine.draws, placed, tuple(machine.finished), tuple(machine.unstarted)


def open_tasks(machine: Machine) -> int:
    return sum(f is None for f in machine.finished)
