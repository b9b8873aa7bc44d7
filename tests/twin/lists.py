"""HEFT, CPoP and PEFT once more, as the papers tell them: plain Python, fractions for ranks, no code of the planner.

HEFT and CPoP: Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002. PEFT: Arabnejad and Barbosa, IEEE TPDS 25(3), 2014.
The differences are those that ``dagsched.policies.static.listing`` names: nodes hold many tasks, transfers take time
between groups only, a mean is over the nodes that can hold the task, instances are placed one by one.

Ties (``semantics.md``): larger upward rank, then earlier arrival, workflow name and task id, which is the flat order;
of nodes the lower index. Ranks are fractions, so that a tie is one of the numbers given, not of rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

from dagsched.replay import Replay

Placed = list[tuple[int, int, float]]
"""Rows of (task, node, start), instance by instance in the order of planning."""


class Lists:
    """The problem as lists, and everything that the papers define on it."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.tasks = range(len(replay))
        self.groups = range(len(replay.cluster.groups))
        self.nodes = [group.nodes for group in replay.cluster.groups]
        self.group_of = [g for g in self.groups for _ in range(self.nodes[g])]
        self.parents: list[dict[int, float]] = [{} for _ in self.tasks]
        self.children: list[list[int]] = [[] for _ in self.tasks]
        for task in self.tasks:
            for edge in range(replay.parent_ptr[task], replay.parent_ptr[task + 1]):
                parent = int(replay.parent_idx[edge])
                self.parents[task][parent] = float(replay.parent_bytes[edge])
                self.children[parent].append(task)
        self.upward = cache(self._upward)
        self.downward = cache(self._downward)
        self.optimistic = cache(self._optimistic)
        self.longest_paths = cache(self._longest_paths)

    def holding(self, task: int) -> list[int]:
        """The group of every node that can hold the task."""
        return [g for g in self.group_of if self.replay.can_hold[task, g]]

    def cost(self, task: int, group: int) -> Fraction:
        return Fraction(float(self.replay.estimate[task, group]))

    def mean_cost(self, task: int) -> Fraction:
        """Equation 5 of Topcuoglu et al."""
        held = self.holding(task)
        return sum((self.cost(task, g) for g in held), Fraction(0)) / len(held)

    def moves(self, parent: int, child: int) -> bool:
        return not (self.replay.milestone[parent] or self.replay.milestone[child])

    def transfer(self, parent: int, child: int) -> Fraction:
        """Mean seconds over ordered pairs of nodes in different groups."""
        pairs = [(a, b) for a in self.group_of for b in self.group_of if a != b]
        if not pairs or not self.moves(parent, child):
            return Fraction(0)
        cluster, total = self.replay.cluster, Fraction(0)
        for a, b in pairs:
            total += Fraction(float(cluster.latency[a, b]))
            if math.isfinite(cluster.bandwidth[a, b]):
                total += Fraction(self.parents[child][parent]) / Fraction(float(cluster.bandwidth[a, b]))
        return total / len(pairs)

    def _upward(self, task: int) -> Fraction:
        """Equation 8."""
        below = [self.transfer(task, child) + self.upward(child) for child in self.children[task]]
        return self.mean_cost(task) + max(below, default=Fraction(0))

    def _downward(self, task: int) -> Fraction:
        """Equation 9."""
        above = [self.downward(p) + self.mean_cost(p) + self.transfer(p, task) for p in self.parents[task]]
        return max(above, default=Fraction(0))

    def _optimistic(self, task: int, group: int) -> Fraction:
        """Equation 3 of Arabnejad and Barbosa: processors are groups, and only those that can hold the child."""
        worst = Fraction(0)
        for child in self.children[task]:
            ways = [
                self.optimistic(child, g) + self.cost(child, g) + (0 if g == group else self.transfer(task, child))
                for g in set(self.holding(child))
            ]
            worst = max(worst, min(ways))
        return worst

    def mean_optimistic(self, task: int) -> Fraction:
        held = self.holding(task)
        return sum((self.optimistic(task, g) for g in held), Fraction(0)) / len(held)

    def length(self, path: list[int]) -> Fraction:
        steps = sum((self.transfer(a, b) for a, b in pairwise(path)), Fraction(0))
        return sum((self.mean_cost(task) for task in path), steps)

    def _longest_paths(self, task: int) -> list[list[int]]:
        """Every longest path from a task to an exit; no rank is asked."""
        every = [[task, *rest] for child in self.children[task] for rest in self.longest_paths(child)] or [[task]]
        most = max(self.length(path) for path in every)
        return [path for path in every if self.length(path) == most]

    def critical_path(self, workflow: int) -> list[int]:
        """Of all longest paths the one whose tasks, one after another, come first by the ties."""
        first, last = self.replay.workflow_ptr[workflow : workflow + 2].tolist()
        every = [path for t in range(first, last) if not self.parents[t] for path in self.longest_paths(t)]
        longest = max(self.length(path) for path in every)
        same = [path for path in every if self.length(path) == longest]
        return min(same, key=lambda path: [(-self.upward(task), task) for task in path])


