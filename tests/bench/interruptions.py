"""Ctrl-C at random moments of a comparison's start, and kills of ``generate``: how many are lost or leave half a file.

``python -m tests.bench.interruptions startup 40`` and ``... generate 60``; docs/reliability.md has what came of it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 15.0
"""Seconds after which an interrupt counts as lost."""


def listen() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def startup(tries: int) -> str:
    """Interrupt a comparison 0.25 to 4 s after its start."""
    rng = random.Random(0)
    lost, codes = 0, dict[int, int]()
    for _ in range(tries):
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, "-m", "dagsched", "compare", str(ROOT / "workloads/wfcommons"), "--jobs", "1"]
            with subprocess.Popen(
                [*command, "--replays", "400", "--noise", "0.3", "--out", out],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=listen,
                cwd=ROOT,
            ) as process:  # fmt: skip
                time.sleep(rng.uniform(0.25, 4.0))
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    lost += 1
                    process.send_signal(signal.SIGINT)
                    process.wait(PATIENCE)
            codes[process.returncode] = codes.get(process.returncode, 0) + 1
    return f"{tries} tries, {lost} lost, exit codes {codes}"


def generate(tries: int) -> str:
    """Kill ``generate`` outright at any moment of its work, with a file of before in the place of the new one."""
    from dagsched.cli import run

    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "w.json"
        arguments = ["generate", "layered", "--tasks", "300", "--count", "5", "--out", str(out)]
        run(arguments)
        began = time.monotonic()
        run(arguments)
        lasts, whole = time.monotonic() - began, out.read_bytes()
        complete = half = 0
        for _ in range(tries):
            out.write_bytes(b"of before")
            child = os.fork()
            if child == 0:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                os._exit(run(arguments))
            time.sleep(rng.uniform(0.0, 1.3 * lasts))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            complete += out.read_bytes() == whole
            half += out.read_bytes() not in (whole, b"of before")
    return f"{tries} kills, {complete} files complete, {half} half-written"


if __name__ == "__main__":
    print({"startup": startup, "generate": generate}[sys.argv[1]](int(sys.argv[2])))
