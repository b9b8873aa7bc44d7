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
from dagsched.features.builder import Constants
from dagsched.features.kernel import (
    AFTER_DYNAMIC,
    FIRST_DYNAMIC,
    LEFT_WORK,
    STARTED,
    fill_dynamic,
    fill_global,
    fill_groups,
    fill_left,
    fill_task,
    look,
    read_news,
)
from dagsched.features.schema import CLIP, MOST_CANDIDATES
from dagsched.simulator import kernel
from dagsched.simulator.compilation import entry, inner
from dagsched.simulator.kernel import (
    BEGUN,
    DECIDE,
    FREE,
    FRESH,
    FULL,
    GROW,
    HOLD,
    INDEX,
    MAX_WAIT,
    NONE,
    NOTHING,
    NOW,
    READY,
    RELEASES,
    START,
    ZERO,
    Problem,
    advance_clock,
    append_decision,
    can_start,
    choose_node,
    has_eligible,
    heed_guard,
    logs_have_room,
    start_task,
    uniform,
    wait_is_legal,
)
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.simulator.stepper import MANY
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


def new_linear(constants: Constants, weights: FloatArray | None = None, *, noise: bool = False) -> Linear:
    """A priority for a replay, of these raw weights ``[F]`` or of zeros."""
    tasks = len(constants.fixed)
    linear = Linear(
        weights=np.zeros(features.TASK_COUNT) if weights is None else np.array(weights, np.float64),
        fixed=np.zeros((tasks, 2)),
        noise=np.zeros(tasks if noise else 0),
        row=np.zeros(features.TASK_COUNT),
        spread=np.array([np.inf, -np.inf]),
        reads_left=np.zeros(1, np.int64),
    )
    if weights is not None:
        project(constants, linear)
    return linear


@entry
def project(constants, linear):
    """Note what the weights read: fill ``linear.fixed``, what the fixed columns add to each task's score, and more."""
    for task in range(constants.fixed.shape[0]):
        timed, plain = 0.0, 0.0
        for k in range(constants.fixed.shape[1]):
            at = k if k < FIRST_DYNAMIC else k + AFTER_DYNAMIC - FIRST_DYNAMIC
            part = linear.weights[at] * constants.fixed[task, k]
            if constants.is_time[k]:
                timed += part
            else:
                plain += part
        linear.fixed[task, 0] = timed
        linear.fixed[task, 1] = plain
    linear.reads_left[0] = 0
    for k in range(LEFT_WORK, AFTER_DYNAMIC):
        if linear.weights[k] != 0.0:
            linear.reads_left[0] = 1


@inner
def linear_score(P, S, constants, tracker, linear, task, node):
    """The priority of an eligible task that would start on ``node``."""
    fill_dynamic(P, S, constants, tracker, task, node, linear.row)
    score = linear.fixed[task, 0] / tracker.signal[features.SCALE] + linear.fixed[task, 1]
    one, two, three, four = 0.0, 0.0, 0.0, 0.0  # one sum would wait for itself at every step
    for k in range(FIRST_DYNAMIC, LEFT_WORK - 3, 4):
        one += linear.weights[k] * linear.row[k]
        two += linear.weights[k + 1] * linear.row[k + 1]
        three += linear.weights[k + 2] * linear.row[k + 2]
        four += linear.weights[k + 3] * linear.row[k + 3]
    for k in range(LEFT_WORK - (LEFT_WORK - FIRST_DYNAMIC) % 4, LEFT_WORK):
        one += linear.weights[k] * linear.row[k]
    if linear.reads_left[0]:
        fill_left(P, tracker, task, linear.row)
        for k in range(LEFT_WORK, AFTER_DYNAMIC):
            two += linear.weights[k] * linear.row[k]
    score += (one + two) + (three + four)
    if len(linear.noise) > 0:
        score += linear.noise[task]
    return score


