"""A user's own rule as a policy: a function of what can be observed, from Python or from a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from dagsched.errors import PolicyError
from dagsched.policies.base import Decision, PlainRun, Run, ScoreFunction
from dagsched.policies.own.rule_file import MODULE, load_rule
from dagsched.schedule import WAIT
from dagsched.simulator import kernel
from dagsched.simulator.observation import ObservedState
from dagsched.simulator.stepper import MANY, Simulator
from dagsched.texts import described
from dagsched.workflow import IntArray

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

    def begin(self, simulator: Simulator) -> Run:
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

        return PlainRun(run)

    def _decide(self, simulator: Simulator, tie: IntArray) -> bool:
        """One decision; returns whether the replay goes on (it then stands at a decision point)."""
        state = simulator.observe()
        if not len(state.eligible):  # overdue work fits nowhere: only WAIT is legal
            return simulator.wait()
        forced = simulator.is_forced  # then the overdue task alone is eligible, and WAIT is not legal
        choice = Decision(int(state.eligible[0])) if forced else self._ask(state, tie)
        if choice.task == WAIT:
            if not simulator.can_wait:
                raise PolicyError(
                    f"policy {self.name}: asks to wait at {simulator.now:g} s, but nothing is running; start one of "
                    f"the eligible tasks, or give one a score that is not NaN"
                )
            return simulator.wait()
        try:
            simulator.start(choice.task, node=choice.node, group=choice.group, count=choice.count)
        except PolicyError as error:
            raise PolicyError(f"policy {self.name}: {error}") from None
        if kernel.any_eligible(simulator.problem, simulator.state):
            return True
        return simulator.advance()

    def _ask(self, state: ObservedState, tie: IntArray) -> Decision:
        """What the function wants: its decision, or the task of largest score."""
        try:
            answer = self.function(state)
            if answer is None:
                raise PolicyError(f"policy {self.name}: the function returned nothing; has it a return?")
            scores = np.zeros(0) if isinstance(answer, Decision) else np.asarray(answer, np.float64)
        except (PolicyError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit: a rule must not end the program
            raise PolicyError(f"policy {self.name}: the function failed: {type(error).__name__}: {error}") from error
        if isinstance(answer, Decision):
            return self._checked(answer)
        expected = state.eligible.shape
        if scores.shape != expected:
            raise PolicyError(
                f"policy {self.name}: returned scores of shape {scores.shape}, expected {expected}: one for each of "
                f"state.eligible, or a dagsched.Decision"
            )
        usable = ~np.isnan(scores)
        if not usable.any():
            return Decision(WAIT)
        best = state.eligible[usable & (scores == scores[usable].max())]
        return Decision(int(best[np.argmin(tie[best])]))

    def _checked(self, decision: Decision) -> Decision:
        """A function's decision with plain numbers: arrays give numpy's."""
        values = {field.name: getattr(decision, field.name) for field in fields(Decision)}
        for name, value in values.items():
            least = 0 if name == "count" else -1
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= MANY:
                expected = f"expected a whole number >= {least}" + (" and at most 2^62" if name == "count" else "")
                raise PolicyError(f"policy {self.name}: {name} of its decision is {described(value)}, {expected}")
        return Decision(**{name: int(value) for name, value in values.items()})


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
