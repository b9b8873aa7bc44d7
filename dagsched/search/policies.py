"""The planner by name; the search itself is imported when a planner is made."""

from __future__ import annotations

from dagsched.policies.base import Policy
from dagsched.policies.info import Options, PolicyInfo
from dagsched.policies.learned import trained
from dagsched.search.options import OPTIONS


def _planner(name: str, description: str, options: Options) -> PolicyInfo:
    def make(spec: str, options: Options) -> Policy:
        from dagsched.search.mcts import make_mcts

        return make_mcts(spec, options, learning=name == "mcts")

    return PolicyInfo(name, description, "planner", make, options, placed=True)


POLICIES = (
    _planner(
        "mcts",
        "planner: search from rules and trained policies, by whole schedules, in a tree or over scenarios",
        {**OPTIONS, **trained.OPTIONS},
    ),
    _planner(
        "mcts-rules",
        "the same without anything trained",
        {**OPTIONS, "objective": trained.OPTIONS["objective"]},
    ),
)