@inner
def _first_eligible(P, S):
    """(one eligible task or -1, whether there are others)."""
    first = NONE
    for k in range(S.counter[READY]):
        if can_start(P, S, S.ready[k]):
            if first >= 0:
                return first, True
            first = S.ready[k] & INDEX
    return first, False


@inner
def choose_linear(P, S, constants, tracker, linear):
    """A decision: the eligible task of largest priority, ties by Problem.tie, or NOTHING."""
    S.counter[FRESH] = 0
    first, others = _first_eligible(P, S)
    if first < 0:
        return NOTHING, NONE, NONE, ZERO
    if not others:  # no choice: what has happened is noted, but nobody looks at the state
        read_news(P, S, constants, tracker)
        tracker.signal[features.ELIGIBLE] = 1
        node = choose_node(P, S, first)
        return (START if node >= 0 else NOTHING), first, node, ZERO
    look(P, S, constants, tracker)
    best, best_node, best_score = NONE, NONE, -np.inf
    for k in range(S.counter[READY]):
        task = S.ready[k] & INDEX
        if S.class_blocked[P.task[task].klass & INDEX] == S.counter[RELEASES]:
            continue
        node = choose_node(P, S, task)
        if node < 0:
            continue
        score = linear_score(P, S, constants, tracker, linear, task, node)
        linear.spread[0] = min(linear.spread[0], score)
        linear.spread[1] = max(linear.spread[1], score)
        if best < 0 or score > best_score or (score == best_score and P.task[task].tie < P.task[best].tie):
            best, best_node, best_score = task, node, score
    return (START if best >= 0 else NOTHING), best, best_node, ZERO


@entry
def pick_linear(P, S, constants, tracker, linear):
    """The task that a linear priority would start now, -1 if nothing is eligible."""
    status, task, _, _ = choose_linear(P, S, constants, tracker, linear)
    return task if status == START else NONE


@entry
def run_by_linear(P, S, truth, constants, tracker, linear, most):
    """Run to the end (or for ``most`` decisions) with a linear priority."""
    while most > 0:
        if not logs_have_room(P, S):
            return GROW
        if P.setting[MAX_WAIT] < np.inf:
            status = heed_guard(P, S, truth)
            if status == BEGUN:
                most -= 1
                continue
            if status == DECIDE:
                continue
            if status != FREE:
                return status
        status, task, node, count = choose_linear(P, S, constants, tracker, linear)
        if status == START:
            start_task(P, S, truth, task, node, count)
            most -= 1
            continue
        status = advance_clock(P, S)
        if status != DECIDE:
            return status
    return DECIDE


_MANY: Any = np.int64(MANY)


@entry
def run_each_linear(P, S, truth, constants, tracker, linear, weights, finish, first):
    """A whole run with each of the priorities ``weights`` ``[P, F]`` from ``first`` on; finish times to ``[P, T]``.

    Returns how many are done: fewer than all when a run needs more room in ``S``, and that run is to be repeated.
    """
    for k in range(first, len(weights)):
        kernel.reset(P, S)
        features.reset_tracker(tracker)
        for f in range(len(linear.weights)):
            linear.weights[f] = weights[k, f]
        project(constants, linear)
        if run_by_linear(P, S, truth, constants, tracker, linear, _MANY) == GROW:
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
def reset_scratch(scratch):
    """Before a run."""
    for w in range(scratch.whole.shape[0]):
        for h in range(scratch.whole.shape[1]):
            scratch.summary[w, h] = scratch.whole[w, h]
    for k in (COUNT, CUT, SUMMED, ROWS, RECORDED, WAITS):
        scratch.counter[k] = 0


