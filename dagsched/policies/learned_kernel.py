"""Compiled learned policies: a linear priority, the residual network on it, and both ways to run them.

The order of reading: :func:`choose_linear`, the head (:func:`residuals`), :func:`choose_network`, the two loops.
Recording for training is the network loop with a sampler and a place to write.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dagsched.features import kernel as features
from dagsched.features import schema
from dagsched.features.kernel import (
    AFTER_DYNAMIC,
    FIRST_DYNAMIC,
    LEFT_WORK,
    STARTED,
    _catch_up,
    fill_dynamic,
    fill_global,
    fill_groups,
    fill_left,
    fill_task,
    look,
)
from dagsched.features.schema import CLIP, MOST_CANDIDATES
from dagsched.simulator import kernel
from dagsched.simulator.kernel import (
    BEGUN,
    DECIDE,
    FREE,
    FRESH,
    GROW,
    INDEX,
    MAX_WAIT,
    NONE,
    NOW,
    READY,
    RELEASES,
    ZERO,
    Problem,
    _advance,
    _any_eligible,
    _fits_somewhere,
    _has_room,
    _heed_guard,
    _log_decision,
    _may_wait,
    _place,
    _start,
    entry,
    inner,
    uniform,
)
from dagsched.simulator.simulator import MANY
from dagsched.simulator.stale import drop_stale
from dagsched.workflow import FloatArray, IntArray

Float32Array = NDArray[np.float32]


class Linear(NamedTuple):
    """A linear priority over all task features, prepared for one replay."""

    weights: FloatArray  # [F] of raw features
    fixed: FloatArray  # [T, 2] share of the fixed columns: to be divided by the scale, and as it is
    noise: FloatArray  # [T] added to the score of each task (sampling), or [0]
    row: FloatArray  # [F] scratch
    spread: FloatArray  # [2] least and largest score met so far
    reads_left: IntArray  # [1] 1 if a weight reads what `fill_left` writes


def new_linear(tasks: int, weights: FloatArray | None = None, *, noise: bool = False) -> Linear:
    """A priority for a replay of so many tasks, of these raw weights ``[F]`` or of zeros; ``project`` comes next."""
    return Linear(
        weights=np.zeros(features.TASK_COUNT) if weights is None else np.array(weights, np.float64),
        fixed=np.zeros((tasks, 2)),
        noise=np.zeros(tasks if noise else 0),
        row=np.zeros(features.TASK_COUNT),
        spread=np.array([np.inf, -np.inf]),
        reads_left=np.zeros(1, np.int64),
    )


@entry
def project(K, L):
    """Note what the weights read: fill ``L.fixed``, what the fixed columns add to each task's score, and the rest."""
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
    L.reads_left[0] = 0
    for k in range(LEFT_WORK, AFTER_DYNAMIC):
        if L.weights[k] != 0.0:
            L.reads_left[0] = 1


@inner
def linear_score(P, S, K, X, L, task, node):
    """The priority of an eligible task that would start on ``node``."""
    fill_dynamic(P, S, K, X, task, node, L.row)
    score = L.fixed[task, 0] / X.signal[features.SCALE] + L.fixed[task, 1]
    one, two, three, four = 0.0, 0.0, 0.0, 0.0  # one sum would wait for itself at every step
    for k in range(FIRST_DYNAMIC, LEFT_WORK - 3, 4):
        one += L.weights[k] * L.row[k]
        two += L.weights[k + 1] * L.row[k + 1]
        three += L.weights[k + 2] * L.row[k + 2]
        four += L.weights[k + 3] * L.row[k + 3]
    for k in range(LEFT_WORK - (LEFT_WORK - FIRST_DYNAMIC) % 4, LEFT_WORK):
        one += L.weights[k] * L.row[k]
    if L.reads_left[0]:
        fill_left(P, X, task, L.row)
        for k in range(LEFT_WORK, AFTER_DYNAMIC):
            two += L.weights[k] * L.row[k]
    score += (one + two) + (three + four)
    if len(L.noise) > 0:
        score += L.noise[task]
    return score


