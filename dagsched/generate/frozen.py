"""A replay as a workload whose recorded durations are the ones drawn, so that a file holds the very problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dagsched.declared import Declared
from dagsched.replay import Replay
from dagsched.workflow import FloatArray
from dagsched.workload import Workload


def frozen(replay: Replay) -> Workload:
    """The workload with its cluster; a replay of it without noise has the same estimates and durations.

    Durations agree to the last digits of a float. The file declares what the replay did: closedness, objective and the
    model of the noise.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(replay.estimate > 0, replay.duration / replay.estimate, 1.0)[:, 0]
    workflows = []
    for number, workflow in enumerate(replay.workflows):
        rows = slice(int(replay.workflow_ptr[number]), int(replay.workflow_ptr[number + 1]))
        of_task: FloatArray = np.ones(len(workflow))
        of_task[replay.local_index[rows]] = factor[rows]
        ratio = np.divide(workflow.estimate, workflow.duration, out=np.ones(len(workflow)), where=workflow.duration > 0)
        workflows.append(
            workflow.with_(
                duration=workflow.estimate * of_task,
                group_duration=workflow.group_duration * (ratio * of_task)[:, None],
            )
        )
    declared = Declared(closed=replay.closed, objective=replay.objective, noise=replay.noise)
    return replace(replay.workload, workflows=tuple(workflows), cluster=replay.cluster).declare(declared)
