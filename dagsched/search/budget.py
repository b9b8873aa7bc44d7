"""What a decision may cost: so many simulations, or a moment at which to stop, read inside compiled code.

A search of many short calls spends half of a millisecond on calling; so one call runs a whole decision and looks at
the clock itself before each simulation (40 ns, against tens of microseconds for a simulation).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numba import types

from dagsched.simulator.compilation import entry, inner
from dagsched.workflow import FloatArray, IntArray

# Slots of Budget.seconds and Budget.counter.
BEGAN, LIMIT, EACH, CALLED = range(4)
SIMULATIONS, USED, USED_BEFORE = range(3)
PAUSED: Any = np.int64(9)
"""Status of a search that gave Python a chance to see Ctrl-C: call again."""
PAUSE_SECONDS = 0.1
_CLOCK: int = time.CLOCK_MONOTONIC
_clock_gettime = types.ExternalFunction("clock_gettime", types.intc(types.intc, types.intp))  # POSIX, in libc


class Budget(NamedTuple):
    """Of one decision."""

    # [4] when the decision began, how long it may take, how long a simulation has taken lately, when the call began
    seconds: FloatArray
    counter: IntArray  # [3] how many simulations it may take (0 = by time), how many it has, and had before the call
    timespec: IntArray  # [2] scratch: s, ns


def new_budget(simulations: int, seconds: float) -> Budget:
    """So many simulations a decision, or so many seconds if that is 0."""
    return Budget(np.array([0.0, seconds, 1e-5, 0.0]), np.array([simulations, 0, 0]), np.zeros(2, np.int64))


@inner
def clock(budget):  # type: ignore[no-untyped-def]
    """Seconds of the clock that never goes back."""
    _clock_gettime(_CLOCK, budget.timespec.ctypes.data)
    return budget.timespec[0] + 1e-9 * budget.timespec[1]


@entry
def begin(budget):  # type: ignore[no-untyped-def]
    """A decision begins now."""
    budget.seconds[BEGAN] = clock(budget)
    budget.counter[USED] = 0


@inner
def more(budget, part):  # type: ignore[no-untyped-def]
    """Whether another simulation may start when this part (0 to 1) of the budget may be used in all."""
    if budget.counter[SIMULATIONS] > 0:
        return budget.counter[USED] < np.rint(part * budget.counter[SIMULATIONS])
    return clock(budget) - budget.seconds[BEGAN] < part * budget.seconds[LIMIT]


@inner
def out_of_time(budget):  # type: ignore[no-untyped-def]
    """Whether a budget of time is used up; one of simulations never is."""
    return budget.counter[SIMULATIONS] == 0 and not more(budget, 1.0)


@inner
def begin_call(budget):  # type: ignore[no-untyped-def]
    """A compiled call begins that spends simulations."""
    budget.seconds[CALLED] = clock(budget)
    budget.counter[USED_BEFORE] = budget.counter[USED]


@inner
def end_call(budget):  # type: ignore[no-untyped-def]
    """The call ends: note how long its simulations have taken."""
    used = budget.counter[USED] - budget.counter[USED_BEFORE]
    if used > 0:
        budget.seconds[EACH] += 0.2 * ((clock(budget) - budget.seconds[CALLED]) / used - budget.seconds[EACH])


@inner
def spend(budget, simulations):  # type: ignore[no-untyped-def]
    """Count so many simulations; whether the call should end as PAUSED, having lasted long."""
    budget.counter[USED] += simulations
    if clock(budget) - budget.seconds[CALLED] <= PAUSE_SECONDS:
        return False
    end_call(budget)
    return True


def affordable(budget: Budget) -> int:
    """Simulations that the whole budget buys, as far as one can tell."""
    return int(budget.counter[SIMULATIONS]) or int(budget.seconds[LIMIT] / budget.seconds[EACH])


def is_empty(budget: Budget) -> bool:
    """Whether nothing may be simulated at all."""
    return bool(budget.counter[SIMULATIONS] == 0 and budget.seconds[LIMIT] <= 0)
