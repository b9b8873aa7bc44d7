"""Processes: never more than cores and work, none left behind, no script that starts itself again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from dagsched import processes
from dagsched.processes import useful

SLOW = "import time\n\n\ndef score(state):\n    time.sleep(0.02)\n    return -state.ready_time[state.eligible]\n"
BODY = """
from dagsched import Task, Workflow, Workload
from dagsched.evaluate.compare import compare_baselines

workload = Workload("w", (Workflow.from_tasks("w", [Task(str(k), 1.0) for k in range(200)]),))
"""
MANY = "import dagsched.processes as p\np.cores = lambda: 2\nimport dagsched.search.plan as s\ns.cores = p.cores\n"


@pytest.mark.parametrize(
    ("asked", "work", "used", "why"),
    [
        (1, 10, 1, ""),
        (3, 10, 3, ""),
        (400, 10, 4, "4 processes instead of 400: there are 4 cores"),
        (400, 2, 2, "2 processes instead of 400: there are 2 runs to do"),
        (2, 0, 1, "1 processes instead of 2: there are 0 runs to do"),
    ],
)
def test_processes_are_never_more_than_cores_and_work(
    asked: int, work: int, used: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 4)
    assert useful(asked, work) == (used, why)


def test_a_planner_uses_no_more_workers_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    from dagsched.search import plan

    from .policies.test_sampling import random_project

    monkeypatch.setattr(plan, "cores", lambda: 1)
    assert plan.plan_batch(random_project(3), schedules=5, workers=400).workers == 1


def test_a_comparison_says_how_many_processes_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    from dagsched import Task, Workflow, Workload
    from dagsched.evaluate.compare import compare_baselines

    monkeypatch.setattr(processes, "cores", lambda: 1)
    said: list[str] = []
    workload = Workload("w", (Workflow.from_tasks("w", [Task("a", 1.0)]),))
    compare_baselines(workload, ["fcfs", "sjf"], jobs=400, say=said.append)
    assert "jobs: 1 processes instead of 400: there are 1 cores" in said


@pytest.mark.parametrize(
    ("script", "guarded"),
    [
        ("call()", False),
        ("if __name__ == '__main__':\n    call()", True),
        ("def main():\n    call()\n\nif '__main__' == __name__: main()", True),
        ("def main():\n    call()\n\nmain()", False),
        ("import sys\nif __name__ != '__main__':\n    sys.exit()\ncall()", True),
        ("for k in range(2):\n    call()", False),
    ],
)
def test_a_script_is_known_by_its_guard(script: str, guarded: bool, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        f"from dagsched.processes import check_spawnable\n\ncall = lambda: check_spawnable('jobs')\n{script}\n"
    )
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == guarded, done.stderr
    if not guarded:
        last = done.stderr.strip().split("\n")[-1]
        assert last == (
            f"dagsched.errors.ConfigError: {path}: jobs > 1 starts processes that load this script again; put what it "
            f'does under `if __name__ == "__main__":`, or use jobs=1'
        )


@pytest.mark.parametrize(
    "call",
    [
        "compare_baselines(workload, ['fcfs', 'sjf'], jobs=2)",
        "simulate(Replay.build(workload), 'mcts-rules:workers=2')",
    ],
)
def test_a_script_without_guard_gets_one_error_and_starts_nothing(call: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    more = "from dagsched.replay import Replay\nfrom dagsched.run_policy import simulate\nprint('loaded')\n"
    path.write_text(MANY + more + BODY + call)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stdout == "loaded\n"
    assert done.stderr.count("Traceback") == 1
    assert "put what it does under `if __name__" in done.stderr


def of_session(session: int) -> list[int]:
    """Processes of a session that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if entry.name.isdigit() and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def wait_for(condition, seconds: float) -> bool:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("kind", ["compare", "plan"])
def test_no_process_is_left_when_the_first_one_is_killed(kind: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    call = f"compare_baselines(workload, ['fcfs', '{tmp_path}/slow.py:score'], jobs=2, noise=0.1, replays=40)"
    if kind == "plan":
        call = "simulate(Replay.build(workload), 'mcts-rules:workers=2:time_limit=100:objective=flow_time')"
    script = tmp_path / "script.py"
    more = "from dagsched.replay import Replay\nfrom dagsched.run_policy import simulate\n"
    script.write_text(MANY + more + BODY + f"if __name__ == '__main__':\n    {call}\n")
    with subprocess.Popen([sys.executable, script], start_new_session=True, stderr=subprocess.DEVNULL) as first:
        try:
            assert wait_for(lambda: len(of_session(first.pid)) >= 3, 40), "no worker came up"
            time.sleep(1.0)
            first.kill()
            first.wait()
            assert wait_for(lambda: not of_session(first.pid), 5), of_session(first.pid)
        finally:
            for left in of_session(first.pid):
                os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("to", ["process", "group"])
def test_sigterm_is_as_ctrl_c(name: str, to: str, tmp_path: Path) -> None:
    from dagsched import Task, Workflow, Workload, save

    save(Workload("w", (Workflow.from_tasks("w", [Task(str(k), 1.0) for k in range(200)]),)), tmp_path / "w.json")
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "dagsched", "compare", "w.json", "--policies", "fcfs,slow.py:score"]
    command += ["--noise", "0.2", "--replays", "20", "--jobs", "2", "--out", "out"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=listen
    ) as process:
        rows = tmp_path / "out/.resume/rows.jsonl"
        assert wait_for(lambda: rows.exists() and rows.read_text().count("\n") > 2, 40)
        (os.killpg if to == "group" else os.kill)(process.pid, getattr(signal, name))
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.strip().split("\n")[-1].startswith("interrupted; finished runs are kept"), said
    assert wait_for(lambda: not of_session(process.pid), 5)
    assert not (tmp_path / "out/.lock").exists()


def listen() -> None:
    """What a shell does not do for its background jobs: let Ctrl-C arrive."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_is_dropped_in_a_callback_is_raised_again(number: signal.Signals) -> None:
    """Python ignores what is raised inside ``__del__``, weak references and callbacks of C code."""
    script = """
        import os, signal, sys, time
        from dagsched.interrupts import take_signals
        take_signals()
        class Dropping:
            def __del__(self):
                os.kill(os.getpid(), int(sys.argv[1]))
                time.sleep(0.01)
        try:
            Dropping()
            time.sleep(20)
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(int(number))],
        capture_output=True, text=True, check=False, timeout=15, preexec_fn=listen,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_second_ctrl_c_ends_a_program_that_swallows_the_first() -> None:
    script = """
        import os, signal
        from dagsched.interrupts import take_signals
        take_signals()
        for _ in range(2):
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                pass
        print("still here")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, check=False, timeout=15, preexec_fn=listen,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "")


def test_what_is_started_with_ctrl_c_ignored_goes_on_ignoring_it() -> None:
    """As a shell starts what runs in the background; SIGTERM ends it as Ctrl-C would."""
    script = """
        import os, signal
        from dagsched.interrupts import remembered_interrupts, take_signals
        take_signals()
        with remembered_interrupts() as pressed:
            os.kill(os.getpid(), signal.SIGINT)
            assert not pressed()
            os.kill(os.getpid(), signal.SIGTERM)
            assert pressed()
        os.kill(os.getpid(), signal.SIGINT)
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            print("ended")
    """
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, check=False, timeout=15,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("ended\n", "")
