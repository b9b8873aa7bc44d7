"""Checkpoints with random weights: what holds for them holds for any trained policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dagsched.features import schema
from dagsched.features.builder import Normaliser
from dagsched.features.linear import start_weights
from dagsched.models.checkpoint import Checkpoint, save_checkpoint
from dagsched.nn.config import NetworkConfig
from dagsched.nn.shapes import weight_shapes
from dagsched.policies.learned.trained import LinearRunner, make_runner
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.simulator import Simulator, validate
from dagsched.task import Task
from dagsched.workflow import FloatArray, Workflow
from dagsched.workload import Workload

EVERY_FEATURE = schema.TASK_NAMES


def random_base(seed: int) -> FloatArray:
    """Some weight on every feature, little on those that may be large."""
    rng = np.random.default_rng(seed)
    return np.asarray(start_weights("cp+demand+work") + 0.1 * rng.normal(size=len(schema.TASK_NAMES)))


def random_normaliser(seed: int) -> Normaliser:
    rng = np.random.default_rng(seed)
    rows = [
        rng.normal(rng.uniform(0, 1, len(names)), rng.uniform(0.5, 2, len(names)), (50, len(names)))
        for names in (schema.TASK_NAMES, schema.GLOBAL_NAMES, schema.GROUP_NAMES, schema.NODE_FEATURES)
    ]
    return Normaliser.fit(*rows)


def random_checkpoint(
    kind: str = "ppo",
    *,
    seed: int = 0,
    base: FloatArray | None = None,
    trained: bool = True,
    strength: float = 0.3,
    **network: object,
) -> Checkpoint:
    """``trained=False``: the last layers are zero, as before training. ``network``: fields of ``NetworkConfig``."""
    base = random_base(seed) if base is None else base
    normaliser = random_normaliser(seed)
    if kind == "evolved":
        return Checkpoint("evolved", "makespan", base, normaliser)
    sizes = {"width": 8, "layers": 2, "hidden": 16, "hidden2": 12, "group_width": 5, "features": EVERY_FEATURE}
    config = NetworkConfig(**{"encoder": "none", **sizes, **network})
    rng = np.random.default_rng(seed)
    tensors = {
        name: (strength * rng.normal(size=shape)).astype(np.float32) for name, shape in weight_shapes(config).items()
    }
    if not trained:
        for name in ("w3", "ww2"):
            tensors[name][:] = 0.0
    return Checkpoint("ppo", "makespan", base, normaliser, config, tensors)


def saved(folder: Path, name: str, checkpoint: Checkpoint) -> Path:
    save_checkpoint(folder / name, checkpoint)
    return folder / name


def schedule_with(replay: Replay, checkpoint: Checkpoint | FloatArray, *, policy_seed: int = 0) -> Schedule:
    """The validated greedy schedule of a checkpoint, or of a linear priority."""
    simulator = Simulator(replay, policy_seed=policy_seed)
    if isinstance(checkpoint, Checkpoint):
        make_runner(simulator, checkpoint, checkpoint.kind).run()
    else:
        LinearRunner(simulator, checkpoint).run()
    schedule = simulator.schedule("learned")
    validate(schedule)
    return schedule


def decisions(schedule: Schedule) -> list[tuple[float, int]]:
    return list(zip(schedule.decision_time.tolist(), schedule.decision_task.tolist(), strict=True))


def random_tasks(rng: np.random.Generator, count: int, resources: tuple[str, ...] = ("cpu", "mem")) -> list[Task]:
    """Tasks of at most three parents among the ten before them; demands from 1 to 4 of each resource."""
    rows = []
    for k in range(count):
        near = range(max(0, k - 10), k)
        parents = rng.choice(near, min(len(near), int(rng.integers(0, 4))), replace=False) if k else ()
        demand = {r: float(rng.integers(1, 5)) for r in resources}
        rows.append(Task(f"{k}", float(rng.uniform(1, 9)), demand, [f"{p}" for p in sorted(parents)]))
    return rows


def replay_of(cluster: object, *workflows: Workflow, **options: object) -> Replay:
    from dagsched.replay import SimulationOptions

    return Replay.build(Workload("made", workflows), cluster, options=SimulationOptions(**options))  # type: ignore[arg-type]
