"""Every script of ``examples`` runs, and so do the code cells of every notebook, in order."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def skip_without_torch(file: Path) -> None:
    if "dagsched.learn" in file.read_text(encoding="utf-8") and find_spec("torch") is None:
        pytest.skip("training needs torch, which is not installed: pip install -e '.[learn]'")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.name)
def test_a_script_runs_and_prints(script: Path, tmp_path: Path) -> None:
    skip_without_torch(script)
    root = {"PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), *filter(None, [os.environ.get("PYTHONPATH")])])}
    command = [sys.executable, "-W", "error::RuntimeWarning", str(script)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | root | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) >= 4
    assert not (EXAMPLES / "runs").exists()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.name)
def test_a_script_is_short_and_can_be_imported(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert 'if __name__ == "__main__":' in text
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.name)
def test_the_cells_of_a_notebook_run_in_order(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_torch(notebook)
    monkeypatch.chdir(tmp_path)
    backend = mpl.get_backend()
    mpl.use("Agg")
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
    finally:
        mpl.use(backend)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.name)
def test_a_notebook_is_valid_and_holds_no_output(notebook: Path) -> None:
    found = json.loads(notebook.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert found["metadata"]["kernelspec"]["language"] == "python"
    seen = set()
    for cell in found["cells"]:
        assert re.fullmatch(r"[\w-]{1,64}", cell["id"])
        assert cell["id"] not in seen
        seen.add(cell["id"])
        assert cell["metadata"] == {}
        assert isinstance(cell["source"], list)
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            assert set(cell) == {"cell_type", "id", "metadata", "source", "outputs", "execution_count"}
        else:
            assert cell["cell_type"] == "markdown"
            for target in re.findall(r"\]\(([^)#\s]+)", "".join(cell["source"])):
                assert (EXAMPLES / target).exists(), target
            assert set(cell) == {"cell_type", "id", "metadata", "source"}


def test_the_table_names_every_example() -> None:
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for file in [*SCRIPTS, *NOTEBOOKS]:
        assert f"| [{file.name}]({file.name}) |" in table
