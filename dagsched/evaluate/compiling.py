"""Whether the simulator's machine code is on disk already, so that the first wait can be announced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from dagsched.policies.info import policy_name
from dagsched.search.options import PLANNERS

_PARTS = (("critical-path", "peft"), ("min-min", "srw"))
"""Policies that between them need all of the slow parts, in two halves of about equal work."""


def ensure_compiled(say: Callable[[str], None], processes: int = 1, policies: Sequence[str] = ()) -> None:
    """Compile now, with an announcement, unless the machine code is there: before any clock or process starts.

    With more than one process, for which a script needs the usual guard, the halves are compiled side by side. With a
    planner among the ``policies`` everything is compiled; else what only some policies or the stepping interface need
    is left until it is used.
    """
    if any(policy_name(spec) in PLANNERS for spec in policies):
        if not (is_compiled() and is_planner_compiled()):
            from dagsched.run_policy import warmup

            say("compiling the simulator and the planner: this happens once and takes two to four minutes")
            warmup(processes)
        return
    if is_compiled():
        return
    say("compiling the simulator: this happens once and takes about a minute")
    if processes > 1:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        from dagsched.processes import serve

        with ProcessPoolExecutor(len(_PARTS), multiprocessing.get_context("spawn"), serve) as pool:
            list(pool.map(_compile, _PARTS))
    else:
        for part in _PARTS:
            _compile(part)


def _compile(policies: tuple[str, ...]) -> None:
    from dagsched.run_policy import load_kernels

    for policy in policies:
        load_kernels(policy)


def is_compiled() -> bool:
    """Whether the compilation cache of the kernel is there and newer than its source.

    A wrong answer costs nothing but the announcement, or a moment of loading.
    """
    from dagsched.simulator import kernel

    return all(
        _is_stored(kernel, name) for name in ("run_by_priority", "run_by_score", "run_by_booking", "run_by_plan")
    )


def is_planner_compiled() -> bool:
    """The same of the planner: each kind of search."""
    from dagsched.search import exhaustive, race, sequential_halving

    return all(
        _is_stored(module, name)
        for module, name in ((exhaustive, "walk"), (race, "race"), (sequential_halving, "play"))
    )


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
