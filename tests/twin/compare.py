"""Bit-for-bit comparison of a schedule with the twin's."""

from __future__ import annotations

import numpy as np

from dagsched.policies.registry import make_policy
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.simulator import Simulator, validate
from tests.twin.machine import Machine


def kernel_schedule(replay: Replay, spec: str, policy_seed: int = 0, *, one_by_one: bool = False) -> Schedule:
    """The real schedule, validated; all at once or decision by decision."""
    simulator = Simulator(replay, policy_seed=policy_seed)
    policy = make_policy(spec)
    run = policy.begin(simulator)
    while not simulator.done:
        run.advance(1 if one_by_one else 2**62)
    schedule = simulator.schedule(spec)
    validate(schedule)
    return schedule


def assert_same(schedule: Schedule, twin: Machine) -> None:
    """Same decisions, allocations, times and ready times, exactly."""
    decisions = list(zip(schedule.decision_time.tolist(), schedule.decision_task.tolist(), strict=True))
    for k, (found, expected) in enumerate(zip(decisions, twin.decisions, strict=False)):
        assert found == expected, f"decision {k}: kernel {found}, twin {expected}"
    assert len(decisions) == len(twin.decisions)
    columns = (schedule.task, schedule.node, schedule.count, schedule.start, schedule.execution, schedule.finish)
    found_rows = list(zip(*(c.tolist() for c in columns), strict=True))
    expected_rows = [(a.task, a.node, a.count, a.start, a.execution, a.finish) for a in twin.allocations]
    for k, (found_row, expected_row) in enumerate(zip(found_rows, expected_rows, strict=False)):
        assert found_row == expected_row, f"allocation {k}: kernel {found_row}, twin {expected_row}"
    assert len(found_rows) == len(expected_rows)
    assert np.array_equal(schedule.ready, np.array(twin.ready, np.float64))