@inner
def _first_eligible(P, S):
    """(one eligible task or -1, whether there are others)."""
    first = NONE
    for k in range(S.counter[READY]):
        if _fits_somewhere(P, S, S.ready[k]):
            if first >= 0:
                return first, True
            first = S.ready[k] & INDEX
    return first, False


@inner
def choose_linear(P, S, K, X, L):
    """(task, node): the eligible task of largest priority, ties by Problem.tie; (-1, -1) if nothing is eligible."""
    S.counter[FRESH] = 0
    first, others = _first_eligible(P, S)
    if first < 0:
        return NONE, NONE
    if not others:  # no choice: what has happened is noted, but nobody looks at the state
        _catch_up(P, S, K, X)
        X.signal[features.ELIGIBLE] = 1
        node = _place(P, S, first)
        return (first if node >= 0 else NONE), node
    look(P, S, K, X)
    best, best_node, best_score = NONE, NONE, -np.inf
    for k in range(S.counter[READY]):
        task = S.ready[k] & INDEX
        if S.class_blocked[P.task[task].klass & INDEX] == S.counter[RELEASES]:
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
def pick_linear(P, S, K, X, L):
    """The task that a linear priority would start now, -1 if nothing is eligible."""
    return choose_linear(P, S, K, X, L)[0]


@entry
def run_by_linear(P, S, truth, K, X, L, most):
    """Run to the end (or for ``most`` decisions) with a linear priority."""
    while most > 0:
        if not _has_room(P, S):
            return GROW
        if P.setting[MAX_WAIT] < np.inf:
            status = _heed_guard(P, S, truth)
            if status == BEGUN:
                most -= 1
                continue
            if status == DECIDE:
                continue
            if status != FREE:
                return status
        task, node = choose_linear(P, S, K, X, L)
        if task >= 0:
            _start(P, S, truth, task, node, ZERO)
            most -= 1
            continue
        status = _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


_MANY: Any = np.int64(MANY)


@entry
def run_each_linear(P, S, truth, K, X, L, weights, finish, first):
    """A whole run with each of the priorities ``weights`` ``[P, F]`` from ``first`` on; finish times to ``[P, T]``.

    Returns how many are done: fewer than all when a run needs more room in ``S``, and that run is to be repeated.
    """
    for k in range(first, len(weights)):
        kernel.reset(P, S)
        features.reset_tracker(X)
        for f in range(len(L.weights)):
            L.weights[f] = weights[k, f]
        project(K, L)
        if run_by_linear(P, S, truth, K, X, L, _MANY) == GROW:
            return k
        for task in range(len(P.task)):
            finish[k, task] = S.task[task].finish
    return len(weights)


# --------------------------------------------------------------------------- the residual network


class Head(NamedTuple):
    """Weights of the decision head (``dagsched.nn.actor_critic`` has the formulas); matrices ``[in, out]``."""

    columns: IntArray  # [F'] task features it reads
    x_mean: Float32Array  # [F']
    x_scale: Float32Array  # [F'] 1 / standard deviation
    g_mean: Float32Array  # [G]
    g_scale: Float32Array  # [G]
    q_mean: Float32Array  # [Q]
    q_scale: Float32Array  # [Q]
    wq: Float32Array  # [Q, C]
    bq: Float32Array  # [C]
    w1x: Float32Array  # [F', H]
    w1g: Float32Array  # [G, H]
    w1c: Float32Array  # [C, H]
    b1: Float32Array  # [H]
    w2: Float32Array  # [H, H2]
    b2: Float32Array  # [H2]
    w3: Float32Array  # [H2]
    ww1: Float32Array  # [G + C, H2]
    bw1: Float32Array  # [H2]
    ww2: Float32Array  # [H2]
    setting: FloatArray  # [4] SHARPNESS, MAY_WAIT, MARGIN, TEMPERATURE


SHARPNESS, MAY_WAIT, MARGIN, TEMPERATURE = range(4)
_CLIP: Any = np.float32(CLIP)
# Slots of Scratch.counter.
COUNT, CUT, SUMMED, RECORDING, SAMPLING, ROWS, RECORDED, WAITS = range(8)
_PICKS = 5


