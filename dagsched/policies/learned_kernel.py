"""Compiled learned policies: a linear priority, the residual network on it, and both ways to run them.

The order of reading: :func:`choose_linear`, the head (:func:`residuals`), :func:`choose_network`, the two loops.
Recording for training is the network loop with a sampler and a place to write.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dagsched.features import kernel as features
from dagsched.features.kernel import AFTER_DYNAMIC, FIRST_DYNAMIC, fill_dynamic, look
from dagsched.simulator import kernel
from dagsched.simulator.kernel import (
    DECIDE,
    EVENTS,
    FRESH,
    GROW,
    MAX_WAIT,
    NONE,
    NOT_LATE,
    READY,
    RELEASES,
    ZERO,
    _advance,
    _any_eligible,
    _has_room,
    _log_decision,
    _overdue,
    _place,
    _start,
    entry,
    inner,
)
from dagsched.simulator.stale import drop_stale
from dagsched.workflow import FloatArray


class Linear(NamedTuple):
    """A linear priority over all task features, prepared for one replay."""

    weights: FloatArray  # [F] of raw features
    fixed: FloatArray  # [T, 2] share of the fixed columns: to be divided by the scale, and as it is
    noise: FloatArray  # [T] added to the score of each task (sampling), or [0]
    row: FloatArray  # [F] scratch
    spread: FloatArray  # [2] least and largest score met so far


@entry
def project(K, L):
    """Fill ``L.fixed``: what the fixed columns add to each task's score."""
    for task in range(K.fixed.shape[0]):
        timed, plain = 0.0, 0.0
        for k in range(K.fixed.shape[1]):
            at = k if k < FIRST_DYNAMIC else k + AFTER_DYNAMIC - FIRST_DYNAMIC
            part = L.weights[at] * K.fixed[task, k]
            if K.is_time[k]:
                timed += part
            else:
                plain += part
        L.fixed[task, 0] = timed
        L.fixed[task, 1] = plain


@inner
def linear_score(P, S, K, X, L, task, node):
    """The priority of an eligible task that would start on ``node``."""
    fill_dynamic(P, S, K, X, task, node, L.row)
    score = L.fixed[task, 0] / X.signal[features.SCALE] + L.fixed[task, 1]
    one, two, three, four = 0.0, 0.0, 0.0, 0.0  # one sum would wait for itself at every step
    for k in range(FIRST_DYNAMIC, AFTER_DYNAMIC - 3, 4):
        one += L.weights[k] * L.row[k]
        two += L.weights[k + 1] * L.row[k + 1]
        three += L.weights[k + 2] * L.row[k + 2]
        four += L.weights[k + 3] * L.row[k + 3]
    for k in range(AFTER_DYNAMIC - (AFTER_DYNAMIC - FIRST_DYNAMIC) % 4, AFTER_DYNAMIC):
        one += L.weights[k] * L.row[k]
    score += (one + two) + (three + four)
    if len(L.noise) > 0:
        score += L.noise[task]
    return score


@inner
def choose_linear(P, S, K, X, L):
    """(task, node): the eligible task of largest priority, ties by Problem.tie; (-1, -1) if nothing is eligible."""
    S.counter[FRESH] = 0
    look(P, S, K, X)
    best, best_node, best_score = NONE, NONE, -np.inf
    for k in range(S.counter[READY]):
        task = S.ready[k]
        if S.class_blocked[P.task[task].klass] == S.counter[RELEASES]:
            continue
        node = _place(P, S, task)
        if node < 0:
            continue
        score = linear_score(P, S, K, X, L, task, node)
        L.spread[0] = min(L.spread[0], score)
        L.spread[1] = max(L.spread[1], score)
        if best < 0 or score > best_score or (score == best_score and P.task[task].tie < P.task[best].tie):
            best, best_node, best_score = task, node, score
    return best, best_node


@entry
def run_by_linear(P, S, truth, K, X, L, most):
    """Run to the end (or for ``most`` decisions) with a linear priority."""
    while most > 0:
        if not _has_room(P, S):
            return GROW
        task, node = NOT_LATE, NONE
        if P.setting[MAX_WAIT] < np.inf:
            task, node = _overdue(P, S)
        if task == -2:
            task, node = choose_linear(P, S, K, X, L)
        if task >= 0:
            _start(P, S, truth, task, node, ZERO)
            most -= 1
            continue
        if P.setting[MAX_WAIT] < np.inf and S.counter[EVENTS] > 0 and _any_eligible(P, S):
            _log_decision(S, NONE)
        status = _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


drop_stale([project, run_by_linear], kernel.__file__, features.__file__)
