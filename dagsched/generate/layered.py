"""Random layered graphs: every task has parents in the layer before and may reach further back."""

from __future__ import annotations

import numpy as np

from dagsched.generate.mix import TaskMix, check_count, check_number, check_rng
from dagsched.workflow import IntArray, Workflow


def layered(
    rng: np.random.Generator,
    *,
    tasks: int = 100,
    layers: int | None = None,
    max_parents: int = 3,
    skip: float = 0.1,
    mix: TaskMix | None = None,
    name: str = "layered",
) -> Workflow:
    """One random layered workflow.

    Args:
        rng: source of all randomness.
        tasks: number of tasks.
        layers: number of layers, each of at least one task; by default the square root of ``tasks``.
        max_parents: each task below the first layer has from 1 to this many parents, uniformly.
        skip: chance that a further parent lies in any earlier layer instead of the one before.
        mix: durations, demands and edge bytes.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_count("tasks", tasks)
    depth = max(1, round(tasks**0.5)) if layers is None else layers
    check_count("layers", depth, 1, tasks)
    check_count("max_parents", max_parents)
    check_number("skip", skip, at_least=0, at_most=1)
    sizes = 1 + rng.multinomial(tasks - depth, np.full(depth, 1 / depth))
    begin = np.concatenate([[0], np.cumsum(sizes)])
    parents: list[list[int]] = []
    categories: list[str] = []
    for layer in range(depth):
        for _ in range(sizes[layer]):
            parents.append(_parents(rng, begin, layer, max_parents, skip) if layer else [])
            categories.append(f"layer-{layer + 1}")
    return (mix or TaskMix()).workflow(name, parents, categories, rng)


def _parents(rng: np.random.Generator, begin: IntArray, layer: int, most: int, skip: float) -> list[int]:
    """The first parent is in the layer before, so that the task really lies in its layer."""
    first, last = int(begin[layer - 1]), int(begin[layer])
    chosen = {int(rng.integers(first, last))}
    for _ in range(int(rng.integers(1, most + 1)) - 1):
        chosen.add(int(rng.integers(0, last) if rng.random() < skip else rng.integers(first, last)))
    return sorted(chosen)
