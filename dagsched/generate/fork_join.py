"""Fork-join graphs: stages of parallel tasks between single tasks; and the wide fan-in of the benchmark."""

from __future__ import annotations

import numpy as np

from dagsched.errors import ConfigError
from dagsched.generate.mix import RESOURCES, TaskMix, check_count, check_number, check_rng
from dagsched.workflow import Workflow


def fork_join(
    rng: np.random.Generator,
    *,
    stages: int = 4,
    width: int = 16,
    spread: float = 0.5,
    mix: TaskMix | None = None,
    name: str = "fork-join",
) -> Workflow:
    """One workflow ``fork -> parallel tasks -> join``, repeated; a stage's join is the next stage's fork.

    Args:
        rng: source of all randomness.
        stages: number of parallel sections.
        width: mean number of tasks in a section.
        spread: a section has from ``(1 - spread) * width`` to ``(1 + spread) * width`` tasks, uniformly.
        mix: durations, demands and edge bytes.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_count("stages", stages)
    check_count("width", width)
    check_number("spread", spread, at_least=0, at_most=1)
    if stages * (width * (1 + spread) + 1) > 1_000_000:
        raise ConfigError(f"stages x width is {stages * width}, expected at most 1000000 tasks in all")
    least, most = max(1, round((1 - spread) * width)), max(1, round((1 + spread) * width))
    parents: list[list[int]] = [[]]
    categories = ["fork"]
    for stage in range(stages):
        fork = len(parents) - 1
        size = int(rng.integers(least, most + 1))
        parents += [[fork] for _ in range(size)] + [list(range(fork + 1, fork + 1 + size))]
        categories += [f"work-{stage + 1}"] * size + ["join"]
    return (mix or TaskMix()).workflow(name, parents, categories, rng)


def fan_in(
    rng: np.random.Generator, *, tasks: int = 100_000, ready: int = 50_000, kinds: int = 64, name: str = "fan-in"
) -> Workflow:
    """A wide workflow for growth measurements: ``ready`` tasks at once, each releasing about one more.

    Demands are drawn from ``kinds`` distinct (cpu, memory) vectors of at most 8 cores and 32 GB, so that a
    scheduler which groups tasks by demand need not look at all of them.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_count("tasks", tasks)
    check_count("ready", ready, 1, tasks)
    check_count("kinds", kinds, 1, 512)
    vectors = np.array([(1 + k % 8, (1 + k // 8) * 0.5e9) for k in range(kinds)], np.float64)
    second = tasks - ready
    degree = np.where(np.arange(second) % 3 == 0, 2, 1)[: max(second, 0)]
    parents = [np.unique(rng.integers(0, ready, int(count))) for count in degree]
    pointers = np.zeros(tasks + 1, np.int64)
    pointers[ready + 1 :] = np.cumsum([len(row) for row in parents])
    seconds = np.round(rng.lognormal(3.0, 1.0, tasks), 3) + 0.001
    edges = np.concatenate([*parents, np.zeros(0, np.int64)]).astype(np.int64)
    return Workflow(
        name=name,
        task_ids=tuple(f"t{task + 1}" for task in range(tasks)),
        resources=RESOURCES,
        duration=seconds,
        estimate=seconds,
        demand=vectors[rng.integers(0, kinds, tasks)],
        instances=np.ones(tasks, np.int64),
        parent_ptr=pointers,
        parent_idx=edges,
        parent_bytes=np.zeros(len(edges)),
    )
