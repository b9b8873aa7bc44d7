"""Every continuation of a decision, where they are few: tasks and WAIT in every order, each state met once.

Depth first, the incumbent's order first. A walk begins at the root anew (the state has no way back), follows the path
to where the last one left off and goes on from there. It ends at a finished schedule, at a state that was met before,
or where a lower bound says that nothing better lies behind (branch and bound, Land and Doig, Econometrica 28, 1960).
Each walk counts as one simulation. When none is left, the best schedule found is the optimum of the planner's actions
for the work that has arrived.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dagsched.search import budget, rollout
from dagsched.search.budget import PAUSED, begin_call, end_call, more, spend
from dagsched.search.rollout import (
    FIRST_WORKFLOW,
    MAKESPAN,
    OPEN,
    PAST,
    SIMULATIONS,
    WAIT,
    act,
    cost,
    keep_log,
    restore,
    workflow_cost,
)
from dagsched.simulator import kernel
from dagsched.simulator.compilation import cold, entry, inner
from dagsched.simulator.kernel import (
    ALLOCS,
    CURSOR,
    DECIDE,
    DONE,
    DRAWS,
    EVENTS,
    FREE,
    GROW,
    HOLD,
    INTERVAL,
    LAST_TICK,
    MAX_WAIT,
    NONE,
    NOW,
    PLACEMENT,
    RANDOM_NODE,
    READY,
    RELEASES,
    ROUND_ROBIN_NODES,
    START,
    advance_clock,
    can_start,
    find_overdue,
    has_eligible,
    logs_have_room,
    mix_bits,
    wait_forced,
    wait_is_legal,
)
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.workflow import FloatArray, IntArray

# Slots of Walks.counter.
DEPTH, STATES, WAITING, LEFT_OUT, OVER = range(5)
CUT: Any = np.int64(8)
"""Status of a walk that ended before its schedule did."""
MOST_TASKS = 8
"""Tasks with unstarted instances beyond which a decision is not gone through."""
_MOST_DEPTH = 96
_TABLE = 1 << 14
_SLACK = 1e-12
_TIE = 1e-10


class Walks(NamedTuple):
    """Where the depth-first search stands."""

    action: IntArray  # [D, A] what may be done at each depth of the path: tasks, -1 = WAIT
    ways: IntArray  # [D] how many
    choice: IntArray  # [D] the one that the path takes
    seen: NDArray[np.uint64]  # [2^k] hashes of the states met, open addressing; 0 = empty
    counter: IntArray  # [5]
    found: FloatArray  # [1] least cost


def new_walks() -> Walks:
    """Room for one decision's walks."""
    return Walks(
        action=np.zeros((_MOST_DEPTH, MOST_TASKS + 1), np.int64),
        ways=np.zeros(_MOST_DEPTH, np.int64),
        choice=np.zeros(_MOST_DEPTH, np.int64),
        seen=np.zeros(_TABLE, np.uint64),
        counter=np.zeros(5, np.int64),
        found=np.zeros(1),
    )


def open_walks(walks: Walks, value: float, *, waiting: bool) -> None:
    """Begin at a decision.

    Args:
        walks: where to keep the search.
        value: cost of the best schedule known.
        waiting: whether WAIT is an action.
    """
    walks.counter[:] = (0, 0, waiting, 0, 0)
    walks.found[0] = value
    walks.seen[:] = 0


@cold
def _to_choice(P, scratch):  # type: ignore[no-untyped-def]
    """Let time pass until there is something to decide, as a rollout does; returns a status."""
    while logs_have_room(P, scratch):
        guard = FREE
        if P.setting[MAX_WAIT] < np.inf:
            guard = find_overdue(P, scratch)[0]
        if guard == START or (guard == FREE and has_eligible(P, scratch)):
            return DECIDE
        status = wait_forced(P, scratch) if guard == HOLD else advance_clock(P, scratch)
        if status != DECIDE:
            return status
    return GROW


