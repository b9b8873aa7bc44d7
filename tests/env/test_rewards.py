"""Rewards and the past windows against an obvious computation, stretch by stretch, in plain Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dagsched import graph
from dagsched.cluster import Cluster
from dagsched.env import WorkflowEnv, flat_names
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.simulator import Simulator, kernel
from dagsched.task import Task
from dagsched.workload import Workload
from tests.env.play import at_random, env_of, play
from tests.handmade import one_workflow, random_replay
from tests.twin import NumpyDice, draw_replay

OBJECTIVES = ("slo", "makespan", "flow_time")


@dataclass
class Stretch:
    """The state between two moments in which time passes."""

    begin: float
    end: float
    decisions: int
    overrun: float
    queued: float
    idle: float


def stretches(replay: Replay, schedule: Schedule) -> list[Stretch]:
    """Take the decisions of a schedule again and note the state before each advance; a forced WAIT goes by events."""
    sim = Simulator(replay)
    level, path = graph.bottom_level(replay), graph.critical_path(replay, realised=False)
    nodes = np.array([group.nodes for group in replay.cluster.groups])
    total = (replay.cluster.capacity * nodes[:, None]).sum(axis=0)
    found, log = [], schedule.decision_task.tolist()
    taken, forced = 0, False
    while not sim.done:
        while not forced and taken < len(log) and log[taken] >= 0 and log[taken] in sim.eligible():
            assert schedule.decision_time[taken] == sim.now
            sim.start(log[taken])
            taken += 1
        waits = taken < len(log) and log[taken] < 0 and schedule.decision_time[taken] == sim.now
        waits = waits and not forced and kernel.any_eligible(sim.problem, sim.state)
        taken += waits
        forced = forced or (waits and replay.options.max_wait < np.inf and sim.is_forced)
        state = sim.state
        ready = state.ready[: state.counter[kernel.READY]]
        owner = replay.workflow_of[ready]
        with np.errstate(divide="ignore"):
            over = (sim.now + level[ready] - replay.deadline[owner]) / np.maximum(path[owner], 1e-9)
        running = int(state.counter[kernel.EVENTS])
        free = state.free.sum(axis=0)[total > 0] / total[total > 0]
        begin = sim.now if state.counter[kernel.ARRIVED] else replay.first_arrival
        stretch = Stretch(
            begin,
            begin,
            taken,
            float(np.clip(over, 0, 5).mean()) if len(ready) else 0.0,
            len(ready) / (len(ready) + running) if len(ready) + running else 0.0,
            float(free.sum() / len(total)),
        )
        status = (kernel.outlast if forced else kernel.advance)(sim.problem, sim.state)
        forced = status == kernel.ON_THE_WAY
        stretch.end = sim.now
        found.append(stretch)
    return found


def tau_of(replay: Replay) -> float:
    first = (replay.arrival == replay.first_arrival)[replay.workflow_of] & ~replay.milestone
    mean = float(graph.fastest(replay)[first].mean()) if first.any() else 0.0
    return replay.options.decision_interval or (mean if mean > 1e-6 else 1.0)


def scales(replay: Replay) -> tuple[float, float]:
    """Of makespan and flow time: of what is known at the start, worked out from a replay of that alone."""
    known = [w for w in replay.workflows if replay.closed or w.arrival == replay.first_arrival]
    alone = Replay.build(Workload("known", tuple(known)), replay.cluster)
    path = max(float(graph.critical_path(alone, realised=False).mean()), 1e-6)
    return max(graph.lower_bound(alone, realised=False), 1e-6), float(alone.weight.sum()) * path


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(12))
def test_each_step_is_rewarded_for_the_time_that_passes_until_the_next(seed: int, objective: str) -> None:
    replay = draw_replay(NumpyDice(seed), rough=True)
    schedule, rewards, infos = play(env_of(replay, objective=objective), at_random(seed))
    found = stretches(replay, schedule)
    tau, (bound, scale) = tau_of(replay), scales(replay)
    ends = schedule.workflow_finish
    for k, info in enumerate(infos[1:]):
        mine = [s for s in found if max(s.decisions - 1, 0) == k]
        for part, weight in (("overrun", 2.0), ("queued", 0.5), ("idle", 0.1)):
            want = -weight / tau * sum(getattr(s, part) * (s.end - s.begin) for s in mine)
            assert info[f"reward/{part}"] == pytest.approx(want, rel=1e-9, abs=1e-9), (k, part)
        passed = sum(s.end - s.begin for s in mine)
        assert info["reward/makespan"] == pytest.approx(-passed / bound, rel=1e-9, abs=1e-9)
        flow = 0.0
        for s in mine:
            inside = np.clip(np.minimum(s.end, ends) - np.maximum(s.begin, replay.arrival), 0, None)
            flow += float((replay.weight * inside).sum())
        assert info["reward/flow_time"] == pytest.approx(-flow / scale, rel=1e-9, abs=1e-9)
        assert info["reward/slo"] == sum(info[f"reward/{part}"] for part in ("overrun", "queued", "idle"))
        assert rewards[k] == info[f"reward/{objective}"]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_returns_are_what_the_schedule_costs(seed: int, skip: bool) -> None:
    replay = draw_replay(NumpyDice(100 + seed), rough=True)
    schedule, _, infos = play(env_of(replay, skip_forced=skip), at_random(seed))
    total = {name: sum(info[f"reward/{name}"] for info in infos[1:]) for name in OBJECTIVES}
    bound, scale = scales(replay)
    assert total["makespan"] == pytest.approx(-schedule.makespan / bound, rel=1e-9, abs=1e-12)
    flow = float((replay.weight * (schedule.workflow_finish - replay.arrival)).sum())
    assert total["flow_time"] == pytest.approx(-flow / scale, rel=1e-9, abs=1e-12)
    assert infos[-1]["metrics"]["makespan"] == schedule.makespan
    assert total["slo"] <= 0


def test_the_reward_depends_on_elapsed_time_not_on_the_number_of_steps() -> None:
    replay = one_workflow([Task(f"t{k}", 4.0, {"cpu": 1}) for k in range(4)], Cluster.pooled({"cpu": 4}))
    _, rewards, _ = play(env_of(replay, objective="makespan"))
    assert rewards == [0.0, 0.0, 0.0, -1.0]


@pytest.mark.parametrize("seed", range(8))
def test_past_windows_hold_the_means_of_windows_of_length_tau(seed: int) -> None:
    replay = random_replay(seed)
    env = env_of(replay)
    names = flat_names()
    at = names.index("1 windows ago overrun")
    observations = []
    choose = at_random(seed)

    def spy(env: WorkflowEnv, observation: np.ndarray) -> int:
        observations.append((env._running().simulator.now, observation[at:]))
        return choose(env, observation)

    schedule, _, _ = play(env, spy)
    found, tau, first = stretches(replay, schedule), tau_of(replay), replay.first_arrival
    assert len(observations) > 20
    for now, shown in observations:
        number = int(np.floor((now - first) / tau))
        for k in range(1, 11):
            begin, end = first + (number - k) * tau, first + (number - k + 1) * tau
            mean = dict.fromkeys(("overrun", "queued", "idle"), 0.0)
            for s in found:
                share = max(min(end, s.end) - max(begin, s.begin), 0.0) / tau
                for part in mean:
                    mean[part] += share * getattr(s, part)
            busy = 1.0 - mean["idle"] if k <= number else 0.0
            want = [min(mean["overrun"] / 5, 1.0), mean["queued"], busy]
            np.testing.assert_allclose(shown[3 * k - 3 : 3 * k], want, atol=1e-5)
