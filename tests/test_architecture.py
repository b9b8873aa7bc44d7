"""One direction: files do not import in a circle, not inside a room either."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[1]


def imports() -> nx.DiGraph:
    """Which file imports which, in functions too; what only type checkers read does not count."""
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("dagsched", exclude_type_checking_imports=True, cache_dir=None)
    return nx.DiGraph((a, b) for a in graph.modules for b in graph.find_modules_directly_imported_by(a))


def test_no_files_import_in_a_circle() -> None:
    edges = imports()
    edges.remove_node("dagsched")  # the front door names everything and imports it when it is asked for
    assert [sorted(circle) for circle in nx.strongly_connected_components(edges) if len(circle) > 1] == []


def test_nothing_below_the_front_door_imports_it() -> None:
    assert sorted(a for a, b in imports().edges if b == "dagsched" and not a.startswith("dagsched.cli")) == []


def test_the_type_checker_is_told_of_no_import_that_runs_up() -> None:
    """Annotations count as well: a file that names a type from above belongs above."""
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("dagsched", cache_dir=None)
    edges = nx.DiGraph((a, b) for a in graph.modules for b in graph.find_modules_directly_imported_by(a))
    edges.remove_node("dagsched")
    assert [sorted(circle) for circle in nx.strongly_connected_components(edges) if len(circle) > 1] == []


# Each keyword or option is one of the public door's; the compiled ones take records one by one.
MANY_PARAMETERS = {
    "cli/compare.py:compare",
    "cli/explain.py:explain",
    "cli/generate.py:generate",
    "cli/schedule.py:schedule",
    "evaluate/compare.py:compare_baselines",
    "search/plan.py:plan_batch",
}
LONG = {"policies/sampling/sgs.py:serial"}  # one compiled loop
COMPILED = {"entry", "inner", "cold"}


def test_functions_are_short_and_take_few_parameters() -> None:
    """At most 60 lines without the docstring and 8 parameters."""
    long, many = set(), set()
    for path, function in functions():
        name = f"{path}:{function.name}"
        given = function.args
        names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs) if a.arg not in ("self", "cls")]
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        if body and body[-1].end_lineno - body[0].lineno + 1 > 60:  # type: ignore[operator]
            long.add(name)
        if len(names) > 8 and not {ast.unparse(d) for d in function.decorator_list} & COMPILED:
            many.add(name)
    assert long == LONG
    assert many == MANY_PARAMETERS


def test_no_name_with_an_underscore_is_used_in_another_file() -> None:
    found = []
    for path, tree in trees():
        modules: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dagsched"):
                found += [f"{path}: {a.name}" for a in node.names if a.name[0] == "_" and a.name != "__version__"]
                modules |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        found += [
            f"{path}: {node.value.id}.{node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (ROOT / f"{modules.get(node.value.id, '-').replace('.', '/')}.py").is_file()
            and node.attr[0] == "_"
            and not node.attr.startswith("__")
        ]
    assert found == []


def test_no_file_name_three_times_and_no_class_name_twice() -> None:
    files = Counter(path.rsplit("/", 1)[-1] for path, _ in trees())
    assert {name: count for name, count in files.items() if count > 2 and name != "__init__.py"} == {}
    classes = Counter(node.name for _, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name: count for name, count in classes.items() if count > 1} == {}


def trees() -> list[tuple[str, ast.Module]]:
    """(path within the package, syntax tree) of every file."""
    package = ROOT / "dagsched"
    return [
        (path.relative_to(package).as_posix(), ast.parse(path.read_text())) for path in sorted(package.rglob("*.py"))
    ]


def functions() -> list[tuple[str, ast.FunctionDef]]:
    return [(path, node) for path, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
