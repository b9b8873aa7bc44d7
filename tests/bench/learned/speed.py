"""Times: a decision with its features, the encoder, and decisions per second while training."""

from __future__ import annotations

import time
from argparse import Namespace
from functools import partial

import numpy as np

from dagsched.cluster import Cluster
from dagsched.features import kernel as features
from dagsched.features.builder import Normaliser
from dagsched.features.linear import start_weights
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, MOST_CANDIDATES, NODE_FEATURES, TASK_NAMES, columns
from dagsched.generate.suite import Suite
from dagsched.learn.algorithm import TrainingStep, take_step
from dagsched.learn.episode_runner import EpisodeRunner, linear_costs
from dagsched.learn.learner import Learner
from dagsched.learn.ppo import PPO
from dagsched.learn.ppo_settings import PPOSettings
from dagsched.learn.rollout import NetworkEpisodeRunner
from dagsched.models.checkpoint import Checkpoint, load_checkpoint
from dagsched.models.index import choose
from dagsched.nn.config import NetworkConfig
from dagsched.policies.learned.learned_kernel import COUNT
from dagsched.policies.learned.trained import LinearRunner, NetworkRunner, make_runner
from dagsched.replay import Replay
from dagsched.simulator import Simulator, kernel
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.bench.learned.rows import head, note, row

NETWORKS = {"build": 16, "online-layered": 2}
"""Suites on which a network is timed too, and on how many instances."""
CHAINS = 79
CLUSTER = Cluster.pooled({"cpu": 16.0, "memory": 64.0})


def measure_latency(options: Namespace) -> None:
    """Milliseconds of a decision among 64 candidates, features included, at 1,000 and 10,000 tasks; one thread."""
    head("policy", "tasks", "candidates", "decisions", "p50, ms", "p99, ms", "compiled run, ms a decision")
    for kind in ("evolved", "ppo"):
        medians = {}
        for tasks in (1_000, 10_000):
            replay = _chains(tasks)
            runner = make_runner(Simulator(replay), _checkpoint(replay, options), kind)
            _one_by_one(runner)  # compiles
            took, count = _one_by_one(runner)
            runner.reset()
            began = time.perf_counter()
            runner.run()
            whole = (time.perf_counter() - began) / int(runner.simulator.state.counter[kernel.DECISIONS])
            chosen = took[count >= 0.9 * MOST_CANDIDATES]
            low, high = np.quantile(chosen, [0.5, 0.99])
            medians[tasks] = low
            row(
                kind,
                f"{tasks:,}",
                f"{count[count >= 0.9 * MOST_CANDIDATES].mean():.0f}",
                len(chosen),
                float(low),
                float(high),
                1e3 * whole,
            )
        growth = medians[10_000] / medians[1_000]
        note(f"{kind}: 10,000 tasks over 1,000 at the same number of candidates: {growth:.2f}\n")
    _encoder(options)


