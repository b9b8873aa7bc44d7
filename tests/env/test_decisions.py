"""Which decisions an episode asks for, and what an action does."""

from __future__ import annotations

import copy
import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.env import WorkflowEnv
from dagsched.errors import PolicyError
from dagsched.features.linear import START
from dagsched.replay import Replay, SimulationOptions
from dagsched.run_policy import simulate
from dagsched.schedule import WAIT
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.bench.data import forty_groups, four_groups, layered, wide
from tests.env.play import at_random, env_of, first, play
from tests.handmade import one_workflow, random_replay
from tests.twin import NumpyDice, draw_replay

EXACT = [rule for rule in START if rule not in ("lst", "llf", "fcfs")]
"""``lst`` breaks ties of equal sums by rounding; ``llf`` leaves tasks without a deadline to ties; the ties of ``fcfs``
go by the place in the source, those of candidates do not."""
POOL = Cluster.pooled({"cpu": 2.0})


def decisions(schedule: object) -> list[tuple[float, int]]:
    log = zip(schedule.decision_time.tolist(), schedule.decision_task.tolist(), strict=True)  # type: ignore[attr-defined]
    return list(log)


@pytest.mark.parametrize("rule", EXACT)
def test_the_first_legal_action_is_the_base_rule_decision_by_decision(rule: str) -> None:
    for seed in range(25):
        replay = draw_replay(NumpyDice(seed), rough=True)
        schedule, _, _ = play(env_of(replay, base=rule))
        assert decisions(schedule) == decisions(simulate(replay, rule)), seed


@pytest.mark.parametrize("rule", ["critical-path", "cp+demand+work"])
def test_the_first_action_is_the_base_rule_with_thousands_of_ready_tasks(rule: str) -> None:
    replay = Replay.build(wide(3000, seed=4), four_groups())
    schedule, _, _ = play(env_of(replay, base=rule, skip_forced=True))
    assert decisions(schedule) == decisions(simulate(replay, rule))
    assert schedule.truncated_decisions > 100


def test_only_legal_actions_are_taken_in_100_000_random_steps() -> None:
    steps = seed = 0
    while steps < 100_000:
        seed += 1
        replay = draw_replay(NumpyDice(seed), tasks=200, rough=seed % 2 == 0)
        env = env_of(replay, skip_forced=seed % 3 == 0)
        env.reset()
        rng = np.random.default_rng(seed)
        chosen, over = [], False
        while not over:
            episode = env._running()
            legal = episode.legal()
            action = legal[int(rng.random() * len(legal))]
            if not episode.done:  # else nothing is left to decide: the last step only ends the episode
                chosen.append(episode.task_of(action))
            _, _, over, _, _ = env.step(action)
            steps += 1
        log = env.schedule().decision_task.tolist()
        if not env.settings.skip_forced:
            assert log == chosen, seed
        else:
            rest = iter(log)
            assert all(task in rest for task in chosen), seed


@pytest.mark.parametrize("observation", ["flat", "graph"])
def test_every_schedule_of_random_actions_passes_the_validator(observation: str) -> None:
    for seed in range(40):
        replay = draw_replay(NumpyDice(500 + seed), rough=seed % 2 == 0)
        play(env_of(replay, observation=observation, skip_forced=seed % 2 == 1), at_random(seed))


@pytest.mark.parametrize("observation", ["flat", "graph"])
@pytest.mark.parametrize("tasks", [1, 2, 20, 700, 5000])
def test_workflows_of_1_to_5000_tasks_run(tasks: int, observation: str) -> None:
    workload = layered(tasks, seed=1) if tasks > 20 else small(tasks)
    env = WorkflowEnv(workload=workload, cluster=four_groups(), observation=observation, allow_wait=False)
    schedule, _, infos = play(env, at_random(1))
    assert len(schedule.task) == tasks
    assert infos[-1]["metrics"]["makespan"] == schedule.makespan


@pytest.mark.parametrize("observation", ["flat", "graph"])
@pytest.mark.parametrize("groups", [1, 2, 31, 32, 33, 40])
def test_clusters_of_1_to_40_groups_run(groups: int, observation: str) -> None:
    many = forty_groups(2)
    cluster = Cluster((NodeGroup("all", 1, {"cpu": 24, "memory": 128}), *many.groups[1:groups]))
    play(WorkflowEnv(workload=layered(60, seed=2), cluster=cluster, observation=observation), at_random(2))


