"""Seeds of policies, compiled forms, and what a published makespan may be compared with."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.evaluate.metrics import metrics
from dagsched.evaluate.scenario import Stream, stream_seed
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.simulator import Simulator, validate
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload

POOL = Cluster.pooled({"cpu": 4})


def workload(**changes: object) -> Workload:
    rng = np.random.default_rng(3)
    tasks = [
        Task(f"t{i}", float(rng.integers(1, 9)), {"cpu": float(rng.integers(1, 4))}, [f"t{i - 5}"] if i >= 5 else [])
        for i in range(20)
    ]
    return replace(Workload("w", (Workflow.from_tasks("w", tasks),), cluster=POOL), **changes)


@pytest.mark.parametrize("spec", ["random", "sampling:n=8", "cp-sat:workers=1:time_limit=2"])
def test_a_63_bit_policy_seed_works(spec: str) -> None:
    pytest.importorskip("ortools")
    validate(simulate(Replay.build(workload()), spec, policy_seed=stream_seed(0, Stream.POLICY, 7)))


def test_random_is_another_order_for_every_policy_seed_and_option() -> None:
    replay = Replay.build(workload())
    orders = {
        simulate(replay, spec, policy_seed=seed).task.tobytes()
        for spec in ("random", "random:seed=1")
        for seed in (0, 1, 2)
    }
    assert len(orders) == 6


def test_a_published_makespan_is_compared_only_with_the_problem_it_is_about() -> None:
    published = workload(known_makespan=10.0)
    assert metrics(simulate(Replay.build(published), "lft"))["gap_known"] is not None
    other = Cluster((NodeGroup("fast", 2, {"cpu": 4}, 2.0),))
    assert metrics(simulate(Replay.build(published, other), "lft"))["gap_known"] is None
    assert metrics(simulate(Replay.build(published, sigma=0.2), "lft"))["gap_known"] is None


def test_compiled_code_sees_the_same_array_types_after_pickling() -> None:
    first = Replay.build(workload())
    again = Replay.build(pickle.loads(pickle.dumps(workload())))
    unpickled = pickle.loads(pickle.dumps(first))
    for replay in (again, unpickled):
        simulator = Simulator(replay)
        arrays = (*simulator.problem, simulator.truth)
        assert not any(array.flags.writeable for array in arrays)
        assert all(array.flags.c_contiguous for array in arrays)
    assert not pickle.loads(pickle.dumps(POOL)).latency.flags.writeable
