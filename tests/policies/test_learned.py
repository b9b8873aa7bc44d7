from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.features.linear import START, start_weights
from dagsched.features.schema import TASK_FEATURES
from dagsched.policies.learned.trained import LinearRunner, NetworkRunner, make_runner
from dagsched.policies.registry import make_policy
from dagsched.policies.rules import keys
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.schedule import Schedule
from dagsched.simulator import Simulator, validate
from dagsched.simulator.state import area_below
from dagsched.task import Task
from dagsched.workflow import FloatArray, Workflow
from tests.features.replays import draw_wide
from tests.features.watch import Watch
from tests.policies.nets import (
    decisions,
    random_base,
    random_checkpoint,
    random_tasks,
    replay_of,
    saved,
    schedule_with,
)
from tests.twin import NumpyDice, draw_replay

# --- a linear priority with the weights of a rule is that rule -------------------------------------------------------


def level_and_demand(weight: float, below: float) -> Callable[[Replay, float], FloatArray]:
    def key(replay: Replay, now: float) -> FloatArray:
        problem = Simulator(replay).problem
        known = replay.arrival[replay.workflow_of] <= now
        value = weight * problem.share + problem.bottom / (problem.bottom[known].max() or 1.0)
        area = area_below(replay)
        return value + below * area / (area[known].max() or 1.0)

    return key


def fixed(rule: Callable[..., FloatArray]) -> Callable[[Replay, float], FloatArray]:
    return lambda replay, now: rule(replay, Simulator(replay).problem)


KEYS: dict[str, Callable[[Replay, float], FloatArray]] = {
    "lft": fixed(keys.lft),
    "lst": fixed(keys.lst),
    "llf": fixed(keys.llf),
    "cp+demand": level_and_demand(1.0, 0.0),
    "cp+demand+work": level_and_demand(0.5, 0.3),
}
"""Rules whose key is a sum: adding in another order may break a tie another way."""


def assert_same_but_for_rounding(rule: str, replay: Replay, found: Schedule, wanted: Schedule) -> bool:
    """Equal logs; or at the first difference the rule cannot tell the two tasks apart. Returns whether equal."""
    for (time, one), (other_time, two) in zip(decisions(found), decisions(wanted), strict=False):
        if (time, one) == (other_time, two):
            continue
        assert time == other_time
        if rule == "fcfs":  # the rule leaves ties to the order of submission, a priority to the common order
            assert found.ready[one] == found.ready[two]
            return False
        assert rule in KEYS, f"{rule}: {one} instead of {two} at {time:g} s"
        key = KEYS[rule](replay, time)
        assert key[one] == pytest.approx(key[two], rel=1e-12, abs=1e-12), f"{rule} at {time:g} s"
        return False
    assert np.array_equal(found.node, wanted.node)
    assert np.array_equal(found.start, wanted.start)
    return True


@pytest.mark.parametrize("rule", START)
def test_start_weights_decide_as_the_rule_of_that_name(rule: str) -> None:
    equal = 0
    for seed in range(700, 760):
        due = True if rule == "llf" else None  # "deadline" is clipped, which llf without a deadline would show
        replay = draw_wide(seed, due=due) if seed % 2 or rule == "llf" else draw_replay(NumpyDice(seed))
        found, wanted = schedule_with(replay, start_weights(rule)), simulate(replay, rule)
        equal += assert_same_but_for_rounding(rule, replay, found, wanted)
    assert equal >= (5 if rule == "fcfs" else 50)


@pytest.mark.parametrize("rule", [rule for rule in START if rule != "fcfs"])
def test_start_weights_keep_the_rules_ties_where_numbers_do_not_round(rule: str) -> None:
    """Halves, one workflow, one pooled node, equal tasks: the tie order decides most of the time."""
    rng = np.random.default_rng(5)
    for _ in range(8):
        rows = [
            Task(f"{k}", float(rng.integers(1, 4)), {"cpu": float(rng.integers(1, 3))}, [f"{k // 3}"] if k > 2 else [])
            for k in range(30)
        ]
        replay = replay_of(Cluster.pooled({"cpu": 4.0}), Workflow.from_tasks("w", rows, deadline=40.0))
        assert decisions(schedule_with(replay, start_weights(rule))) == decisions(simulate(replay, rule))


