"""Classic rules as weights of a linear priority over the task features: where learning starts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from dagsched.errors import ConfigError, closest
from dagsched.features.schema import TASK_NAMES
from dagsched.workflow import FloatArray

START: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "critical-path": {"mean_level": 1.0},
        "cp+demand": {"bottom_level": 1.0, "share": 1.0},
        "cp+demand+work": {"bottom_level": 1.0, "share": 0.5, "below": 0.3},
        "lft": {"path_after": 1.0, "path": -1.0, "workflow_age": 1.0},
        "lst": {"bottom": 1.0, "path": -1.0, "workflow_age": 1.0},
        "srw": {"left": -1.0},
        "srw*cp": {"left": -1.0, "bottom": 0.02},
        "edf": {"deadline": -1.0},
        "llf": {"deadline": -1.0, "bottom": 1.0},
        "fcfs": {"age": 1.0},
    }
)
"""Rules that are linear in the features, with the weights that make the priority equal to the rule's order.

Ties are those of all rules, also for ``fcfs``, which itself leaves them to the place in the source.
"""


def start_weights(rule: str) -> FloatArray:
    """``[F]`` weights of raw features that rank tasks as the rule does.

    Raises:
        ConfigError: for a rule that is not linear in the features.
    """
    if rule not in START:
        hint = closest(rule, START, f"expected one of {', '.join(START)}")
        raise ConfigError(f"there is no linear rule {rule!r}; {hint}")
    return weights_of(START[rule])


def weights_of(named: Mapping[str, float]) -> FloatArray:
    """``[F]`` weights from names.

    Raises:
        ConfigError: for a name that is no feature.
    """
    weights = np.zeros(len(TASK_NAMES))
    for name, value in named.items():
        if name not in TASK_NAMES:
            raise ConfigError(f"there is no task feature {name!r}; the schema lists: {', '.join(TASK_NAMES)}")
        weights[TASK_NAMES.index(name)] = value
    return weights