def measure_speed(options: Namespace) -> None:
    """Simulated decisions per second of the stages evolve and ppo; networks as in ``--checkpoint``, else untrained."""
    head("suite", "stage", "threads", "decisions/s", "note")
    for name in (*NETWORKS, "online-tpch-like", "rcpsp-60", "rcpsp-120"):
        suite = Suite.load(name)
        count = options.limit or (16 if suite.objective == "makespan" else 8)
        runners = [EpisodeRunner(suite.replay("train", k), suite.objective) for k in range(count)]
        base = start_weights("lft" if suite.objective == "makespan" else "srw")
        length = sum(_decisions(runner, base) for runner in runners)
        vectors = np.tile(base, (max(1, 40_000 // length), 1))
        for threads in sorted({1, options.threads}):
            took = _best_time(partial(linear_costs, vectors, runners, threads))
            row(
                name,
                "evolve",
                threads,
                length * len(vectors) / took,
                f"{count} instances, {length // count} decisions each",
            )
            if name in NETWORKS:
                _speed_of_ppo(name, runners[: NETWORKS[name]], base, threads, options)


def _speed_of_ppo(name: str, runners: list[EpisodeRunner], base: np.ndarray, threads: int, options: Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    found = _checkpoint(runners[0].replay, options)
    assert found.network is not None
    learner = Learner(found.network, base, found.normaliser, threads=threads)
    learner.load(found.tensors)
    networks = [NetworkEpisodeRunner(runner) for runner in runners]
    settings = PPOSettings(instances=len(runners), rollouts=8, epochs=3, target_kl=None)  # no step ends early
    seeds = learner.seeds(np.random.default_rng(0), len(runners), settings.rollouts)
    learner.sample(networks, seeds, temperature=1.0)
    began = time.perf_counter()
    runs = [t for group in learner.sample(networks, seeds, temperature=1.0) for t in group]
    took = time.perf_counter() - began
    played, choices, rows = (sum(n) for n in zip(*((t.length, len(t), len(t.task)) for t in runs), strict=True))
    what = f"{found.network.encoder} encoder, {settings.rollouts} rollouts of an instance"
    row(name, "ppo, collecting", threads, played / took, what)
    algorithm = PPO(learner, settings)
    take_step(algorithm, TrainingStep(0, runners, np.random.default_rng(0), 0.0))  # compiles
    began = time.perf_counter()
    report = take_step(algorithm, TrainingStep(0, runners, np.random.default_rng(0), 0.0))
    took = time.perf_counter() - began
    updates = report.scalars.get("train/n_updates", 0)
    row(
        name,
        "ppo, whole step",
        threads,
        report.decisions / took,
        f"{took:.1f} s a step, {settings.epochs} epochs, {updates:.0f} gradient steps; {choices / played:.0%} of the "
        f"decisions with a choice, of {rows / max(1, choices):.1f} candidates",
    )


def _encoder(options: Namespace) -> None:
    """Milliseconds to embed all tasks of a workflow, once when it arrives."""
    from dagsched.nn.inference import embed, embedder, inputs

    head("encoder", "tasks", "edges", "network, ms", "with features, ms")
    for tasks in (100, 1_000, 10_000):
        replay = _chains(tasks)
        found = _checkpoint(replay, options)
        assert found.network is not None
        if found.network.encoder == "none":
            note("the network has no encoder")
            return
        x = inputs(replay, found.normaliser)
        forward = _best_time(partial(embed, found.tensors, found.network, x, replay))
        whole = _best_time(partial(embedder(found.tensors, found.network, found.normaliser), replay))
        shape = f"width {found.network.width}, {found.network.layers} layers"
        row(shape, f"{tasks:,}", f"{len(replay.parent_idx):,}", 1e3 * forward, 1e3 * whole)


def _chains(tasks: int) -> Replay:
    """79 chains on 16 cores, each task on one core: whatever the policy, 64 are eligible when one core is free."""
    rng = np.random.default_rng(0)
    made = []
    for k in range(tasks):
        parents = [f"t{p}" for p in (k - CHAINS, k - 2 * CHAINS) if p >= 0]
        demand = {"cpu": 1.0, "memory": float(rng.integers(1, 4))}
        made.append(Task(f"t{k}", float(rng.lognormal(1.2, 0.5)), demand, parents=parents))
    return Replay.build(Workload("chains", (Workflow.from_tasks("w", made),)), CLUSTER)


def _one_by_one(runner: LinearRunner) -> tuple[np.ndarray, np.ndarray]:
    """(ms, candidates) of every decision, each a call from Python."""
    runner.reset()
    simulator, took, count = runner.simulator, [], []
    while not simulator.done:
        began = time.perf_counter()
        runner.run(1)
        took.append(1e3 * (time.perf_counter() - began))
        if isinstance(runner, NetworkRunner):
            count.append(int(runner.scratch.counter[COUNT]))
        else:
            count.append(min(int(runner.tracker.signal[features.ELIGIBLE]), MOST_CANDIDATES))
    return np.array(took), np.array(count)


def _checkpoint(replay: Replay, options: Namespace) -> Checkpoint:
    """The network of ``--checkpoint`` for this replay; without one, an untrained network of the default size."""
    if options.checkpoint is not None:
        found = load_checkpoint(choose(options.checkpoint, replay, None))
        if found.network is not None:
            return found
    names = tuple(TASK_NAMES[k] for k in columns(("base", "typed")))
    sizes = {
        "task": len(TASK_NAMES),
        "global": len(GLOBAL_NAMES),
        "group": len(GROUP_NAMES),
        "node": len(NODE_FEATURES),
    }
    zeros = {f"{name}_mean": np.zeros(size) for name, size in sizes.items()}
    plain = Normaliser(**zeros, **{f"{name}_std": np.ones(size) for name, size in sizes.items()})
    learner = Learner(NetworkConfig(features=names), start_weights("lft"), plain)
    return learner.checkpoint("makespan", {})


def _decisions(runner: EpisodeRunner, base: np.ndarray) -> int:
    runner.run_linear(base)
    return int(runner.simulator.state.counter[kernel.DECISIONS])


def _best_time(work, rounds: int = 5) -> float:  # type: ignore[no-untyped-def]
    """Least seconds of some rounds, after one that does not count."""
    work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)