# --- before training a network is its base ---------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["none", "gnn"])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 2.0, 1e6])
def test_an_untrained_network_decides_as_its_base(encoder: str, scale: float) -> None:
    for seed in range(760, 775):
        replay, base = draw_wide(seed), random_base(seed)
        untrained = random_checkpoint(seed=seed, base=base, trained=False, encoder=encoder, scale=scale)
        assert decisions(schedule_with(replay, untrained)) == decisions(schedule_with(replay, base))


def crowd(count: int, seed: int = 0, groups: int = 2) -> Replay:
    """All tasks ready at once."""
    rng = np.random.default_rng(seed)
    nodes = tuple(NodeGroup(f"g{g}", 2, {"cpu": 8.0, "mem": 8.0}, 1.0 + g) for g in range(groups))
    rows = [
        Task(f"{k}", float(rng.uniform(1, 9)), {"cpu": float(rng.integers(1, 5)), "mem": float(rng.integers(1, 5))})
        for k in range(count)
    ]
    cut = count // 3
    parts = (rows[:cut], rows[cut:]) if cut else (rows,)
    return replay_of(
        Cluster(nodes, ("cpu", "mem")), *(Workflow.from_tasks(f"w{w}", part) for w, part in enumerate(parts))
    )


@pytest.mark.parametrize("encoder", ["none", "gnn"])
def test_an_untrained_network_decides_as_its_base_with_more_tasks_than_candidates(encoder: str) -> None:
    replay, base = crowd(300), random_base(1)
    untrained = random_checkpoint(base=base, trained=False, encoder=encoder)
    found = schedule_with(replay, untrained)
    assert found.truncated_decisions > 80
    assert decisions(found) == decisions(schedule_with(replay, base))


def test_what_a_priority_reads_is_found_anew_for_each() -> None:
    left = [k for k, feature in enumerate(TASK_FEATURES) if feature.block == "workflow"]
    differ = 0
    for seed in range(30, 36):
        replay = draw_wide(seed)
        plain = random_base(seed)
        plain[left] = 0.0
        one_each = np.repeat(plain[None], len(left), axis=0)
        one_each[range(len(left)), left] = 50.0
        weights = np.vstack([plain, *one_each, plain])
        together = LinearRunner(Simulator(replay)).run_each(weights)
        for row, finish in zip(weights, together, strict=True):
            by_hand = follow_features(replay, row)
            np.testing.assert_array_equal(by_hand.task_finish, finish)
            differ += not np.array_equal(finish, together[0])
    assert differ > 5


def follow_features(replay: Replay, weights: FloatArray) -> Schedule:
    """The schedule of a priority that reads all its features at every decision."""
    simulator, watch = Simulator(replay), Watch(replay)
    tie = simulator.problem.tie
    going = simulator.advance()
    while going:
        able = simulator.eligible()
        if not len(able):  # an overdue task waits for room
            going = simulator.wait()
            continue
        tasks, features, _, _ = watch.observe(simulator)
        score = features[np.isin(tasks, able)] @ weights
        likely = able[score >= score.max() - 1e-9 * np.abs(score).max()]
        simulator.start(likely[np.argmin(tie[likely])])
        going = len(simulator.eligible()) > 0 or simulator.advance()
    schedule = simulator.schedule("by hand")
    validate(schedule)
    return schedule


def test_equal_scores_leave_the_choice_to_the_common_tie_order() -> None:
    replay = crowd(100)
    nothing = np.zeros_like(random_base(0))
    found = schedule_with(replay, random_checkpoint(base=nothing, trained=False))
    assert decisions(found) == decisions(schedule_with(replay, nothing))
    tie = Simulator(replay).problem.tie
    assert found.decision_task[0] == np.argmin(tie)


def test_an_untrained_network_that_may_wait_never_does() -> None:
    for seed in range(775, 785):
        replay, base = draw_wide(seed), random_base(seed)
        untrained = random_checkpoint(seed=seed, base=base, trained=False, wait=True)
        assert decisions(schedule_with(replay, untrained)) == decisions(schedule_with(replay, base))


def test_a_network_that_prefers_to_wait_waits_only_while_something_runs() -> None:
    waits = 0
    for seed in range(785, 800):
        replay = draw_wide(seed)
        keen = random_checkpoint(seed=seed, wait=True, margin=-1e6)
        waits += int((schedule_with(replay, keen).decision_task < 0).sum())
    assert waits > 50


