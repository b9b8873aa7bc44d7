"""A user's own rule as a policy: a function of what can be observed, from Python or from a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from dagsched.errors import PolicyError
from dagsched.policies.base import ScoreFunction
from dagsched.policies.rule_file import MODULE, load_rule
from dagsched.policies.runners import Runner
from dagsched.simulator import kernel
from dagsched.simulator.simulator import Simulator
from dagsched.workflow import FloatArray, IntArray

_FILE_SPEC = re.compile(r"(?P<path>.+\.py):(?P<function>[^:=]+)(?P<options>(?::[^:=]+=[^:]*)*)")


def is_file_spec(spec: str) -> bool:
    """Whether a spec is ``path/to/file.py:function[:key=value]...``."""
    return _FILE_SPEC.fullmatch(spec) is not None


def rule_path(spec: str) -> str:
    """The file of such a spec."""
    found = _FILE_SPEC.fullmatch(spec)
    assert found is not None
    return found["path"]


@dataclass(frozen=True, slots=True)
class FunctionPolicy:
    """A user's own rule ``f(state) -> scores of the eligible tasks``; the largest runs next."""

    name: str
    function: ScoreFunction
    reproducible: bool = True

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Of a rule file the spec is pickled: whoever unpickles it reads the file."""
        function = self.function.func if isinstance(self.function, partial) else self.function
        if str(getattr(function, "__module__", "")).startswith(MODULE):
            return from_file, (self.name,)
        return FunctionPolicy, (self.name, self.function, self.reproducible)

    def begin(self, simulator: Simulator) -> Runner:
        """See :class:`dagsched.policies.base.Policy`."""
        begun = False
        tie = simulator.problem.tie

        def run(most: int) -> None:
            nonlocal begun
            going = not simulator.done if begun else simulator.advance()
            begun = True
            while going and most > 0:
                going = self._decide(simulator, tie)
                most -= 1

        return run

    def _decide(self, simulator: Simulator, tie: IntArray) -> bool:
        """One decision; returns whether the replay goes on (it then stands at a decision point)."""
        state = simulator.observe()
        if not len(state.eligible):  # overdue work fits nowhere: only WAIT is legal
            return simulator.wait()
        forced = simulator.is_forced  # then the overdue task alone is eligible, and WAIT is not legal
        choice = int(state.eligible[0]) if forced else self._choose(state.eligible, self._scores(state), tie)
        if choice < 0:
            if not simulator.can_wait:
                raise PolicyError(
                    f"policy {self.name}: asks to wait at {simulator.now:g} s, but nothing is running; give at least "
                    f"one eligible task a score that is not NaN"
                )
            return simulator.wait()
        simulator.start(choice)
        if kernel.any_eligible(simulator.problem, simulator.state):
            return True
        return simulator.advance()

    def _scores(self, state: object) -> FloatArray:
        try:
            scores = np.asarray(self.function(state), np.float64)  # type: ignore[arg-type]
        except (PolicyError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit: a rule must not end the program
            raise PolicyError(f"policy {self.name}: the function failed: {type(error).__name__}: {error}") from error
        expected = state.eligible.shape  # type: ignore[attr-defined]
        if scores.shape != expected:
            raise PolicyError(
                f"policy {self.name}: returned scores of shape {scores.shape}, expected {expected}: one for each of "
                f"state.eligible"
            )
        return scores

    @staticmethod
    def _choose(tasks: IntArray, scores: FloatArray, tie: IntArray) -> int:
        usable = ~np.isnan(scores)
        if not usable.any():
            return -1
        best = tasks[usable & (scores == scores[usable].max())]
        return int(best[np.argmin(tie[best])])


def from_file(spec: str) -> FunctionPolicy:
    """The policy ``path/to/file.py:function[:key=value]...``; the options become arguments of the function by name.

    A value that reads as a number is one; ``true`` and ``false`` are truth values; anything else is a text.

    Raises:
        PolicyError: if the file is missing or fails, has no such function, or the function takes no such option.
    """
    found = _FILE_SPEC.fullmatch(spec)
    assert found is not None
    path, name = found["path"], found["function"]
    try:
        function = getattr(load_rule(path).module, name, None)
    except PolicyError as error:
        raise PolicyError(f"policy {spec!r}: {error}") from error
    if not callable(function):
        raise PolicyError(f"policy {spec!r}: {path} has no function {name!r}")
    pairs = [part.partition("=")[::2] for part in found["options"].split(":")[1:]]
    options = {key: _value(text) for key, text in pairs}
    if len(options) < len(pairs):
        raise PolicyError(f"policy {spec!r}: an option is given twice")
    _check_options(spec, name, function, options)
    return FunctionPolicy(spec, partial(function, **options) if options else function)


def _check_options(spec: str, name: str, function: Callable[..., object], options: Mapping[str, object]) -> None:
    """Found before anything runs: an option that the function does not take, or an argument that nobody gives."""
    try:
        signature(function).bind(None, **options)
    except TypeError as error:
        known = list(signature(function).parameters)[1:]
        takes = f"options of {name}: {', '.join(known)}" if known else f"{name} takes the state alone"
        raise PolicyError(f"policy {spec!r}: {error}; {takes}") from None
    except ValueError:  # a function without a signature
        return


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
