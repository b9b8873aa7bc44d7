"""Drawing from recorded files: parts that no two splits share, and durations redrawn by task type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import ConfigError
from dagsched.formats import save
from dagsched.generate import random_workload
from dagsched.generate.kinds import SPLITS, Split
from dagsched.generate.suite import Suite
from dagsched.generate.traces import SHARES, Trace, resampled
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.data import DATA, needs_data

ROOT = Path(__file__).resolve().parents[2]


def stream(count: int) -> Workload:
    workflows = tuple(
        Workflow.from_tasks(f"w{k}", [Task("a", 1.0 + k, {"cpu": 1})], arrival=7.0 * (count - k)) for k in range(count)
    )
    return Workload("stream", workflows)


def parts(path: Path, by: str = "name") -> dict[Split, list[str]]:
    return {split: [w.name for w in Trace.read(path, split, by=by).workflows] for split in SPLITS}  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [4, 5, 8, 30, 99, 100, 1000])
@pytest.mark.parametrize("by", ["name", "time"])
def test_every_workflow_is_in_one_part(count: int, by: str, tmp_path: Path) -> None:
    save(stream(count), tmp_path / "s.json")
    found = parts(tmp_path / "s.json", by)
    names = [name for part in found.values() for name in part]
    assert len(names) == count
    assert set(names) == {f"w{k}" for k in range(count)}
    for split in SPLITS:
        share = SHARES[split] * count
        assert max(1, share - 4 * share**0.5 - 2) <= len(found[split]) <= share + 4 * share**0.5 + 2


def test_a_growing_trace_moves_no_job_to_another_part(tmp_path: Path) -> None:
    save(stream(200), tmp_path / "small.json")
    save(stream(900), tmp_path / "large.json")
    small, large = parts(tmp_path / "small.json"), parts(tmp_path / "large.json")
    for split in SPLITS:
        assert set(small[split]) <= set(large[split])


def test_by_time_training_comes_first(tmp_path: Path) -> None:
    save(stream(80), tmp_path / "s.json")
    times = [[w.arrival for w in Trace.read(tmp_path / "s.json", split, by="time").workflows] for split in SPLITS]
    flat = [time for part in times for time in part]
    assert flat == sorted(flat)


def test_all_splits_may_share_on_request_only(tmp_path: Path) -> None:
    save(stream(3), tmp_path / "s.json")
    with pytest.raises(ConfigError, match="holds 3 workflows, too few to share out"):
        parts(tmp_path / "s.json")
    assert all(len(part) == 3 for part in parts(tmp_path / "s.json", "none").values())


def test_a_window_keeps_the_recorded_arrivals(tmp_path: Path) -> None:
    save(stream(60), tmp_path / "s.json")
    part = Trace.read(tmp_path / "s.json", "train")
    window = part.window(np.random.default_rng(0), 10)
    first = [w.name for w in part.workflows].index(window[0].name)
    assert [w.name for w in window] == [w.name for w in part.workflows[first : first + 10]]
    with pytest.raises(ConfigError, match="count is 99"):
        part.window(np.random.default_rng(0), 99)


def test_resampling_keeps_the_graph_and_the_spread_of_each_type() -> None:
    rng = np.random.default_rng(1)
    tasks = [Task(f"a{k}", float(rng.lognormal(1, 0.4)), {"cpu": 1}, category="a") for k in range(400)]
    tasks += [Task(f"b{k}", float(rng.lognormal(4, 1.0)), {"cpu": 2}, ["a0"], category="b") for k in range(400)]
    tasks += [Task("rare", 50.0, {"cpu": 1}, ["b0"], category="c"), Task("none", 0.0, {"cpu": 1}, category="c")]
    workflow = Workflow.from_tasks("w", tasks)
    made = resampled(workflow, np.random.default_rng(2))
    assert (made.parent_idx == workflow.parent_idx).all()
    assert (made.demand == workflow.demand).all()
    assert (made.estimate == made.duration).all()
    for rows, mean, sd in ((slice(0, 400), 1, 0.4), (slice(400, 800), 4, 1.0)):
        logs = np.log(made.duration[rows])
        assert logs.mean() == pytest.approx(mean, abs=4 * sd / 20 + 0.1)
        assert logs.std() == pytest.approx(sd, rel=0.2)
    assert (made.duration[:800] != workflow.duration[:800]).all()
    assert made.duration[800] not in (0.0, 50.0)
    assert made.duration[801] == 0.0
    again = resampled(workflow, np.random.default_rng(2), spread=0.0)
    assert set(again.duration[:400]) <= set(np.exp(np.log(workflow.duration[:400])))


def test_durations_by_group_follow() -> None:
    task = Task("a", 10.0, {"cpu": 1}, group_durations={"fast": 4.0}, category="x")
    made = resampled(Workflow.from_tasks("w", [task]), np.random.default_rng(0))
    assert made.group_duration[0, 0] == pytest.approx(0.4 * made.duration[0])


def test_the_shipped_suite_keeps_workflows_apart() -> None:
    suite = Suite.load("wfcommons")
    seen: dict[Split, set[str]] = {}
    for split in SPLITS:
        names = (w.name for index in range(4) for w in suite.replay(split, index).workflows)
        seen[split] = {name.split("-", 1)[1] for name in names}
    assert len(set.union(*seen.values())) == sum(len(names) for names in seen.values()) == 8


@needs_data
def test_alibaba_jobs_by_hash_with_recorded_arrivals() -> None:
    path = next(file for file in sorted((DATA / "alibaba-2018").glob("*.csv")) if "measured" not in file.name)
    settings = {
        "name": "alibaba",
        "objective": "flow_time",
        "mixture": [{"kind": "trace", "path": str(path), "order": "window", "count": 20}],
        "cluster": "alibaba",
        "arrivals": {"kind": "recorded", "load": 0.8},
    }
    suite = Suite.from_dict(settings)
    replay = suite.replay("test", 0)
    assert len(replay.workflows) == 20
    assert replay.first_arrival == 0
    named = {split: {w.name for w in suite.replay(split, 0).workflows} for split in SPLITS}
    assert sum(len(names) for names in named.values()) == len(set.union(*named.values()))


def test_wfcommons_draws_with_replacement_under_distinct_names() -> None:
    made = random_workload("wfcommons", np.random.default_rng(0), count=12, path=str(ROOT / "workloads/wfcommons"))
    assert len({w.name for w in made.workflows}) == 12
    assert made.workflows[0].name.startswith("001-")
