"""Whether the simulator's machine code is on disk already, so that the first wait can be announced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from dagsched.policies.info import policy_name
from dagsched.search.options import MODES, PLANNERS

_PARTS = (("critical-path", "peft"), ("min-min", "srw"))
"""Policies that between them need all of the slow parts, in two halves of about equal work."""


def ensure_compiled(
    say: Callable[[str], None], processes: int = 1, policies: Sequence[str] = (), modes: Sequence[str] = MODES
) -> None:
    """Compile now, with an announcement, unless the machine code is there: before any clock or process starts.

    With more than one process, for which a script needs the usual guard, two halves are compiled side by side. What
    only some policies or the stepping interface need is left until it is used.

    Args:
        say: is told if it takes a while.
        processes: at most so many.
        policies: specs that will run.
        modes: kinds of search that the planners among them need.
    """
    from dagsched.run_policy import compile_parts

    rules, planners = is_compiled(), any(policy_name(spec) in PLANNERS for spec in policies)
    if planners and not (rules and all(map(is_search_compiled, modes))):
        say("compiling the simulator and the planner: this happens once and takes one to three minutes")
        searches = ("evolved", *(f"mcts@{mode}" for mode in modes))
        compile_parts((sum(_PARTS, ()), searches) if not rules else (searches,), processes)
    elif not rules:
        say("compiling the simulator: this happens once and takes about a minute")
        compile_parts(_PARTS, processes)


def is_compiled() -> bool:
    """Whether the compilation cache of the kernel is there and newer than its source.

    A wrong answer costs nothing but the announcement, or a moment of loading.
    """
    from dagsched.simulator import kernel

    return all(
        _is_stored(kernel, name) for name in ("run_by_priority", "run_by_score", "run_by_booking", "run_by_plan")
    )


def is_search_compiled(mode: str) -> bool:
    """The same of one kind of search."""
    from dagsched.search import exhaustive, lns_placed, lns_pooled, race, sequential_halving

    needed: dict[str, tuple[tuple[ModuleType, str], ...]] = {
        "plan": ((lns_placed, "search_slice"), (lns_pooled, "search_slice")),
        "tree": ((exhaustive, "walk"), (sequential_halving, "play")),
        "race": ((race, "race"),),
    }
    return all(_is_stored(module, name) for module, name in needed[mode])


def _is_stored(module: ModuleType, name: str) -> bool:
    path = _index(module, name)
    return path is not None and path.stat().st_mtime >= Path(str(module.__file__)).stat().st_mtime


def _index(module: ModuleType, name: str) -> Path | None:
    """The newest index file of one compiled function."""
    stats = getattr(getattr(module, name, None), "stats", None)
    folder = getattr(stats, "cache_path", None)
    if not folder or not Path(folder).is_dir():
        return None
    found = sorted(Path(folder).glob(f"*.{name}-*.nbi"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None
