"""Resource-constrained projects like PSPLIB's: ProGen (Kolisch, Sprecher and Drexl 1995, Management Science 41(10)).

Networks are activity-on-node with a dummy first and last activity, 3 start and 3 finish activities, at most 3
successors and predecessors each, and no redundant arc. Differs from ProGen in that candidates for an arc are drawn
uniformly over all lower-numbered activities, and that a network which cannot be finished is drawn afresh.
"""

from __future__ import annotations

import math

import numpy as np

from dagsched.cluster import Cluster
from dagsched.declared import EXACT, Declared
from dagsched.errors import ConfigError
from dagsched.generate.mix import check_count, check_number, check_rng
from dagsched.workflow import FloatArray, IntArray, Workflow
from dagsched.workload import Workload

RENEWABLE = 4
_ENDS = 3
"""Start activities, finish activities, and most successors and predecessors of one activity."""
_ATTEMPTS = 50


def rcpsp(
    rng: np.random.Generator,
    *,
    tasks: int = 60,
    complexity: float = 1.8,
    factor: float = 0.5,
    strength: float = 0.5,
    name: str = "rcpsp",
) -> Workload:
    """One project of one workflow, on its own pooled node of 4 renewable resources ``R1`` to ``R4``.

    Durations and demands are whole numbers uniform in 1..10. The capacity of a resource is
    kmin + strength x (kmax - kmin), rounded, where kmin is its largest demand and kmax its peak use in the
    earliest-start schedule.

    Args:
        rng: source of all randomness.
        tasks: activities without the two dummies (PSPLIB: 30, 60, 90, 120).
        complexity: arcs for each activity, dummies included (PSPLIB: 1.5, 1.8, 2.1).
        factor: share of resources that an activity uses, at least one each (PSPLIB: 0.25, 0.5, 0.75, 1).
        strength: resource strength; 0 = tightest, 1 = no conflict (PSPLIB: 0.2, 0.5, 0.7, 1; j120: 0.1 to 0.5).
        name: of the workload and its workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_count("tasks", tasks, 2 * _ENDS, 2000)
    check_number("complexity", complexity, at_least=1.0, at_most=2.5)
    check_number("factor", factor, more_than=0, at_most=1)
    check_number("strength", strength, at_least=0, at_most=1)
    parents = _network(rng, tasks, math.ceil(complexity * (tasks + 2) - 1e-9))
    duration: FloatArray = np.zeros(tasks + 2)
    duration[1:-1] = rng.integers(1, 11, tasks)
    demand: FloatArray = np.zeros((tasks + 2, RENEWABLE))
    demand[1:-1] = _requests(rng, tasks, factor)
    least, most = demand.max(axis=0), _earliest_start_peak(parents, duration, demand)
    capacity = np.round(least + strength * (most - least))
    resources = tuple(f"R{r + 1}" for r in range(RENEWABLE))
    workflow = Workflow(
        name=name,
        task_ids=tuple(str(job + 1) for job in range(tasks + 2)),
        resources=resources,
        duration=duration,
        estimate=duration,
        demand=demand,
        instances=np.ones(tasks + 2, np.int64),
        parent_ptr=np.concatenate([[0], np.cumsum([len(row) for row in parents])]),
        parent_idx=np.array([parent for row in parents for parent in row], np.int64),
        parent_bytes=np.zeros(sum(len(row) for row in parents)),
    )
    return Workload(
        name=name,
        workflows=(workflow,),
        resources=resources,
        cluster=Cluster.pooled(dict(zip(resources, capacity.tolist(), strict=True))),
        source=f"generated: rcpsp(tasks={tasks}, complexity={complexity:g}, factor={factor:g}, strength={strength:g})",
        declared=Declared(closed=True, noise=EXACT),
    )


def _network(rng: np.random.Generator, tasks: int, arcs: int) -> list[list[int]]:
    """Parents of the activities 0 (dummy) .. tasks + 1 (dummy)."""
    for _ in range(_ATTEMPTS):
        network = _Network(tasks)
        if network.connect(rng) and network.fill(rng, arcs):
            return network.parents()
    raise ConfigError(
        f"complexity: {arcs / (tasks + 2):.3g} arcs for each of {tasks} tasks cannot be reached without redundant "
        f"arcs; lower complexity or raise tasks"
    )


class _Network:
    """A growing network without redundant arcs; sets of activities are bit masks."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        self.successors = [0] * (tasks + 1)
        self.before = [1 << v for v in range(tasks + 1)]
        self.after = [1 << v for v in range(tasks + 1)]
        self.out = [0] * (tasks + 1)
        self.into = [0] * (tasks + 1)
        self.arcs = 0

    def connect(self, rng: np.random.Generator) -> bool:
        """Give every activity but the first ones a predecessor, and every one but the last ones a successor."""
        last = self.tasks - _ENDS
        for v in range(_ENDS + 1, self.tasks + 1):
            if not self._one_of(rng, [(u, v) for u in range(1, min(v - 1, last) + 1)]):
                return False
        for u in range(last, 0, -1):
            if not self.out[u] and not self._one_of(rng, [(u, v) for v in range(max(u, _ENDS) + 1, self.tasks + 1)]):
                return False
        return True

    def fill(self, rng: np.random.Generator, arcs: int) -> bool:
        """Add arcs until there are as many as asked for, those of the two dummies included."""
        wanted = arcs - 2 * _ENDS
        misses = 0
        while self.arcs < wanted and misses < 20 * self.tasks:
            u = int(rng.integers(1, self.tasks - _ENDS + 1))
            v = int(rng.integers(max(u, _ENDS) + 1, self.tasks + 1))
            misses = 0 if self._add(u, v) else misses + 1
        while self.arcs < wanted:
            last = self.tasks - _ENDS
            pairs = [(u, v) for u in range(1, last + 1) for v in range(max(u, _ENDS) + 1, self.tasks + 1)]
            if not self._one_of(rng, pairs):
                return False
        return True

    def parents(self) -> list[list[int]]:
        """Parents of each activity with the dummies attached."""
        rows: list[list[int]] = [[] for _ in range(self.tasks + 2)]
        for u in range(1, self.tasks + 1):
            for v in range(1, self.tasks + 1):
                if self.successors[u] >> v & 1:
                    rows[v].append(u)
        for v in range(1, _ENDS + 1):
            rows[v].append(0)
        rows[-1] = list(range(self.tasks - _ENDS + 1, self.tasks + 1))
        return rows

    def _one_of(self, rng: np.random.Generator, pairs: list[tuple[int, int]]) -> bool:
        return any(self._add(*pairs[k]) for k in rng.permutation(len(pairs)).tolist())

    def _add(self, u: int, v: int) -> bool:
        """Add the arc unless a degree is full or it, or an arc already there, would be redundant."""
        if self.out[u] == _ENDS or self.into[v] == _ENDS or self.after[u] >> v & 1:
            return False
        above, below = self.before[u], self.after[v]
        ancestors = [k for k in range(1, u + 1) if above >> k & 1]
        if any(self.successors[k] & below for k in ancestors):
            return False
        self.successors[u] |= 1 << v
        for k in ancestors:
            self.after[k] |= below
        for k in range(v, self.tasks + 1):
            if below >> k & 1:
                self.before[k] |= above
        self.out[u] += 1
        self.into[v] += 1
        self.arcs += 1
        return True


def _requests(rng: np.random.Generator, tasks: int, factor: float) -> IntArray:
    """``[tasks, 4]`` demands: one resource for each activity, then others until the resource factor is met."""
    used = np.zeros((tasks, RENEWABLE), bool)
    used[np.arange(tasks), rng.integers(0, RENEWABLE, tasks)] = True
    free = np.flatnonzero(~used)
    more = max(0, round(factor * tasks * RENEWABLE) - tasks)
    used.reshape(-1)[rng.permutation(free)[:more]] = True
    return np.where(used, rng.integers(1, 11, used.shape), 0)


def _earliest_start_peak(parents: list[list[int]], duration: FloatArray, demand: FloatArray) -> FloatArray:
    """``[4]`` largest use of each resource when every activity starts as early as precedence allows."""
    finish = np.zeros(len(parents))
    for v, row in enumerate(parents):
        finish[v] = max((finish[u] for u in row), default=0.0) + duration[v]
    start = finish - duration
    running = (start[None, :] <= start[:, None]) & (start[:, None] < finish[None, :])
    return np.asarray((running @ demand).max(axis=0))