@inner
def gather_candidates(P, S, constants, tracker, linear, scratch):
    """Place and score every eligible task; keep the best and each main rule's pick as candidates."""
    count = 0
    for k in range(S.counter[READY]):
        task = S.ready[k] & INDEX
        if S.class_blocked[P.task[task].klass & INDEX] == S.counter[RELEASES]:
            continue
        node = choose_node(P, S, task)
        if node < 0:
            continue
        scratch.eligible[count] = task
        scratch.node[count] = node
        scratch.score[count] = linear_score(P, S, constants, tracker, linear, task, node)
        count += 1
    most = len(scratch.candidate)
    scratch.counter[CUT] += count > most
    if count <= most:
        for k in range(count):
            scratch.candidate[k] = k
        scratch.counter[COUNT] = count
        return count
    kept = 0
    for k in range(count):  # insertion into a list ordered by base priority
        if kept == most - _PICKS and not is_before(P, scratch, k, scratch.candidate[kept - 1]):
            continue
        at = min(kept, most - _PICKS - 1)
        while at > 0 and is_before(P, scratch, k, scratch.candidate[at - 1]):
            scratch.candidate[at] = scratch.candidate[at - 1]
            at -= 1
        scratch.candidate[at] = k
        kept = min(kept + 1, most - _PICKS)
    for pick in range(_PICKS):
        best, best_key = ZERO, np.inf
        for k in range(count):
            key = _rule_key(P, S, constants, scratch.eligible[k], pick)
            if key < best_key or (
                key == best_key and P.task[scratch.eligible[k]].tie < P.task[scratch.eligible[best]].tie
            ):
                best, best_key = k, key
        known = False
        for k in range(kept):
            known = known or scratch.candidate[k] == best
        if not known:
            scratch.candidate[kept] = best
            kept += 1
    scratch.counter[COUNT] = kept
    return kept


@inner
def _rule_key(P, S, constants, task, rule):
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
    return constants.deadline[w]


@inner
def is_before(P, scratch, a, b):
    """Whether eligible entry a has the larger base priority."""
    if scratch.score[a] != scratch.score[b]:
        return scratch.score[a] > scratch.score[b]
    return P.task[scratch.eligible[a]].tie < P.task[scratch.eligible[b]].tie


@inner
def _normalise(value, mean, scale):
    x = (np.float32(value) - mean) * scale
    return min(max(x, -_CLIP), _CLIP)


@inner
def _standardise(scratch, count):
    """Standardise the candidates' base scores; 0 where all are equal."""
    mean, square = 0.0, 0.0
    for k in range(count):
        mean += scratch.score[scratch.candidate[k]] / count
    for k in range(count):
        square += (scratch.score[scratch.candidate[k]] - mean) ** 2 / count
    per = 1.0 / np.sqrt(square) if square > 1e-24 else 0.0
    for k in range(count):
        scratch.z[k] = (scratch.score[scratch.candidate[k]] - mean) * per


@inner
def _share_layer(P, S, constants, tracker, head, scratch):
    """What all candidates add to the first layer: state and node groups."""
    fill_global(P, S, tracker, scratch.general)
    fill_groups(P, S, constants, scratch.groups)
    for k in range(len(scratch.g)):
        scratch.g[k] = _normalise(scratch.general[k], head.g_mean[k], head.g_scale[k])
    groups = scratch.q.shape[0]
    for c in range(len(scratch.c)):
        scratch.c[c] = np.float32(0.0)
    for group in range(groups):
        for k in range(scratch.q.shape[1]):
            scratch.q[group, k] = _normalise(scratch.groups[group, k], head.q_mean[k], head.q_scale[k])
        for c in range(len(scratch.c)):
            total = head.bq[c]
            for k in range(scratch.q.shape[1]):
                total += scratch.q[group, k] * head.wq[k, c]
            scratch.c[c] += max(total, np.float32(0.0)) / np.float32(groups)
    for h in range(len(scratch.shared)):
        scratch.shared[h] = head.b1[h]
    for k in range(len(scratch.g)):
        for h in range(len(scratch.shared)):
            scratch.shared[h] += scratch.g[k] * head.w1g[k, h]
    for c in range(len(scratch.c)):
        for h in range(len(scratch.shared)):
            scratch.shared[h] += scratch.c[c] * head.w1c[c, h]


