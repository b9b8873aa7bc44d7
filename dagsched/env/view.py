"""The arrays behind an observation, and the compiled code that fills them at a decision.

``docs/environment.md`` says what each of them means. Only the parts that are in use have a length, so that one
compiled step serves both observations.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dagsched.features import kernel as features
from dagsched.features import schema
from dagsched.features.kernel import ELIGIBLE, PER_SCALE, fill_global, fill_groups, fill_task
from dagsched.simulator import kernel
from dagsched.simulator.compilation import inner
from dagsched.simulator.kernel import ARRIVED, READY, wait_is_legal
from dagsched.simulator.kernel_cache import drop_stale
from dagsched.workflow import FloatArray, IntArray

Float32Array = NDArray[np.float32]

WINDOWS = 10
"""Windows of the past in the flat observation."""
MOST_GROUPS = 32
"""Rows for node groups; the last one stands for all others where there are more."""
TASK_COLUMNS, GROUP_COLUMNS, EXTRAS, PAST_COLUMNS = 4, 4, 4, 3
MOST_OVERRUN = 5.0
"""Critical paths beyond the deadline at which the overrun of a task is cut off."""
# Slots of EpisodeArrays.counter; `gather_candidates` writes the first two: candidates, decisions with more eligible
# tasks than candidates.
COUNT, CUT, ACTIVE, SEEN, SHOWN, STARTED, DUE, LATE, WINDOW, PENDING = range(10)
# Slots of EpisodeArrays.switch.
SKIP_FORCED, MAY_WAIT, CPU, MEMORY = range(4)
# Slots of EpisodeArrays.setting.
TAU, CLIP = range(2)
# Slots of EpisodeArrays.present and EpisodeArrays.gained: 1, weight of active workflows, and the integrands of the
# service-level reward.
TIME, FLOW, OVERRUN, QUEUED, IDLE = range(5)
# Ways into [0, 1]: clip; x / (1 + x); (x + 5) / 10.
AS_IS, SATURATE, CENTRED = range(3)


class EpisodeArrays(NamedTuple):
    """What the environment remembers of one episode: ``T`` tasks, ``W`` workflows, ``M`` candidates at most."""

    eligible: IntArray  # [T]
    node: IntArray  # [T] where each eligible task would go
    score: FloatArray  # [T] base priority of each eligible task
    candidate: IntArray  # [M] places in `eligible`, largest base priority first
    counter: IntArray  # [10]
    switch: IntArray  # [4]
    setting: FloatArray  # [2]
    row: FloatArray  # [F]
    general: FloatArray  # [G]
    groups: FloatArray  # [groups, Q]
    waited: FloatArray  # [1] s, sum over started tasks of start - ready
    present: FloatArray  # [5] integrands while the state lasts
    gained: FloatArray  # [5] their integrals since the caller cleared them, s
    past: FloatArray  # [WINDOWS + 1, 3] integrals by window, the current one first, s
    per_path: FloatArray  # [W] 1 / critical path on estimates, 1/s
    active: IntArray  # [W] workflows that have arrived and not finished
    exit_ptr: IntArray  # [W + 1]
    exit_task: IntArray  # [*] tasks without children, by workflow
    exit_next: IntArray  # [W] first exit not known to have finished
    exit_time: FloatArray  # [W] s, latest finish of the exits before it


class Observation(NamedTuple):
    """An observation; arrays of the form that is not in use have length 0."""

    mask: NDArray[np.int8]  # [M + 1] legal actions
    flat: Float32Array  # [D]
    candidates: Float32Array  # [M, F]
    candidate_task: NDArray[np.int32]  # [M]
    general: Float32Array  # [G]
    groups: Float32Array  # [32, Q]
    group_mask: NDArray[np.int8]  # [32]
    nodes: Float32Array  # [max_tasks, S]
    node_mask: NDArray[np.int8]  # [max_tasks]
    unstarted: NDArray[np.int8]  # [max_tasks]
    edges: NDArray[np.int32]  # [2, max_edges]


class Scale(NamedTuple):
    """How raw features become numbers of the observation; mean 0 and deviation 1 leave them as they are."""

    task_mean: FloatArray  # [F]
    task_per: FloatArray  # [F] 1 / deviation
    global_mean: FloatArray  # [G]
    global_per: FloatArray  # [G]
    group_mean: FloatArray  # [Q]
    group_per: FloatArray  # [Q]
    nodes: Float32Array  # [T, S] scaled already
    flat_column: IntArray  # [4] task features of the flat observation
    flat_way: IntArray  # [4] way of each into [0, 1]
    global_way: IntArray  # [G]


@inner
def _unit(value, way):
    """Bring a number into [0, 1]."""
    if way == SATURATE:
        value = value / (1.0 + value) if value > 0.0 else 0.0
    elif way == CENTRED:
        value = (value + 5.0) / 10.0
    return min(max(value, 0.0), 1.0)


@inner
def _scaled(value, mean, per, clip):
    return min(max((value - mean) * per, -clip), clip)


@inner
def _show_arrivals(P, S, scale, episode, shown):
    """Nodes and edges of workflows that have arrived since the last observation."""
    while episode.counter[SEEN] < S.counter[ARRIVED]:
        w = episode.counter[SEEN]
        episode.counter[SEEN] = w + 1
        for task in range(P.workflow_ptr[w], P.workflow_ptr[w + 1]):
            shown.node_mask[task] = 1
            for k in range(shown.nodes.shape[1]):
                shown.nodes[task, k] = scale.nodes[task, k]
            for edge in range(P.parent_ptr[task], P.parent_ptr[task + 1]):
                shown.edges[0, edge] = P.parent_idx[edge]
                shown.edges[1, edge] = task


@inner
def _show_tasks(P, S, shown):
    for task in range(P.workflow_ptr[S.counter[ARRIVED]]):
        if P.task[task].milestone:
            shown.unstarted[task] = np.isnan(S.task[task].finish)
        else:
            shown.unstarted[task] = S.task[task].unstarted > 0


@inner
def _show_candidates(P, S, constants, tracker, scale, episode, shown):
    count, clip = episode.counter[COUNT], episode.setting[CLIP]
    graph = len(shown.candidate_task) > 0
    for k in range(count):
        at = episode.candidate[k]
        task = episode.eligible[at]
        fill_task(P, S, constants, tracker, task, episode.node[at], episode.row)
        if graph:
            shown.candidate_task[k] = task
            for f in range(len(episode.row)):
                shown.candidates[k, f] = _scaled(episode.row[f], scale.task_mean[f], scale.task_per[f], clip)
        else:
            for c in range(TASK_COLUMNS):
                shown.flat[k * TASK_COLUMNS + c] = _unit(episode.row[scale.flat_column[c]], scale.flat_way[c])
    for k in range(count, episode.counter[SHOWN]):  # rows of the last observation that are not needed now
        if graph:
            shown.candidate_task[k] = -1
            for f in range(len(episode.row)):
                shown.candidates[k, f] = 0.0
        else:
            for c in range(TASK_COLUMNS):
                shown.flat[k * TASK_COLUMNS + c] = 0.0
    episode.counter[SHOWN] = count


@inner
def _show_groups(P, S, constants, scale, episode, shown):
    """Rows of the schema's group features; groups beyond the rows are averaged by their nodes into the last one."""
    fill_groups(P, S, constants, episode.groups)
    groups, clip = episode.groups.shape[0], episode.setting[CLIP]
    alone = groups if groups <= MOST_GROUPS else MOST_GROUPS - 1
    for k in range(episode.groups.shape[1]):
        for g in range(alone):
            shown.groups[g, k] = _scaled(episode.groups[g, k], scale.group_mean[k], scale.group_per[k], clip)
        if alone < groups:
            total, nodes = 0.0, P.group_ptr[groups] - P.group_ptr[alone]
            for g in range(alone, groups):
                weight = 1.0 if k == 0 else (P.group_ptr[g + 1] - P.group_ptr[g]) / nodes  # shares of nodes add up
                total += episode.groups[g, k] * weight
            shown.groups[alone, k] = _scaled(total, scale.group_mean[k], scale.group_per[k], clip)
    for g in range(min(groups, MOST_GROUPS)):
        shown.group_mask[g] = 1