class Scratch(NamedTuple):
    """Work space of one replay: ``M`` candidates at most, ``T`` tasks; and the embeddings of its tasks."""

    fixed: Float32Array  # [T, H] embedding's part of the first layer, [0, H] without an encoder
    pooled: Float32Array  # [T, H] its part by way of the workflow's summary
    summary: FloatArray  # [W, H] sums of `pooled` over tasks that have not fully started
    whole: FloatArray  # [W, H] the same at the start
    eligible: IntArray  # [T]
    node: IntArray  # [T] where each eligible task would go
    score: FloatArray  # [T] base priority of each eligible task
    candidate: IntArray  # [M] places in `eligible`
    row: FloatArray  # [F]
    x: Float32Array  # [M, F']
    z: FloatArray  # [M]
    logit: FloatArray  # [M + 1], WAIT last
    general: FloatArray  # [G] raw
    g: Float32Array  # [G]
    groups: FloatArray  # [groups, Q] raw
    q: Float32Array  # [groups, Q]
    c: Float32Array  # [C]
    shared: Float32Array  # [H]
    h1: Float32Array  # [H]
    h2: Float32Array  # [H2]
    noise: FloatArray  # [T] added to the logit of each task (sampling whole schedules), or [0]
    counter: IntArray  # [8]
    random: NDArray[np.uint64]  # [1]


class Record(NamedTuple):
    """Decisions with a choice, as training reads them: ``D`` decisions at most, ``N`` rows of candidates."""

    row_ptr: IntArray  # [D + 1]
    task: IntArray  # [N]
    started: IntArray  # [N] fully started tasks of the row's workflow
    x: Float32Array  # [N, F']
    z: FloatArray  # [N]
    g: Float32Array  # [D, G]
    q: Float32Array  # [D, groups, Q]
    action: IntArray  # [D] place among the rows; their number = WAIT
    time: FloatArray  # [D] s
    can_wait: IntArray  # [D]


@entry
def reset_scratch(W):
    """Before a run."""
    for w in range(W.whole.shape[0]):
        for h in range(W.whole.shape[1]):
            W.summary[w, h] = W.whole[w, h]
    for k in (COUNT, CUT, SUMMED, ROWS, RECORDED, WAITS):
        W.counter[k] = 0


@inner
def _gather(P, S, K, X, L, W):
    """Place and score every eligible task; keep the best and each main rule's pick as candidates."""
    count = 0
    for k in range(S.counter[READY]):
        task = S.ready[k] & INDEX
        if S.class_blocked[P.task[task].klass & INDEX] == S.counter[RELEASES]:
            continue
        node = _place(P, S, task)
        if node < 0:
            continue
        W.eligible[count] = task
        W.node[count] = node
        W.score[count] = linear_score(P, S, K, X, L, task, node)
        count += 1
    most = len(W.candidate)
    W.counter[CUT] += count > most
    if count <= most:
        for k in range(count):
            W.candidate[k] = k
        W.counter[COUNT] = count
        return count
    kept = 0
    for k in range(count):  # insertion into a list ordered by base priority
        if kept == most - _PICKS and not _before(P, W, k, W.candidate[kept - 1]):
            continue
        at = min(kept, most - _PICKS - 1)
        while at > 0 and _before(P, W, k, W.candidate[at - 1]):
            W.candidate[at] = W.candidate[at - 1]
            at -= 1
        W.candidate[at] = k
        kept = min(kept + 1, most - _PICKS)
    for pick in range(_PICKS):
        best, best_key = ZERO, np.inf
        for k in range(count):
            key = _rule_key(P, S, K, W.eligible[k], pick)
            if key < best_key or (key == best_key and P.task[W.eligible[k]].tie < P.task[W.eligible[best]].tie):
                best, best_key = k, key
        known = False
        for k in range(kept):
            known = known or W.candidate[k] == best
        if not known:
            W.candidate[kept] = best
            kept += 1
    W.counter[COUNT] = kept
    return kept