@inner
def _subtract_started(P, tracker, scratch):
    """Take tasks that have fully started out of their workflows' summaries."""
    while scratch.counter[SUMMED] < tracker.counter[STARTED]:
        task = tracker.order[scratch.counter[SUMMED]]
        scratch.counter[SUMMED] += 1
        w = P.task[task].workflow
        for h in range(scratch.summary.shape[1]):
            scratch.summary[w, h] -= scratch.pooled[task, h]


@inner
def _residual(P, head, scratch, k, task):
    """The network's part of candidate k's logit; its features are in ``scratch.x[k]``."""
    for h in range(len(scratch.h1)):
        scratch.h1[h] = scratch.shared[h]
    if len(scratch.fixed) > 0:
        w = P.task[task].workflow
        per = 1.0 / (P.workflow_ptr[w + 1] - P.workflow_ptr[w])
        for h in range(len(scratch.h1)):
            scratch.h1[h] += scratch.fixed[task, h] + np.float32(scratch.summary[w, h] * per)
    for f in range(len(head.columns)):
        value = scratch.x[k, f]
        for h in range(len(scratch.h1)):
            scratch.h1[h] += value * head.w1x[f, h]
    for j in range(len(scratch.h2)):
        scratch.h2[j] = head.b2[j]
    for h in range(len(scratch.h1)):
        value = scratch.h1[h]
        if value > 0:
            for j in range(len(scratch.h2)):
                scratch.h2[j] += value * head.w2[h, j]
    total = 0.0
    for j in range(len(scratch.h2)):
        total += max(scratch.h2[j], np.float32(0.0)) * head.w3[j]
    return total


@inner
def _wait_logit(head, scratch, count):
    """WAIT: a margin below the best base logit, plus the network's part."""
    best = -np.inf
    for k in range(count):
        best = max(best, head.setting[SHARPNESS] * scratch.z[k])
    total = 0.0
    for j in range(len(head.ww2)):
        value = head.bw1[j]
        for k in range(len(scratch.g)):
            value += scratch.g[k] * head.ww1[k, j]
        for c in range(len(scratch.c)):
            value += scratch.c[c] * head.ww1[len(scratch.g) + c, j]
        total += max(value, np.float32(0.0)) * head.ww2[j]
    return best - head.setting[MARGIN] + total


@inner
def _fill_candidate(P, S, constants, tracker, head, scratch, k):
    at = scratch.candidate[k]
    task = scratch.eligible[at]
    fill_task(P, S, constants, tracker, task, scratch.node[at], scratch.row)
    for f in range(len(head.columns)):
        scratch.x[k, f] = _normalise(scratch.row[head.columns[f]], head.x_mean[f], head.x_scale[f])


@inner
def logits(P, S, constants, tracker, linear, head, scratch):
    """Fill ``scratch.logit`` for the candidates (and WAIT behind them); returns how many candidates there are."""
    if not has_eligible(P, S):
        return ZERO
    look(P, S, constants, tracker)
    count = gather_candidates(P, S, constants, tracker, linear, scratch)
    if count == 0:
        return count
    _standardise(scratch, count)
    if len(scratch.fixed) > 0:
        _subtract_started(P, tracker, scratch)
    _share_layer(P, S, constants, tracker, head, scratch)
    for k in range(count):
        _fill_candidate(P, S, constants, tracker, head, scratch, k)
        task = scratch.eligible[scratch.candidate[k]]
        scratch.logit[k] = head.setting[SHARPNESS] * scratch.z[k] + _residual(P, head, scratch, k, task)
        if len(scratch.noise) > 0:
            scratch.logit[k] += scratch.noise[task]
    scratch.logit[count] = -np.inf
    if head.setting[MAY_WAIT] > 0 and wait_is_legal(P, S):
        scratch.logit[count] = _wait_logit(head, scratch, count)
    return count


