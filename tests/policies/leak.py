"""The leak test of semantics.md: what is not revealed at time t may change without changing any earlier decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dagsched.policies.base import Policy
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.schedule import Schedule
from dagsched.task import Task
from dagsched.workflow import Workflow


def other_future(replay: Replay, schedule: Schedule, now: float, seed: int) -> Replay:
    """The replay as it looks at ``now``, with every hidden duration redrawn and everything later replaced.

    What is declared closed is known at the start, so that nothing of it is replaced but durations.
    """
    rng = np.random.default_rng(seed)
    kept = [w for w in replay.workflows if w.arrival <= now or replay.closed]
    if not replay.closed:
        later = [now + float(rng.integers(1, 40)) / 4 for _ in range(int(rng.integers(0, 4)))]
        kept += [_newcomer(rng, f"new{k}", arrival, replay) for k, arrival in enumerate(later)]
    workload = replay.workload.with_workflows(kept)
    fresh = Replay.build(workload, replay.cluster, seed=replay.seed, sigma=replay.noise.sigma, options=replay.options)
    known = int(
        replay.workflow_ptr[len(replay.arrival) if replay.closed else np.searchsorted(replay.arrival, now, "right")]
    )
    duration = fresh.duration.copy()
    duration[:known] = replay.duration[:known]
    revealed = np.zeros(known, bool)
    revealed[schedule.task[schedule.finish <= now]] = True
    for task in np.flatnonzero(~revealed & ~replay.milestone[:known]):
        duration[task] = duration[task] * rng.choice([0.3, 1.0, 3.0]) + rng.choice([0.0, 1.0])
        for a in np.flatnonzero((schedule.task == task) & (schedule.start <= now)):
            group = replay.cluster.node_group[schedule.node[a]]
            while schedule.execution[a] + duration[task, group] <= now:
                duration[task, group] = (now - schedule.execution[a]) * (1 + rng.random()) + 0.25
    return replace(fresh, duration=duration, _cache={})


def _newcomer(rng: np.random.Generator, name: str, arrival: float, replay: Replay) -> Workflow:
    group = replay.cluster.groups[0]
    demand = {r: float(a) for r, a in group.capacity.items() if a}
    tasks = [Task("a", float(rng.integers(1, 90)), demand), Task("b", 50.0, demand, ("a",), instances=3)]
    return Workflow.from_tasks(name, tasks, resources=replay.cluster.resources, arrival=arrival, deadline=arrival + 1)


def _finish(schedule: Schedule) -> dict[tuple[int, int, float], float]:
    """First finish of each started (task, node, start)."""
    rows = zip(schedule.task, schedule.node, schedule.start, schedule.finish, strict=True)
    return {(int(t), int(n), float(s)): float(f) for t, n, s, f in rows}


def first_difference(replay: Replay, other: Replay, one: Schedule, two: Schedule) -> float:
    """Seconds of the first event (arrival or finish) that can differ between two replays."""
    arrivals = [set(zip(r.arrival.tolist(), (w.name for w in r.workflows), strict=True)) for r in (replay, other)]
    moments = [time for time, _ in arrivals[0] ^ arrivals[1]]
    known = min(len(replay), len(other))
    changed = (replay.duration[:known] != other.duration[:known]).any(axis=1)
    for schedule in (one, two):
        unlike = (schedule.task >= known) | changed[np.minimum(schedule.task, known - 1)]
        moments += schedule.finish[unlike].tolist()
    return min(moments, default=np.inf)


def decided_before(schedule: Schedule, time: float) -> tuple[Sequence[tuple[float, int]], Sequence[tuple[float, ...]]]:
    log = zip(schedule.decision_time.tolist(), schedule.decision_task.tolist(), strict=True)
    rows = zip(*(getattr(schedule, n).tolist() for n in ("task", "node", "count", "start")), strict=True)
    return [d for d in log if d[0] < time], [r for r in rows if r[3] < time]


def check_leak(replay: Replay, policy: str | Policy, seed: int, schedule: Schedule | None = None) -> int:
    """Assert that the unrevealed changes nothing decided before it shows; returns how many decisions were compared."""
    rng = np.random.default_rng(seed)
    one = simulate(replay, policy) if schedule is None else schedule
    moments = np.unique(np.concatenate([one.decision_time, one.finish]))
    now = float(rng.choice(moments[: max(1, len(moments) // 2)]))
    other = other_future(replay, one, now, seed)
    two = simulate(other, policy)
    until = first_difference(replay, other, one, two)
    assert until > now
    before, after = decided_before(one, until), decided_before(two, until)
    assert before == after, f"a decision before {until:g} s depends on what shows only then (redrawn at {now:g} s)"
    return len(before[0])
