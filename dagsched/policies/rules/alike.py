"""Which ready tasks a rule cannot tell apart: work space of the scored rules and of Min-Min, Max-Min and Sufferage."""

from __future__ import annotations

import numpy as np

from dagsched.simulator import kernel
from dagsched.simulator.kernel import Alike, Bookings, Problem
from dagsched.simulator.state import demand_classes
from dagsched.workflow import FloatArray, IntArray

MOST_PAIRS = 2**22
"""Sets x nodes up to which where each could start is remembered (32 MB)."""
_COLUMNS = {
    kernel.HRRN: ("klass", "mean"),
    kernel.SRW: ("klass", "workflow"),
    kernel.SRW_CP: ("klass", "workflow", "bottom"),
    kernel.ROUND_ROBIN: ("klass", "workflow"),
    kernel.WEIGHTED_FAIR: ("klass", "workflow"),
    kernel.TETRIS: ("klass",),
    kernel.PACKER: ("klass", "fastest"),
    kernel.TETRIS_SRW: ("klass", "workflow"),
    kernel.CP_DEMAND: ("klass", "bottom"),
    kernel.CP_DEMAND_WORK: ("klass", "bottom", "below"),
}
"""What of a task's constants each score depends on."""


def alike_by_score(problem: Problem, rule: int, place: IntArray) -> Alike:
    """Empty sets for a scored rule; ``place`` ``[T]`` in the order of submission breaks the ties of some."""
    if _COLUMNS[rule] == ("klass",):
        kind = problem.task["klass"].copy()
    else:
        kind = demand_classes(np.column_stack([problem.task[name] for name in _COLUMNS[rule]]).astype(np.float64))[0]
    by_place = rule in (kernel.ROUND_ROBIN, kernel.PACKER)
    return _empty_sets(problem, kind, place if by_place else problem.tie)


def alike_by_estimate(problem: Problem) -> Alike:
    """Empty sets for rules that ask for each node's completion: equal demand, equal estimates."""
    columns = np.column_stack([problem.task["klass"], problem.estimate]).astype(np.float64)
    return _empty_sets(problem, demand_classes(columns)[0], problem.tie)


def _empty_sets(problem: Problem, kind: IntArray, tie: IntArray) -> Alike:
    tasks, classes = len(kind), len(problem.class_task)
    return Alike(
        kind=kind,
        tie=np.array(tie, np.int64),
        left=np.full(tasks, -1, np.int64),
        right=np.full(tasks, -1, np.int64),
        set_of=np.zeros(tasks, np.int64),
        newest=np.full(tasks, -1, np.int64),
        spare=np.arange(tasks)[::-1].astype(np.int64),
        open=np.zeros(tasks, np.int64),
        slot=np.zeros(tasks, np.int64),
        top=np.zeros(tasks, np.int64),
        size=np.zeros(tasks, np.int64),
        alignment=np.zeros(classes),
        stamp=np.full(classes, -1, np.int64),
        counter=np.array([0, tasks, 0], np.int64),
    )


def new_bookings(problem: Problem, alike: Alike, allocations: int, room: int, old: Bookings | None = None) -> Bookings:
    """Scratch for virtual bookings; ``room`` doubles where it does not suffice."""
    tasks, nodes = len(problem.task), len(problem.node_group)
    classes, resources = len(problem.class_task), problem.capacity.shape[1]
    sets = tasks if problem.switch[kernel.TRANSFERS] else int(alike.kind.max()) + 1
    segments = allocations + nodes + 2 * room * (tasks + nodes) + 2

    def whole(count: int) -> IntArray:
        return np.zeros(count, np.int64)

    def pairs(count: int) -> IntArray:
        return np.zeros((count, nodes) if count * nodes <= MOST_PAIRS else (0, 0), np.int64)

    def seconds(count: int) -> FloatArray:
        return np.zeros(count)

    fresh = Bookings(
        seg_time=seconds(segments),
        seg_free=np.zeros((segments, resources)),
        seg_next=whole(segments),
        head=whole(nodes),
        rising=whole(nodes),
        version=whole(nodes),
        fit=pairs(classes),
        fit_version=pairs(classes),
        resume=pairs(sets),
        witness=whole(sets),
        clear=whole(sets),
        running=whole(allocations),
        unit=whole(tasks),
        heap=whole(tasks),
        size=whole(sets),
        left=whole(sets),
        taken=whole(tasks),
        best=seconds(sets),
        best_node=whole(sets),
        best_seg=whole(sets),
        found=whole(sets),
        second=seconds(sets),
        second_node=whole(sets),
        next=whole(sets),
        previous=whole(sets),
        first=whole(nodes),
        pick=whole(nodes),
        due_task=whole(segments),
        due_node=whole(segments),
        due_count=whole(segments),
        counter=np.array([0, 0, 0, -1, 0, 0], np.int64),
    )
    if old is not None:  # bookings due now, made before the logs had to grow, are kept
        for name in ("due_task", "due_node", "due_count"):
            kept = getattr(old, name)
            getattr(fresh, name)[: len(kept)] = kept
        fresh.counter[:] = old.counter
    return fresh