def small(tasks: int) -> Workload:
    return Workload("small", (Workflow.from_tasks("w", [Task(f"t{k}", 2.0, {"cpu": 1}) for k in range(tasks)]),))


@pytest.mark.parametrize("observation", ["flat", "graph"])
@pytest.mark.parametrize("skip", [False, True])
def test_a_single_task_without_edges_is_one_decision(observation: str, skip: bool) -> None:
    env = WorkflowEnv(workload=small(1), cluster=POOL, observation=observation, skip_forced=skip)
    schedule, rewards, _ = play(env)
    assert rewards == [-1.0]
    assert decisions(schedule) == [(0.0, 0)]


@pytest.mark.parametrize("observation", ["flat", "graph"])
def test_milestones_alone_end_with_the_first_step(observation: str) -> None:
    tasks = [Task("a", 0.0, {}), Task("b", 0.0, {}, ("a",))]
    env = env_of(one_workflow(tasks, POOL), observation=observation)
    env.reset()
    assert np.flatnonzero(env.action_masks()).tolist() == [64]
    with pytest.raises(PolicyError, match="action 0 is not legal at 0 s; legal are 64"):
        env.step(0)
    _, reward, over, truncated, info = env.step(64)
    assert (reward, over, truncated) == (0.0, True, False)
    assert info["metrics"]["makespan"] == 0.0


def test_wait_is_legal_only_while_work_runs() -> None:
    env = env_of(one_workflow([Task("a", 3.0, {"cpu": 1}), Task("b", 2.0, {"cpu": 1})], POOL))
    _, info = env.reset()
    assert np.flatnonzero(info["action_mask"]).tolist() == [0, 1]
    assert env.candidates() == [0, 1]
    _, _, _, _, info = env.step(0)
    assert np.flatnonzero(info["action_mask"]).tolist() == [0, 64]
    assert env.candidates() == [1, WAIT]
    _, _, _, _, info = env.step(64)
    assert info["time"] == 3.0
    assert np.flatnonzero(info["action_mask"]).tolist() == [0]


def test_wait_can_be_left_out_and_forced_moves_skipped() -> None:
    tasks = [Task("a", 3.0, {"cpu": 1}), Task("b", 2.0, {"cpu": 1}), Task("c", 1.0, {"cpu": 1}, ("a", "b"))]
    replay = one_workflow(tasks, POOL)
    _, rewards, _ = play(env_of(replay, allow_wait=False, skip_forced=True))
    assert len(rewards) == 1
    schedule, rewards, _ = play(env_of(replay, allow_wait=False))
    assert len(rewards) == 3
    assert schedule.makespan == 4.0


def test_the_starvation_guard_masks_everything_else() -> None:
    early = [Task("long", 10.0, {"cpu": 1}), Task("wide", 1.0, {"cpu": 2})]
    late = [Task("a", 1.0, {"cpu": 1}), Task("b", 1.0, {"cpu": 1})]
    workflows = (Workflow.from_tasks("early", early), Workflow.from_tasks("late", late, arrival=3.0))
    env = env_of(Replay.build(Workload("guarded", workflows), POOL, options=SimulationOptions(max_wait=2.0)))
    env.reset()
    assert env.candidates() == [0, 1]
    _, _, _, _, info = env.step(0)
    assert info["time"] == 3.0
    assert env.candidates() == [WAIT]  # "a" and "b" fit, but would keep "wide" from its second core
    _, _, _, _, info = env.step(64)
    assert info["time"] == 10.0
    assert env.candidates() == [1]  # all are overdue: the oldest
    schedule, _, _ = play(env)
    assert schedule.decision_task.tolist() == [0, WAIT, 1, 2, 3]


def test_an_illegal_action_is_named_with_the_legal_ones() -> None:
    env = env_of(one_workflow([Task("a", 3.0, {"cpu": 1}), Task("b", 2.0, {"cpu": 1})], POOL))
    env.reset()
    for action in (2, 64, -1, 65, 10**6):
        with pytest.raises(
            PolicyError, match=rf"action {action} is not legal at 0 s; legal are 0 \(start 'a' of 'w'\)"
        ):
            env.step(action)
    env.step(0)


