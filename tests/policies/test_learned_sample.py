"""``evolved-sample`` and ``ppo-sample``: best of many whole schedules of a learned policy."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dagsched.cost import cost_function
from dagsched.errors import PolicyError
from dagsched.policies.learned.trained import SamplePlanner
from dagsched.policies.registry import make_policy
from dagsched.policies.sampling.sampler import objective_value
from dagsched.replay import PLACEMENTS, Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.schedule import Schedule
from dagsched.simulator import Simulator, validate
from dagsched.simulator.stepper import MANY
from tests.features.replays import draw_wide
from tests.policies.nets import random_checkpoint, saved

CASES = {
    "evolved": ("evolved", {}),
    "ppo": ("ppo", {}),
    "ppo-gnn": ("ppo", {"encoder": "gnn"}),
    "ppo-bare": ("ppo", {"residual": False}),
    "ppo-wait": ("ppo", {"wait": True, "margin": 0.0}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        name: saved(root, name, random_checkpoint(kind, seed=8, **network)) for name, (kind, network) in CASES.items()
    }


def spec(case: str, folders: dict[str, Path], *, sample: bool = True, **options: object) -> str:
    kind = CASES[case][0]
    return ":".join(
        [f"{kind}-sample" if sample else kind, f"checkpoint={folders[case]}"]
        + [f"{key}={value}" for key, value in options.items()]
    )


def batches(first: int, count: int, **kind: object) -> list[Replay]:
    """Without the starvation guard, which starts overdue tasks where the placement rule says, not the plan."""
    made = [draw_wide(seed, batch=True, exact=True, **kind) for seed in range(first, first + count)]  # type: ignore[arg-type]
    return [replay.with_options(replace(replay.options, max_wait=math.inf)) for replay in made]


def value(schedule: Schedule, objective: str) -> float:
    replay = schedule.replay
    finish = np.zeros(len(replay))
    finish[:] = replay.first_arrival
    np.maximum.at(finish, schedule.task, schedule.finish)
    for task in replay.topological_order:  # milestones end with their last parent
        if replay.milestone[task]:
            parents = replay.parent_idx[replay.parent_ptr[task] : replay.parent_ptr[task + 1]]
            finish[task] = max([replay.first_arrival, *finish[parents].tolist()])
    if objective == "slo":
        return cost_function(replay, "slo")(finish)
    return objective_value(replay, finish, objective)


def run(replay: Replay, policy: str, policy_seed: int = 0) -> Schedule:
    schedule = simulate(replay, policy, policy_seed=policy_seed)
    validate(schedule)
    return schedule


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("objective", ["makespan", "flow_time", "slo"])
def test_samplers_are_never_worse_than_their_greedy_policy_and_often_better(
    case: str, objective: str, folders: dict[str, Path]
) -> None:
    better = 0
    for replay in batches(1000, 8, due=True):
        greedy = run(replay, spec(case, folders, sample=False, objective=objective))
        best = run(replay, spec(case, folders, n=24, scales="0.1,0.5", objective=objective))
        assert value(best, objective) <= value(greedy, objective) * (1 + 1e-12)
        better += value(best, objective) < value(greedy, objective) - 1e-9
    assert better >= 1


@pytest.mark.parametrize("case", ["evolved", "ppo", "ppo-gnn", "ppo-bare"])
def test_sample_0_is_the_greedy_schedule(case: str, folders: dict[str, Path]) -> None:
    for replay in batches(1010, 6):
        one, greedy = run(replay, spec(case, folders, n=1)), run(replay, spec(case, folders, sample=False))
        rows = [sorted(zip(s.task, s.node, s.count, s.start, strict=True)) for s in (one, greedy)]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_sample_0_is_the_greedy_schedule_under_every_placement_and_policy_seed(
    placement: str, folders: dict[str, Path]
) -> None:
    for replay in batches(1020, 4, options=SimulationOptions(placement=placement)):
        one, greedy = (run(replay, spec("evolved", folders, sample=s), policy_seed=5) for s in (False, True))
        assert value(greedy, "makespan") <= value(one, "makespan") * (1 + 1e-12)
        first = run(replay, spec("evolved", folders, n=1), policy_seed=5)
        assert value(first, "makespan") == value(one, "makespan")


@pytest.mark.parametrize("case", ["evolved", "ppo", "ppo-bare"])
def test_no_noise_leaves_nothing_but_the_greedy_schedule(case: str, folders: dict[str, Path]) -> None:
    for replay in batches(1030, 3):
        still = run(replay, spec(case, folders, n=5, scales="0"))
        assert value(still, "makespan") == value(run(replay, spec(case, folders, n=1)), "makespan")


@pytest.mark.parametrize("case", CASES)
def test_the_plan_keeps_its_promise(case: str, folders: dict[str, Path]) -> None:
    """With WAIT the plan is followed without the idle time, which can only help."""
    for replay in batches(1040, 8):
        policy = make_policy(spec(case, folders, n=12))
        planner = policy.make_planner(replay, 3)  # type: ignore[attr-defined]
        assert isinstance(planner, SamplePlanner)
        promised, _ = planner.best()
        simulator = Simulator(replay, policy_seed=3)
        policy.begin(simulator).advance(MANY)
        schedule = simulator.schedule("sample")
        validate(schedule)
        if case == "ppo-wait":
            assert schedule.makespan <= promised * (1 + 1e-12)
        else:
            assert schedule.makespan == pytest.approx(promised, rel=1e-12)


@pytest.mark.parametrize("case", ["evolved", "ppo"])
def test_a_seed_repeats_and_more_samples_are_never_worse(case: str, folders: dict[str, Path]) -> None:
    differ = 0
    for replay in batches(1050, 6, tasks=40):
        few, again, many, other = (
            run(replay, spec(case, folders, n=n, seed=seed, scales="0.3"))
            for n, seed in ((8, 1), (8, 1), (32, 1), (8, 2))
        )
        assert np.array_equal(few.task, again.task)
        assert np.array_equal(few.start, again.start)
        assert many.makespan <= few.makespan * (1 + 1e-12)
        differ += not np.array_equal(few.start[: len(other.start)], other.start[: len(few.start)])
    assert differ >= 1


@pytest.mark.parametrize("kind", ["evolved", "ppo"])
def test_samplers_refuse_what_they_cannot_plan(kind: str, folders: dict[str, Path]) -> None:
    noisy = draw_wide(2, batch=True, exact=False)
    noisy = noisy if noisy.noise.kind != "exact" else draw_wide(5, batch=True, exact=False)
    assert noisy.noise.kind != "exact"
    with pytest.raises(PolicyError, match=f"{kind}-sample.*exact estimates"):
        simulate(noisy, spec(kind, folders, n=2))
    stream = next(r for r in (draw_wide(s, batch=False, exact=True) for s in range(20)) if not r.is_batch)
    with pytest.raises(PolicyError, match=f"{kind}-sample.*more may arrive"):
        simulate(stream, spec(kind, folders, n=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n is '0', expected a whole number >= 1"),
        ({"n": "many"}, "n is 'many'"),
        ({"seed": -1}, "seed is '-1'"),
        ({"scales": "0.1,x"}, "scales is '0.1,x'"),
        ({"objective": "fame"}, "objective is 'fame'"),
    ],
)
def test_wrong_options_are_refused_with_what_was_expected(
    options: dict[str, object], message: str, folders: dict[str, Path]
) -> None:
    with pytest.raises(PolicyError, match=message):
        make_policy(spec("evolved", folders, **options))


def test_a_checkpoint_without_a_network_is_refused_as_ppo(folders: dict[str, Path]) -> None:
    replay = batches(1060, 1)[0]
    with pytest.raises(PolicyError, match="evolved priority alone; use evolved"):
        simulate(replay, f"ppo:checkpoint={folders['evolved']}")


def test_a_missing_checkpoint_is_named(folders: dict[str, Path]) -> None:
    replay = batches(1060, 1)[0]
    for kind in ("evolved", "ppo", "evolved-sample", "ppo-sample"):
        with pytest.raises(PolicyError, match="nowhere"):
            simulate(replay, f"{kind}:checkpoint={folders['evolved'].parent / 'nowhere'}")


def test_a_replay_without_any_choice_is_sampled_without_noise(folders: dict[str, Path]) -> None:
    from dagsched.cluster import Cluster
    from dagsched.task import Task
    from dagsched.workflow import Workflow
    from tests.policies.nets import replay_of

    chain = [Task(f"{k}", 2.0, {"cpu": 1}, [f"{k - 1}"] if k else []) for k in range(4)]
    replay = replay_of(Cluster.pooled({"cpu": 1.0}), Workflow.from_tasks("w", chain))
    for case in CASES:
        assert run(replay, spec(case, folders, n=4, scales="0,0.1")).makespan == 8.0


@pytest.mark.parametrize("case", ["evolved", "ppo"])
def test_mixed_samples_keep_the_greedy_one_and_what_serial_generation_finds(
    case: str, folders: dict[str, Path]
) -> None:
    from dagsched.generate.suite import Suite
    from dagsched.policies.sampling.sampler import SerialSampler

    better = 0
    for index in range(6):
        replay = Suite.load("rcpsp-60").replay("test", index)
        greedy = run(replay, spec(case, folders, sample=False)).task_finish.max()
        mixed = run(replay, spec(case, folders, n=16, sgs="mixed")).task_finish.max()
        serial = SerialSampler(replay, "cp+demand+work", (0, 0))
        found = min(serial.draw(scale)[1].max() for scale in (0.01, 0.02, 0.05, 0.1, 0.01, 0.02, 0.05, 0.1))
        assert mixed <= min(greedy, found)
        better += mixed < greedy
    assert better > 0


def test_mixed_samples_need_one_pooled_node(folders: dict[str, Path]) -> None:
    replay = next(r for r in batches(7300, 40, tasks=10) if r.cluster.node_count > 1)
    with pytest.raises(PolicyError, match="one pooled node"):
        run(replay, spec("evolved", folders, n=4, sgs="mixed"))
    with pytest.raises(PolicyError, match="expected parallel or mixed"):
        make_policy(spec("evolved", folders, sgs="serial"))
