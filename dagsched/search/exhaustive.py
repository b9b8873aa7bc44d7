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
    _workflow_cost,
    act,
    cost,
    keep_log,
    restore,
)
from dagsched.simulator import kernel
from dagsched.simulator.kernel import (
    ALLOCS,
    CURSOR,
    DECIDE,
    DONE,
    DRAWS,
    EVENTS,
    GROW,
    INTERVAL,
    LAST_TICK,
    MAX_WAIT,
    NONE,
    NOT_LATE,
    NOW,
    PLACEMENT,
    RANDOM_NODE,
    READY,
    RELEASES,
    ROUND_ROBIN_NODES,
    _advance,
    _any_eligible,
    _fits_somewhere,
    _has_room,
    _may_wait,
    _mix,
    _overdue,
    _wait_forced,
    cold,
    entry,
    inner,
)
from dagsched.simulator.stale import drop_stale
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
def _to_choice(P, D):  # type: ignore[no-untyped-def]
    """Let time pass until there is something to decide, as a rollout does; returns a status."""
    while _has_room(P, D):
        forced = NOT_LATE
        if P.setting[MAX_WAIT] < np.inf:
            forced = _overdue(P, D)[0]
        if forced >= 0 or (forced == NOT_LATE and _any_eligible(P, D)):
            return DECIDE
        status = _wait_forced(P, D) if forced == NONE else _advance(P, D)
        if status != DECIDE:
            return status
    return GROW


@cold
def _list_actions(P, D, N, W, depth):  # type: ignore[no-untyped-def]
    """The tasks that may start, largest key first, and WAIT where it is legal."""
    forced = NOT_LATE
    if P.setting[MAX_WAIT] < np.inf:
        forced = _overdue(P, D)[0]
    count = 0
    for k in range(D.counter[READY]):
        task = D.ready[k]
        if (forced >= 0 and task != forced) or not _fits_somewhere(P, D, task):
            continue
        at = count
        while at > 0 and _goes_first(P, N, task, W.action[depth, at - 1]):
            W.action[depth, at] = W.action[depth, at - 1]
            at -= 1
        W.action[depth, at] = task
        count += 1
    if forced < 0 and W.counter[WAITING] and _may_wait(P, D):
        W.action[depth, count] = WAIT
        count += 1
    W.ways[depth], W.choice[depth] = count, 0


@inner
def _goes_first(P, N, a, b):  # type: ignore[no-untyped-def]
    if N.key[a] != N.key[b]:
        return N.key[a] > N.key[b]
    return P.task[a].tie < P.task[b].tie


@cold
def _bound(P, D, V):  # type: ignore[no-untyped-def]
    """No continuation costs less: what has not started begins now, and all that follows it at once, at its fastest."""
    now = D.clock[NOW]
    for w in range(V.counter[FIRST_WORKFLOW], len(P.workflow)):
        V.last[w] = -np.inf
    for k in range(V.counter[OPEN]):
        task = V.open[k]
        w = P.task[task].workflow
        end = D.task[task].finish
        if np.isnan(end):
            end = now + P.task[task].bottom
            if D.task[task].unstarted == 0 and D.task[task].last_alloc >= 0:
                end = D.alloc[D.task[task].last_alloc].finish + P.task[task].bottom - P.task[task].fastest
        V.last[w] = max(V.last[w], end - _SLACK * abs(end))  # rounding must make nothing late
    total, latest = V.amount[PAST], -np.inf
    for w in range(V.counter[FIRST_WORKFLOW], len(P.workflow)):
        if V.last[w] > -np.inf:
            latest = max(latest, V.last[w])
            total += _workflow_cost(P, V, w, V.last[w])
    return latest if V.kind[0] == MAKESPAN else total


@inner
def _bits(x):  # type: ignore[no-untyped-def]
    return np.float64(x).view(np.uint64)


@inner
def _hash(P, R, D):  # type: ignore[no-untyped-def]
    """Of all that a continuation depends on: the moment, and what has been placed where and when since the root."""
    h = _mix(_bits(D.clock[NOW])) + _mix(_bits(D.clock[LAST_TICK]) + np.uint64(1))
    for k in range(R.counter[ALLOCS], D.counter[ALLOCS]):
        one = _mix(_bits(D.alloc[k].start))
        one = _mix(one + np.uint64(D.alloc[k].task))
        one = _mix(one + np.uint64(D.alloc[k].node))
        h += _mix(one + np.uint64(D.alloc[k].count))
    for k in range(R.counter[EVENTS]):  # a running allocation may have been joined at this very moment
        alloc = R.event[k]
        h += _mix(np.uint64(alloc) + _mix(np.uint64(D.alloc[alloc].count)))
    if P.switch[PLACEMENT] == ROUND_ROBIN_NODES:
        h += _mix(np.uint64(D.counter[CURSOR]))
    if P.switch[PLACEMENT] == RANDOM_NODE:
        h += _mix(np.uint64(D.counter[DRAWS]))
    return h | np.uint64(1)


