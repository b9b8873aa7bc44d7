"""compare_baselines: the same replays for all, reproducible files, resuming, and errors that say where."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dagsched import Cluster, ConfigError, NodeGroup, PolicyError, Task, Workflow, Workload, compare_baselines, save
from dagsched.evaluate import compare as compare_module
from dagsched.evaluate.columns import KEY_COLUMNS
from dagsched.evaluate.report.provenance import provenance_pairs
from dagsched.evaluate.results import provenance, render_again
from dagsched.evaluate.resume import FOLDER, Key, ResumeLog
from dagsched.evaluate.runner import PolicyCrashError
from dagsched.evaluate.scenario import Stream, distinct_names, merge, stream_seed
from dagsched.generate import random_workload

SMALL = Cluster(
    (NodeGroup("slow", 2, {"cpu": 8, "memory": 32e9}, 1.0), NodeGroup("fast", 1, {"cpu": 8, "memory": 32e9}, 2.0)),
    name="small",
)
RULES = ("critical-path", "heft", "fcfs")


def layered(name: str, seed: int, *, count: int = 1) -> Workload:
    return random_workload("layered", np.random.default_rng(seed), count=count, name=name, tasks=15)


@pytest.fixture(scope="module")
def workloads() -> list[Workload]:
    return [layered("one", 1), layered("two", 2), layered("three", 3)]


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_policy_meets_the_same_replay(workloads: list[Workload]) -> None:
    result = compare_baselines(workloads, RULES, cluster=SMALL, noise=0.3, replays=3)
    digests: dict[tuple[object, object], set[object]] = {}
    for row in result.rows:
        digests.setdefault((row["workload"], row["replay"]), set()).add(row["replay_digest"])
    assert len(result.rows) == 3 * 3 * 3
    assert all(len(found) == 1 for found in digests.values())
    assert len({next(iter(found)) for found in digests.values()}) == 9  # and all replays differ


def test_without_randomness_a_workload_is_replayed_once(workloads: list[Workload]) -> None:
    assert len(compare_baselines(workloads, ["fcfs"], cluster=SMALL, replays=5).rows) == 3
    assert len(compare_baselines(workloads, ["fcfs"], cluster=SMALL, replays=5, deadlines=1.5).rows) == 3
    assert len(compare_baselines(workloads, ["fcfs"], cluster=SMALL, replays=5, deadlines="tight").rows) == 15


def test_streams_are_separate() -> None:
    seeds = {stream_seed(7, stream, replay) for stream in Stream for replay in range(10)}
    assert len(seeds) == 40
    assert stream_seed(7, Stream.NOISE, 3) == stream_seed(7, Stream.NOISE, 3) != stream_seed(8, Stream.NOISE, 3)


def test_files_of_a_comparison(workloads: list[Workload], tmp_path: Path) -> None:
    compare_baselines(workloads, RULES, cluster=SMALL, deadlines=1.5, out=tmp_path, save_schedules=True)
    rows = rows_of(tmp_path)
    assert list(rows[0]) == [
        *KEY_COLUMNS,
        *("makespan", "lower_bound", "ratio_lb", "mean_flow_time", "p95_flow_time", "weighted_flow_time"),
        *("mean_slowdown", "slr", "gap_known", "mean_wait", "p99_wait", "longest_wait", "load_imbalance"),
        *("slo_violation_rate", "mean_tardiness", "utilisation_cpu", "utilisation_memory"),
        *("decisions", "wait_actions", "truncated_share"),
    ]
    assert [(row["workload"], row["policy"]) for row in rows] == [(w.name, p) for w in workloads for p in RULES]
    assert {row["valid"] for row in rows} == {row["reproducible"] for row in rows} == {"true"}
    about = json.loads((tmp_path / "summary.json").read_text())
    assert about["ranking"][0] in RULES
    assert about["provenance"]["workloads"][0]["digest"] == workloads[0].digest
    assert len(list((tmp_path / "schedules").glob("*.json"))) == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report.html",
        "results.csv",
        "schedules",
        "summary.json",
        "timings.csv",
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    log = ResumeLog(tmp_path, "config")
    log._file.close()
    log._file = Path("/dev/full").open("a", encoding="utf-8")  # noqa: SIM115 - close() is tested
    with pytest.raises(OSError, match="No space left") as caught:
        log.add(Key("w", 0, "fcfs"), {})
    assert str(caught.value.filename).startswith(str(tmp_path))
    with pytest.raises(OSError, match="No space left"):
        log.close()


def test_saved_schedules_have_unique_short_names(tmp_path: Path) -> None:
    names = ["a b", "a_b", "x" * 245, "x" * 244 + "y", "\u4e2d" * 200]
    made = [
        replace(random_workload("layered", np.random.default_rng(0), name="w", tasks=5), name=name) for name in names
    ]
    compare_baselines(made, ["fcfs"], cluster=SMALL, out=tmp_path, save_schedules=True)
    found = sorted(path.name for path in (tmp_path / "schedules").iterdir())
    assert len(found) == len(names)
    assert "a_b-r0-fcfs.json" in found
    assert max(len(name.encode()) for name in found) <= 80 + len("-01234567.json")


_SCRIPT = """
import sys
from dagsched.evaluate.compare import compare_baselines
if __name__ == "__main__":
    compare_baselines(sys.argv[2:-1], ["critical-path", "random", "srw", "heft"], noise=0.2, replays=2,
                      deadlines="tight", out=sys.argv[-1], jobs=int(sys.argv[1]))