@inner
def _rule_key(P, S, K, task, rule):
    """What each main rule minimises: ready time, minus bottom level, workflow's work left, estimate, deadline."""
    w = P.task[task].workflow
    if rule == 0:
        return S.task[task].ready_time
    if rule == 1:
        return -P.task[task].bottom
    if rule == 2:
        return S.workflow[w].left
    if rule == 3:
        return P.task[task].fastest
    return K.deadline[w]


@inner
def _before(P, W, a, b):
    """Whether eligible entry a has the larger base priority."""
    if W.score[a] != W.score[b]:
        return W.score[a] > W.score[b]
    return P.task[W.eligible[a]].tie < P.task[W.eligible[b]].tie


@inner
def _normalise(value, mean, scale):
    x = (np.float32(value) - mean) * scale
    return min(max(x, -_CLIP), _CLIP)


@inner
def _standardise(W, count):
    """Standardise the candidates' base scores; 0 where all are equal."""
    mean, square = 0.0, 0.0
    for k in range(count):
        mean += W.score[W.candidate[k]] / count
    for k in range(count):
        square += (W.score[W.candidate[k]] - mean) ** 2 / count
    per = 1.0 / np.sqrt(square) if square > 1e-24 else 0.0
    for k in range(count):
        W.z[k] = (W.score[W.candidate[k]] - mean) * per


@inner
def _share_layer(P, S, K, X, N, W):
    """What all candidates add to the first layer: state and node groups."""
    fill_global(P, S, X, W.general)
    fill_groups(P, S, K, W.groups)
    for k in range(len(W.g)):
        W.g[k] = _normalise(W.general[k], N.g_mean[k], N.g_scale[k])
    groups = W.q.shape[0]
    for c in range(len(W.c)):
        W.c[c] = np.float32(0.0)
    for group in range(groups):
        for k in range(W.q.shape[1]):
            W.q[group, k] = _normalise(W.groups[group, k], N.q_mean[k], N.q_scale[k])
        for c in range(len(W.c)):
            total = N.bq[c]
            for k in range(W.q.shape[1]):
                total += W.q[group, k] * N.wq[k, c]
            W.c[c] += max(total, np.float32(0.0)) / np.float32(groups)
    for h in range(len(W.shared)):
        W.shared[h] = N.b1[h]
    for k in range(len(W.g)):
        for h in range(len(W.shared)):
            W.shared[h] += W.g[k] * N.w1g[k, h]
    for c in range(len(W.c)):
        for h in range(len(W.shared)):
            W.shared[h] += W.c[c] * N.w1c[c, h]


@inner
def _subtract_started(P, X, W):
    """Take tasks that have fully started out of their workflows' summaries."""
    while W.counter[SUMMED] < X.counter[STARTED]:
        task = X.order[W.counter[SUMMED]]
        W.counter[SUMMED] += 1
        w = P.task[task].workflow
        for h in range(W.summary.shape[1]):
            W.summary[w, h] -= W.pooled[task, h]


@inner
def _residual(P, N, W, k, task):
    """The network's part of candidate k's logit; its features are in ``W.x[k]``."""
    for h in range(len(W.h1)):
        W.h1[h] = W.shared[h]
    if len(W.fixed) > 0:
        w = P.task[task].workflow
        per = 1.0 / (P.workflow_ptr[w + 1] - P.workflow_ptr[w])
        for h in range(len(W.h1)):
            W.h1[h] += W.fixed[task, h] + np.float32(W.summary[w, h] * per)
    for f in range(len(N.columns)):
        value = W.x[k, f]
        for h in range(len(W.h1)):
            W.h1[h] += value * N.w1x[f, h]
    for j in range(len(W.h2)):
        W.h2[j] = N.b2[j]
    for h in range(len(W.h1)):
        value = W.h1[h]
        if value > 0:
            for j in range(len(W.h2)):
                W.h2[j] += value * N.w2[h, j]
    total = 0.0
    for j in range(len(W.h2)):
        total += max(W.h2[j], np.float32(0.0)) * N.w3[j]
    return total


