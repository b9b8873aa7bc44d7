"""Which schedules the report draws: the best and the worst policy on one workload of middling size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dagsched.evaluate.runner import kept_schedule
from dagsched.evaluate.scenario import build_replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagsched.evaluate.results import Comparison
    from dagsched.schedule import Schedule
    from dagsched.workload import Workload

_TASKS = 120


def drawn_workload(workloads: Sequence[Workload]) -> int:
    """Index of the workload whose number of tasks is nearest to what a chart can show; ties to the first."""
    return min(range(len(workloads)), key=lambda i: abs(workloads[i].task_count - _TASKS))


def gantt_schedules(comparison: Comparison, kept: Path | None) -> list[Schedule]:
    """Schedules of the best and the worst ranked policy on the drawn workload, replay 0; empty if none was kept."""
    if kept is None:
        return []
    index = drawn_workload(comparison.workloads)
    ranking = comparison.ranking
    replay = build_replay(comparison.workloads[index], comparison.config, 0)
    found = [kept_schedule(kept, policy, replay) for policy in dict.fromkeys((ranking[0], ranking[-1]))]
    return [schedule for schedule in found if schedule is not None]
