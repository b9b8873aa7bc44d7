"""``tetris`` and ``tetris:score=published``: the two definitions, worked by hand."""

from __future__ import annotations

import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import PolicyError
from dagsched.policies.registry import make_policy
from dagsched.replay import Replay
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.policies.test_rules import order

POOL = Cluster.pooled({"cpu": 10, "memory": 10})


def jobs(*rows: tuple[str, float, float, float], cluster: Cluster = POOL) -> Replay:
    """(name, s, cpu, memory), one workflow each, submitted in this order."""
    flows = [Workflow.from_tasks(n, [Task(n, s, {"cpu": c, "memory": m})]) for n, s, c, m in rows]
    return Replay.build(Workload("hand", tuple(flows)), cluster)


def test_the_packer_leaves_ties_to_the_order_of_submission_and_tetris_to_the_longer_task() -> None:
    # Both demand (6, 1): alignment 0.6 + 0.1 = 0.7 with all free; they do not fit together.
    replay = jobs(("short", 2, 6, 1), ("long", 9, 6, 1))
    assert order(replay, "tetris:score=published") == ["short", "long"]
    assert order(replay, "tetris") == ["long", "short"]


def test_the_packer_takes_the_largest_sum_of_demand_times_free_share() -> None:
    # All free: a 0.6 + 0.2 = 0.8; b 0.5 + 0.5 = 1.0; c 0.1 + 0.9 = 1.0, written after b. b first; then (0.5, 0.5) is
    # free, too little for a and c. When b ends: c 1.0, then a 0.8, which does not fit beside c.
    replay = jobs(("a", 3, 6, 2), ("b", 5, 5, 5), ("c", 4, 1, 9))
    assert order(replay, "tetris:score=published") == ["b", "c", "a"]


def test_eps_adds_so_much_for_each_shortness_of_one_over_the_estimate() -> None:
    # Alignments: big 0.9 + 0.2 = 1.1 (10 s), small 0.5 + 0.1 = 0.6 (2 s). With eps: 1.1 + eps / 10 against
    # 0.6 + eps / 2; small is ahead once 0.4 eps > 0.5, so above 1.25.
    replay = jobs(("big", 10, 9, 2), ("small", 2, 5, 1))
    assert order(replay, "tetris:score=published:eps=0") == ["big", "small"]
    assert order(replay, "tetris:score=published:eps=1.2") == ["big", "small"]
    assert order(replay, "tetris:score=published:eps=1.3") == ["small", "big"]


def test_without_eps_the_published_score_is_the_packer() -> None:
    replay = jobs(("big", 10, 9, 2), ("small", 2, 5, 1))
    assert order(replay, "tetris:score=published") == order(replay, "tetris:score=published:eps=0")


def test_work_of_no_duration_is_shortest_of_all() -> None:
    replay = jobs(("big", 10, 9, 2), ("nothing", 0, 5, 1))
    assert order(replay, "tetris:score=published:eps=0.01") == ["nothing", "big"]


def test_shares_are_of_the_node_that_aligns_best_and_shortness_of_the_fastest_group() -> None:
    # Node l (20 cpu, 10 memory), node s (10, 10) at twice the speed. x (10 cpu, 1 mem): 0.5 + 0.1 on l, 1 + 0.1 on s.
    # y (2, 8): 0.1 + 0.8 on l, 0.2 + 0.8 on s. Best: x 1.1, y 1.0. Estimates on s: x 8, y 2: 1/2 - 1/8 = 0.375.
    groups = (NodeGroup("l", 1, {"cpu": 20, "memory": 10}), NodeGroup("s", 1, {"cpu": 10, "memory": 10}, 2.0))
    replay = jobs(("y", 4, 2, 8), ("x", 16, 10, 1), cluster=Cluster(groups))
    assert order(replay, "tetris:score=published") == ["x", "y"]
    assert order(replay, "tetris:score=published:eps=0.2") == ["x", "y"]  # 1.1 + 0.025 against 1.0 + 0.1
    assert order(replay, "tetris:score=published:eps=0.3") == ["y", "x"]  # 1.1 + 0.0375 against 1.0 + 0.15


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("tetris:eps=1", "eps is an option of score=published"),
        ("tetris:score=other", "expected published"),
        ("tetris:score=published:eps=-1", "expected a number >= 0"),
        ("tetris:score=published:eps=nan", "expected a number >= 0"),
        ("tetris:score=published:eps=x", "expected a number >= 0"),
        ("srw:score=published", "unknown option"),
    ],
)
def test_wrong_options_are_named(spec: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        make_policy(spec)
