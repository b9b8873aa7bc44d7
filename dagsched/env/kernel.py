"""Compiled step of the environment: start the chosen task, let time pass to the next decision, fill every array.

Read :func:`step` first. Candidates are gathered by the learned policies' own function; nothing here reads a realised
duration before it has shown.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np

from dagsched.env import view
from dagsched.env.view import (
    ACTIVE,
    COUNT,
    DUE,
    FLOW,
    IDLE,
    LATE,
    MAY_WAIT,
    MOST_OVERRUN,
    OVERRUN,
    PENDING,
    QUEUED,
    SKIP_FORCED,
    STARTED,
    TAU,
    TIME,
    WINDOW,
    WINDOWS,
    fill_view,
)
from dagsched.features import kernel as features
from dagsched.features import schema
from dagsched.features.kernel import look
from dagsched.policies import learned_kernel
from dagsched.policies.learned_kernel import _before, _gather
from dagsched.simulator import kernel
from dagsched.simulator.kernel import (
    ARRIVED,
    DECIDE,
    DONE,
    EVENTS,
    FRESH,
    GROW,
    LEFT,
    MAX_WAIT,
    NONE,
    NOT_LATE,
    NOW,
    ON_THE_WAY,
    READY,
    STUCK,
    ZERO,
    _advance,
    _any_eligible,
    _has_room,
    _log_decision,
    _may_wait,
    _outlast,
    _overdue,
    _start,
    entry,
    inner,
)
from dagsched.simulator.stale import drop_stale

ILLEGAL = 6
"""Returned for an action that is not legal; nothing has changed then."""
GO_ON = -1
"""The action that does nothing: reach the first decision, or go on once the logs have grown."""


# --------------------------------------------------------------------------- time and what it costs


@inner
def _measure(P, S, K, E):
    """The integrands of the service-level reward in the present state (semantics.md)."""
    now, ready, overrun = S.clock[NOW], S.counter[READY], 0.0
    for k in range(ready):
        task = S.ready[k]
        w = P.task[task].workflow
        over = (now + P.task[task].bottom - K.deadline[w]) * E.per_path[w]
        overrun += min(max(over, 0.0), MOST_OVERRUN)
    E.present[OVERRUN] = overrun / ready if ready > 0 else 0.0
    waiting = ready + S.counter[EVENTS]
    E.present[QUEUED] = ready / waiting if waiting > 0 else 0.0
    idle = 0.0
    for r in range(P.capacity.shape[1]):
        if K.total[r] > 0:
            free = 0.0
            for node in range(len(P.node_group)):
                free += S.free[node, r]
            idle += free / K.total[r]
    E.present[IDLE] = min(max(idle * K.per_resource[0], 0.0), 1.0)


@inner
def _add_to_windows(P, E, begun, now):
    """Spread the present integrands over the windows of length tau since the first arrival."""
    first, tau = P.workflow[0].arrival, E.setting[TAU]
    number = np.int64(min(np.floor((now - first) / tau), 1e18))
    passed = number - E.counter[WINDOW]
    for c in range(E.past.shape[1]):
        share = E.present[OVERRUN + c]
        if passed <= 0:
            E.past[0, c] += share * (now - begun)
            continue
        E.past[0, c] += share * max(first + (E.counter[WINDOW] + 1) * tau - begun, 0.0)
        for _ in range(min(passed, WINDOWS + 1)):
            for k in range(WINDOWS, 0, -1):
                E.past[k, c] = E.past[k - 1, c]
            E.past[0, c] = share * tau
        E.past[0, c] = share * max(now - first - number * tau, 0.0)
    if passed > 0:
        E.counter[WINDOW] = number


@inner
def _is_over(S, E, w):
    """Whether all tasks without children have finished; keeps the latest finish met."""
    while E.exit_next[w] < E.exit_ptr[w + 1]:
        finish = S.task[E.exit_task[E.exit_next[w]]].finish
        if np.isnan(finish):
            return False
        E.exit_time[w] = max(E.exit_time[w], finish)
        E.exit_next[w] += 1
    return True


@inner
def _add_flow(P, S, K, E, arrived, begun, now):
    """Weighted seconds that workflows spent in the system from ``begun`` to now; takes out the finished ones."""
    for w in range(arrived, S.counter[ARRIVED]):
        E.active[E.counter[ACTIVE]] = w
        E.counter[ACTIVE] += 1
    kept = 0
    for k in range(E.counter[ACTIVE]):
        w = E.active[k]
        over = _is_over(S, E, w)
        until = E.exit_time[w] if over else now
        E.gained[FLOW] += P.workflow[w].weight * max(until - max(begun, P.workflow[w].arrival), 0.0)
        if not over:
            E.active[kept] = w
            kept += 1
        elif K.deadline[w] < np.inf:
            E.counter[DUE] += 1
            E.counter[LATE] += until > K.deadline[w]
    E.counter[ACTIVE] = kept


@inner
def _pass_time(P, S, K, E, forced):
    """Advance once and add up what that costs; the integrands are those of the state in which time begins to pass.

    ``forced``: as part of a WAIT that the starvation guard forces.
    """
    _measure(P, S, K, E)
    begun, arrived = S.clock[NOW], S.counter[ARRIVED]
    if arrived == 0:
        begun = P.workflow[0].arrival
    status = _outlast(P, S) if forced else _advance(P, S)
    now = S.clock[NOW]
    if now > begun:
        E.gained[TIME] += now - begun
        for k in range(OVERRUN, IDLE + 1):
            E.gained[k] += E.present[k] * (now - begun)
        _add_to_windows(P, E, begun, now)
    _add_flow(P, S, K, E, arrived, begun, now)
    return status


# --------------------------------------------------------------------------- decisions


@inner
def _sort_candidates(P, E, count):
    """Largest base priority first: place 0 is what the base rule would run."""
    for k in range(1, count):
        entry_at, at = E.candidate[k], k
        while at > 0 and _before(P, E, entry_at, E.candidate[at - 1]):
            E.candidate[at] = E.candidate[at - 1]
            at -= 1
        E.candidate[at] = entry_at


@inner
def _consider(P, S, K, X, L, E, V):
    """Gather candidates and write the mask; returns (legal actions, one of them)."""
    S.counter[FRESH] = 0
    look(P, S, K, X)
    count = _gather(P, S, K, X, L, E)
    _sort_candidates(P, E, count)
    forced = NOT_LATE
    if P.setting[MAX_WAIT] < np.inf:
        forced = _overdue(P, S)[0]
    wait = len(E.candidate)
    for k in range(wait):
        V.mask[k] = 0
    V.mask[wait] = forced == NONE or (forced == NOT_LATE and E.switch[MAY_WAIT] and _may_wait(P, S))
    legal, one = ZERO + V.mask[wait], ZERO + wait
    for k in range(count):
        if forced == NOT_LATE or forced == E.eligible[E.candidate[k]]:
            V.mask[k] = 1
            legal, one = legal + 1, ZERO + k
    return legal, one


@inner
def _take(P, S, truth, E, place):
    """Start the candidate at a place."""
    at = E.candidate[place]
    task = E.eligible[at]
    if np.isnan(S.task[task].start):
        E.counter[STARTED] += 1
        E.waited[0] += S.clock[NOW] - S.task[task].ready_time
    _start(P, S, truth, task, E.node[at], ZERO)


@inner
def _show_end(P, S, K, X, N, E, V):
    """The last observation: no candidates, and WAIT alone is legal, so that no mask is ever empty."""
    look(P, S, K, X)
    E.counter[COUNT] = 0
    for k in range(len(V.mask)):
        V.mask[k] = 0
    V.mask[len(E.candidate)] = 1
    fill_view(P, S, K, X, N, E, V)


@entry
def step(P, S, truth, K, X, L, N, E, V, action):
    """Take an action (a place among the candidates, their most = WAIT, or ``GO_ON``) and go on to the next decision.

    Adds to ``E.gained``, fills ``V``. Returns DECIDE, DONE, STUCK, ILLEGAL, or GROW: then let the logs grow and go on
    with the action in ``E.counter[PENDING]``.
    """
    wait = len(E.candidate)
    if action >= 0 and (action > wait or not V.mask[action]):
        return ILLEGAL
    choice, passing, forced = action, False, False
    while True:
        if not _has_room(P, S):
            E.counter[PENDING] = choice
            return GROW
        if choice == wait:
            forced = P.setting[MAX_WAIT] < np.inf and _overdue(P, S)[0] == NONE
            _log_decision(S, NONE)
            passing = True
        elif choice >= 0:
            _take(P, S, truth, E, choice)
        while S.counter[LEFT] > 0 and (passing or S.counter[ARRIVED] == 0 or not _any_eligible(P, S)):
            status = _pass_time(P, S, K, E, forced)
            if status == STUCK:
                return STUCK
            passing = forced = status == ON_THE_WAY
        if S.counter[LEFT] == 0:
            _show_end(P, S, K, X, N, E, V)
            return DONE
        legal, choice = _consider(P, S, K, X, L, E, V)
        if legal > 1 or not E.switch[SKIP_FORCED]:
            fill_view(P, S, K, X, N, E, V)
            return DECIDE


drop_stale(step, kernel.__file__, features.__file__, schema.__file__, learned_kernel.__file__, view.__file__)
