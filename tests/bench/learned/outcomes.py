"""What a policy makes of replays: the numbers that rows are made of."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dagsched.errors import DagschedError
from dagsched.evaluate.metrics import completion, service_level, waiting
from dagsched.policies.registry import make_policy
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator.validate import validate
from dagsched.workflow import FloatArray
from tests.bench.learned.rows import note

CHECKED = 3
"""Schedules of each policy that the validator sees."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """One policy on ``N`` replays.

    Attributes:
        makespan, flow: ``[N]`` s; flow is the mean flow time.
        late: ``[N]`` % of the workflows with a deadline; NaN without any.
        wait: ``[N]`` s, longest wait of a task.
        seconds: wall-clock time for a replay, mean.
    """

    makespan: FloatArray
    flow: FloatArray
    late: FloatArray
    wait: FloatArray
    seconds: float

    def first(self, count: int) -> Outcomes:
        """Of the first replays only."""
        return Outcomes(self.makespan[:count], self.flow[:count], self.late[:count], self.wait[:count], self.seconds)


def outcomes(replays: Sequence[Replay], spec: str, checkpoint: str | None = None, threads: int = 1) -> Outcomes | None:
    """Run a policy on every replay; ``None``, and a remark, if it refuses them or there is no such checkpoint."""
    given = {} if checkpoint is None else {"checkpoint": checkpoint}
    try:
        policy = make_policy(spec, learned_options=given)
        if "sampl" not in spec:
            simulate(replays[0], policy)  # compiles
        began = time.perf_counter()

        def one(k: int) -> tuple[float, ...]:
            schedule = simulate(replays[k], policy)
            if k < CHECKED:
                validate(schedule)
            found = {**completion(schedule), **waiting(schedule), **service_level(schedule)}
            late = found["slo_violation_rate"]
            values = (found["makespan"], found["mean_flow_time"], np.nan if late is None else 100 * late)
            return tuple(float(v) for v in (*values, found["longest_wait"]) if v is not None)

        if threads == 1:
            rows = [one(k) for k in range(len(replays))]
        else:
            with ThreadPoolExecutor(threads) as pool:
                rows = list(pool.map(one, range(len(replays))))
    except DagschedError as error:
        note(f"{spec}: left out: {error}\n")
        return None
    makespan, flow, late, wait = np.array(rows, np.float64).T
    return Outcomes(makespan, flow, late, wait, (time.perf_counter() - began) / len(replays))
