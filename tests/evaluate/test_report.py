"""The report: complete, self-contained, escaped, the same bytes every time, and fit for a phone."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import ConfigError
from dagsched.evaluate.report import ReportData, build_report, render_report
from dagsched.schedule import Schedule
from tests.handmade import changed, list_schedule, random_replay

EVIL = "<script>alert('x')</script>&\"\x07\ud800"
VOID = {"meta", "link", "line", "br", "wbr"}


def rows(policies: int = 4, workloads: int = 8, replays: int = 1) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    found = []
    for workload in range(workloads):
        for replay in range(replays):
            base = float(rng.uniform(10, 1000))
            found += [
                {
                    "workload": f"workload-{workload}",
                    "workflow_count": 2,
                    "task_count": 20 * (workload + 1),
                    "replay": replay,
                    "policy": f"policy-{policy}",
                    "replay_digest": "0" * 64,
                    "valid": "true",
                    "makespan": base * (1 + 0.1 * policy + 0.01 * rng.random()),
                    "mean_flow_time": base / 2,
                    "mean_wait": float(policy),
                    "slo_violation_rate": 0.1 * policy,
                    "utilisation_cpu": 0.9 - 0.1 * policy,
                }
                for policy in range(policies)
            ]
    return found


@pytest.fixture(scope="module")
def drawn() -> list[Schedule]:
    replay = random_replay(1)
    backwards = list(range(len(replay)))[::-1]
    return [changed(list_schedule(replay), policy="policy-0"), changed(list_schedule(replay, backwards), policy=EVIL)]


class Checker(HTMLParser):
    """Collects tags and fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def parse(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.stack
    return checker


def test_the_report_holds_every_part(drawn: list[Schedule]) -> None:
    provenance = {
        "command": "dagsched compare x",
        "workloads": [{"name": "a", "rejects": [{"reason": "r", "count": 2}]}],
    }
    refusals = [{"policy": "cp-sat", "reason": "too large"}] * 3
    timings = [{"workload": "a", "replay": 0, "policy": "policy-1", "decision_ms_p50": 1.5, "decision_ms_p99": 2.5}]
    data = build_report(rows(), drawn, provenance, timings=timings, refusals=refusals)
    page = render_report(data)
    parse(page)
    for part in (
        "policy-0 wins on completion time",
        "At a glance",
        "SLO violation rate",
        "Utilisation of cpu",
        "Mean wait",
        "How far behind",
        "Performance profile",
        "Win, tie, loss",
        "By kind of workload",
        "Every workload",
        "Best and worst on one replay",
        "Skipped runs",
        "Left out while reading",
        "Provenance",
        "dagsched compare x",
        "1.5 ms",
    ):
        assert part in page, part
    assert data.refusals == (("cp-sat", "too large", 3),)
    assert data.rejects == (("a", "r", 2, ""),)
    assert data.reference == "policy-0"


def test_the_same_data_gives_the_same_bytes(drawn: list[Schedule]) -> None:
    assert render_report(build_report(rows(), drawn)) == render_report(build_report(rows(), drawn))


def test_nothing_is_loaded_from_anywhere(drawn: list[Schedule]) -> None:
    page = render_report(build_report(rows(), drawn))
    for tag, attributes in parse(page).tags:
        assert tag not in ("script", "img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href") in (None, "data:,")
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in page
    assert "@import" not in page


def test_texts_from_strangers_are_escaped_everywhere(drawn: list[Schedule]) -> None:
    evil = [{**row, "workload": f"{EVIL}{row['workload']}", "policy": f"{EVIL}{row['policy']}"} for row in rows()]
    provenance = {EVIL: EVIL, "workloads": [{"name": EVIL, "rejects": [{"reason": EVIL, "count": 1, "example": EVIL}]}]}
    refusals = [{"policy": EVIL, "reason": EVIL}]
    page = render_report(build_report(evil, drawn, provenance, title=EVIL, refusals=refusals))
    parse(page)
    assert "<script" not in page
    assert "alert('x')" not in page
    assert "\x07" not in page
    page.encode("utf-8")


def test_more_than_twenty_workloads_fold() -> None:
    page = render_report(build_report(rows(workloads=30)))
    assert "10 more workloads" in page
    assert "more workloads" not in render_report(build_report(rows(workloads=22)))


def test_one_policy_or_one_replay_or_no_deadlines_still_make_a_report() -> None:
    assert "Only policy-0" in render_report(build_report(rows(policies=1)))
    single = render_report(build_report(rows(workloads=1)))
    assert "single replay" in single
    without = [{k: v for k, v in row.items() if k != "slo_violation_rate"} for row in rows()]
    page = render_report(build_report(without, objective="slo"))
    assert "No verdict on SLO violation rate: no workflow has a deadline." in page
    assert "Not measured: no workflow has a deadline" in page
    parse(page)


def test_rows_read_from_csv_texts_give_the_same_page() -> None:
    texts = [{k: str(v) for k, v in row.items()} for row in rows()]
    assert render_report(build_report(texts)) == render_report(build_report(rows()))


def test_empty_cells_and_missing_rows() -> None:
    some = [{**row, "mean_wait": ""} for row in rows()][:-3]
    page = render_report(build_report(some))
    parse(page)
    assert "Mean wait" not in page


def test_invalid_schedules_are_announced() -> None:
    bad = rows()
    bad[3]["valid"] = False
    data = build_report(bad)
    assert data.invalid == (("policy-3", "workload-0", "0"),)
    assert "1 schedules failed the validator" in render_report(data)


def test_slices_by_load_and_noise_where_the_rows_have_them() -> None:
    table = [{**row, "load": 0.5 if row["workload"] < "workload-4" else 0.9} for row in rows()]
    names = [part.name for part in build_report(table).slices]
    assert "load 0.5" in names
    assert names[0] == "up to 30 tasks"


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="no results"):
        build_report([])
    with pytest.raises(ConfigError, match="objective"):
        build_report(rows(), objective="speed")