@cold
def _is_new(P, R, D, W):  # type: ignore[no-untyped-def]
    """Whether no walk has been in this state; it now has."""
    h = _hash(P, R, D)
    slot = np.int64(h >> np.uint64(8)) & (len(W.seen) - 1)
    while W.seen[slot] != 0:
        if W.seen[slot] == h:
            return False
        slot = (slot + 1) & (len(W.seen) - 1)
    W.seen[slot] = h
    W.counter[STATES] += 1
    return True


@inner
def _may_go_on(P, R, D, V, W):  # type: ignore[no-untyped-def]
    """Whether something better may lie behind a state that this walk is the first to be in."""
    if W.counter[DEPTH] >= len(W.ways) or 2 * W.counter[STATES] >= len(W.seen):
        W.counter[LEFT_OUT] += 1
        return False
    return _bound(P, D, V) < W.found[0] * (1.0 - _TIE) and _is_new(P, R, D, W)


@cold
def _act(P, D, truth, task):  # type: ignore[no-untyped-def]
    """One copy of it, for the compiler's sake."""
    return act(P, D, truth, task)


@inner
def _wait(P, D, truth):  # type: ignore[no-untyped-def]
    """WAIT; at ticks until something has finished, since before that nothing is gained by it."""
    before = D.counter[RELEASES]
    status = _act(P, D, truth, WAIT)
    while status == DECIDE and P.setting[INTERVAL] > 0 and D.counter[RELEASES] == before and D.counter[EVENTS] > 0:
        if P.setting[MAX_WAIT] < np.inf and _overdue(P, D)[0] != NOT_LATE:
            break
        if not _has_room(P, D):
            return GROW
        status = _act(P, D, truth, WAIT)
    return status


@cold
def _walk(P, R, D, V, N, W, truth):  # type: ignore[no-untyped-def]
    """One walk from the root: DONE, CUT, or GROW if a log is too short."""
    restore(P, R, D, V)
    V.counter[SIMULATIONS] += 1
    depth, status = 0, DECIDE
    while status == DECIDE:
        status = _to_choice(P, D)
        if status != DECIDE:
            break
        if depth >= W.counter[DEPTH]:
            if not _may_go_on(P, R, D, V, W):
                return CUT
            _list_actions(P, D, N, W, depth)
            W.counter[DEPTH] = depth + 1
        action = W.action[depth, W.choice[depth]]
        depth += 1
        status = _wait(P, D, truth) if action == WAIT else _act(P, D, truth, action)
    return status


@inner
def _turn(W):  # type: ignore[no-untyped-def]
    """Take the next way at the deepest place that has one left; over if there is none."""
    depth = W.counter[DEPTH] - 1
    while depth >= 0 and W.choice[depth] + 1 >= W.ways[depth]:
        depth -= 1
    if depth >= 0:
        W.choice[depth] += 1
    W.counter[DEPTH] = depth + 1
    W.counter[OVER] = depth < 0


@entry
def walk(P, R, D, V, N, G, W, truth, U, part):  # type: ignore[no-untyped-def]
    """Walk until all is seen or ``part`` (0 to 1) of the budget ``U`` is spent; the best schedule is logged in ``G``.

    Returns DONE; GROW if a log is too short (all begins anew then), PAUSED from time to time: call again.
    """
    begin_call(U)
    while not W.counter[OVER] and not W.counter[LEFT_OUT] and more(U, part):
        status = _walk(P, R, D, V, N, W, truth)
        value = cost(P, D, V) if status == DONE else np.inf
        better = value < W.found[0]
        if status == GROW or (better and not keep_log(D, G, V)):
            W.counter[DEPTH], W.counter[STATES] = 0, 0
            W.seen[:] = np.uint64(0)
            return GROW
        if better:
            W.found[0] = value
        _turn(W)
        if spend(U, 1):
            return PAUSED
    end_call(U)
    return DONE


def are_all_seen(walks: Walks) -> bool:
    """Whether the best schedule found is the best of all."""
    return bool(walks.counter[OVER] and not walks.counter[LEFT_OUT])


drop_stale(walk, kernel.__file__, rollout.__file__, budget.__file__)
