"""What training and evaluation draw problems from."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from dagsched.cluster import Cluster
from dagsched.workload import Workload


@runtime_checkable
class WorkloadSource(Protocol):
    """Anything that draws problems: a :class:`~dagsched.generate.suite.Suite`, or an object of your own."""

    def sample(self, rng: np.random.Generator) -> tuple[Workload, Cluster]:
        """One workload, arrivals and deadlines applied, and the cluster it runs on; all randomness is from ``rng``."""
        ...