@cold
def _list_actions(P, scratch, noise, walks, depth):  # type: ignore[no-untyped-def]
    """The tasks that may start, largest key first, and WAIT where it is legal."""
    guard, overdue = FREE, NONE
    if P.setting[MAX_WAIT] < np.inf:
        guard, overdue, _ = find_overdue(P, scratch)
    count = 0
    for k in range(scratch.counter[READY]):
        task = scratch.ready[k]
        if (guard == START and task != overdue) or not can_start(P, scratch, task):
            continue
        at = count
        while at > 0 and _goes_first(P, noise, task, walks.action[depth, at - 1]):
            walks.action[depth, at] = walks.action[depth, at - 1]
            at -= 1
        walks.action[depth, at] = task
        count += 1
    if guard != START and walks.counter[WAITING] and wait_is_legal(P, scratch):
        walks.action[depth, count] = WAIT
        count += 1
    walks.ways[depth], walks.choice[depth] = count, 0


@inner
def _goes_first(P, noise, a, b):  # type: ignore[no-untyped-def]
    if noise.key[a] != noise.key[b]:
        return noise.key[a] > noise.key[b]
    return P.task[a].tie < P.task[b].tie


@cold
def _bound(P, scratch, work):  # type: ignore[no-untyped-def]
    """No continuation costs less: what has not started begins now, and all that follows it at once, at its fastest."""
    now = scratch.clock[NOW]
    for w in range(work.counter[FIRST_WORKFLOW], len(P.workflow)):
        work.last[w] = -np.inf
    for k in range(work.counter[OPEN]):
        task = work.open[k]
        w = P.task[task].workflow
        end = scratch.task[task].finish
        if np.isnan(end):
            end = now + P.task[task].bottom
            if scratch.task[task].unstarted == 0 and scratch.task[task].last_alloc >= 0:
                end = scratch.alloc[scratch.task[task].last_alloc].finish + P.task[task].bottom - P.task[task].fastest
        work.last[w] = max(work.last[w], end - _SLACK * abs(end))  # rounding must make nothing late
    total, latest = work.amount[PAST], -np.inf
    for w in range(work.counter[FIRST_WORKFLOW], len(P.workflow)):
        if work.last[w] > -np.inf:
            latest = max(latest, work.last[w])
            total += workflow_cost(P, work, w, work.last[w])
    return latest if work.kind[0] == MAKESPAN else total


@inner
def _bits(x):  # type: ignore[no-untyped-def]
    return np.float64(x).view(np.uint64)


@inner
def _hash(P, root, scratch):  # type: ignore[no-untyped-def]
    """Of all that a continuation depends on: the moment, and what has been placed where and when since the root."""
    h = mix_bits(_bits(scratch.clock[NOW])) + mix_bits(_bits(scratch.clock[LAST_TICK]) + np.uint64(1))
    for k in range(root.counter[ALLOCS], scratch.counter[ALLOCS]):
        one = mix_bits(_bits(scratch.alloc[k].start))
        one = mix_bits(one + np.uint64(scratch.alloc[k].task))
        one = mix_bits(one + np.uint64(scratch.alloc[k].node))
        h += mix_bits(one + np.uint64(scratch.alloc[k].count))
    for k in range(root.counter[EVENTS]):  # a running allocation may have been joined at this very moment
        alloc = root.event[k]
        h += mix_bits(np.uint64(alloc) + mix_bits(np.uint64(scratch.alloc[alloc].count)))
    if P.switch[PLACEMENT] == ROUND_ROBIN_NODES:
        h += mix_bits(np.uint64(scratch.counter[CURSOR]))
    if P.switch[PLACEMENT] == RANDOM_NODE:
        h += mix_bits(np.uint64(scratch.counter[DRAWS]))
    return h | np.uint64(1)


@cold
def _is_new(P, root, scratch, walks):  # type: ignore[no-untyped-def]
    """Whether no walk has been in this state; it now has."""
    h = _hash(P, root, scratch)
    slot = np.int64(h >> np.uint64(8)) & (len(walks.seen) - 1)
    while walks.seen[slot] != 0:
        if walks.seen[slot] == h:
            return False
        slot = (slot + 1) & (len(walks.seen) - 1)
    walks.seen[slot] = h
    walks.counter[STATES] += 1
    return True


