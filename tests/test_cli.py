"""The command line end to end on small files: outputs, exit codes, one-line errors."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dagsched.cli import _os_error, run
from dagsched.cli.compare import split_policies
from dagsched.formats import readers

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``layered.json`` with one workflow, ``stream.json`` with five that arrive and have deadlines."""
    path = tmp_path_factory.mktemp("inputs")
    assert run(["generate", "layered", "--tasks", "20", "--out", str(path / "layered.json")]) == 0
    stream = ["generate", "fork-join", "--count", "5", "--stages", "2", "--width", "6", "--out"]
    assert run([*stream, str(path / "stream.json"), "--arrivals", "poisson:1.0", "--deadlines", "tight"]) == 0
    return path


def command(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """``dagsched ...`` in its own process."""
    return subprocess.run(
        [sys.executable, "-m", "dagsched", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        cwd=ROOT,
        **options,  # type: ignore[call-overload]
    )


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line on stderr of a command that must exit with 2."""
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.strip().split("\n")
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    assert "Traceback" not in err
    return lines[0]


def test_help_and_import_are_light() -> None:
    heavy = ["torch", "torch_geometric", "numba", "matplotlib", "scipy", "pandas", "networkx", "ortools", "jsonschema"]
    check = f"print([m for m in {heavy!r} if m in sys.modules])"
    imported = f"import sys, dagsched; {check}"
    helped = f"import sys; from dagsched.cli import run; run(['--help']); {check}"
    for code in (imported, helped):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip().endswith("[]")


def test_the_help_of_a_command_names_every_format_without_compiling_anything() -> None:
    code = "import sys; from dagsched.cli import run; run(['compare', '--help']); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")
    text = done.stdout.partition("Options")[0]
    assert [name for name in readers() if name not in text] == []


def completed(line: str) -> list[str]:
    """What bash would offer at the end of a line."""
    words = shlex.split(line)
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_DAGSCHED_COMPLETE": "complete_bash"}
    command = [sys.executable, "-m", "dagsched"]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("dagsched sch", ["schedule"]),
        ("dagsched compare x --policies heft,sr", ["heft,srw", "heft,srw*cp"]),
        ("dagsched schedule x --policy plan", ["planner", "planner-rules"]),
        ("dagsched eval x y --rules lf", ["lft"]),
        ("dagsched inspect x --format ps", ["psplib"]),
    ],
)
def test_the_shell_completes_commands_policies_and_formats(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_completion_can_be_installed() -> None:
    command = [sys.executable, "-m", "dagsched", "--show-completion", "bash"]
    done = subprocess.run(
        command,
        env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "complete -o default -F _dagsched_completion dagsched" in done.stdout


@pytest.mark.parametrize("name", ["inspect", "schedule", "compare", "report", "policies", "generate", "warmup"])
def test_every_help_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"$ dagsched {name}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from dagsched import __version__

    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"dagsched {__version__}\n"


def test_policies_lists_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    from dagsched import list_policies

    assert run(["policies"]) == 0
    out = capsys.readouterr().out
    assert all(f"{info.name} " in out for info in list_policies())


def test_flags_take_no_value_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["compare", "--help"], ["inspect", "--help"]):
        assert run(arguments) == 0
        lines = [line for line in capsys.readouterr().out.split("\n") if "<bool>" in line]
        assert all("--help" in line or "-completion " in line for line in lines), lines  # these are not ours


def test_shipped_workloads_are_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["inspect", "workloads/wfcommons"]) == 0
    out, err = capsys.readouterr()
    assert "8 workloads" in out
    assert err.strip() == f"workloads/wfcommons: not in this folder; reading the shipped {ROOT / 'workloads/wfcommons'}"
    for missing in ("workloads/none", "workloads/../pyproject.toml", "docs"):
        assert missing in refused(capsys, "inspect", missing)
    (tmp_path / "workloads" / "wfcommons").mkdir(parents=True)
    assert "no files" in refused(capsys, "inspect", "workloads/wfcommons")  # what is here comes first


def test_inspect_one_workload(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(folder / "layered.json"), "--draw", str(folder / "dag.svg")]) == 0
    out = capsys.readouterr().out
    for word in (
        "tasks",
        "edges",
        "width by level",
        "critical path",
        "demand of cpu",
        "lower bound",
        "default: 14 nodes",
    ):
        assert word in out
    assert (folder / "dag.svg").read_text().lstrip().startswith("<?xml")


def test_inspect_many_workloads_in_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(folder / "layered.json"), str(folder / "stream.json")]) == 0
    assert "2 workloads" in capsys.readouterr().out
    assert "choose one to draw" in refused_late(capsys, "inspect", folder / "stream.json", "--draw", folder / "x.png")


@pytest.mark.parametrize(
    ("file", "more", "says"),
    [
        ("layered.json", ["--noise", "0.2"], "Search: race, decision by decision, "),
        ("stream.json", [], "Search: tree, decision by decision, "),
        ("layered.json", [], " schedules in "),
    ],
)
def test_schedule_says_how_a_planner_searched(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, more: list[str], says: str
) -> None:
    arguments = ["schedule", str(folder / file), "--policy", "mcts-rules", "--simulations", "4", *more]
    assert run(arguments) == 0
    assert says in capsys.readouterr().out


def refused_late(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Like ``refused``, for commands that print something before they meet the error."""
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == 2
    err = capsys.readouterr().err.strip()
    assert "\n" not in err
    return err


def test_inspect_counts_rejected_records_and_strict_refuses_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["M1,1,j_1,1,Terminated,100,110,100,0.5", "R2_1,1,j_1,1,Terminated,110,120,100,0.5"]
    rows += ["M1,1,j_2,1,Failed,100,90,100,0.5"]
    trace = tmp_path / "batch_task.csv"
    trace.write_text("\n".join(rows) + "\n")
    assert run(["inspect", str(trace)]) == 0
    assert "1 record left out" in capsys.readouterr().out
    assert "j_2" in refused(capsys, "inspect", trace, "--strict")


def test_schedule_writes_every_format_and_a_gantt_chart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(folder / "layered.json")
    for name in ("s.json", "s.csv", "s.trace.json"):
        assert run(["schedule", source, "--policy", "heft", "--out", str(folder / name)]) == 0
    assert run(["schedule", source, "--gantt", str(folder / "gantt.png")]) == 0
    out = capsys.readouterr().out
    assert "The schedule is valid." in out
    assert "completion time" in out
    with (folder / "s.csv").open() as file:
        assert {row["task"] for row in csv.DictReader(file)} == {f"t{i + 1}" for i in range(20)}
    assert json.loads((folder / "s.trace.json").read_text())["traceEvents"]
    assert (folder / "gantt.png").read_bytes().startswith(b"\x89PNG")


def test_compare_prints_tables_and_writes_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "compared"
    sources = [str(folder / "layered.json"), str(folder / "stream.json")]
    specs = "fcfs,critical-path,random"
    assert run(["compare", *sources, "--policies", specs, "--jobs", "1", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    for words in ("Completion time", "SLO violation rate", "Utilisation of cpu", "Mean wait", "2 workloads", "* "):
        assert words in text
    assert "every schedule passed the validator" in text
    assert "default: 14 nodes in 4 groups" in text
    assert "report.html" in text
    with (out / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 6
    report = out / "report.html"
    first = report.read_text()
    report.unlink()
    assert run(["report", str(out)]) == 0
    assert "<html" in first
    assert "<html" in report.read_text()


def test_compare_shows_the_metric_that_decides_uncut(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = "sampling:n=2:rule=lft:sgs=parallel:seed=123456789012,sjf"
    source = str(folder / "layered.json")
    assert run(["compare", source, "--policies", specs, "--jobs", "1", "--objective", "flow_time"]) == 0
    text = capsys.readouterr().out
    first = text[: text.index("Completion time")]
    assert first.startswith("Weighted mean flow time")
    assert len(re.findall(r" \d[\d.,]* s ", first)) == 2  # the mean of both, whole
    assert "…" not in text


def test_compare_baselines_is_another_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(folder / "layered.json")
    assert run(["compare-baselines", source, "--policies", "fcfs,sjf", "--jobs", "1", "--replays", "4"]) == 0
    assert "replayed once" in capsys.readouterr().out


def test_policies_are_separated_by_commas_that_option_values_may_hold() -> None:
    assert split_policies("heft, fcfs,,sampling:n=10:scales=0.1,0.2:fbi=1,srw") == [
        "heft",
        "fcfs",
        "sampling:n=10:scales=0.1,0.2:fbi=1",
        "srw",
    ]


def test_user_errors_are_one_line_and_exit_code_2(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder / "layered.json"
    broken = tmp_path / "broken.json"
    broken.write_text('{"format": "dagsched-workload", "version": 1, "workflows": [')
    assert "missing.json" in refused(capsys, "inspect", tmp_path / "missing.json")
    assert "broken.json" in refused(capsys, "inspect", broken)
    assert "did you mean 'heft'" in refused(capsys, "compare", source, "--policies", "hefd")
    assert "poisson:LOAD" in refused(capsys, "compare", source, "--arrivals", "often")
    for command in (("schedule", source, "--policy", "heft"), ("compare", source, "--policies", "heft,fcfs")):
        wrong = refused(capsys, *command, "--budget-ms", "3", "--simulations", "4")
        assert wrong.startswith("error: --budget-ms, --simulations: for the planners mcts and mcts-rules")
    assert "no workflow has a deadline" in refused(capsys, "compare", source, "--objective", "slo")
    assert "cluster" in refused(capsys, "compare", source, "--cluster", tmp_path / "no.yaml")
    assert "summary.json" in refused(capsys, "report", tmp_path)
    assert "--tsks" in refused(capsys, "generate", "layered", "--tsks", "3", "--out", tmp_path / "x.json")
    wrong = refused(capsys, "generate", "fork-join", "--tasks", "5", "--out", tmp_path / "x.json")
    assert wrong == "error: fork-join has no option --tasks, expected --stages, --width"
    assert "layered" in refused(capsys, "generate", "lairs", "--out", tmp_path / "x.json")
    assert "No such command" in refused(capsys, "comparee")
    assert "Missing" in refused(capsys, "compare")
    assert "replays" in refused(capsys, "compare", source, "--replays", "many")
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in refused(capsys, "generate", "layered", "--out", file / "x.json")
    assert str(file) in refused(capsys, "compare", source, "--policies", "fcfs", "--out", file / "x")
    assert list(tmp_path.glob(".*")) == []


def test_a_traceback_free_exit_in_a_real_process(tmp_path: Path) -> None:
    done = command("inspect", tmp_path / "missing.json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")


def test_a_closed_pipe_is_no_error() -> None:
    shell = f"{sys.executable} -m dagsched policies | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_control_c_stops_with_130_and_the_same_command_resumes(folder: Path, tmp_path: Path) -> None:
    source, out, whole = folder / "stream.json", tmp_path / "out", tmp_path / "whole"
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\n\n\ndef score(state):\n    time.sleep(0.003)\n    return -state.ready_time[state.eligible]\n"
    )
    arguments = ["compare", source, "--policies", f"fcfs,{slow}:score", "--noise", "0.2", "--replays", "8"]
    arguments = [str(a) for a in [*arguments, "--jobs", "2", "--out"]]
    with subprocess.Popen(
        [sys.executable, "-m", "dagsched", *arguments, str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
    ) as process:
        log = out / ".resume" / "rows.jsonl"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if log.exists() and log.read_text().count("\n") > 4:
                break
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.strip().split("\n")[-1].startswith("interrupted; finished runs are kept")
    assert [path.name for path in out.iterdir()] == [".resume"]
    again = command(*arguments, out)
    assert again.returncode == 0
    assert "resuming" in again.stderr
    assert command(*arguments, whole).returncode == 0
    assert (out / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()


def test_a_terminal_without_unicode_gets_question_marks(tmp_path: Path) -> None:
    from dagsched import save
    from dagsched.generate import random_workload

    path = tmp_path / "w.json"
    save(random_workload("layered", np.random.default_rng(0), name="caf\u00e9", tasks=5), path)
    done = command("inspect", path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "caf?" in done.stdout


def test_suffixes_are_checked_before_the_policy_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "layered.json"
    assert "cannot tell" in refused(capsys, "schedule", path, "-p", "no-such", "--out", folder / "x.xyz")
    assert "pictures are written" in refused(capsys, "schedule", path, "-p", "no-such", "--gantt", folder / "x.xyz")
    assert "pictures are written" in refused(capsys, "inspect", folder / "none.json", "--draw", folder / "x.xyz")


@pytest.mark.parametrize("out", [".", "..", "/"])
def test_a_folder_is_no_output_file(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "this is a folder" in refused(capsys, "generate", "layered", "--out", out)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28), "No space left on device while writing; free some space and run the same command again"),
        (OSError(28, "Full", "a.csv"), "a.csv: Full; free some space and run the same command again"),
        (OSError(2, "Missing", "a.csv"), "a.csv: Missing"),
        (OSError(), "OSError while reading or writing; run the same command again"),
    ],
)
def test_errors_of_the_system_say_what_to_do(error: OSError, line: str) -> None:
    assert _os_error(error) == line


def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "w.json")
    assert run(["generate", "layered", "--tasks", "9", "--count", "3", "--out", file]) == 0
    capsys.readouterr()
    assert run(["compare", file, "--policies", "sjf,fcfs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(found["policies"]) == ["fcfs", "sjf"]
    assert found["verdict"]
    assert run(["schedule", file, "--policy", "sjf", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["policy"] == "sjf"
    assert found["metrics"]["makespan"] > 0
    assert run(["policies", "--json"]) == 0
    assert "heft" in {policy["name"] for policy in json.loads(capsys.readouterr().out)}


def test_quiet_keeps_remarks_but_not_errors_to_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = str(tmp_path / "w.json"), str(tmp_path / "s.json")
    assert run(["generate", "layered", "--tasks", "9", "--out", file]) == 0
    assert run(["schedule", file, "--policy", "sjf", "--out", out]) == 0
    assert "schedule written" in capsys.readouterr().err
    assert run(["--quiet", "schedule", file, "--policy", "sjf", "--out", out]) == 0
    assert capsys.readouterr().err == ""
    assert run(["-q", "schedule", file, "--policy", "sjff"]) == 2
    assert "did you mean 'sjf'" in capsys.readouterr().err
    assert run(["schedule", file, "--policy", "sjf", "--out", out]) == 0
    assert "schedule written" in capsys.readouterr().err