def heft(replay: Replay) -> Placed:
    """Largest upward rank first, to the node of least finish."""
    lists = Lists(replay)
    return _place(lists, lists.upward)


def peft(replay: Replay) -> Placed:
    """Largest mean of the optimistic cost table first, to the node of least finish + optimistic cost."""
    lists = Lists(replay)
    return _place(lists, lists.mean_optimistic, look_ahead=True)


def cpop(replay: Replay) -> Placed:
    """Largest upward + downward rank first; a workflow's critical path goes to one processor.

    Of the groups that can hold most of the path, the one of least cost; there the node with least seconds of paths.
    """
    lists = Lists(replay)
    allowed = {task: set(range(len(lists.group_of))) for task in lists.tasks}
    pinned = [Fraction(0)] * len(lists.group_of)
    for workflow in range(len(replay.workflows)):
        path = lists.critical_path(workflow)
        best: tuple[int, Fraction, int] | None = None
        for g in lists.groups:
            held = [task for task in path if replay.can_hold[task, g]]
            mine = (-len(held), sum((lists.cost(task, g) for task in held), Fraction(0)), g)
            best = mine if best is None else min(best, mine)
        assert best is not None
        _, seconds, group = best
        inside = [n for n, g in enumerate(lists.group_of) if g == group]
        node = min(inside, key=lambda n: (pinned[n], n))
        pinned[node] += seconds
        for task in path:
            if replay.can_hold[task, group]:
                allowed[task] = {node} if replay.instances[task] == 1 else set(inside)
    return _place(lists, lambda task: lists.upward(task) + lists.downward(task), allowed)


def _place(lists, priority, allowed=None, look_ahead=False):  # type: ignore[no-untyped-def]
    """The ready task of largest priority next, instance by instance into the first gap of the best node."""
    replay, entries, finish = lists.replay, [], {}
    while len(finish) < len(lists.tasks):
        ready = [t for t in lists.tasks if t not in finish and all(p in finish for p in lists.parents[t])]
        task = min(ready, key=lambda t: (-priority(t), -lists.upward(t), t))
        arrives = [_data_ready(lists, task, g, entries, finish) for g in lists.groups]
        finish[task] = max(arrives) if replay.milestone[task] else 0.0
        for _ in range(0 if replay.milestone[task] else int(replay.instances[task])):
            best = (math.inf, -1, 0.0, 0.0)
            for node, g in enumerate(lists.group_of):
                if not replay.can_hold[task, g] or (allowed is not None and node not in allowed[task]):
                    continue
                seconds = float(replay.estimate[task, g])
                ends = {f for _, n, _, f in entries if n == node and f > arrives[g]}
                starts = sorted({arrives[g], *ends})
                start = next(s for s in starts if _fits(lists, entries, task, node, s, seconds))
                value = start + seconds + (float(lists.optimistic(task, g)) if look_ahead else 0.0)
                if value < best[0]:
                    best = (value, node, start, start + seconds)
            entries.append((task, *best[1:]))
            finish[task] = max(finish[task], best[3])
    return [(t, n, s) for t, n, s, _ in entries]


def _data_ready(lists, task, group, entries, finish):  # type: ignore[no-untyped-def]
    """Seconds at which the data of all parents is in the group."""
    replay, cluster, moment = lists.replay, lists.replay.cluster, 0.0
    for parent, size in lists.parents[task].items():
        if not lists.moves(parent, task):
            moment = max(moment, finish[parent])
            continue
        for node, begin, end in {(n, s, f) for t, n, s, f in entries if t == parent}:
            together = sum(1 for t, n, s, _ in entries if (t, n, s) == (parent, node, begin))
            sent, origin = size * together / int(replay.instances[parent]), lists.group_of[node]
            delay = 0.0
            if origin != group:
                delay = float(cluster.latency[origin, group] + sent / cluster.bandwidth[origin, group])
            moment = max(moment, end + delay)
    return moment


def _fits(lists, entries, task, node, start, seconds):  # type: ignore[no-untyped-def]
    """At the start, at every later start, and beside every task of zero duration on the way."""
    replay = lists.replay
    capacity = replay.cluster.capacity[lists.group_of[node]].tolist()
    mine = [(k, replay.demand[t].tolist(), s, f) for k, (t, n, s, f) in enumerate(entries) if n == node]
    loads = [
        [d for _, d, s, f in mine if s <= moment < f]
        for moment in (start, *(s for _, _, s, f in mine if start < s < min(f, start + seconds)))
    ]
    for z, instant, moment, end in mine:
        if moment == end and start < moment < start + seconds:
            loads.append([instant, *(d for k, d, s, f in mine if s <= moment < f and (k < z or s < moment))])
    own = replay.demand[task].tolist()
    return all(
        own[r] + sum(demand[r] for demand in load) <= capacity[r] + 1e-9 for load in loads for r in range(len(own))
    )
