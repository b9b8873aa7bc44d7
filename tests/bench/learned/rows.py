"""Markdown rows, and paired differences as cells."""

from __future__ import annotations

import numpy as np

from dagsched.evaluate.statistics import Interval, paired_bootstrap
from dagsched.workflow import FloatArray, IntArray


def head(*cells: str) -> None:
    """Print the first two lines of a table."""
    row(*cells)
    row(*["---"] * len(cells))


def row(*cells: object) -> None:
    """Print one line; floats in 4 digits."""
    shown = [f"{cell:,.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
    print("| " + " | ".join(shown) + " |", flush=True)


def note(text: str) -> None:
    """Print a remark below a table."""
    print(f"\n{text}", flush=True)


def relative(policy: FloatArray, reference: FloatArray, workload: IntArray | None = None) -> str:
    """Mean log ratio as percent; negative = the policy takes less. ``workload``: of each replay, else one each."""
    if not ((policy > 0).all() and (reference > 0).all()):
        return "none: a value is zero"
    found = _interval(np.log(policy / reference), workload)
    mean, low, high = (None if v is None else 100 * float(np.expm1(v)) for v in (found.mean, found.low, found.high))
    return _cell(mean or 0.0, low, high, "%")


def points(policy: FloatArray, reference: FloatArray, workload: IntArray | None = None) -> str:
    """Mean difference of values in percent, in points; negative = the policy has less."""
    found = _interval(policy - reference, workload)
    return _cell(found.mean, found.low, found.high, "")


def _interval(effect: FloatArray, workload: IntArray | None) -> Interval:
    return paired_bootstrap(effect, np.arange(len(effect)) if workload is None else workload)


def _cell(mean: float, low: float | None, high: float | None, unit: str) -> str:
    between = "" if low is None or high is None else f" [{low:+.2f}, {high:+.2f}]"
    return f"{mean:+.2f}{unit}{between}"