def test_damaged_provenance_does_not_break_the_report() -> None:
    for provenance in (
        {"workloads": 3},
        {"workloads": [3, {"rejects": [1]}]},
        {"clusters": [{"description": {}}]},
        {"x": None},
    ):
        parse(render_report(build_report(rows(), (), provenance)))


def largest_report(drawn: list[Schedule]) -> ReportData:
    wide = [{**row, "policy": f"sampling:n=1000:fbi=1:rule=lft:variant-{row['policy']}"} for row in rows(14, 30)]
    provenance = {"command": "dagsched compare " + "x" * 400, "digest": "f" * 64}
    return build_report(wide, drawn, provenance)


@pytest.mark.slow
def test_in_a_browser_nothing_is_fetched_nothing_fails_and_a_phone_needs_no_sideways_scrolling(
    drawn: list[Schedule], tmp_path: Path
) -> None:
    chromium = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if chromium is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    page = render_report(largest_report(drawn))
    probe = (
        "<script>addEventListener('load',()=>{const d=document.documentElement;document.title='PROBE '+JSON.stringify({"
        "width:d.scrollWidth,view:d.clientWidth,clipped:[...d.querySelectorAll('.head .scroll')].filter("
        "e=>e.scrollWidth>e.clientWidth).length,fetched:performance.getEntriesByType('resource').length})})</script>"
    )
    open_policy = re.sub(r"<meta http-equiv=.Content-Security-Policy.*?>", "", page)
    (tmp_path / "inner.html").write_text(open_policy.replace("</body>", probe + "</body>"), encoding="utf-8")
    # Headless windows are at least 500 pixels wide, so the phone is a frame.
    outer = (
        "<body style='margin:0'><iframe id=f src='inner.html' style='border:0;width:390px;height:800px'></iframe>"
        "<script>f.onload=()=>setTimeout(()=>{document.title=f.contentDocument.title},200)</script>"
    )
    (tmp_path / "outer.html").write_text(outer)
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=3000",
        "--dump-dom",
    ]
    done = subprocess.run(
        [chromium, *flags, (tmp_path / "outer.html").as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = re.search(r'PROBE \{"width":(\d+),"view":(\d+),"clipped":(\d+),"fetched":(\d+)\}', done.stdout)
    assert found, done.stdout[:500]
    width, view, clipped, fetched = (int(number) for number in found.groups())
    assert view == 390
    assert width <= view
    assert clipped == 0
    assert fetched == 0
    plain = subprocess.run(
        [chromium, *flags, (tmp_path / "report.html").as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert "CONSOLE" not in plain.stderr
    assert "Every workload" in plain.stdout


def test_rates_are_steady_by_points_also_where_the_best_is_zero() -> None:
    table = [{**row, "slo_violation_rate": 0.5 if row["policy"] == "policy-1" else 0.0} for row in rows(2)]
    data = build_report(table, objective="slo")
    assert not data.spreads.relative
    best, other = data.spreads.rows
    assert (best.iqm, best.worst, best.best_share) == (0.0, 0.0, 1.0)
    assert (other.iqm, other.worst, other.best_share) == (0.5, 0.5, 0.0)
    page = render_report(data)
    assert "difference in percentage points" in page
    assert "<td>+50.0 points</td><td>+50.0 points</td>" in page
    assert data.profile.shares[:, -1].tolist() == [1.0, 1.0]


def test_times_with_a_zero_are_steady_by_seconds_and_others_by_ratio() -> None:
    waits = [{**row, "weighted_flow_time": float(str(row["mean_wait"]))} for row in rows(3)]
    data = build_report(waits, objective="flow_time")
    assert [spread.worst for spread in data.spreads.rows] == [0.0, 1.0, 2.0]
    assert "difference in seconds" in render_report(data)
    assert build_report(rows()).spreads.relative


def test_the_gap_to_known_makespans_has_a_head_table() -> None:
    page = render_report(build_report([{**row, "gap_known": 0.1 * int(str(row["policy"])[-1])} for row in rows()]))
    assert "Gap to the best known" in page
    assert "Gap to the best known" not in render_report(build_report(rows()))


def test_gantt_captions_show_the_objective(drawn: list[Schedule]) -> None:
    name = drawn[0].replay.workload.name
    table = [{**row, "workload": name if row["workload"] == "workload-0" else row["workload"]} for row in rows()]
    for row in table:
        row["weighted_flow_time"] = 1000.0 + 10 * int(str(row["policy"])[-1])
    page = render_report(build_report(table, [drawn[0], changed(drawn[1], policy="policy-3")], objective="flow_time"))
    assert "weighted mean flow time 1,000 s, completion time" in page
    assert "weighted mean flow time 1,030 s, completion time" in page
