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


def _make_auto(spec: str, options: Options) -> Policy:
    from dagsched.search.auto.policy import make_auto

    return make_auto(spec, options)


AUTO_OPTIONS: Options = {
    **trained.OPTIONS,
    "every": "streams: finished workflows between two looks back (20)",
    "draws": "streams: durations drawn for unfinished work in each look back (2)",
    "memory": "streams: looks back that count (6)",
    "seed": "random seed (0)",
}

POLICIES = (
    PolicyInfo(
        "auto",
        "the best of rules and trained policies: of a batch by trying all, in a stream by replaying the recent past",
        "auto",
        _make_auto,
        AUTO_OPTIONS,
        placed=True,
    ),
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