@inner
def _pick(P, head, scratch, count):
    """Place of the chosen candidate, ``count`` = WAIT: the largest logit, or a draw by the Gumbel-max trick."""
    best, best_value = NONE, -np.inf
    for k in range(count + 1):
        value = scratch.logit[k]
        if value == -np.inf:
            continue
        if scratch.counter[SAMPLING]:
            value = value / head.setting[TEMPERATURE] - np.log(-np.log(uniform(scratch.random)))
        if best >= 0 and value == best_value and k < count and best < count:
            if is_before(P, scratch, scratch.candidate[k], scratch.candidate[best]):
                best = k
        elif best < 0 or value > best_value:
            best, best_value = k, value
    return best


@inner
def _write(P, S, tracker, scratch, record, count, action):
    """Append a decision to the record; False if it is full."""
    at, row = scratch.counter[RECORDED], scratch.counter[ROWS]
    if at + 1 >= len(record.row_ptr) or row + count > len(record.task):
        return False
    for k in range(count):
        task = scratch.eligible[scratch.candidate[k]]
        record.task[row + k] = task
        record.started[row + k] = tracker.started[P.task[task].workflow]
        record.z[row + k] = scratch.z[k]
        for f in range(record.x.shape[1]):
            record.x[row + k, f] = scratch.x[k, f]
    for k in range(len(scratch.g)):
        record.g[at, k] = scratch.g[k]
    for group in range(scratch.q.shape[0]):
        for k in range(scratch.q.shape[1]):
            record.q[at, group, k] = scratch.q[group, k]
    record.action[at] = action
    record.time[at] = S.clock[NOW]
    record.can_wait[at] = wait_is_legal(P, S)
    record.row_ptr[at + 1] = row + count
    scratch.counter[RECORDED] = at + 1
    scratch.counter[ROWS] = row + count
    return True


@inner
def choose_network(P, S, constants, tracker, linear, head, scratch, record):
    """A decision: the policy's choice, HOLD, NOTHING, or FULL where the record cannot take the next one."""
    S.counter[FRESH] = 0
    cut = scratch.counter[CUT]
    count = logits(P, S, constants, tracker, linear, head, scratch)
    if count == 0:
        return NOTHING, NONE, NONE, ZERO
    legal = count + (scratch.logit[count] > -np.inf)
    before = scratch.random[0]
    action = _pick(P, head, scratch, count)
    if scratch.counter[RECORDING] and legal > 1 and not _write(P, S, tracker, scratch, record, count, action):
        scratch.random[0] = before  # the decision is taken again with a larger record
        scratch.counter[CUT] = cut
        return FULL, NONE, NONE, ZERO
    if action == count:
        return HOLD, NONE, NONE, ZERO
    at = scratch.candidate[action]
    return START, scratch.eligible[at], scratch.node[at], ZERO


@entry
def run_by_network(P, S, truth, constants, tracker, linear, head, scratch, record, most):
    """Run to the end (or for ``most`` decisions) with the network, greedily or by sampling, recording or not."""
    while most > 0:
        if not logs_have_room(P, S):
            return GROW
        if P.setting[MAX_WAIT] < np.inf:
            status = heed_guard(P, S, truth)
            if status == BEGUN:
                most -= 1
                continue
            if status == DECIDE:
                continue
            if status != FREE:
                return status
        status, task, node, count = choose_network(P, S, constants, tracker, linear, head, scratch, record)
        if status == FULL:
            return FULL
        if status == START:
            start_task(P, S, truth, task, node, count)
            most -= 1
            continue
        if status == HOLD:
            append_decision(S, NONE, NONE, ZERO)
        status = advance_clock(P, S)
        if status != DECIDE:
            return status
    return DECIDE


@entry
def evaluate_logits(P, S, constants, tracker, linear, head, scratch):
    """The logits of the present decision, in ``scratch``; returns the number of candidates."""
    return logits(P, S, constants, tracker, linear, head, scratch)


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
