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
from dagsched.policies.learned import learned_kernel
from dagsched.policies.learned.learned_kernel import gather_candidates, is_before
from dagsched.simulator import kernel
from dagsched.simulator.compilation import entry, inner
from dagsched.simulator.kernel import (
    ARRIVED,
    DECIDE,
    DONE,
    EVENTS,
    FREE,
    FRESH,
    GROW,
    HOLD,
    ILLEGAL,
    LEFT,
    MAX_WAIT,
    NONE,
    NOW,
    ON_THE_WAY,
    READY,
    START,
    STUCK,
    ZERO,
    advance_clock,
    append_decision,
    find_overdue,
    has_eligible,
    logs_have_room,
    outlast_wait,
    start_task,
    wait_is_legal,
)
from dagsched.simulator.kernel_cache import drop_stale

GO_ON = -1
"""The action that does nothing: reach the first decision, or go on once the logs have grown."""


# --------------------------------------------------------------------------- time and what it costs


@inner
def _measure(P, S, constants, episode):
    """The integrands of the service-level reward in the present state (semantics.md)."""
    now, ready, overrun = S.clock[NOW], S.counter[READY], 0.0
    for k in range(ready):
        task = S.ready[k]
        w = P.task[task].workflow
        over = (now + P.task[task].bottom - constants.deadline[w]) * episode.per_path[w]
        overrun += min(max(over, 0.0), MOST_OVERRUN)
    episode.present[OVERRUN] = overrun / ready if ready > 0 else 0.0
    waiting = ready + S.counter[EVENTS]
    episode.present[QUEUED] = ready / waiting if waiting > 0 else 0.0
    idle = 0.0
    for r in range(P.capacity.shape[1]):
        if constants.total[r] > 0:
            free = 0.0
            for node in range(len(P.node_group)):
                free += S.free[node, r]
            idle += free / constants.total[r]
    episode.present[IDLE] = min(max(idle * constants.per_resource[0], 0.0), 1.0)


@inner
def _add_to_windows(P, episode, begun, now):
    """Spread the present integrands over the windows of length tau since the first arrival."""
    first, tau = P.workflow[0].arrival, episode.setting[TAU]
    number = np.int64(min(np.floor((now - first) / tau), 1e18))
    passed = number - episode.counter[WINDOW]
    for c in range(episode.past.shape[1]):
        share = episode.present[OVERRUN + c]
        if passed <= 0:
            episode.past[0, c] += share * (now - begun)
            continue
        episode.past[0, c] += share * max(first + (episode.counter[WINDOW] + 1) * tau - begun, 0.0)
        for _ in range(min(passed, WINDOWS + 1)):
            for k in range(WINDOWS, 0, -1):
                episode.past[k, c] = episode.past[k - 1, c]
            episode.past[0, c] = share * tau
        episode.past[0, c] = share * max(now - first - number * tau, 0.0)
    if passed > 0:
        episode.counter[WINDOW] = number


@inner
def _is_over(S, episode, w):
    """Whether all tasks without children have finished; keeps the latest finish met."""
    while episode.exit_next[w] < episode.exit_ptr[w + 1]:
        finish = S.task[episode.exit_task[episode.exit_next[w]]].finish
        if np.isnan(finish):
            return False
        episode.exit_time[w] = max(episode.exit_time[w], finish)
        episode.exit_next[w] += 1
    return True


@inner
def _add_flow(P, S, constants, episode, arrived, begun, now):
    """Weighted seconds that workflows spent in the system from ``begun`` to now; takes out the finished ones."""
    for w in range(arrived, S.counter[ARRIVED]):
        episode.active[episode.counter[ACTIVE]] = w
        episode.counter[ACTIVE] += 1
    kept = 0
    for k in range(episode.counter[ACTIVE]):
        w = episode.active[k]
        over = _is_over(S, episode, w)
        until = episode.exit_time[w] if over else now
        episode.gained[FLOW] += P.workflow[w].weight * max(until - max(begun, P.workflow[w].arrival), 0.0)
        if not over:
            episode.active[kept] = w
            kept += 1
        elif constants.deadline[w] < np.inf:
            episode.counter[DUE] += 1
            episode.counter[LATE] += until > constants.deadline[w]
    episode.counter[ACTIVE] = kept


