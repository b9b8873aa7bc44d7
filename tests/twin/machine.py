"""The simulator again, in plain Python without any cleverness: lists, loops, and the words of semantics.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dagsched.replay import Replay
from tests.twin.splitmix import reservoir_pick

WAIT = -1
TOLERANCE = 1e-9


@dataclass
class Allocation:
    task: int
    node: int
    count: int
    start: float
    execution: float
    finish: float
    running: bool = True


class Machine:
    """One replay in progress; time moves only in :meth:`to_decision` and :meth:`wait`."""

    def __init__(self, replay: Replay, placement_seed: int = 0) -> None:
        self.replay = replay
        self.options = replay.options
        self.placement_seed = placement_seed
        self.tasks = range(len(replay))
        cluster = replay.cluster
        self.group_of = [g for g, group in enumerate(cluster.groups) for _ in range(group.nodes)]
        self.nodes = range(len(self.group_of))
        self.capacity = [[float(g.capacity.get(r, 0.0)) for r in cluster.resources] for g in cluster.groups]
        self.estimate = replay.estimate.tolist()
        self.duration = replay.duration.tolist()
        self.demand = replay.demand.tolist()
        self.instances = replay.instances.tolist()
        self.workflow = replay.workflow_of.tolist()
        self.arrival = [float(replay.arrival[w]) for w in self.workflow]
        self.parents = [self._row(t) for t in self.tasks]
        self.children: list[list[int]] = [[] for _ in self.tasks]
        for task in self.tasks:
            for parent, _ in self.parents[task]:
                self.children[parent].append(task)
        self.milestone = replay.milestone.tolist()
        self.now = -math.inf
        self.tick = 0
        self.ready: list[float | None] = [None] * len(replay)
        self.finished: list[float | None] = [None] * len(replay)
        self.unstarted = list(self.instances)
        self.allocations: list[Allocation] = []
        self.decisions: list[tuple[float, int]] = []
        self.moment = 0
        self.cursor = 0
        self.draws = 0
        self.started: list[tuple[int, int]] = []
        self.last_served = [0] * len(replay.workflows)

    def _row(self, task: int) -> list[tuple[int, float]]:
        first, last = self.replay.parent_ptr[task], self.replay.parent_ptr[task + 1]
        return [(int(self.replay.parent_idx[e]), float(self.replay.parent_bytes[e])) for e in range(first, last)]

    # --- what is true now ------------------------------------------------------------------------------------

    @property
    def running(self) -> list[Allocation]:
        return [a for a in self.allocations if a.running]

    @property
    def done(self) -> bool:
        return all(f is not None for f in self.finished)

    def free(self, node: int) -> list[float]:
        left = list(self.capacity[self.group_of[node]])
        for a in self.allocations:
            if a.running and a.node == node:
                left = [x - a.count * d for x, d in zip(left, self.demand[a.task], strict=True)]
        return left

    def could_hold(self, task: int, node: int) -> bool:
        return fits(self.demand[task], self.capacity[self.group_of[node]], self.capacity[self.group_of[node]])

    def fits_now(self, task: int, node: int) -> bool:
        return fits(self.demand[task], self.free(node), self.capacity[self.group_of[node]])

    def waiting(self) -> list[int]:
        """Ready tasks with an instance not started."""
        return [t for t in self.tasks if self.ready[t] is not None and self.unstarted[t] and not self.milestone[t]]

    def eligible(self) -> list[int]:
        room = {node: self.free(node) for node in self.nodes}
        return [
            t
            for t in self.waiting()
            if any(fits(self.demand[t], room[n], self.capacity[self.group_of[n]]) for n in self.nodes)
        ]

    def data_ready(self, task: int, group: int) -> float:
        moments = [-math.inf]
        for parent, size in self.parents[task]:
            for a in self.allocations:
                if a.task == parent:
                    moment, source = a.finish, self.group_of[a.node]
                    if source != group:
                        moved = size * a.count / self.instances[parent]
                        moment += float(self.replay.cluster.latency[source, group])
                        moment += moved / float(self.replay.cluster.bandwidth[source, group])
                    moments.append(moment)
        return max(moments)

    # --- time ------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Finishes, arrivals and milestones at ``now``, until nothing changes."""
        self.moment += 1
        changed = True
        while changed:
            changed = False
            for a in self.allocations:
                if a.running and a.finish == self.now:
                    a.running = False
                    changed = True
            for task in self.tasks:
                over = not self.unstarted[task] and not any(a.task == task for a in self.running)
                if self.finished[task] is None and self.ready[task] is not None and over:
                    self.finished[task] = self.now
                    changed = True
            for task in self.tasks:
                arrived = self.arrival[task] <= self.now
                free = all(self.finished[p] is not None for p, _ in self.parents[task])
                if self.ready[task] is None and arrived and free:
                    self.ready[task] = self.now
                    changed = True
            for task in self.tasks:
                if self.milestone[task] and self.ready[task] is not None and self.finished[task] is None:
                    self.unstarted[task] = 0
                    self.finished[task] = self.now
                    changed = True

    def _next_moment(self) -> float:
        moments = [a.finish for a in self.running] + [t for t in self.arrival if t > self.now]
        if self.options.decision_interval and self.now > -math.inf:
            while self.tick * self.options.decision_interval <= self.now:
                self.tick += 1
            moments.append(self.tick * self.options.decision_interval)
        return min(moments)

    def _may_decide(self) -> bool:
        interval = self.options.decision_interval
        return self.now > -math.inf and (not interval or round(self.now / interval) * interval == self.now)

    def to_decision(self) -> bool:
        """Go to the next decision point, perhaps now; False when the replay has ended."""
        while True:
            self._settle()
            if self.done:
                return False
            if self._may_decide() and self.eligible():
                return True
            self.now = self._next_moment()

    @property
    def may_wait(self) -> bool:
        """While something runs; at ticks under a guard always, since the next tick comes in any case."""
        return bool(self.running) or (self.options.decision_interval > 0 and self.options.max_wait < math.inf)

    def wait(self) -> bool:
        """A WAIT, logged once: to the next decision point, or as long as the guard forces it."""
        assert self.may_wait, "WAIT is legal only while something runs"
        self.decisions.append((self.now, WAIT))
        forced = self.forced() == WAIT
        going = self._on()
        while going and forced and self.forced() == WAIT:
            going = self._on()
        return going

    def _on(self) -> bool:
        self.now = self._next_moment()
        return self.to_decision()

    # --- decisions -------------------------------------------------------------------------------------------

    def forced(self) -> int | None:
        """The starvation guard: a task that must be picked, WAIT, or None."""
        late = [t for t in self.waiting() if self.now - self.ready[t] > self.options.max_wait]
        if not late:
            return None
        able = [t for t in self.eligible() if t in late]
        return min(able, key=lambda t: (self.ready[t], self.tie(t))) if able else WAIT

    def tie(self, task: int) -> tuple[float, int]:
        return -self.upward_rank[task], task

    def submission(self, task: int) -> tuple[float, int]:
        """Earlier arrival, then place in the source."""
        source = [(w.name, name) for w in self.replay.workload.workflows for name in w.task_ids]
        return self.arrival[task], source.index(self.replay.task_name(task))

    def start(self, task: int, node: int | None = None, count: int | None = None) -> None:
        """Start a task by the placement rule, or on one node."""
        assert task in self.eligible()
        self.decisions.append((self.now, task))
        limit = self.unstarted[task] if count is None else min(count, self.unstarted[task])
        if self.options.instances_per_decision:
            limit = min(limit, self.options.instances_per_decision)
        begun, before = False, self.unstarted[task]
        while limit and any(self.fits_now(task, n) for n in self.nodes):
            where = self._place(task) if node is None else node
            if not self.fits_now(task, where):
                break
            self._put(task, where)
            self.draws += 1 if node is None or not begun else 0
            begun = True
            limit -= 1
        self.started.append((task, before - self.unstarted[task]))
        self.last_served[self.workflow[task]] = len(self.decisions)

    def _put(self, task: int, node: int) -> None:
        self.unstarted[task] -= 1
        self.cursor = node + 1
        for a in self.running:
            if a.task == task and a.node == node and a.start == self.now:
                a.count += 1
                return
        group = self.group_of[node]
        execution = max(self.now, self.data_ready(task, group))
        finish = execution + self.duration[task][group]
        self.allocations.append(Allocation(task, node, 1, self.now, execution, finish))

    def finish_on(self, task: int, node: int) -> float:
        group = self.group_of[node]
        return max(self.now, self.data_ready(task, group)) + self.estimate[task][group]

    def leftover(self, task: int, node: int) -> float:
        room = zip(self.free(node), self.demand[task], self.capacity[self.group_of[node]], strict=True)
        return sum((free - need) / all_ for free, need, all_ in room if all_ > 0)

    def load(self, node: int) -> float:
        room = zip(self.free(node), self.capacity[self.group_of[node]], strict=True)
        return sum(1 - free / all_ for free, all_ in room if all_ > 0)

    def _place(self, task: int) -> int:
        able = [n for n in self.nodes if self.fits_now(task, n)]
        match self.options.placement:
            case "earliest-finish":
                return min(able, key=lambda n: (self.finish_on(task, n), self.leftover(task, n), n))
            case "best-fit":
                return min(able, key=lambda n: (self.leftover(task, n), self.finish_on(task, n), n))
            case "least-loaded":
                return min(able, key=lambda n: (self.load(n), self.finish_on(task, n), n))
            case "round-robin":
                return min(able, key=lambda n: (n - self.cursor) % len(self.nodes))
        return reservoir_pick(able, self.placement_seed, self.draws, len(self.nodes))

    # --- graph quantities (computed by the rules module) -----------------------------------------------------

    upward_rank: list[float]


def fits(need: list[float], free: list[float], capacity: list[float]) -> bool:
    return all(f - d >= -TOLERANCE * c for d, f, c in zip(need, free, capacity, strict=True))
