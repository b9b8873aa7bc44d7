"""``auto``: the best of a batch by trying all; in a stream what replays of the recent past speak for."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched import PolicyError, Replay, Schedule, SimulationOptions, simulate, validate
from dagsched.cluster import Cluster, NodeGroup
from dagsched.cost import cost_function
from dagsched.declared import EXACT, UNKNOWN, Declared
from dagsched.features import kernel as features
from dagsched.policies.registry import make_policy
from dagsched.search.auto.policy import AutoPolicy
from dagsched.search.auto.stream import Candidate, StreamRun
from dagsched.search.base_policies import LearnedBase, roll_whole, rule_base
from dagsched.search.seed_schedules import contained_specs
from dagsched.simulator import Simulator, kernel
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.handmade import random_replay

COLUMNS = ("task", "node", "count", "start", "finish", "decision_time", "decision_task")


def same(one: Schedule, other: Schedule) -> bool:
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in COLUMNS)


def stream(seed: int, workflows: int = 60, sigma: float = 0.0, noise: object = None) -> Replay:
    """Short chains and wide jobs on four cores, more than these can do at times."""
    rng = np.random.default_rng(seed)
    flows, now = [], 0.0
    for w in range(workflows):
        now += float(rng.exponential(6.0))
        wide = int(rng.integers(1, 8))
        tasks = [Task(f"t{k}", float(rng.integers(1, 9)), {"cpu": int(rng.integers(1, 3))}) for k in range(wide)]
        tasks.append(Task("end", 1.0, {"cpu": 1}, ("t0",), instances=int(rng.integers(1, 4))))
        flows.append(Workflow.from_tasks(f"w{w:03d}", tasks, arrival=now, deadline=now + 40.0))
    declared = Declared(noise=noise or EXACT) if sigma == 0 else Declared()  # type: ignore[arg-type]
    made = Workload("stream", tuple(flows), declared=declared)
    return Replay.build(made, Cluster((NodeGroup("n", 2, {"cpu": 2.0}),)), sigma=sigma, seed=seed)


def begun(replay: Replay, objective: str = "flow_time", **options: int) -> tuple[Simulator, StreamRun]:
    text = "".join(f":{key}={value}" for key, value in options.items())
    policy = make_policy(f"auto:objective={objective}{text}")
    assert isinstance(policy, AutoPolicy)
    simulator = Simulator(replay)
    return simulator, policy.stream(simulator, objective)


def test_an_exact_batch_is_the_planner_without_search_and_never_worse_than_what_it_contains() -> None:
    for seed in range(4):
        tasks = [
            Task(f"t{k}", 2.0 + (k + seed) % 5, {"cpu": 1 + k % 3}, (f"t{k - 3}",) if k > 2 else ()) for k in range(14)
        ]
        batch = Replay.build(Workload("b", (Workflow.from_tasks("w", tasks),)), random_replay(seed).cluster)
        found = simulate(batch, "auto")
        validate(found)
        assert same(found, simulate(batch, "mcts:budget_ms=0"))
        assert found.makespan <= min(simulate(batch, s).makespan for s in contained_specs(batch, learning=False)) + 1e-9


def test_an_uncertain_batch_runs_what_is_best_on_the_estimates() -> None:
    tasks = [Task(f"t{k}", 2.0 + k % 5, {"cpu": 1 + k % 3}, (f"t{k - 3}",) if k > 2 else ()) for k in range(20)]
    batch = Replay.build(
        Workload("b", (Workflow.from_tasks("w", tasks),)), Cluster.pooled({"cpu": 4.0}), sigma=0.3, seed=4
    )
    found = simulate(batch, "auto")
    validate(found)
    assert same(found, simulate(batch, found.report["chosen"]))
    exact = Replay.build(batch.workload, batch.cluster)
    least = min(simulate(exact, spec).makespan for spec in contained_specs(exact, learning=False))
    assert simulate(exact, found.report["chosen"]).makespan <= least + 1e-9


@pytest.mark.parametrize("objective", ["flow_time", "makespan", "slo"])
def test_decision_by_decision_and_twice_the_stream_is_the_same(objective: str) -> None:
    replay = stream(1, sigma=0.3)
    spec = f"auto:objective={objective}:every=8"
    first = simulate(replay, spec)
    validate(first)
    assert first.report["reviews"]
    assert same(first, simulate(replay, spec))
    simulator = Simulator(replay)
    run = make_policy(spec).begin(simulator)
    while not simulator.done:
        run.advance(1)
    assert same(first, simulator.schedule(spec))


@pytest.mark.parametrize("kind", ["exact", "lognormal", "unknown"])
def test_a_replay_of_the_past_under_the_policy_that_ran_comes_to_what_happened(kind: str) -> None:
    """Where all that arrived since has finished, the realised durations leave nothing to draw."""
    sigma = 0.3 if kind == "lognormal" else 0.0
    replay = stream(2, workflows=30, sigma=sigma, noise=UNKNOWN if kind == "unknown" else None)
    if kind == "unknown":
        spread = np.random.default_rng(0).uniform(0.5, 2.0, len(replay))
        replay = replay.with_durations(replay.estimate * spread[:, None])
    for name in ("srw*cp", "critical-path", "evolved"):
        simulator, run = begun(replay)
        [number] = [k for k, candidate in enumerate(run.candidates) if candidate.name == name]
        run.current = number
        candidate = run.candidates[number]
        acting = candidate.policy.begin(simulator)
        acting.advance(40)
        kept = run._past.keep()
        while not simulator.done:
            acting.advance(1)
        run.workspace.load(kept, next(run._past.durations(kept, [np.random.default_rng(1)])), 30, [candidate.base])
        roll_whole(candidate.base, run.workspace)
        owners, ends = run.workspace.ends()
        happened = simulator.schedule(name).workflow_finish
        assert len(owners) > 10
        assert ends.tolist() == pytest.approx(happened[owners].tolist(), rel=1e-9)


def test_a_snapshot_equals_the_state_it_was_taken_of() -> None:
    replay = stream(3)
    simulator, run = begun(replay)
    acting = run.candidates[0].policy.begin(simulator)
    for _ in range(6):
        acting.advance(20)
        kept, live = run._past.keep(), simulator.state
        first, last = replay.workflow_ptr[kept.first_workflow], replay.workflow_ptr[kept.arrived]
        assert kept.state.clock[kernel.NOW] == simulator.now
        assert kept.state.task[first:last].tobytes() == live.task[first:last].tobytes()
        assert (np.isnan(live.task["finish"][:first])).sum() == 0
        assert kept.tracker is not None
        fresh = features.new_tracker(run.workspace.whole)
        constants = next(c.base.runner.constants for c in run.candidates if isinstance(c.base, LearnedBase))
        features.catch_up(run.workspace.whole, live, constants, fresh)
        assert kept.tracker.seen.tolist() == fresh.seen.tolist()
        run._past.give_back(kept)


def test_a_policy_that_is_better_takes_over_and_the_log_says_when() -> None:
    """The longest task first at first; every rule that looks at the work does better under such load."""
    replay = stream(4, workflows=120)
    simulator, run = begun(replay, every=10)
    slow = make_policy("ljf")
    run.candidates[0] = Candidate("ljf", slow, rule_base(run.workspace, "auto", "ljf"))
    run.advance(10**9)
    schedule = simulator.schedule("auto", report=run.report())
    validate(schedule)
    reviews = schedule.report["reviews"]
    assert reviews[-1].chosen != "ljf"
    cost = cost_function(replay, "flow_time")
    assert cost(schedule.task_finish) < cost(simulate(replay, "ljf").task_finish)
    assert [review.finished for review in reviews] == sorted(review.finished for review in reviews)


def test_whoever_takes_over_goes_on_as_if_it_had_always_run() -> None:
    """From one and the same state, whatever ran before: the buckets and sets of a rule are made anew."""
    replay = stream(5, workflows=40)
    for name in ("srw*cp", "critical-path", "weighted-fair", "evolved"):
        alone = Simulator(replay)
        run = make_policy(name, learned_options={"objective": "flow_time"}).begin(alone)
        run.advance(60)
        kernel.hand_over(alone.state)
        make_policy(name, learned_options={"objective": "flow_time"}).begin(alone).advance(10**9)
        whole = simulate(replay, f"{name}:objective=flow_time" if name == "evolved" else name)
        assert same(alone.schedule(name), whole), name


def test_drawn_durations_are_what_is_known_and_beyond_what_has_passed() -> None:
    replay = stream(6, sigma=0.5)
    simulator, run = begun(replay)
    acting = run.candidates[0].policy.begin(simulator)
    acting.advance(30)
    kept = run._past.keep()
    acting.advance(60)
    state = simulator.state
    seconds = next(run._past.durations(kept, [np.random.default_rng(2)]))
    other = next(run._past.durations(kept, [np.random.default_rng(3)]))
    arrived = replay.workflow_ptr[int(state.counter[kernel.ARRIVED])]
    finished = ~np.isnan(state.task["finish"]) & ~replay.milestone
    finished[: replay.workflow_ptr[kept.first_workflow]] = False
    assert seconds[finished, 0] == pytest.approx(replay.duration[finished, 0])
    running = state.alloc[state.event[: state.counter[kernel.EVENTS]]]
    assert (seconds[running["task"], 0] >= simulator.now - running["execution"] - 1e-9).all()
    assert (seconds[finished] == other[finished]).all()
    assert (seconds[:arrived] != other[:arrived]).any()
    assert (seconds[arrived:] == replay.estimate[arrived:]).all()


def test_a_checkpoint_that_is_named_must_be_there() -> None:
    with pytest.raises(PolicyError, match="/nope"):
        simulate(stream(1, workflows=3), "auto:checkpoint=/nope:objective=flow_time")


def test_odd_streams() -> None:
    for seed, workflows in ((0, 1), (1, 2), (2, 30)):
        for options in ({}, {"decision_interval": 2.0, "max_wait": 5.0}, {"placement": "random"}):
            replay = stream(seed, workflows=workflows).with_options(SimulationOptions(**options))  # type: ignore[arg-type]
            for objective in ("flow_time", "makespan", "slo"):
                validate(simulate(replay, f"auto:every=2:objective={objective}", policy_seed=seed))
