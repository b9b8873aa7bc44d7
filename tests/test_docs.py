"""Every command and code block of README.md and docs runs, and every link of every page leads somewhere.

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
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALL_PAGES = [
    page
    for page in sorted(ROOT.rglob("*.md"))
    if not any(
        part.startswith(".") or part in ("build", "dist", "node_modules") for part in page.relative_to(ROOT).parts
    )
]
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if FENCE.search(page.read_text(encoding="utf-8"))], ids=name_of
)
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


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_every_local_link_leads_somewhere(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if "://" in target:
            continue
        found = page.parent / target if target else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_page_can_be_reached_from_the_documentation_index() -> None:
    seen, new = set(), {ROOT / "docs" / "index.md"}
    while new:
        seen |= new
        links = {
            (page.parent / target).resolve()
            for page in new
            for target in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
            if "://" not in target
        }
        new = links - seen
    assert {name_of(page) for page in PAGES} <= {name_of(page) for page in seen}
