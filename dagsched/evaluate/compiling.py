"""Whether the simulator's machine code is on disk already, so that the first wait can be announced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from dagsched.policies.info import policy_name
from dagsched.search.options import MODES, PLANNERS

_RULES = ("peft", "srw", "critical-path", "min-min")
"""Rules that between them need all of the slow parts."""
_LOOPS = ("run_by_priority", "run_by_score", "run_by_booking", "run_by_plan")
"""What these rules run on."""
_LEARNED = {"evolved": "run_by_linear", "ppo": "run_by_network"}


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

    names = {policy_name(spec).removesuffix("-sample") for spec in policies}
    planners = not names.isdisjoint(PLANNERS)
    any_learned = planners or "auto" in names
    learned = [name for name in _LEARNED if (name in names or any_learned) and not is_learned_compiled(name)]
    searches = [f"mcts@{mode}" for mode in modes if planners and not is_search_compiled(mode)]
    rules = [] if is_compiled() else list(_RULES)
    if not (rules or learned or searches):
        return
    what, long = ("simulator and the planner", "one to two minutes") if searches else ("simulator", "about a minute")
    say(f"compiling the {what}: this happens once and takes {long}")
    halves = ([*rules[2:], *learned], [*searches, *rules[:2]])  # about equal work
    if not searches:
        halves = ([*rules[::2], *learned[:1]], [*rules[1::2], *learned[1:]])
    compile_parts([tuple(half) for half in halves if half], processes)
    for module, name in _slow():
        path = _index(module, name)
        if path is not None:
            with contextlib.suppress(OSError):  # numba goes by content: what it did not have to compile is as good
                path.touch()


def _slow() -> list[tuple[ModuleType, str]]:
    """The compiled functions that take long, of everything."""
    from dagsched.policies.learned import learned_kernel
    from dagsched.simulator import kernel

    rules = [(kernel, name) for name in _LOOPS]
    learned = [(learned_kernel, name) for name in _LEARNED.values()]
    return [*rules, *learned, *(pair for mode in MODES for pair in _searches(mode))]


def _searches(mode: str) -> tuple[tuple[ModuleType, str], ...]:
    from dagsched.search import exhaustive, lns_placed, lns_pooled, race, sequential_halving

    return {
        "plan": ((lns_placed, "search_slice"), (lns_pooled, "search_slice")),
        "tree": ((exhaustive, "walk"), (sequential_halving, "play")),
        "race": ((race, "race"),),
    }[mode]


def is_compiled() -> bool:
    """Whether the compilation cache of the kernel is there and newer than its source.

    A wrong answer costs nothing but the announcement, or a moment of loading.
    """
    from dagsched.simulator import kernel

    return all(_is_stored(kernel, name) for name in _LOOPS)


def is_learned_compiled(name: str) -> bool:
    """The same of trained priorities (``evolved``) or networks (``ppo``)."""
    from dagsched.policies.learned import learned_kernel

    return _is_stored(learned_kernel, _LEARNED[name])


def is_search_compiled(mode: str) -> bool:
    """The same of one kind of search."""
    return all(_is_stored(module, name) for module, name in _searches(mode))


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
