"""One direction: files do not import in a circle, not inside a room either."""

from __future__ import annotations

import networkx as nx
import pytest


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
