"""Gantt charts and DAG drawings: the layout by hand, the files by their first bytes."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from dagsched.cluster import Cluster, NodeGroup
from dagsched.draw.dag import dag_layout, save_dag
from dagsched.draw.gantt import colour_of, gantt_chart, save_gantt
from dagsched.errors import ConfigError
from dagsched.evaluate.report import build_report, render_report
from dagsched.graph import critical_path
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.handmade import list_schedule, one_workflow, random_replay, schedule_of

PNG = b"\x89PNG\r\n\x1a\n"


def test_blocks_are_as_high_as_their_largest_share_and_stack_from_the_bottom() -> None:
    tasks = [Task("a", 4, {"cpu": 1, "memory": 1}), Task("b", 2, {"cpu": 1, "memory": 5}), Task("c", 2, {"cpu": 1})]
    replay = one_workflow(tasks, Cluster.pooled({"cpu": 4, "memory": 10}))
    chart = gantt_chart(schedule_of(replay, [(0, 0, 1, 0, 4), (1, 0, 1, 0, 2), (2, 0, 1, 2, 4)], [0, 0, 0]))
    assert chart.low.tolist() == [0.5, 0.0, 0.0]
    assert chart.high.tolist() == [0.75, 0.5, 0.25]


def test_blocks_led_by_different_resources_scale_their_band() -> None:
    tasks = [Task("a", 1, {"cpu": 3, "memory": 1}), Task("b", 1, {"cpu": 1, "memory": 7})]
    replay = one_workflow(tasks, Cluster.pooled({"cpu": 4, "memory": 10}))
    chart = gantt_chart(schedule_of(replay, [(0, 0, 1, 0, 1), (1, 0, 1, 0, 1)], [0, 0]))
    assert chart.high.max() == pytest.approx(1.0)
    assert chart.high[0] - chart.low[0] == pytest.approx(0.75 / 1.45)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_a_node_never_overlap(seed: int) -> None:
    chart = gantt_chart(list_schedule(random_replay(seed)))
    assert chart.low.min() >= 0
    assert chart.high.max() <= 1 + 1e-9
    for node in np.unique(chart.node):
        here = np.flatnonzero(chart.node == node)
        for i, a in enumerate(here):
            for b in here[i + 1 :]:
                apart = chart.finish[a] <= chart.start[b] or chart.finish[b] <= chart.start[a]
                assert apart or chart.high[a] <= chart.low[b] + 1e-6 or chart.high[b] <= chart.low[a] + 1e-6


def test_only_the_largest_blocks_are_drawn_and_idle_nodes_left_out() -> None:
    replay = one_workflow([Task(str(t), t + 1.0) for t in range(6)], Cluster((NodeGroup("n", 3, {"cpu": 6}),)))
    chart = gantt_chart(list_schedule(replay), max_blocks=2)
    assert sorted((chart.finish - chart.start).tolist()) == [5, 6]
    assert chart.nodes == ("n/0",)
    assert chart.note == "The 2 largest of 6 allocations are drawn. 2 idle nodes not drawn."


def test_colours_are_workflows_then_categories_then_levels() -> None:
    assert gantt_chart(list_schedule(random_replay(0))).labels[0].startswith("w")
    cluster = Cluster.pooled({"cpu": 9})
    named = one_workflow([Task("a", 1, category="map"), Task("b", 1, category="reduce")], cluster)
    assert gantt_chart(list_schedule(named)).labels == ("map", "reduce")
    chain = one_workflow([Task("a", 1), Task("b", 1, parents=("a",))], cluster)
    assert gantt_chart(list_schedule(chain)).colour.tolist() == [0, 1]
    assert len({colour_of(i) for i in range(40)}) == 40


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_gantt_files_have_the_same_bytes_every_time(suffix: str, tmp_path: Path) -> None:
    schedule = list_schedule(random_replay(0, tasks=12))
    for name in ("a", "b"):
        save_gantt(schedule, tmp_path / f"{name}{suffix}")
    content = (tmp_path / f"a{suffix}").read_bytes()
    assert content == (tmp_path / f"b{suffix}").read_bytes()
    assert content.startswith(PNG) if suffix == ".png" else b"<svg" in content


def test_names_with_dollars_and_nothing_to_draw(tmp_path: Path) -> None:
    replay = one_workflow([Task("$m$_{^", 0, {})], Cluster.pooled({"cpu": 1}))
    empty = np.zeros(0)
    whole = np.zeros(0, np.int64)
    schedule = Schedule(replay, r"$\bad", whole, whole, whole, empty, empty, empty, np.zeros(1), empty, whole)
    save_gantt(schedule, tmp_path / "g.png")
    save_dag(replay, tmp_path / "d.png")
    assert (tmp_path / "g.png").read_bytes().startswith(PNG)


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    replay = random_replay(0, tasks=5)
    with pytest.raises(ConfigError, match=r"\.png or \.svg"):
        save_gantt(list_schedule(replay), tmp_path / "x.pdf")
    with pytest.raises(ConfigError, match=r"\.png or \.svg"):
        save_dag(replay, tmp_path / "x")


def diamond() -> Workflow:
    tasks = [Task("a", 1), Task("b", 5, parents=("a",)), Task("c", 2, parents=("a",)), Task("d", 1, parents=("b", "c"))]
    return Workflow.from_tasks("diamond", tasks)


def test_layers_are_depths_and_the_longest_path_is_marked() -> None:
    layout = dag_layout(diamond())
    assert layout.x.tolist() == [0, 1, 1, 2]
    assert layout.critical.tolist() == [True, True, False, True]
    edges = zip(layout.parent.tolist(), layout.child.tolist(), layout.critical_edge.tolist(), strict=True)
    assert {(p, c) for p, c, marked in edges if marked} == {(0, 1), (1, 3)}


def test_tasks_of_a_layer_never_share_a_place() -> None:
    workflow = random_replay(2, tasks=200, workflows=1).workflows[0]
    layout = dag_layout(workflow)
    places = set(zip(layout.x.tolist(), layout.y.tolist(), strict=True))
    assert len(places) == 200


def test_sweeps_untangle_crossed_pairs() -> None:
    tasks = [Task("a", 1), Task("b", 1), Task("c", 1, parents=("b",)), Task("d", 1, parents=("a",))]
    layout = dag_layout(Workflow.from_tasks("w", tasks))
    assert (layout.y[0] > layout.y[1]) == (layout.y[3] > layout.y[2])


@pytest.mark.parametrize("count", [1, 30, 3000])
def test_dags_of_any_size_are_drawn(count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(count)
    tasks = [Task(f"task-{t}", 1.0, parents=(f"task-{rng.integers(0, t)}",) if t else ()) for t in range(count)]
    save_dag(Workflow.from_tasks("w", tasks), tmp_path / "d.png")
    assert (tmp_path / "d.png").read_bytes().startswith(PNG)


def test_dag_svg_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_dag(diamond(), tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def sparse() -> Schedule:
    """Two tasks of 5 s in a schedule of 600,000 s."""
    cluster = Cluster.pooled({"cpu": 100})
    replay = one_workflow([Task("a", 5), Task("b", 599_990, parents=("a",)), Task("c", 5, parents=("b",))], cluster)
    return schedule_of(replay, [(0, 0, 1, 0, 5), (1, 0, 1, 5, 599_995), (2, 0, 1, 599_995, 600_000)], [0, 5, 599_995])


def test_short_blocks_of_a_long_schedule_can_be_seen(tmp_path: Path) -> None:
    row = {"workload": "w", "replay": 0, "policy": "p", "task_count": 3, "workflow_count": 1, "makespan": 1.0}
    page = render_report(build_report([row], [sparse()]))
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', page)]
    assert len(widths) == 3
    assert min(widths) >= 1.3
    assert len(re.findall(r'<g fill="(#\w+)" stroke="\1">', page)) == 2
    save_gantt(sparse(), tmp_path / "g.svg")
    assert (tmp_path / "g.svg").stat().st_size > 0


def test_the_drawn_critical_path_is_that_of_the_replay() -> None:
    # At speed 1 the way over b is longer, on the nodes of the cluster the way over c.
    layout = dag_layout(diamond(), np.array([1.0, 1.0, 2.0, 1.0]))
    assert layout.critical.tolist() == [True, False, True, True]


def test_a_drawing_says_what_its_critical_path_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles = []

    def keep(fig: Figure, path: Path) -> None:
        titles.append(fig.axes[0].get_title(loc="left"))

    monkeypatch.setattr("dagsched.draw.figures.save_figure", keep)
    fast = Cluster((NodeGroup("slow", 1, {"cpu": 4}), NodeGroup("fast", 1, {"cpu": 4}, 2.0)), name="mixed")
    replay = Replay.build(Workload("w", (Workflow.from_tasks("other", [Task("a", 1)]), diamond())), fast)
    save_dag(replay, tmp_path / "d.svg", index=[w.name for w in replay.workflows].index("diamond"))
    save_dag(diamond(), tmp_path / "d.svg")
    assert "diamond: 4 tasks" in titles[0]
    assert "critical path 3.5 s on the fastest nodes of cluster mixed, 3 tasks" in titles[0]
    assert critical_path(replay).max() == 3.5
    assert "critical path 7 s at speed 1, 3 tasks" in titles[1]


def test_a_drawing_counts_a_task_on_the_fastest_node_that_can_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b (4 cores) does not fit the fast node: 2 + 6 = 8 s, as the table of `inspect` says, not 1 + 3."""
    titles = []
    monkeypatch.setattr(
        "dagsched.draw.figures.save_figure", lambda fig, path: titles.append(fig.axes[0].get_title(loc="left"))
    )
    mixed = Cluster((NodeGroup("slow", 1, {"cpu": 4}), NodeGroup("fast", 1, {"cpu": 1}, 2.0)), name="mixed")
    tasks = [Task("a", 4, {"cpu": 1}), Task("b", 6, {"cpu": 4}, parents=["a"])]
    replay = Replay.build(Workload("w", (Workflow.from_tasks("w", tasks),)), mixed)
    save_dag(replay, tmp_path / "d.svg")
    assert critical_path(replay).max() == 8
    assert "critical path 8 s on the fastest nodes of cluster mixed, 2 tasks" in titles[0]


def test_svg_files_hold_no_character_that_xml_forbids(tmp_path: Path) -> None:
    tasks = [Task("a\x01\ufffe", 1, category="c\x02"), Task("b", 1, category="d\x1b", parents=("a\x01\ufffe",))]
    replay = one_workflow(tasks, Cluster.pooled({"cpu": 1}))
    save_gantt(list_schedule(replay), tmp_path / "gantt.svg")
    save_dag(replay, tmp_path / "dag.svg")
    for name in ("gantt.svg", "dag.svg"):
        ElementTree.parse(tmp_path / name)
