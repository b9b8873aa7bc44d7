"""Ready tasks that a rule can tell apart by ties only are looked at once, and schedules stay what they were."""

from __future__ import annotations

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.policies.rules.alike import alike_by_estimate, alike_by_score
from dagsched.replay import Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.simulator import Simulator, kernel, validate
from dagsched.simulator.state import with_area_below
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.twin import NumpyDice, assert_same, kernel_schedule, run_twin

SCORED = (
    "hrrn", "srw", "srw*cp", "round-robin", "weighted-fair", "tetris", "tetris+srw", "cp+demand", "cp+demand+work",
)  # fmt: skip
BOOKED = ("min-min", "max-min", "sufferage")
GROUPS = (NodeGroup("a", 2, {"cpu": 4, "mem": 8}), NodeGroup("b", 1, {"cpu": 8, "mem": 4}, 2.0))


def crowded(seed: int) -> Replay:
    """Up to 60 tasks of a few demands and durations, in up to 3 workflows, some with several instances or a parent."""
    dice = NumpyDice(seed)
    demands = [{"cpu": dice.whole(1, 4), "mem": dice.whole(0, 4)} for _ in range(dice.whole(1, 3))]
    seconds = [dice.whole(1, 12) / 4 for _ in range(dice.whole(1, 3))]
    flows = []
    for w in range(dice.whole(1, 3)):
        rows = []
        for t in range(dice.whole(4, 20)):
            parents = (f"t{dice.whole(0, t - 1)}",) if t and dice.whole(0, 5) == 0 else ()
            carried = dict.fromkeys(parents, float(dice.whole(0, 2)))
            made = Task(
                f"t{t}", dice.pick(seconds), dice.pick(demands), parents, instances=dice.pick((1, 1, 1, 5)),
                edge_bytes=carried,
            )  # fmt: skip
            rows.append(made)
        flows.append(Workflow.from_tasks(f"w{w}", rows, arrival=float(dice.pick((0, 0, 2)))))
    cluster = Cluster(GROUPS, ("cpu", "mem"), bandwidth=dice.pick((1.0, np.inf)))
    options = SimulationOptions(
        decision_interval=dice.pick((0.0, 0.0, 1.0)),
        max_wait=dice.pick((np.inf, np.inf, 3.0)),
        instances_per_decision=dice.pick((0, 0, 2)),
    )
    return Replay.build(Workload("crowded", tuple(flows)), cluster, options=options)


@pytest.mark.parametrize("seed", range(2000, 2010))
def test_crowds_of_equal_tasks_are_scheduled_like_the_twin(seed: int) -> None:
    replay = crowded(seed)
    for rule in (*SCORED, *BOOKED):
        assert_same(kernel_schedule(replay, rule), run_twin(replay, rule))
        assert_same(kernel_schedule(replay, rule, one_by_one=True), run_twin(replay, rule))


def scattered(seed: int) -> Replay:
    """Up to 50 tasks, each with its own demand and duration, on nodes that fill up: bookings end long after others."""
    dice = NumpyDice(seed)
    rows = []
    for t in range(dice.whole(20, 50)):
        demand = {"cpu": dice.whole(1, 400) / 100, "mem": dice.whole(1, 400) / 100}
        parents = (f"t{dice.whole(0, t - 1)}",) if t and dice.whole(0, 9) == 0 else ()
        rows.append(Task(f"t{t}", dice.whole(1, 5000) / 100, demand, parents, instances=dice.pick((1, 1, 1, 9))))
    return Replay.build(
        Workload("scattered", (Workflow.from_tasks("w", rows),)), Cluster(GROUPS, ("cpu", "mem")),
        sigma=dice.pick((0.0, 0.4)),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_bookings_of_tasks_that_have_nothing_in_common_are_like_the_twins(seed: int) -> None:
    replay = scattered(seed)
    for rule in BOOKED:
        assert_same(kernel_schedule(replay, rule), run_twin(replay, rule))


def equal_tasks(count: int, **fields: object) -> Replay:
    flow = Workflow.from_tasks("w", [Task(f"t{t}", 2, {"cpu": 1}, **fields) for t in range(count)])  # type: ignore[arg-type]
    return Replay.build(Workload("equal", (flow,)), Cluster(GROUPS, ("cpu", "mem")))


@pytest.mark.parametrize("rule", range(10))
def test_equal_tasks_are_one_set_for_every_score(rule: int) -> None:
    simulator = Simulator(equal_tasks(200))
    problem = with_area_below(simulator.problem, simulator.replay)
    alike = alike_by_score(problem, rule, simulator.replay.place)
    kernel.run_by_score(problem, simulator.state, simulator.truth, alike, rule, 0.0, 0)
    simulator.advance()
    kernel.run_by_score(problem, simulator.state, simulator.truth, alike, rule, 0.0, 1)
    assert alike.counter[0] == 1
    assert alike.size[alike.open[0]] == 199


def test_tasks_of_own_demand_or_estimate_are_sets_of_their_own_where_a_rule_asks_for_it() -> None:
    rows = [Task("a", 2, {"cpu": 1}), Task("b", 2, {"cpu": 2}), Task("c", 3, {"cpu": 1}), Task("d", 2, {"cpu": 1})]
    replay = Replay.build(Workload("w", (Workflow.from_tasks("w", rows),)), Cluster(GROUPS, ("cpu", "mem")))
    problem = Simulator(replay).problem
    assert len(set(alike_by_score(problem, kernel.TETRIS, replay.place).kind.tolist())) == 2
    assert len(set(alike_by_score(problem, kernel.HRRN, replay.place).kind.tolist())) == 3
    kinds = alike_by_estimate(problem).kind.tolist()
    assert kinds[0] == kinds[3]
    assert len(set(kinds)) == 3


@pytest.mark.parametrize("rule", [*SCORED, *BOOKED, "tetris:score=published:eps=1"])
def test_thousands_of_equal_tasks_on_three_nodes_fill_them(rule: str) -> None:
    # Two nodes of 4 cpu at speed 1, one of 8 at speed 2: 24 tasks of 2 s in each 2 s, so 2,400 take 200 s.
    schedule = simulate(equal_tasks(2400), rule)
    validate(schedule)
    assert schedule.makespan == 200


@pytest.mark.parametrize("rule", BOOKED)
def test_booking_tasks_of_a_thousand_instances_fills_the_nodes(rule: str) -> None:
    schedule = simulate(equal_tasks(24, instances=1000), rule)
    validate(schedule)
    assert schedule.makespan == 2000


@pytest.mark.parametrize("rule", range(10))
def test_sets_gathered_anew_in_the_middle_of_a_replay_go_on_in_the_same_way(rule: int) -> None:
    for seed in range(3000, 3006):
        replay = crowded(seed)
        found = []
        for again in (False, True):
            simulator = Simulator(replay)
            while len(simulator.state.alloc) < 1000:
                simulator.grow()
            alike = alike_by_score(simulator.problem, rule, simulator.replay.place)
            for most in (7, 9, 2**62):
                if again:  # as a search does: sets that are in use are forgotten, or belong to another run
                    kernel.regroup(simulator.state, alike)
                kernel.run_by_score(simulator.problem, simulator.state, simulator.truth, alike, rule, 0.5, most)
            found.append(simulator.schedule("sets"))
        assert found[0].task.tolist() == found[1].task.tolist()
        assert found[0].start.tolist() == found[1].start.tolist()
