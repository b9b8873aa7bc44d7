"""Every command and code block of README.md and docs/*.md runs.

``console`` blocks: lines after ``$ ``. ``bash`` blocks: every line. ``python`` blocks run in order and share names;
one whose first line is ``# name.py`` is written to that file instead. Other blocks are not run.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dagsched.cli import run

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("workloads", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__docs__"}
    for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            run_python(body, names, page)
        elif language == "console":
            for line in body.splitlines():
                if line.startswith("$ "):
                    run_command(line[2:])
        elif language in ("bash", "sh"):
            for line in body.splitlines():
                if line.strip():
                    run_command(line)


def run_python(body: str, names: dict[str, object], page: Path) -> None:
    file = re.match(r"# (\w+\.py)\n", body)
    if file:
        Path(file[1]).write_text(body)
        assert len(body.splitlines()) <= 20, "a rule of one's own must stay short"
    else:
        exec(compile(body, str(page), "exec"), names)


def run_command(line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets
    else:
        assert words[0] == "dagsched", f"only dagsched and make commands belong in the documentation: {line}"
        assert run(words[1:]) == 0, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_local_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