@inner
def _may_go_on(P, root, scratch, work, walks):  # type: ignore[no-untyped-def]
    """Whether something better may lie behind a state that this walk is the first to be in."""
    if walks.counter[DEPTH] >= len(walks.ways) or 2 * walks.counter[STATES] >= len(walks.seen):
        walks.counter[LEFT_OUT] += 1
        return False
    return _bound(P, scratch, work) < walks.found[0] * (1.0 - _TIE) and _is_new(P, root, scratch, walks)


@cold
def _act(P, scratch, truth, task):  # type: ignore[no-untyped-def]
    """One copy of it, for the compiler's sake."""
    return act(P, scratch, truth, task)


@inner
def _wait(P, scratch, truth):  # type: ignore[no-untyped-def]
    """WAIT; at ticks until something has finished, since before that nothing is gained by it."""
    before = scratch.counter[RELEASES]
    status = _act(P, scratch, truth, WAIT)
    while (
        status == DECIDE
        and P.setting[INTERVAL] > 0
        and scratch.counter[RELEASES] == before
        and scratch.counter[EVENTS] > 0
    ):
        if P.setting[MAX_WAIT] < np.inf and find_overdue(P, scratch)[0] != FREE:
            break
        if not logs_have_room(P, scratch):
            return GROW
        status = _act(P, scratch, truth, WAIT)
    return status


@cold
def _walk(P, root, scratch, work, noise, walks, truth):  # type: ignore[no-untyped-def]
    """One walk from the root: DONE, CUT, or GROW if a log is too short."""
    restore(P, root, scratch, work)
    work.counter[SIMULATIONS] += 1
    depth, status = 0, DECIDE
    while status == DECIDE:
        status = _to_choice(P, scratch)
        if status != DECIDE:
            break
        if depth >= walks.counter[DEPTH]:
            if not _may_go_on(P, root, scratch, work, walks):
                return CUT
            _list_actions(P, scratch, noise, walks, depth)
            walks.counter[DEPTH] = depth + 1
        action = walks.action[depth, walks.choice[depth]]
        depth += 1
        status = _wait(P, scratch, truth) if action == WAIT else _act(P, scratch, truth, action)
    return status


@inner
def _turn(walks):  # type: ignore[no-untyped-def]
    """Take the next way at the deepest place that has one left; over if there is none."""
    depth = walks.counter[DEPTH] - 1
    while depth >= 0 and walks.choice[depth] + 1 >= walks.ways[depth]:
        depth -= 1
    if depth >= 0:
        walks.choice[depth] += 1
    walks.counter[DEPTH] = depth + 1
    walks.counter[OVER] = depth < 0


@entry
def walk(P, root, scratch, work, noise, log, walks, truth, budget, part):  # type: ignore[no-untyped-def]
    """Walk until all is seen or ``part`` (0 to 1) of the budget is spent; ``log`` has the best schedule.

    Returns DONE; GROW if a log is too short (all begins anew then), PAUSED from time to time: call again.
    """
    begin_call(budget)
    while not walks.counter[OVER] and not walks.counter[LEFT_OUT] and more(budget, part):
        status = _walk(P, root, scratch, work, noise, walks, truth)
        value = cost(P, scratch, work) if status == DONE else np.inf
        better = value < walks.found[0]
        if status == GROW or (better and not keep_log(scratch, log, work)):
            walks.counter[DEPTH], walks.counter[STATES] = 0, 0
            walks.seen[:] = np.uint64(0)
            return GROW
        if better:
            walks.found[0] = value
        _turn(walks)
        if spend(budget, 1):
            return PAUSED
    end_call(budget)
    return DONE


def are_all_seen(walks: Walks) -> bool:
    """Whether the best schedule found is the best of all."""
    return bool(walks.counter[OVER] and not walks.counter[LEFT_OUT])


drop_stale(walk, kernel.__file__, rollout.__file__, budget.__file__)