# --- names and order mean nothing ------------------------------------------------------------------------------------


def renamed(workflow: Workflow, rows: list[Task], rng: np.random.Generator, name: str) -> tuple[Workflow, dict]:
    """The same workflow under other ids, its tasks in another order; and new id -> old id."""
    ids = rng.permutation(len(rows)) + 100
    new = {row.id: f"{i}" for row, i in zip(rows, ids, strict=True)}
    order = rng.permutation(len(rows))
    shuffled = [
        Task(new[rows[k].id], rows[k].duration, rows[k].demand, [new[p] for p in rows[k].parents]) for k in order
    ]
    made = Workflow.from_tasks(
        name, shuffled, arrival=workflow.arrival, deadline=workflow.deadline, weight=workflow.weight
    )
    return made, {v: k for k, v in new.items()}


@pytest.mark.parametrize("encoder", ["none", "gnn"])
@pytest.mark.parametrize("seed", range(4))
def test_renaming_permutes_features_and_logits_and_nothing_else(seed: int, encoder: str) -> None:
    rng = np.random.default_rng(seed)
    groups = (
        NodeGroup("a", 2, {"cpu": 6.0, "mem": 6.0}),
        NodeGroup("b", 1, {"cpu": 9.0, "mem": 4.0}, 2.0),
    )
    cluster = Cluster(groups, ("cpu", "mem"), bandwidth=8.0, latency=0.25)
    rows = [random_tasks(rng, int(rng.integers(5, 20))) for _ in range(4)]
    first, second, old_name = [], [], {}
    for w, mine in enumerate(rows):
        arrival = 0.0 if w < 2 else float(rng.uniform(0, 9))
        first.append(Workflow.from_tasks(f"w{w}", mine, arrival=arrival, deadline=arrival + 30, weight=1.0 + w))
        other, back = renamed(first[w], mine, rng, f"x{9 - w}")
        second.append(other)
        old_name |= {(f"x{9 - w}", new): (f"w{w}", old) for new, old in back.items()}
    one = replay_of(cluster, *first)
    two = replay_of(cluster, *(second[k] for k in rng.permutation(4)))
    at = {one.task_name(t): t for t in range(len(one))}
    place = np.array([at[old_name[two.task_name(t)]] for t in range(len(two))])  # task of two -> task of one
    assert not np.array_equal(place, np.arange(len(one)))
    checkpoint = random_checkpoint(seed=seed, encoder=encoder)
    sims = [Simulator(one), Simulator(two)]
    runners = [make_runner(sim, checkpoint, "ppo") for sim in sims]
    watches = [Watch(one), Watch(two)]
    going = [sim.advance() for sim in sims]
    compared = 0
    while all(going):
        seen = [watch.observe(sim) for watch, sim in zip(watches, sims, strict=True)]
        order = np.argsort(place[seen[1][0]])
        np.testing.assert_array_equal(place[seen[1][0]][order], seen[0][0])
        np.testing.assert_allclose(seen[1][1][order], seen[0][1], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(seen[1][2], seen[0][2], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(seen[1][3], seen[0][3], rtol=1e-9, atol=1e-9)
        (tasks, logits), (others, other_logits) = (r.logits() for r in runners if isinstance(r, NetworkRunner))
        back, forth = np.argsort(place[others]), np.argsort(tasks)
        np.testing.assert_array_equal(place[others][back], tasks[forth])
        np.testing.assert_allclose(other_logits[back], logits[forth], rtol=1e-4, atol=1e-5)
        task = int(tasks[np.argmax(logits)])
        for sim, t in zip(sims, (task, int(np.flatnonzero(place == task)[0])), strict=True):
            sim.start(t)
        going = [len(sim.eligible()) > 0 or sim.advance() for sim in sims]
        compared += 1
    assert not any(going)
    for sim in sims:
        validate(sim.schedule("stepped"))
    assert compared == len(one)


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both() -> list[object]:
    return [random_checkpoint("evolved", seed=3), random_checkpoint(seed=3), random_checkpoint(seed=3, encoder="gnn")]


def test_a_single_task_is_scheduled(both: list) -> None:
    replay = replay_of(Cluster.pooled({"cpu": 2.0}), Workflow.from_tasks("w", [Task("only", 3.0, {"cpu": 1})]))
    for checkpoint in both:
        assert schedule_with(replay, checkpoint).makespan == 3.0


def test_five_thousand_tasks_are_scheduled(both: list) -> None:
    rng = np.random.default_rng(0)
    groups = (NodeGroup("a", 30, {"cpu": 8.0, "mem": 8.0}), NodeGroup("b", 20, {"cpu": 8.0, "mem": 8.0}, 2.0))
    workflows = [
        Workflow.from_tasks(f"w{w}", random_tasks(rng, 1000), arrival=20.0 * w, deadline=20.0 * w + 2000)
        for w in range(5)
    ]
    replay = replay_of(Cluster(groups, ("cpu", "mem")), *workflows)
    assert len(replay) == 5000
    for checkpoint in both:
        assert len(decisions(schedule_with(replay, checkpoint))) == 5000


def test_a_thousand_independent_tasks_are_scheduled(both: list) -> None:
    replay = crowd(1000)
    for checkpoint in both:
        schedule = schedule_with(replay, checkpoint)
        assert (schedule.truncated_decisions > 500) == (checkpoint.kind == "ppo")


def test_forty_groups_are_all_seen_and_used(both: list) -> None:
    replay = crowd(400, groups=40)
    for checkpoint in both:
        used = np.unique(replay.cluster.node_group[schedule_with(replay, checkpoint).node])
        assert len(used) == 40


def test_workflows_of_milestones_alone_pass_through(both: list) -> None:
    rows = [Task("a", 0.0, {}), Task("b", 0.0, {}, ["a"]), Task("c", 0.0, {}, ["a"])]
    empty = [Workflow.from_tasks(f"m{k}", rows, arrival=2.0 * k) for k in range(3)]
    work = Workflow.from_tasks("w", [Task("a", 3.0, {"cpu": 1}), Task("b", 0.0, {}, ["a"])], arrival=2.0)
    for workflows in (empty, [*empty, work]):
        replay = replay_of(Cluster.pooled({"cpu": 2.0}), *workflows)
        for checkpoint in both:
            schedule = schedule_with(replay, checkpoint)
            assert len(schedule.decision_task) == len(workflows) - 3


def test_tasks_of_no_duration_are_scheduled(both: list) -> None:
    rows = [Task(f"{k}", 0.0, {"cpu": 2}, [f"{k - 1}"] if k % 3 else []) for k in range(12)]
    replay = replay_of(Cluster.pooled({"cpu": 2.0}), Workflow.from_tasks("w", rows))
    for checkpoint in both:
        assert schedule_with(replay, checkpoint).makespan == 0.0


# --- as policies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["evolved", "ppo"])
def test_the_policy_of_a_saved_checkpoint_decides_as_the_checkpoint(kind: str, tmp_path: object) -> None:
    checkpoint = random_checkpoint(kind, seed=4)
    folder = saved(tmp_path, "made", checkpoint)  # type: ignore[arg-type]
    for seed in range(800, 805):
        replay = draw_wide(seed)
        found = simulate(replay, f"{kind}:checkpoint={folder}")
        assert decisions(found) == decisions(schedule_with(replay, checkpoint))


@pytest.mark.parametrize("kind", ["evolved", "ppo"])
def test_decision_by_decision_equals_all_at_once(kind: str, tmp_path: object) -> None:
    spec = f"{kind}:checkpoint={saved(tmp_path, 'made', random_checkpoint(kind, seed=5, encoder='gnn'))}"  # type: ignore[arg-type]
    for seed in range(805, 812):
        replay = draw_wide(seed)
        simulator = Simulator(replay)
        run = make_policy(spec).begin(simulator)
        while not simulator.done:
            run.advance(1)
        schedule = simulator.schedule(spec)
        validate(schedule)
        assert decisions(schedule) == decisions(simulate(replay, spec))


def test_evolved_with_the_checkpoint_of_a_network_is_its_base(tmp_path: object) -> None:
    base = random_base(6)
    folder = saved(tmp_path, "made", random_checkpoint(seed=6, base=base))  # type: ignore[arg-type]
    for seed in range(812, 818):
        replay = draw_wide(seed)
        found = simulate(replay, f"evolved:checkpoint={folder}")
        assert decisions(found) == decisions(schedule_with(replay, base))