@inner
def _pass_time(P, S, constants, episode, forced):
    """Advance once and add up what that costs; the integrands are those of the state in which time begins to pass.

    ``forced``: as part of a WAIT that the starvation guard forces.
    """
    _measure(P, S, constants, episode)
    begun, arrived = S.clock[NOW], S.counter[ARRIVED]
    if arrived == 0:
        begun = P.workflow[0].arrival
    status = outlast_wait(P, S) if forced else advance_clock(P, S)
    now = S.clock[NOW]
    if now > begun:
        episode.gained[TIME] += now - begun
        for k in range(OVERRUN, IDLE + 1):
            episode.gained[k] += episode.present[k] * (now - begun)
        _add_to_windows(P, episode, begun, now)
    _add_flow(P, S, constants, episode, arrived, begun, now)
    return status


# --------------------------------------------------------------------------- decisions


@inner
def _sort_candidates(P, episode, count):
    """Largest base priority first: place 0 is what the base rule would run."""
    for k in range(1, count):
        entry_at, at = episode.candidate[k], k
        while at > 0 and is_before(P, episode, entry_at, episode.candidate[at - 1]):
            episode.candidate[at] = episode.candidate[at - 1]
            at -= 1
        episode.candidate[at] = entry_at


@inner
def _consider(P, S, constants, tracker, linear, episode, shown):
    """Gather candidates and write the mask; returns (legal actions, one of them)."""
    S.counter[FRESH] = 0
    look(P, S, constants, tracker)
    count = gather_candidates(P, S, constants, tracker, linear, episode)
    _sort_candidates(P, episode, count)
    guard, overdue = FREE, NONE
    if P.setting[MAX_WAIT] < np.inf:
        guard, overdue, _ = find_overdue(P, S)
    wait = len(episode.candidate)
    for k in range(wait):
        shown.mask[k] = 0
    shown.mask[wait] = guard == HOLD or (guard == FREE and episode.switch[MAY_WAIT] and wait_is_legal(P, S))
    legal, one = ZERO + shown.mask[wait], ZERO + wait
    for k in range(count):
        if guard == FREE or (guard == START and overdue == episode.eligible[episode.candidate[k]]):
            shown.mask[k] = 1
            legal, one = legal + 1, ZERO + k
    return legal, one


@inner
def _take(P, S, truth, episode, place):
    """Start the candidate at a place."""
    at = episode.candidate[place]
    task = episode.eligible[at]
    if np.isnan(S.task[task].start):
        episode.counter[STARTED] += 1
        episode.waited[0] += S.clock[NOW] - S.task[task].ready_time
    start_task(P, S, truth, task, episode.node[at], ZERO)


@inner
def _show_end(P, S, constants, tracker, scale, episode, shown):
    """The last observation: no candidates, and WAIT alone is legal, so that no mask is ever empty."""
    look(P, S, constants, tracker)
    episode.counter[COUNT] = 0
    for k in range(len(shown.mask)):
        shown.mask[k] = 0
    shown.mask[len(episode.candidate)] = 1
    fill_view(P, S, constants, tracker, scale, episode, shown)


@entry
def step(P, S, truth, constants, tracker, linear, scale, episode, shown, action):
    """Take an action (a place among the candidates, their most = WAIT, or ``GO_ON``) and go on to the next decision.

    Adds to ``episode.gained``, fills ``shown``. Returns DECIDE, DONE, STUCK, ILLEGAL, or GROW: then let the logs grow
    and go on with the action in ``episode.counter[PENDING]``.
    """
    wait = len(episode.candidate)
    if action >= 0 and (action > wait or not shown.mask[action]):
        return ILLEGAL
    choice, passing, forced = action, False, False
    while True:
        if not logs_have_room(P, S):
            episode.counter[PENDING] = choice
            return GROW
        if choice == wait:
            forced = P.setting[MAX_WAIT] < np.inf and find_overdue(P, S)[0] == HOLD
            append_decision(S, NONE, NONE, ZERO)
            passing = True
        elif choice >= 0:
            _take(P, S, truth, episode, choice)
        while S.counter[LEFT] > 0 and (passing or S.counter[ARRIVED] == 0 or not has_eligible(P, S)):
            status = _pass_time(P, S, constants, episode, forced)
            if status == STUCK:
                return STUCK
            passing = forced = status == ON_THE_WAY
        if S.counter[LEFT] == 0:
            _show_end(P, S, constants, tracker, scale, episode, shown)
            return DONE
        legal, choice = _consider(P, S, constants, tracker, linear, episode, shown)
        if legal > 1 or not episode.switch[SKIP_FORCED]:
            fill_view(P, S, constants, tracker, scale, episode, shown)
            return DECIDE


drop_stale(step, kernel.__file__, features.__file__, schema.__file__, learned_kernel.__file__, view.__file__)