"""


def test_results_are_the_same_bytes_under_any_hash_seed_and_number_of_processes(
    workloads: list[Workload], tmp_path: Path
) -> None:
    script = tmp_path / "run.py"
    script.write_text(_SCRIPT)
    for workload in workloads:
        save(workload, tmp_path / f"{workload.name}.json")
    paths = [str(tmp_path / f"{workload.name}.json") for workload in workloads]
    for hash_seed, jobs in (("1", "1"), ("2", "2")):
        subprocess.run(
            [sys.executable, str(script), jobs, *paths, str(tmp_path / f"out{jobs}")],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
        )
    one, two = ((tmp_path / name / "results.csv").read_bytes() for name in ("out1", "out2"))
    assert one == two
    assert one.count(b"\n") == 1 + 3 * 2 * 4


def metrics_of(inputs: list[Workload], **options: object) -> dict[tuple[object, ...], dict[str, object]]:
    rows = compare_baselines(inputs, ("critical-path", "heft", "sjf", "random"), cluster=SMALL, **options).rows  # type: ignore[arg-type]
    hidden = ("replay_digest", "workload")
    return {
        (row["task_count"], row["replay"], row["policy"], row["lower_bound"]): {
            key: value for key, value in row.items() if key not in hidden
        }
        for row in rows
    }


@pytest.mark.parametrize(
    "options",
    [{}, {"noise": 0.3, "replays": 2}, {"arrivals": "poisson:0.9", "deadlines": "tight", "noise": 0.2, "replays": 2}],
)
def test_order_of_files_and_workflows_changes_no_metric(options: dict[str, object]) -> None:
    inputs = [layered("one", 1, count=3), layered("two", 2, count=2)]
    renamed = []
    for workload in inputs:  # workflow names must not repeat between the files when they are merged
        flows = [w.with_(name=f"{workload.name}-{w.name}") for w in workload.workflows]
        renamed.append(workload.with_workflows(flows))
    turned = [workload.with_workflows(workload.workflows[::-1]) for workload in renamed[::-1]]
    assert metrics_of(renamed, **options) == metrics_of(turned, **options)


def run_and_interrupt(workloads: list[Workload], out: Path, after: int) -> None:
    def progress(done: int, _total: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare_baselines(workloads, RULES, cluster=SMALL, noise=0.2, replays=2, out=out, progress=progress)


def test_an_interrupted_comparison_resumes(
    workloads: list[Workload], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_and_interrupt(workloads, tmp_path / "a", after=6)
    assert [path.name for path in (tmp_path / "a").iterdir()] == [FOLDER]
    log = tmp_path / "a" / FOLDER / "rows.jsonl"
    with log.open("a") as file:
        file.write('{"key": ["torn')
    ran: list[object] = []
    real = compare_module.run_jobs

    def counted(setting, jobs, processes):  # type: ignore[no-untyped-def]
        for batch in real(setting, jobs, processes):
            ran.extend(batch)
            yield batch

    monkeypatch.setattr(compare_module, "run_jobs", counted)
    said: list[str] = []
    options = {"cluster": SMALL, "noise": 0.2, "replays": 2}
    compare_baselines(workloads, RULES, out=tmp_path / "a", say=said.append, **options)  # type: ignore[arg-type]
    assert len(ran) == 18 - 6
    assert any("resuming: 6 finished runs" in line for line in said)
    assert not log.exists()
    compare_baselines(workloads, RULES, out=tmp_path / "b", **options)  # type: ignore[arg-type]
    assert (tmp_path / "a" / "results.csv").read_bytes() == (tmp_path / "b" / "results.csv").read_bytes()


def test_other_settings_start_over(workloads: list[Workload], tmp_path: Path) -> None:
    run_and_interrupt(workloads, tmp_path, after=6)
    said: list[str] = []
    compare_baselines(workloads, RULES, cluster=SMALL, noise=0.5, replays=2, out=tmp_path, say=said.append)
    assert any("starting over" in line for line in said)
    assert len(rows_of(tmp_path)) == 18


def test_an_unfinished_comparison_keeps_the_files_of_the_one_before(workloads: list[Workload], tmp_path: Path) -> None:
    compare_baselines(workloads, RULES, cluster=SMALL, out=tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    before = rows_of(tmp_path)
    with pytest.raises(ConfigError):  # a mistake in the command removes nothing
        compare_baselines(workloads, RULES, cluster=SMALL, objective="slo", out=tmp_path)
    assert rows_of(tmp_path) == before
    run_and_interrupt(workloads, tmp_path, after=2)
    files = {"results.csv", "timings.csv", "summary.json", "report.html"}
    assert {path.name for path in tmp_path.iterdir()} == {FOLDER, "notes.txt", *files}
    assert rows_of(tmp_path) == before
    render_again(tmp_path)
    compare_baselines(workloads, ["fcfs"], cluster=SMALL, out=tmp_path)
    assert {row["policy"] for row in rows_of(tmp_path)} == {"fcfs"}
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", *files}


def test_the_resume_log_keeps_whole_lines_only(tmp_path: Path) -> None:
    log = ResumeLog(tmp_path, "config")
    log.add(Key("w", 0, "p"), {"row": {"makespan": 0.1 + 0.2}})
    log.add(Key("w", 1, "p"), {"row": {"makespan": None}})
    log.close()
    path = tmp_path / FOLDER / "rows.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    again = ResumeLog(tmp_path, "config")
    assert again.entries == {Key("w", 0, "p"): {"row": {"makespan": 0.1 + 0.2}}}
    again.close()
    assert ResumeLog(tmp_path, "other").entries == {}


def write_rule(folder: Path, body: str) -> str:
    path = folder / "my_rule.py"
    path.write_text(f"import numpy as np\n\n\ndef score(state):\n    {body}\n")
    return f"{path}:score"


def test_a_rule_of_ones_own(workloads: list[Workload], tmp_path: Path) -> None:
    spec = write_rule(tmp_path, "return -state.estimate[state.eligible].mean(axis=1)")
    result = compare_baselines(workloads, [spec, "random"], cluster=SMALL)
    assert {row["policy"] for row in result.rows} == {spec, "random"}
    assert all(row["valid"] for row in result.rows)


def test_a_failing_rule_is_named_with_workload_and_replay(workloads: list[Workload], tmp_path: Path) -> None:
    spec = write_rule(tmp_path, "return state.no_such_thing")
    with pytest.raises(PolicyCrashError, match=r"my_rule\.py:score' on workload 'one', replay 0: .*no_such_thing"):
        compare_baselines(workloads, ["fcfs", spec], cluster=SMALL)


def test_an_invalid_schedule_stops_the_comparison(workloads: list[Workload], monkeypatch: pytest.MonkeyPatch) -> None:
    from dagsched.errors import InvalidScheduleError

    def reject(schedule: object) -> None:
        raise InvalidScheduleError("capacity", "node 0 is overloaded")

    monkeypatch.setattr(sys.modules["dagsched.simulator.validate"], "validate", reject)
    with pytest.raises(
        PolicyCrashError, match=r"'fcfs' on workload 'one', replay 0: the validator rejects .*overloaded"
    ):
        compare_baselines(workloads, ["fcfs"], cluster=SMALL)
    result = compare_baselines(workloads, ["fcfs"], cluster=SMALL, validate=False)
    assert {row["valid"] for row in result.rows} == {None}


def test_a_policy_that_refuses_a_replay_is_counted_and_not_ranked_on_it(workloads: list[Workload]) -> None:
    result = compare_baselines(workloads, ["fcfs", "sampling:n=10"], cluster=SMALL, noise=0.2)
    assert {row["policy"] for row in result.rows} == {"fcfs"}
    assert [(r.policy, r.workload) for r in result.refusals] == [("sampling:n=10", w.name) for w in workloads]
    assert "noise" in result.refusals[0].reason
    with pytest.raises(PolicyError, match="every policy refuses every replay"):
        compare_baselines(workloads, ["sampling:n=10"], cluster=SMALL, noise=0.2)


def test_errors_come_before_the_run(workloads: list[Workload], tmp_path: Path) -> None:
    def refused(match: str, error: type[Exception] = ConfigError, **options: object) -> None:
        with pytest.raises(error, match=match):
            compare_baselines(workloads, **({"policies": ["fcfs"], "cluster": SMALL} | options))  # type: ignore[arg-type]

    refused("did you mean 'critical-path'", PolicyError, policies=["critcal-path"])
    refused("named twice", policies=["fcfs", "fcfs"])
    refused("none given", policies=[])
    refused("no workflow has a deadline", objective="slo")
    refused("objective is 'best'", objective="best")
    refused("expected poisson:LOAD", arrivals="uniform:2")
    refused("expected poisson:LOAD", arrivals="poisson:nan")
    refused("expected 'tight' or a factor", deadlines="loose")
    refused("replays is 0", replays=0)
    refused("jobs is 0", jobs=0)
    refused("limit is 0", limit=0)
    refused("seed is -1", seed=-1)
    refused("noise is nan", noise=float("nan"))
    refused("placement is 'nowhere'", placement="nowhere")
    refused("needs a folder", save_schedules=True)
    (tmp_path / "file").write_text("")
    refused("cannot make this folder", out=tmp_path / "file" / "x")
    tiny = Cluster((NodeGroup("tiny", 1, {"cpu": 1, "memory": 1}),))
    refused(r"workload 'one': .* fits no node", Exception, cluster=tiny)
    assert not list(tmp_path.glob("*/.resume"))


def test_arrivals_merge_all_inputs_into_one_stream(workloads: list[Workload]) -> None:
    result = compare_baselines(workloads, ["fcfs"], cluster=SMALL, arrivals="poisson:1.0", replays=2)
    assert [row["workflow_count"] for row in result.rows] == [3, 3]
    assert len({row["replay_digest"] for row in result.rows}) == 2
    # workflows of the same name in different files stay apart
    names = [w.name for w in merge(workloads).workflows]
    assert names == ["one/layered-001", "two/layered-001", "three/layered-001"]


def test_inputs_with_different_clusters_cannot_be_merged_without_a_common_one() -> None:
    def own(name: str, cores: int) -> Workload:
        flow = Workflow.from_tasks(name, [Task("a", 1.0)])
        return Workload(name, (flow,), cluster=Cluster.pooled({"cpu": cores}))

    with pytest.raises(ConfigError, match="different clusters"):
        compare_baselines([own("a", 1), own("b", 2)], ["fcfs"], arrivals="poisson:1")
    assert compare_baselines([own("a", 1), own("b", 2)], ["fcfs"], arrivals="poisson:1", cluster=SMALL).rows


def test_repeated_names_are_numbered() -> None:
    named = distinct_names([layered("x", 1), layered("x#2", 2), layered("x", 3)])
    assert [workload.name for workload in named] == ["x", "x#2", "x#3"] or len({w.name for w in named}) == 3


def test_known_makespans_feed_only_the_gap(tmp_path: Path) -> None:
    flow = Workflow.from_tasks("w", [Task("a", 4.0)])
    known = Workload("w", (flow,), cluster=Cluster.pooled({"cpu": 1}), known_makespan=2.0)
    (row,) = compare_baselines(known, ["fcfs"]).rows
    assert row["gap_known"] == pytest.approx(1.0)


def test_a_damaged_folder_is_refused_with_file_line_and_column(workloads: list[Workload], tmp_path: Path) -> None:
    compare_baselines(workloads, RULES, cluster=SMALL, out=tmp_path)
    results, timings = tmp_path / "results.csv", tmp_path / "timings.csv"
    about = json.loads((tmp_path / "summary.json").read_text())
    assert about["rows"] == {"results.csv": 9, "timings.csv": 9}
    lines = results.read_text().splitlines(keepends=True)
    bad_cell = lines[2].split(",")
    bad_cell[lines[0].split(",").index("makespan")] = "abc"
    damages: list[tuple[str, str, str]] = [
        ("results.csv", "".join(lines[:-2]), r"results\.csv: line 8: ends after 7 rows, summary\.json says 9"),
        ("results.csv", "".join(lines[:4])[:-40], r"results\.csv: line 4: .* cells, expected .*column"),
        ("results.csv", "".join(lines)[:-1], r"results\.csv: line 10: the last line is cut off"),
        (
            "results.csv",
            "".join([*lines[:2], ",".join(bad_cell), *lines[3:]]),
            r"results\.csv: line 3: .*'makespan' is 'abc'",
        ),
        ("timings.csv", "x", r"timings\.csv: line 1: column 'workload' is missing"),
        ("timings.csv", timings.read_text().replace("\n", "x\n", 2), r"timings\.csv: line 2: column 'searchx'"),
        ("summary.json", '{"objective":"makespan","provenance":5}', r"summary\.json: provenance is 5"),
        ("summary.json", '{"objective":["x"],"provenance":{}}', r"summary\.json: objective"),
        ("summary.json", "{", r"summary\.json: not valid JSON"),
        ("summary.json", "\udcff", r"summary\.json: not UTF-8"),
    ]
    for name, text, says in damages:
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(ConfigError, match=says):
            render_again(tmp_path)
        (tmp_path / name).write_bytes(whole)
    assert render_again(tmp_path).exists()


def test_different_clusters_of_one_name_are_all_described() -> None:
    inputs = [
        replace(layered(f"w{size}", size), cluster=Cluster.pooled({"cpu": 20.0 + size, "memory": 64e9}, name="pool"))
        for size in (1, 2, 2, 3, 4, 5, 6)
    ]
    comparison = compare_baselines(inputs, ("fcfs",))
    about = provenance(comparison, "")
    assert [entry["workloads"] for entry in about["clusters"]] == [1, 2, 1, 1, 1, 1]
    text = dict(provenance_pairs(about))["clusters"]
    assert text.startswith("pool: 6 different clusters of 1 node; the first 4:\npool, workloads 1, 1 × ")
    assert text.endswith("and 2 more, in summary.json")