def test_an_illegal_action_can_cost_a_penalty_instead() -> None:
    replay = one_workflow([Task("a", 3.0, {"cpu": 1}), Task("b", 2.0, {"cpu": 1})], POOL)
    env = env_of(replay, on_illegal="penalise", illegal_penalty=0.25)
    env.reset()
    _, reward, _, _, info = env.step(33)
    assert (reward, info["reward/illegal"]) == (-0.25, -0.25)
    assert env.candidates() == [1, WAIT]
    for action in (-1, 65):
        play(env, lambda _env, _obs, action=action: action)


def test_max_steps_truncates() -> None:
    env = env_of(random_replay(1), max_steps=5)
    env.reset()
    flags = [env.step(first(env, None))[2:4] for _ in range(5)]
    assert flags == [(False, False)] * 4 + [(False, True)]
    with pytest.raises(PolicyError, match="call reset"):
        env.step(0)
    with pytest.raises(PolicyError, match="has not ended"):
        env.schedule()


def test_a_seed_decides_everything_that_is_drawn() -> None:
    def digests(seed: int) -> list[str]:
        env = WorkflowEnv(workload=[layered(20 + k, seed=k) for k in range(5)], cluster=four_groups(), noise=0.5)
        found = []
        for number in range(6):
            env.reset(seed=seed if number == 0 else None)
            found.append(env.replay.digest)
        return found

    assert digests(3) == digests(3)
    assert digests(3) != digests(4)
    assert len(set(digests(3))) > 3


_PLAY = """
import hashlib
from dagsched.env import WorkflowEnv
from tests.env.play import at_random
env = WorkflowEnv(workload="workloads/wfcommons", cluster="small", observation="graph", noise=0.3)
choose, digest = at_random(5), hashlib.sha256()
for seed in range(4):
    observation, _ = env.reset(seed=seed)
    over = False
    while not over:
        observation, reward, over, _, _ = env.step(choose(env, observation))
        for array in observation.values():
            digest.update(array.tobytes())
        digest.update(repr(reward).encode())
print(digest.hexdigest())
"""


def test_nothing_depends_on_the_hash_seed() -> None:
    outputs = []
    for seed in ("0", "77"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": "."}
        command = [sys.executable, "-c", _PLAY]
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(outputs[0].strip()) == hashlib.sha256().digest_size * 2
    assert outputs[0] == outputs[1]


def test_logs_grow_with_thousands_of_chosen_waits_and_a_forced_one_is_logged_once() -> None:
    early = [Task("long", 300.0, {"cpu": 1}), Task("wide", 1.0, {"cpu": 2})]
    late = [Task("a", 1.0, {"cpu": 1})]
    workflows = (Workflow.from_tasks("early", early), Workflow.from_tasks("late", late, arrival=160.0))

    def patient(env: WorkflowEnv, _observation: object) -> int:
        return 0 if env._running().simulator.now == 0 else int(np.flatnonzero(env.action_masks())[-1])

    for guard in (np.inf, 150.0):
        options = SimulationOptions(decision_interval=0.1, max_wait=guard)
        replay = Replay.build(Workload("ticks", workflows), POOL, options=options)
        env = env_of(replay, skip_forced=True, allow_wait=guard == np.inf)
        schedule, rewards, _ = play(env, patient)
        assert schedule.decision_task[0] == 0
        waits = (schedule.decision_task == WAIT).sum()
        assert waits > 1300 if guard == np.inf else waits == 1
        assert len(rewards) > 1300 if guard == np.inf else len(rewards) < 5


@pytest.mark.parametrize("observation", ["flat", "graph"])
def test_a_copy_of_an_environment_is_a_fork_of_its_episode(observation: str) -> None:
    env = env_of(random_replay(5), observation=observation)
    env.reset()
    for _ in range(30):
        env.step(first(env, None))
    fork = copy.deepcopy(env)

    def rest(env: WorkflowEnv) -> list[tuple[float, float]]:
        found, over = [], False
        while not over:
            _, reward, over, _, info = env.step(first(env, None))
            found.append((reward, info["time"]))
        return found

    ended = rest(env)
    assert len(ended) > 20
    assert rest(fork) == ended


def test_decisions_at_ticks_only() -> None:
    replay = random_replay(3)
    replay = replace(replay, options=SimulationOptions(decision_interval=5.0), _cache={})
    schedule, _, _ = play(env_of(replay), at_random(1))
    assert (schedule.decision_time % 5.0 == 0).all()