@inner
def _free_share(P, S, first, last, resource):
    """Free share of a resource over nodes first..last - 1; 1 where the cluster does not know it, 0 without any."""
    if resource < 0:
        return 1.0
    free, all_of_it = 0.0, 0.0
    for node in range(first, last):
        free += S.free[node, resource]
        all_of_it += P.capacity[P.node_group[node], resource]
    return free / all_of_it if all_of_it > 0 else 0.0


@inner
def _flat_groups(P, S, episode, shown, at):
    """Free cpu and memory, share of nodes and queue of each group, from place ``at`` on; returns the next place."""
    groups, nodes = P.capacity.shape[0], len(P.node_group)
    rows = min(groups, MOST_GROUPS)
    for row in range(rows):
        first = P.group_ptr[row]
        last = nodes if row == MOST_GROUPS - 1 else P.group_ptr[row + 1]
        shown.flat[at + row * GROUP_COLUMNS] = _unit(_free_share(P, S, first, last, episode.switch[CPU]), AS_IS)
        shown.flat[at + row * GROUP_COLUMNS + 1] = _unit(_free_share(P, S, first, last, episode.switch[MEMORY]), AS_IS)
        shown.flat[at + row * GROUP_COLUMNS + 2] = (last - first) / nodes
        shown.flat[at + row * GROUP_COLUMNS + 3] = 0.0
    for k in range(S.counter[READY]):
        best = min(P.group_order[S.ready[k], 0], MOST_GROUPS - 1)
        shown.flat[at + best * GROUP_COLUMNS + 3] += 1.0
    for row in range(rows):
        place = at + row * GROUP_COLUMNS + 3
        shown.flat[place] = _unit(np.log(1.0 + shown.flat[place]), SATURATE)
    return at + MOST_GROUPS * GROUP_COLUMNS


