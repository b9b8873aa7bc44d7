"""Random workflows, arrivals and deadlines; every function takes a generator or a seed and is deterministic.

May import the data model and, inside functions, ``graph``. Start with ``layered.py``; ``mix.py`` holds what all
workflow generators share: durations, demands and file sizes.
"""

from __future__ import annotations

from dagsched.generate.arrivals import poisson, poisson_arrivals, poisson_rate
from dagsched.generate.collection import random_workload
from dagsched.generate.deadlines import deadlines, with_deadlines
from dagsched.generate.fork_join import fan_in, fork_join
from dagsched.generate.layered import layered
from dagsched.generate.mix import TaskMix

__all__ = [
    "TaskMix",
    "deadlines",
    "fan_in",
    "fork_join",
    "layered",
    "poisson",
    "poisson_arrivals",
    "poisson_rate",
    "random_workload",
    "with_deadlines",
]