@inner
def _wait_logit(N, W, count):
    """WAIT: a margin below the best base logit, plus the network's part."""
    best = -np.inf
    for k in range(count):
        best = max(best, N.setting[SHARPNESS] * W.z[k])
    total = 0.0
    for j in range(len(N.ww2)):
        value = N.bw1[j]
        for k in range(len(W.g)):
            value += W.g[k] * N.ww1[k, j]
        for c in range(len(W.c)):
            value += W.c[c] * N.ww1[len(W.g) + c, j]
        total += max(value, np.float32(0.0)) * N.ww2[j]
    return best - N.setting[MARGIN] + total


@inner
def _fill_candidate(P, S, K, X, N, W, k):
    at = W.candidate[k]
    task = W.eligible[at]
    fill_task(P, S, K, X, task, W.node[at], W.row)
    for f in range(len(N.columns)):
        W.x[k, f] = _normalise(W.row[N.columns[f]], N.x_mean[f], N.x_scale[f])


@inner
def logits(P, S, K, X, L, N, W):
    """Fill ``W.logit`` for the candidates (and WAIT behind them); returns how many candidates there are."""
    if not _any_eligible(P, S):
        return ZERO
    look(P, S, K, X)
    count = _gather(P, S, K, X, L, W)
    if count == 0:
        return count
    _standardise(W, count)
    if len(W.fixed) > 0:
        _subtract_started(P, X, W)
    _share_layer(P, S, K, X, N, W)
    for k in range(count):
        _fill_candidate(P, S, K, X, N, W, k)
        task = W.eligible[W.candidate[k]]
        W.logit[k] = N.setting[SHARPNESS] * W.z[k] + _residual(P, N, W, k, task)
        if len(W.noise) > 0:
            W.logit[k] += W.noise[task]
    W.logit[count] = -np.inf
    if N.setting[MAY_WAIT] > 0 and _may_wait(P, S):
        W.logit[count] = _wait_logit(N, W, count)
    return count


@inner
def _pick(P, N, W, count):
    """Place of the chosen candidate, ``count`` = WAIT: the largest logit, or a draw by the Gumbel-max trick."""
    best, best_value = NONE, -np.inf
    for k in range(count + 1):
        value = W.logit[k]
        if value == -np.inf:
            continue
        if W.counter[SAMPLING]:
            value = value / N.setting[TEMPERATURE] - np.log(-np.log(uniform(W.random)))
        if best >= 0 and value == best_value and k < count and best < count:
            if _before(P, W, W.candidate[k], W.candidate[best]):
                best = k
        elif best < 0 or value > best_value:
            best, best_value = k, value
    return best


@inner
def _write(P, S, X, W, R, count, action):
    """Append a decision to the record; False if it is full."""
    at, row = W.counter[RECORDED], W.counter[ROWS]
    if at + 1 >= len(R.row_ptr) or row + count > len(R.task):
        return False
    for k in range(count):
        task = W.eligible[W.candidate[k]]
        R.task[row + k] = task
        R.started[row + k] = X.started[P.task[task].workflow]
        R.z[row + k] = W.z[k]
        for f in range(R.x.shape[1]):
            R.x[row + k, f] = W.x[k, f]
    for k in range(len(W.g)):
        R.g[at, k] = W.g[k]
    for group in range(W.q.shape[0]):
        for k in range(W.q.shape[1]):
            R.q[at, group, k] = W.q[group, k]
    R.action[at] = action
    R.time[at] = S.clock[NOW]
    R.can_wait[at] = _may_wait(P, S)
    R.row_ptr[at + 1] = row + count
    W.counter[RECORDED] = at + 1
    W.counter[ROWS] = row + count
    return True


@inner
def choose_network(P, S, K, X, L, N, W, R):
    """(task, node): the policy's choice; (-1, -1): nothing is eligible; (-3, -1): WAIT; (-4, -1): record full."""
    S.counter[FRESH] = 0
    cut = W.counter[CUT]
    count = logits(P, S, K, X, L, N, W)
    if count == 0:
        return NONE, NONE
    legal = count + (W.logit[count] > -np.inf)
    before = W.random[0]
    action = _pick(P, N, W, count)
    if W.counter[RECORDING] and legal > 1 and not _write(P, S, X, W, R, count, action):
        W.random[0] = before  # the decision is taken again with a larger record
        W.counter[CUT] = cut
        return NONE - 3, NONE
    if action == count:
        return NONE - 2, NONE
    at = W.candidate[action]
    return W.eligible[at], W.node[at]


