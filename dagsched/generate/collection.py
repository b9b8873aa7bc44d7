"""Many random workflows at once, as one workload."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dagsched.generate.kinds import kind_named, look_again
from dagsched.workload import Workload


def random_workload(
    kind: str, rng: np.random.Generator, *, count: int = 1, name: str | None = None, **parameters: Any
) -> Workload:
    """``count`` workflows of one kind, all arriving at 0, named ``layered-001`` and so on.

    Workflow ``i`` has its own stream, spawned from ``rng``: asking for more leaves the first ones as they were.

    Args:
        kind: a key of ``KINDS``.
        rng: source of all randomness.
        count: number of workflows; 1 for kinds that are whole problems.
        name: of the workload, by default the kind.
        parameters: of the generator, such as ``tasks=50``, or ``tasks=[20, 80]`` to draw one for each workflow.

    Raises:
        ConfigError: for an unknown kind or parameter, or one out of range.
    """
    look_again(kind_named(kind), parameters)
    workload = kind_named(kind).workload(rng, count=count, parameters=parameters)
    return replace(workload, name=name or kind)
