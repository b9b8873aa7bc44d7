"""The compiled head against plain NumPy and torch, and what it keeps of a crowd of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch

from dagsched.features.kernel import STARTED
from dagsched.features.schema import CLIP, MOST_CANDIDATES
from dagsched.models.checkpoint import Checkpoint
from dagsched.nn.batch import make_batch
from dagsched.nn.encoder import graph_of
from dagsched.nn.export import build_model
from dagsched.policies.learned.learned_kernel import CUT
from dagsched.policies.learned.trained import LinearRunner, NetworkRunner, make_runner
from dagsched.replay import Replay
from dagsched.simulator import Simulator, validate
from tests.features.replays import draw_wide
from tests.features.watch import Watch, play
from tests.learn.made import Made
from tests.nn.plain import plain_decision
from tests.policies.nets import random_base, random_checkpoint
from tests.policies.test_learned import crowd

torch.set_num_threads(1)


@dataclass
class Seen:
    """One decision as the compiled head saw it, and the logits it gave."""

    made: Made
    logits: np.ndarray
    can_wait: bool


def start_order(runner: NetworkRunner) -> np.ndarray:
    """Tasks by workflow: those fully started in their order, then the others."""
    replay = runner.simulator.replay
    started = runner.tracker.order[: runner.tracker.counter[STARTED]].tolist()
    order: list[int] = []
    for w in range(len(replay.workflows)):
        mine = range(replay.workflow_ptr[w], replay.workflow_ptr[w + 1])
        order += [t for t in started if t in mine] + [t for t in mine if t not in started]
    return np.array(order, np.int64)


def capture(runner: NetworkRunner) -> Seen:
    tasks, logits = runner.logits()
    scratch, replay, count = runner.scratch, runner.simulator.replay, len(tasks)
    made = Made(
        replay=replay,
        row_ptr=np.array([0, count]),
        task=tasks,
        workflow=replay.workflow_of[tasks],
        started=runner.tracker.started[replay.workflow_of[tasks]].copy(),
        x=scratch.x[:count].copy(),
        z=scratch.z[:count].copy(),
        g=scratch.g[None].copy(),
        q=scratch.q[None].copy(),
        action=np.zeros(1, np.int64),
        time=np.array([runner.simulator.now]),
        reward=np.zeros(1),
        start_order=start_order(runner),
        can_wait=np.array([runner.simulator.can_wait]),
    )
    wait = scratch.logit[count]
    return Seen(made, np.append(logits, wait), bool(np.isfinite(wait)))


def seen_in(replay: Replay, checkpoint: Checkpoint, seed: int) -> list[Seen]:
    simulator = Simulator(replay)
    runner = make_runner(simulator, checkpoint, "ppo")
    assert isinstance(runner, NetworkRunner)
    found = [capture(runner) for _ in play(simulator, seed)]
    validate(simulator.schedule("random"))
    return found


@pytest.mark.parametrize("encoder", ["none", "gnn"])
@pytest.mark.parametrize("wait", [False, True])
def test_compiled_logits_are_those_of_numpy_and_of_torch(encoder: str, wait: bool) -> None:
    waited = 0
    for seed in range(6):
        replay = draw_wide(seed)
        checkpoint = random_checkpoint(seed=seed, encoder=encoder, wait=wait, residual=seed % 3 > 0)
        model = build_model(checkpoint.tensors, checkpoint.network)
        seen = seen_in(replay, checkpoint, seed)
        graph = partial(graph_of, normaliser=checkpoint.normaliser)
        fixed = pooled = np.zeros((0, 16), np.float32)
        if encoder == "gnn":
            made = graph(replay)
            fixed, pooled = (a.detach().numpy() for a in model.embed(made.x, made.edges))
        with torch.no_grad():
            out = model(make_batch([s.made for s in seen], graph if encoder == "gnn" else None))
        rows, total = 0, sum(len(s.made.task) for s in seen)
        for d, s in enumerate(seen):
            count = len(s.made.task)
            plain, _ = plain_decision(checkpoint.tensors, checkpoint.network, s.made, 0, fixed, pooled)
            from_torch = np.append(out.logits[rows : rows + count].numpy(), out.logits[total + d].item())
            rows += count
            shown = count + s.can_wait
            np.testing.assert_allclose(s.logits[:shown], plain[:shown], rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(s.logits[:shown], from_torch[:shown], rtol=1e-5, atol=1e-5)
            assert s.can_wait == (wait and bool(s.made.can_wait[0]))
            waited += s.can_wait
    assert (waited > 20) == wait


@pytest.mark.parametrize("seed", range(10, 16))
def test_inputs_are_the_raw_features_normalised_and_clipped(seed: int) -> None:
    replay = draw_wide(seed)
    checkpoint = random_checkpoint(seed=seed)
    norm = checkpoint.normaliser
    watch, simulator = Watch(replay), Simulator(replay)
    runner = make_runner(simulator, checkpoint, "ppo")
    clipped = 0
    for _ in play(simulator, seed):
        candidates, rows, general, groups = watch.observe(simulator)
        made = capture(runner).made
        order = np.argsort(made.task)
        np.testing.assert_array_equal(made.task[order], candidates)
        for found, raw, mean, std in (
            (made.x[order], rows, norm.task_mean, norm.task_std),
            (made.g[0], general, norm.global_mean, norm.global_std),
            (made.q[0], groups, norm.group_mean, norm.group_std),
        ):
            wanted = (raw - mean) / std
            clipped += int((np.abs(wanted) > CLIP).sum())
            np.testing.assert_allclose(found, np.clip(wanted, -CLIP, CLIP), rtol=1e-5, atol=1e-5)
        score = rows @ checkpoint.base
        spread = score.std()
        if spread > 1e-6:
            np.testing.assert_allclose(made.z[order], (score - score.mean()) / spread, rtol=1e-6, atol=1e-6)
    validate(simulator.schedule("random"))
    assert clipped > 0


@pytest.mark.parametrize("seed", range(20, 24))
def test_workflow_summaries_are_the_sums_over_what_has_not_fully_started(seed: int) -> None:
    replay = draw_wide(seed)
    simulator = Simulator(replay)
    runner = make_runner(simulator, random_checkpoint(seed=seed, encoder="gnn"), "ppo")
    assert isinstance(runner, NetworkRunner)
    rng = np.random.default_rng(seed)
    for _ in play(simulator, seed):
        if rng.random() < 0.5:
            continue  # somebody else decides meanwhile
        runner.logits()
        left = (simulator.state.task["unstarted"] > 0) | replay.milestone
        pooled = runner.scratch.pooled.astype(np.float64) * left[:, None]
        wanted = np.add.reduceat(pooled, replay.workflow_ptr[:-1], axis=0)
        np.testing.assert_allclose(runner.scratch.summary, wanted, rtol=1e-9, atol=1e-9)
    validate(simulator.schedule("random"))


def test_a_network_takes_over_from_a_person_as_if_it_had_watched() -> None:
    for seed in range(30, 36):
        replay = draw_wide(seed)
        checkpoint = random_checkpoint(seed=seed, encoder="gnn")
        simulator = Simulator(replay)
        watched = make_runner(simulator, checkpoint, "ppo")
        assert isinstance(watched, NetworkRunner)
        for step, _ in enumerate(play(simulator, seed)):
            tasks, logits = watched.logits()
            if step % 5 == 4:
                late = make_runner(simulator, checkpoint, "ppo")
                assert isinstance(late, NetworkRunner)
                late_tasks, late_logits = late.logits()
                np.testing.assert_array_equal(late_tasks, tasks)
                np.testing.assert_allclose(late_logits, logits, rtol=1e-5, atol=1e-6)
        validate(simulator.schedule("random"))


# --- more ready tasks than candidates --------------------------------------------------------------------------------


def staggered(seed: int) -> Replay:
    """Five crowds of one workflow each, arriving one after the other, with deadlines in another order."""
    from dagsched.cluster import Cluster
    from dagsched.task import Task
    from dagsched.workflow import Workflow
    from tests.policies.nets import replay_of

    rng = np.random.default_rng(seed)
    workflows = []
    for w in range(5):
        rows = [Task(f"{k}", float(rng.uniform(1, 9)), {"cpu": float(rng.integers(1, 5))}) for k in range(40)]
        rows.append(Task("last", float(rng.uniform(1, 60)), {"cpu": 1}, [f"{rng.integers(40)}"]))
        workflows.append(Workflow.from_tasks(f"w{w}", rows, arrival=2.0 * w, deadline=float(rng.uniform(90, 200))))
    return replay_of(Cluster.pooled({"cpu": 8.0}), *workflows)


@pytest.mark.parametrize("seed", range(40, 44))
def test_candidates_are_the_best_of_the_base_with_the_oldest_and_each_main_rules_pick(seed: int) -> None:
    replay, base = staggered(seed), random_base(seed)
    simulator = Simulator(replay)
    runner = make_runner(simulator, random_checkpoint(seed=seed, base=base), "ppo")
    assert isinstance(runner, NetworkRunner)
    watch = Watch(replay)
    problem, tie, cut, beyond = simulator.problem, simulator.problem.tie, 0, 0
    workflow = replay.workflow_of
    for _ in play(simulator, seed):
        able, rows, _, _ = watch.observe(simulator)
        kept = runner.logits()[0].tolist()
        assert len(set(kept)) == len(kept)
        if len(able) <= MOST_CANDIDATES:
            assert sorted(kept) == able.tolist()
            continue
        cut += 1
        assert runner.scratch.counter[CUT] == cut
        score = dict(zip(able.tolist(), (rows @ base).tolist(), strict=True))
        best = sorted(able.tolist(), key=lambda t: (-score[t], tie[t]))[: MOST_CANDIDATES - 5]
        keys = (
            simulator.state.task["ready_time"],
            -problem.bottom,
            simulator.state.workflow["left"][workflow],
            problem.fastest,
            replay.deadline[workflow],
        )
        picks = [int(able[np.lexsort((tie[able], key[able]))[0]]) for key in keys]
        assert set(kept) == set(best) | set(picks)
        beyond += len(set(picks) - set(best))
    validate(simulator.schedule("random"))
    assert cut > 30
    assert beyond > 10


def test_the_cut_is_counted_and_leaves_a_linear_priority_alone() -> None:
    replay = crowd(200)
    checkpoint = random_checkpoint(seed=1)
    simulators = [Simulator(replay), Simulator(replay)]
    runners = [make_runner(simulators[0], checkpoint, "ppo"), LinearRunner(simulators[1], checkpoint.base)]
    for runner in runners:
        runner.run()
    schedules = [s.schedule("learned") for s in simulators]
    for schedule in schedules:
        validate(schedule)
    assert schedules[0].truncated_decisions > 20
    assert schedules[1].truncated_decisions == 0
    runners[0].reset()
    runners[0].run()
    assert simulators[0].truncated == schedules[0].truncated_decisions
