"""Static list schedulers with insertion: HEFT, CPoP and PEFT.

HEFT and CPoP: Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002. PEFT: Arabnejad and Barbosa, "List scheduling algorithm for
heterogeneous systems by an optimistic cost table", IEEE TPDS 25(3), 2014.

Where we differ, because nodes here hold many tasks at once and come in groups of identical ones: a task goes
into the first gap of a node's multi-resource profile; transfers take time between groups only; a task of many
instances is placed instance by instance; several workflows share one priority list, each with its own ranks;
the ready task of highest priority is planned next, which orders tasks of equal rank topologically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dagsched.errors import PolicyError
from dagsched.graph import downward_rank, mean_transfer, upward_rank
from dagsched.policies.base import Plan
from dagsched.policies.static.insertion import MANY, begin_planning, empty_profiles, forget_past, plan_some
from dagsched.policies.static.optimistic import mean_optimistic_cost, optimistic_costs
from dagsched.replay import Replay
from dagsched.workflow import FloatArray, IntArray, child_rows

_ROUNDING = 1e-9
"""Two path lengths that differ by less than this share are the same length, added in another order."""

KINDS = ("heft", "cpop", "peft")

Pieces = Callable[[Callable[[int], bool]], None]
"""How a long computation is called: with so many steps each time, until it says that nothing is left."""


def in_one_piece(go_on: Callable[[int], bool]) -> None:
    """All at once."""
    go_on(MANY)


class ListPlanner:
    """Plans workflows as they arrive, each around the bookings already made; sees estimates only.

    Args:
        kind: ``heft`` (largest upward rank first, least finish), ``cpop`` (largest upward + downward rank
            first, critical tasks on one node) or ``peft`` (largest mean optimistic cost first, least
            finish + optimistic cost).
        replay: the problem; a workflow's own tasks are read only once it is planned.
        pieces: how the compiled planning is called, for callers that must look at the clock in between.

    Raises:
        PolicyError: for an unknown kind.
    """

    def __init__(self, kind: str, replay: Replay, pieces: Pieces = in_one_piece) -> None:
        if kind not in KINDS:
            raise PolicyError(f"list scheduler {kind!r} is unknown, expected one of {', '.join(KINDS)}")
        self.kind, self._pieces = kind, pieces
        self._replay = replay
        self._inserter = Inserter(replay)
        self._upward = upward_rank(replay)
        self._bias: FloatArray | None = None
        if kind == "heft":
            self._priority = self._upward
        elif kind == "cpop":
            self._priority = self._upward + downward_rank(replay)
            self._pinned_seconds = np.zeros(replay.cluster.node_count)
            self._child_ptr, self._child_idx, edge = child_rows(replay.parent_ptr, replay.parent_idx)
            self._child_seconds = mean_transfer(replay)[edge]
        else:
            self._bias = optimistic_costs(replay)
            self._priority = mean_optimistic_cost(replay, self._bias)

    @property
    def finish(self) -> FloatArray:
        """``[T]`` planned finish of every task planned so far, in seconds."""
        return self._inserter.finish

    def plan_arrivals(self, workflows: Sequence[int] | range | IntArray, now: float) -> Plan:
        """Plan all tasks of the given workflows; nothing starts before ``now`` (seconds).

        Earlier plans keep their bookings. Returns the new entries only, in planning order (topological, so
        that equal starts on a node keep it); milestones have none.
        """
        pointers = self._replay.workflow_ptr
        spans = [np.arange(pointers[w], pointers[w + 1]) for w in workflows]
        tasks = np.concatenate(spans) if spans else np.zeros(0, np.int64)
        priority, upward = self._priority[tasks], self._upward[tasks]
        if self.kind == "cpop":  # all tasks of a longest path tie, but for rounding
            priority, upward = _without_rounding(priority), _without_rounding(upward)
            for span in spans:
                self._pin_critical_path(span)
        order = tasks[np.lexsort((tasks, -upward, -priority))]
        return self._inserter.plan(order, now, self._bias, self._pieces)

    def _pin_critical_path(self, span: IntArray) -> None:
        """CPoP: the tasks along one longest path go to the node group that runs them fastest.

        Among the groups that can hold most of its tasks, the one with the least sum of estimates wins; in it the
        node with the fewest seconds pinned by earlier workflows. A critical task of many instances may use every
        node of the group, one that does not fit there goes wherever it finishes first.
        """
        replay = self._replay
        path = self.critical_path(span)
        holds = replay.can_hold[path]
        seconds = np.where(holds, replay.estimate[path], 0.0).sum(axis=0)
        group = int(np.lexsort((seconds, -holds.sum(axis=0)))[0])
        first, last = np.searchsorted(replay.cluster.node_group, [group, group + 1])
        node = int(first + np.argmin(self._pinned_seconds[first:last]))
        for task in path[holds[:, group]]:
            single = replay.instances[task] == 1
            self._inserter.node_from[task] = node if single else first
            self._inserter.node_to[task] = node + 1 if single else last
        self._pinned_seconds[node] += seconds[group]

    def critical_path(self, span: IntArray) -> IntArray:
        """The tasks of one longest path of a workflow, mean estimates and mean transfers counted, entry first.

        ``span``: the workflow's flat task indices. The path starts at the entry of largest upward rank and goes on to
        a child whose transfer and rank make up the rest of the parent's rank. Priority does not tell that child: all
        tasks of the path have the same, so that an edge that skips some of them looks as good. Of several such
        children the one of larger rank comes first, then the lower index.
        """
        replay, rank = self._replay, self._upward
        entries = span[replay.parent_ptr[span] == replay.parent_ptr[span + 1]]
        path = [_longest(entries, rank[entries], rank[entries])]
        while self._child_ptr[path[-1]] < self._child_ptr[path[-1] + 1]:
            out = slice(self._child_ptr[path[-1]], self._child_ptr[path[-1] + 1])
            children = self._child_idx[out]
            path.append(_longest(children, self._child_seconds[out] + rank[children], rank[children]))
        return np.array(path, np.int64)


def _without_rounding(length: FloatArray) -> FloatArray:
    """``[K]`` the same path lengths (seconds), where neighbours that differ by rounding alone have become equal."""
    order = np.argsort(length, kind="stable")
    ascending = length[order]
    first = np.concatenate([[True], ascending[:-1] < ascending[1:] * (1 - _ROUNDING)])[: len(ascending)]
    even = np.empty_like(length)
    even[order] = ascending[first][np.cumsum(first) - 1]
    return even


def _longest(tasks: IntArray, length: FloatArray, rank: FloatArray) -> int:
    """Of the tasks of greatest ``length`` ``[K]`` s, within rounding, the one of largest rank, then the first."""
    rank = np.where(length >= length.max() * (1 - _ROUNDING), rank, -np.inf)
    return int(tasks[np.argmax(rank >= rank.max() * (1 - _ROUNDING))])


class Inserter:
    """Node profiles and the arrays the insertion kernel works on, for one replay.

    Attributes:
        node_from, node_to: ``[T]`` range of nodes each task may use; all by default, may be changed.
        finish: ``[T]`` planned seconds at which each planned task (or milestone) finishes.
    """

    def __init__(self, replay: Replay) -> None:
        cluster = replay.cluster
        count = len(replay)
        self._capacity = np.ascontiguousarray(cluster.capacity)
        self._node_group = np.ascontiguousarray(cluster.node_group)
        self._problem = (
            replay.estimate,
            replay.demand,
            replay.can_hold,
            replay.child_ptr,
            replay.child_idx,
            replay.parent_ptr,
            replay.parent_idx,
            replay.parent_bytes,
            replay.instances,
            replay.milestone,
            self._node_group,
            np.ascontiguousarray(cluster.latency),
            np.ascontiguousarray(cluster.bandwidth),
            replay.has_transfers,
            self._capacity,
        )
        self.node_from = np.zeros(count, np.int64)
        self.node_to = np.full(count, cluster.node_count, np.int64)
        self._position = np.zeros(count, np.int64)
        self.finish = np.zeros(count)
        self._scratch = (np.zeros(count, np.int64), self.finish, np.zeros((count, 2), np.int64))
        self.clear()

    def clear(self) -> None:
        """Forget all bookings."""
        self._profiles = empty_profiles(self._capacity, self._node_group, 0.0)

    def plan(self, order: IntArray, now: float, bias: FloatArray | None = None, pieces: Pieces = in_one_piece) -> Plan:
        """Book the tasks of whole workflows, the first ready one in ``order`` ``[K]`` next.

        ``bias`` ``[T, G]`` seconds is added to a finish when nodes are compared. ``pieces`` calls what plans so many
        more entries and returns whether any task is left, until none is.
        """
        time, free, block_free, begin, _, size = self._profiles
        if now > 0:
            forget_past(time, free, block_free, begin, size, float(now))
        order = np.ascontiguousarray(order)
        self._position[order] = np.arange(len(order))
        choice = self.node_from, self.node_to, np.zeros((0, 0)) if bias is None else bias
        order_of = order, self._position
        planning: Any = begin_planning(order_of, self._problem[5], self._scratch[0])

        def plan_on(most: int) -> bool:
            nonlocal planning
            planning, self._profiles = plan_some(
                planning, order_of, float(now), self._problem, choice, self._scratch, self._profiles, most
            )
            return bool(planning.counter[0] > 0)

        pieces(plan_on)
        entries = int(planning.counter[1])
        task, node, count = np.ascontiguousarray(planning.placed[:entries].T)
        return Plan(task, node, count, np.ascontiguousarray(planning.when[:entries, 0]))
