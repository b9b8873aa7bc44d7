"""Policies that say where a task goes: by a placement rule of their own, or by naming the node."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dagsched
from dagsched import Decision, ObservedState, PolicyError, SimulationOptions, simulate, validate
from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import InvalidScheduleError
from dagsched.policies.registry import list_policies, make_policy
from dagsched.replay import PLACEMENTS
from dagsched.schedule import WAIT, Schedule
from dagsched.schedule_io import load_schedule, save_schedule
from dagsched.simulator import Simulator, kernel
from dagsched.task import Task
from tests.handmade import one_workflow, random_replay

PLACED = [info.name for info in list_policies() if info.placed and info.kind != "learned"]
COLUMNS = ("task", "node", "count", "start", "finish", "decision_time", "decision_task", "decision_node")


def specs() -> list[str]:
    return [f"{name}:simulations=3" if name.startswith("mcts") else name for name in PLACED]


def same(one: Schedule, other: Schedule) -> bool:
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in COLUMNS)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_policy_under_a_placement_equals_the_policy_on_a_replay_with_it(placement: str) -> None:
    for seed in range(2):
        replay = random_replay(seed, tasks=12)
        wanted = replay.with_options(SimulationOptions(placement=placement))  # type: ignore[arg-type]
        for spec in (*specs(), "evolved:objective=flow_time"):
            found = simulate(replay, f"{spec}:placement={placement}", policy_seed=seed)
            validate(found)
            assert same(found, simulate(wanted, spec, policy_seed=seed)), spec
            assert found.policy == f"{spec}:placement={placement}"


def test_a_plan_of_a_batch_heeds_the_placement() -> None:
    groups = (NodeGroup("a", 3, {"cpu": 2}), NodeGroup("b", 2, {"cpu": 4}, 2.0))
    tasks = [Task(f"t{k}", 3.0 + k % 4, {"cpu": 1 + k % 2}, (f"t{k - 4}",) if k > 3 else ()) for k in range(16)]
    replay = one_workflow(tasks, Cluster(groups))
    for placement in PLACEMENTS:
        wanted = one_workflow(tasks, Cluster(groups), placement=placement)
        found = simulate(replay, f"mcts-rules:search=plan:simulations=2:placement={placement}")
        validate(found)
        assert found.report["search"] == "plan"
        assert found.makespan == simulate(wanted, "mcts-rules:search=plan:simulations=2").makespan


def test_one_comparison_compares_placements() -> None:
    policies = ["critical-path", *(f"critical-path:placement={rule}" for rule in PLACEMENTS)]
    workload = random_replay(3).workload
    found = dagsched.compare_baselines([workload], policies, cluster=random_replay(3).cluster)
    flow = {row["policy"]: row["mean_flow_time"] for row in found.rows}
    assert flow["critical-path"] == flow["critical-path:placement=earliest-finish"]
    assert len(set(flow.values())) > 2


def test_who_chooses_nodes_itself_takes_no_placement() -> None:
    for spec in ("heft", "min-min", "evolved-sample", "sampling"):
        with pytest.raises(PolicyError, match="chooses its nodes itself and takes no placement"):
            make_policy(f"{spec}:placement=random")
    with pytest.raises(PolicyError, match=r"placement is 'tight', expected one of earliest-finish, best-fit"):
        make_policy("critical-path:placement=tight")
    with pytest.raises(PolicyError, match="options of critical-path: placement"):
        make_policy("critical-path:place=random")


def last_node(state: ObservedState) -> Decision:
    """The first eligible task, on the last node that has room."""
    task = int(state.eligible[0])
    return Decision(task, node=int(state.nodes_for(task)[-1]))


def test_a_rule_may_name_the_node_and_the_log_says_so() -> None:
    for seed in range(20):
        replay = random_replay(seed, **({"max_wait": 3.0} if seed % 2 else {}))
        found = simulate(replay, last_node)
        validate(found)
        chosen = found.decision_node >= 0
        assert chosen.any()
        for moment, task, node in zip(
            found.decision_time[chosen], found.decision_task[chosen], found.decision_node[chosen], strict=True
        ):
            assert ((found.start == moment) & (found.task == task) & (found.node == node)).any()


def test_the_state_shows_room_by_node_and_group() -> None:
    seen = 0

    def watching(state: ObservedState) -> np.ndarray:
        nonlocal seen
        for task in state.eligible:
            fits = [n for n in range(len(state.free)) if kernel.node_fits(simulator.problem, simulator.state, task, n)]
            assert state.nodes_for(int(task)).tolist() == fits
            seen += 1
        for group in range(state.estimate.shape[1]):
            assert state.group_free[group].tolist() == state.free[state.node_group == group].sum(axis=0).tolist()
        return -state.fastest[state.eligible]

    for seed in range(5):
        simulator = Simulator(random_replay(seed))
        run = dagsched.run_policy.as_policy(watching).begin(simulator)
        run.advance(10**9)
        validate(simulator.schedule("watching"))
    assert seen > 100


def three() -> object:
    groups = (NodeGroup("small", 1, {"cpu": 1}), NodeGroup("large", 2, {"cpu": 4}))
    tasks = [Task("one", 2.0, {"cpu": 1}, instances=6), Task("two", 3.0, {"cpu": 3})]
    return one_workflow(tasks, Cluster(groups))


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        (Decision(1, node=0), r"policy f: task 'two' of workflow 'w' does not fit node 'small/0' at 0 s"),
        (Decision(1, group=0), r"policy f: task 'two' of workflow 'w' does not fit group 'small' at 0 s"),
        (Decision(1, node=7), r"node is 7, expected 0 to 2"),
        (Decision(1, group=2), r"group is 2, expected 0 to 1"),
        (Decision(9), r"policy f: task 9 is not eligible at 0 s"),
        (Decision(-7), r"task of its decision is -7, expected a whole number >= -1"),
        (Decision(0.5), r"task of its decision is 0.5, expected a whole number"),  # type: ignore[arg-type]
        (Decision(True), r"task of its decision is True, expected a whole number"),
        (Decision(0, count=-1), r"count of its decision is -1, expected a whole number >= 0"),
        (Decision(0, count=2**63), r"count of its decision is 9223372036854775808, expected a whole number .* 2\^62"),
        (None, r"policy f: the function returned nothing"),
        (Decision(WAIT), r"policy f: asks to wait at 0 s, but nothing is running"),
    ],
)
def test_a_decision_that_cannot_be_names_rule_task_and_node(decision: Decision, says: str) -> None:
    def f(state: ObservedState) -> Decision:
        return decision

    with pytest.raises(PolicyError, match=says):
        simulate(three(), f)  # type: ignore[arg-type]


def test_group_and_count_by_hand() -> None:
    """Six instances of one: two on the tightest large node, then what fits; two goes to the other large node."""
    answers = iter([Decision(0, group=1, count=2), Decision(1, node=2), Decision(0), Decision(WAIT)])

    def f(state: ObservedState) -> Decision:
        return next(answers, Decision(int(state.eligible[0])) if len(state.eligible) else Decision(WAIT))

    found = simulate(three(), f)  # type: ignore[arg-type]
    validate(found)
    log = list(zip(*(getattr(found, f"decision_{n}").tolist() for n in ("time", "task", "node", "count")), strict=True))
    assert log == [(0.0, 0, 1, 2), (0.0, 1, 2, 1), (0.0, 0, -1, 4)]
    rows = sorted(zip(found.task.tolist(), found.node.tolist(), found.count.tolist(), strict=True))
    assert rows == [(0, 0, 1), (0, 1, 4), (0, 2, 1), (1, 2, 1)]


def test_the_validator_checks_chosen_nodes_and_counts() -> None:
    found = simulate(random_replay(2), last_node)
    validate(found)
    at = int(np.flatnonzero(found.decision_node >= 0)[3])
    for name, value, says in (
        ("decision_node", 0 if found.decision_node[at] else 1, "was decided for node"),
        ("decision_node", 99, "node 99"),
        ("decision_count", 50, "53 instances of workflow"),
        ("decision_count", -1, "count -1"),
    ):
        array = getattr(found, name).copy()
        array[at] = value
        with pytest.raises(InvalidScheduleError, match=says):
            validate(replace(found, **{name: array}))
    waiting = simulate(random_replay(1), "heft")
    [first, *_] = np.flatnonzero(waiting.decision_task == WAIT)
    array = waiting.decision_node.copy()
    array[first] = 0
    with pytest.raises(InvalidScheduleError, match="a WAIT with node 0"):
        validate(replace(waiting, decision_node=array))


def test_the_file_keeps_chosen_nodes_and_older_files_load(tmp_path: Path) -> None:
    found = simulate(random_replay(2), last_node)
    save_schedule(found, tmp_path / "s.json")
    again = load_schedule(tmp_path / "s.json", found.replay)
    assert again.decision_node.tolist() == found.decision_node.tolist()
    assert again.decision_count.tolist() == found.decision_count.tolist()
    data = json.loads((tmp_path / "s.json").read_text())
    data["decision_columns"] = data["decision_columns"][:3]
    data["decisions"] = [row[:3] for row in data["decisions"]]
    (tmp_path / "old.json").write_text(json.dumps(data))
    old = load_schedule(tmp_path / "old.json", found.replay)
    validate(old)
    assert (old.decision_node == -1).all()
    assert (old.decision_count == 0).all()
    assert old.decision_task.tolist() == found.decision_task.tolist()
