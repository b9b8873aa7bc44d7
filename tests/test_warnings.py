"""Nothing here warns: commands and imports under ``-W error``, where a warning ends the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

THEIRS = ("ignore::DeprecationWarning:torch.jit._script",)
"""torch-geometric asks torch for what torch advises against."""


def strictly(folder: Path, code: str) -> None:
    """Run Python code in a process of its own with every warning an error."""
    told = [part for rule in ("error", *THEIRS) for part in ("-W", rule)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[1]), *sys.path])}
    done = subprocess.run([sys.executable, *told, "-c", code], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def commands(*lines: str) -> str:
    calls = "\n".join(f"run({line.split()!r})" for line in lines)
    return f"""
import sys
from dagsched.cli import main
def run(arguments):
    sys.argv = ["dagsched", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, (arguments, ended.code)
{calls}
"""


def test_imports_and_commands_do_not_warn(tmp_path: Path) -> None:
    strictly(
        tmp_path,
        "import dagsched, dagsched.env\nfor name in dagsched.__all__: getattr(dagsched, name)\n"
        + commands(
            "generate rcpsp --tasks 10 --out r.json",
            "inspect r.json --draw r.svg",
            "schedule r.json --policy heft --gantt g.png --out s.json",
            "compare r.json --policies lft,fcfs,evolved --noise 0.2 --replays 2 --out c",
            "explain r.json --decision 3",
            "policies",
        ),
    )


@pytest.mark.slow
def test_training_does_not_warn(tmp_path: Path) -> None:
    small = "--steps 2 --set validation.instances=4 --set validation.confirm=4 --out t"
    strictly(tmp_path, commands(f"train workloads/train/quick.yaml {small}", "eval t/best build --limit 2 --rules lft"))
