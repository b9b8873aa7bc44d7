"""Whether the simulator's machine code is on disk already, so that the first wait can be announced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

_PARTS = (("critical-path", "peft"), ("min-min", "srw"))
"""Policies that between them need all of the slow parts, in two halves of about equal work."""


def ensure_compiled(say: Callable[[str], None], processes: int = 1) -> None:
    """Compile now, with an announcement, unless the machine code is there: before any clock or process starts.

    With more than one process the halves are compiled side by side. What only some policies or the stepping
    interface need is left until it is used (``dagsched warmup`` compiles everything).
    """
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
    """Run each policy on a tiny replay, which compiles what it needs and stores it on disk."""
    from dagsched.errors import PolicyError
    from dagsched.replay import Replay
    from dagsched.simulator import simulate
    from dagsched.workflow import Task, Workflow
    from dagsched.workload import Workload

    tasks = [Task("a", 2.0), Task("b", 1.0, parents=("a",), edge_bytes={"a": 1.0}), Task("c", 1.0, parents=("a",))]
    replay = Replay.build(Workload("tiny", (Workflow.from_tasks("w", tasks),)))
    for policy in policies:
        with contextlib.suppress(PolicyError):
            simulate(replay, policy)


def is_compiled() -> bool:
    """Whether the compilation cache of the kernel is there and newer than its source.

    A wrong answer costs nothing but the announcement, or a moment of loading.
    """
    from dagsched.simulator import kernel

    source = Path(kernel.__file__)
    index = [
        path
        for name in ("run_by_priority", "run_by_score", "run_by_booking", "run_by_plan")
        for path in [_index(kernel, name)]
        if path is not None
    ]
    return len(index) == 4 and all(path.stat().st_mtime >= source.stat().st_mtime for path in index)


def _index(kernel: object, name: str) -> Path | None:
    """The newest index file of one compiled function."""
    stats = getattr(getattr(kernel, name, None), "stats", None)
    folder = getattr(stats, "cache_path", None)
    if not folder or not Path(folder).is_dir():
        return None
    found = sorted(Path(folder).glob(f"kernel.{name}-*.nbi"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None