@inner
def _flat_state(P, S, tracker, scale, episode, shown, at):
    """The schema's global features, four figures more, and the past windows, from place ``at`` on."""
    for k in range(len(episode.general)):
        shown.flat[at + k] = _unit(episode.general[k], scale.global_way[k])
    at += len(episode.general)
    late, due, started = episode.counter[LATE], episode.counter[DUE], episode.counter[STARTED]
    shown.flat[at] = late / due if due > 0 else 0.0
    wait = episode.waited[0] / started * tracker.signal[PER_SCALE] if started > 0 else 0.0
    shown.flat[at + 1] = _unit(wait, SATURATE)
    shown.flat[at + 2] = 1.0 if wait_is_legal(P, S) else 0.0
    eligible = tracker.signal[ELIGIBLE]
    shown.flat[at + 3] = _unit(1.0 - episode.counter[COUNT] / eligible, AS_IS) if eligible > 0 else 0.0
    at += EXTRAS
    for k in range(WINDOWS):
        shown.flat[at] = _unit(episode.past[k + 1, 0] / episode.setting[TAU] / MOST_OVERRUN, AS_IS)
        shown.flat[at + 1] = _unit(episode.past[k + 1, 1] / episode.setting[TAU], AS_IS)
        passed = k < episode.counter[WINDOW]
        shown.flat[at + 2] = _unit(1.0 - episode.past[k + 1, 2] / episode.setting[TAU], AS_IS) if passed else 0.0
        at += PAST_COLUMNS


@inner
def fill_view(P, S, constants, tracker, scale, episode, shown):
    """Everything but the mask, for the candidates in ``episode.candidate``; :func:`look` must have been called."""
    fill_global(P, S, tracker, episode.general)
    _show_candidates(P, S, constants, tracker, scale, episode, shown)
    if len(shown.candidate_task) == 0:
        at = _flat_groups(P, S, episode, shown, len(episode.candidate) * TASK_COLUMNS)
        _flat_state(P, S, tracker, scale, episode, shown, at)
        return
    for k in range(len(episode.general)):
        shown.general[k] = _scaled(episode.general[k], scale.global_mean[k], scale.global_per[k], episode.setting[CLIP])
    _show_arrivals(P, S, scale, episode, shown)
    _show_tasks(P, S, shown)
    _show_groups(P, S, constants, scale, episode, shown)


drop_stale(_unit, kernel.__file__, features.__file__, schema.__file__)
