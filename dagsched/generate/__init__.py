"""Random workflows and problems, arrivals and deadlines; all deterministic from a generator or a seed.

May import the data model and, inside functions, ``graph`` and ``formats``. Start with ``layered.py``; ``mix.py`` holds
what random tasks look like, ``kinds.py`` every kind by name, and ``suite.py`` (imported by itself, for it needs
pydantic) the families of problems that training and tests draw from.
"""

from __future__ import annotations

from dagsched.generate.arrivals import arrive, bursty, poisson, poisson_arrivals, poisson_rate, recorded
from dagsched.generate.collection import random_workload
from dagsched.generate.deadlines import deadlines, with_deadlines
from dagsched.generate.fork_join import fan_in, fork_join
from dagsched.generate.kinds import KINDS
from dagsched.generate.layered import layered
from dagsched.generate.mix import TaskMix
from dagsched.generate.source import WorkloadSource

__all__ = [
    "KINDS",
    "TaskMix",
    "WorkloadSource",
    "arrive",
    "bursty",
    "deadlines",
    "fan_in",
    "fork_join",
    "layered",
    "poisson",
    "poisson_arrivals",
    "poisson_rate",
    "random_workload",
    "recorded",
    "with_deadlines",
]
