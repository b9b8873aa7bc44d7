"""Many random workflows at once, as one workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np

from dagsched.errors import ConfigError
from dagsched.generate.fork_join import fork_join
from dagsched.generate.layered import layered
from dagsched.generate.mix import UNITS, check_count, check_rng
from dagsched.workflow import Workflow
from dagsched.workload import Workload

GENERATORS: Mapping[str, Callable[..., Workflow]] = MappingProxyType({"layered": layered, "fork-join": fork_join})
"""Generators by the name that ``dagsched generate`` takes."""


def random_workload(
    kind: str, rng: np.random.Generator, *, count: int = 1, name: str | None = None, **parameters: Any
) -> Workload:
    """``count`` workflows of one kind, all arriving at 0, named ``layered-001`` and so on.

    Workflow ``i`` has its own stream, spawned from ``rng``: asking for more leaves the first ones as they were.

    Args:
        kind: a key of ``GENERATORS``.
        rng: source of all randomness.
        count: number of workflows.
        name: of the workload, by default the kind.
        parameters: of the generator, such as ``tasks=50``.

    Raises:
        ConfigError: for an unknown kind or parameter, or one out of range.
    """
    if kind not in GENERATORS:
        raise ConfigError(f"kind of workflow {kind!r} is not known, expected one of {', '.join(GENERATORS)}")
    check_rng(rng)
    check_count("count", count, 1, 100_000)
    make = GENERATORS[kind]
    known = [key for key in signature(make).parameters if key not in ("rng", "name")]
    for key in parameters:
        if key not in known:
            raise ConfigError(f"{kind} has no parameter {key!r}, expected {', '.join(known)}")
    digits = max(3, len(str(count)))
    streams = rng.spawn(count)
    workflows = [make(stream, name=f"{kind}-{i + 1:0{digits}d}", **parameters) for i, stream in enumerate(streams)]
    given = ", ".join(f"{key}={value}" for key, value in parameters.items())
    return Workload(
        name=name or kind,
        workflows=tuple(workflows),
        units=UNITS,
        source=f"generated: {kind}({given}), {count} workflows",
    )
