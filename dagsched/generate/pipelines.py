"""Pipelines: many items that pass the same stages one after the other, as in data processing and media encoding."""

from __future__ import annotations

import numpy as np

from dagsched.generate.drawing import Drawing, check_total, varied
from dagsched.generate.mix import check_count, check_number, check_rng
from dagsched.workflow import Workflow


def pipelines(
    rng: np.random.Generator,
    *,
    lanes: int = 8,
    stages: int = 5,
    median_seconds: float = 30.0,
    sigma: float = 0.8,
    spread: float = 0.3,
    mean_bytes: float = 50e6,
    name: str = "pipelines",
) -> Workflow:
    """``lanes`` independent chains of ``stages`` tasks; the tasks of a stage are alike in duration and demand.

    Args:
        rng: source of all randomness.
        lanes: number of items.
        stages: length of each chain.
        median_seconds: median over the stages of a stage's mean duration.
        sigma: spread of the logarithm of the duration between stages.
        spread: the same between the items in one stage.
        mean_bytes: mean bytes from one stage to the next (exponential between stages); 0 = none.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_count("lanes", lanes)
    check_count("stages", stages)
    check_number("median_seconds", median_seconds, more_than=0)
    check_number("sigma", sigma, at_least=0, at_most=10)
    check_number("spread", spread, at_least=0, at_most=10)
    check_number("mean_bytes", mean_bytes, at_least=0)
    check_total("lanes x stages", lanes * stages)
    seconds = median_seconds * np.exp(sigma * rng.standard_normal(stages))
    cores = rng.choice(np.array([1.0, 2.0, 4.0]), stages)
    memory = np.round(cores * rng.uniform(1e9, 4e9, stages))
    sent = np.round(rng.exponential(mean_bytes, stages)) if mean_bytes else np.zeros(stages)
    drawing = Drawing()
    for _ in range(lanes):
        before: list[int] = []
        for stage in range(stages):
            before = [
                drawing.add(
                    f"stage-{stage + 1}",
                    varied(rng, seconds[stage], spread),
                    before,
                    receives=sent[stage],
                    cores=float(cores[stage]),
                    memory=float(memory[stage]),
                )
            ]
    return drawing.workflow(name)