FULL = 5
"""Returned when the record cannot take the next decision."""


@entry
def run_by_network(P, S, truth, K, X, L, N, W, R, most):
    """Run to the end (or for ``most`` decisions) with the network, greedily or by sampling, recording or not."""
    while most > 0:
        if not _has_room(P, S):
            return GROW
        if P.setting[MAX_WAIT] < np.inf:
            status = _heed_guard(P, S, truth)
            if status == BEGUN:
                most -= 1
                continue
            if status == DECIDE:
                continue
            if status != FREE:
                return status
        task, node = choose_network(P, S, K, X, L, N, W, R)
        if task == -4:
            return FULL
        if task >= 0:
            _start(P, S, truth, task, node, ZERO)
            most -= 1
            continue
        if task == -3:
            _log_decision(S, NONE)
        status = _advance(P, S)
        if status != DECIDE:
            return status
    return DECIDE


@entry
def evaluate_logits(P, S, K, X, L, N, W):
    """The logits of the present decision, in ``W``; returns the number of candidates."""
    return logits(P, S, K, X, L, N, W)


def new_scratch(
    problem: Problem,
    head: Head,
    embedding: tuple[Float32Array, Float32Array] | None = None,
    *,
    candidates: int = MOST_CANDIDATES,
    noise: int = 0,
) -> Scratch:
    """Work space for one replay; ``embedding`` is what the encoder adds, ``[T, H]`` each."""
    tasks, hidden, groups = len(problem.task), len(head.b1), len(problem.group_ptr) - 1
    fixed, pooled = embedding or (np.zeros((0, hidden), np.float32), np.zeros((0, hidden), np.float32))
    first = problem.workflow_ptr[:-1]
    whole = np.add.reduceat(pooled.astype(np.float64), first, axis=0) if len(pooled) else np.zeros((0, hidden))
    return Scratch(
        fixed=np.ascontiguousarray(fixed, np.float32),
        pooled=np.ascontiguousarray(pooled, np.float32),
        summary=whole.copy(),
        whole=whole,
        eligible=np.zeros(tasks, np.int64),
        node=np.zeros(tasks, np.int64),
        score=np.zeros(tasks),
        candidate=np.zeros(candidates, np.int64),
        row=np.zeros(features.TASK_COUNT),
        x=np.zeros((candidates, len(head.columns)), np.float32),
        z=np.zeros(candidates),
        logit=np.zeros(candidates + 1),
        general=np.zeros(len(head.g_mean)),
        g=np.zeros(len(head.g_mean), np.float32),
        groups=np.zeros((groups, len(head.q_mean))),
        q=np.zeros((groups, len(head.q_mean)), np.float32),
        c=np.zeros(len(head.bq), np.float32),
        shared=np.zeros(hidden, np.float32),
        h1=np.zeros(hidden, np.float32),
        h2=np.zeros(len(head.b2), np.float32),
        noise=np.zeros(noise),
        counter=np.zeros(8, np.int64),
        random=np.zeros(1, np.uint64),
    )


def new_record(head: Head, groups: int, decisions: int, rows: int) -> Record:
    """Room for so many decisions and rows of candidates."""
    return Record(
        row_ptr=np.zeros(decisions + 1, np.int64),
        task=np.zeros(rows, np.int64),
        started=np.zeros(rows, np.int64),
        x=np.zeros((rows, len(head.columns)), np.float32),
        z=np.zeros(rows),
        g=np.zeros((decisions, len(head.g_mean)), np.float32),
        q=np.zeros((decisions, groups, len(head.q_mean)), np.float32),
        action=np.zeros(decisions, np.int64),
        time=np.zeros(decisions),
        can_wait=np.zeros(decisions, np.int64),
    )


drop_stale(run_by_network, kernel.__file__, features.__file__, schema.__file__)
