"""What a scheduler is asked for: one entry for each objective.

Three numbers go with an objective, and they are not the same:

- the **metric** that people read and by which a comparison ranks (:attr:`Objective.metric`, computed in
  :mod:`dagsched.evaluate.metrics`);
- the **cost** of a whole run, of the order of one, which training and samplers minimise
  (:func:`dagsched.cost.cost_function`);
- the **step cost** of the environment and of search, which grows as time goes on and sums up to the cost: the planner
  counts it in seconds or late workflows (``dagsched.search.rollout``), the environment's ``slo`` reward has a
  definition of its own (:mod:`dagsched.env.episode`).

For ``slo`` the metric is the share of late workflows; the cost adds 0.05 x mean tardiness, so that among schedules with
equally many late workflows the less late one is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ObjectiveName = Literal["makespan", "flow_time", "slo"]


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective; all are minimised.

    Attributes:
        name: as options and files spell it.
        metric: column of ``results.csv`` that decides what "best" means.
        formula: the metric in one line.
        unit: of the metric.
        needs_deadlines: whether workflows without a deadline do not count.
    """

    name: ObjectiveName
    metric: str
    formula: str
    unit: str
    needs_deadlines: bool = False


OBJECTIVES: Mapping[str, Objective] = {
    one.name: one
    for one in (
        Objective("makespan", "makespan", "last finish - first arrival", "s"),
        Objective(
            "flow_time", "weighted_flow_time", "mean over workflows of finish - arrival, by weight of the workflow", "s"
        ),
        Objective("slo", "slo_violation_rate", "share of workflows with a deadline that finish after it", "1", True),
    )
}


def is_objective(value: object) -> bool:
    """Whether a value of any type is the name of an objective."""
    return isinstance(value, str) and value in OBJECTIVES
