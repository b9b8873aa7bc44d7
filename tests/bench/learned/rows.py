"""Markdown rows, and paired differences as cells."""

from __future__ import annotations

import numpy as np

from dagsched.evaluate.statistics import paired_bootstrap
from dagsched.workflow import FloatArray


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


def relative(policy: FloatArray, reference: FloatArray) -> str:
    """Mean log ratio as percent; negative = the policy takes less. ``[N]`` replays, or ``[S, N]`` for each seed."""
    if not ((policy > 0).all() and (reference > 0).all()):
        return "none: a value is zero"
    found = (None if v is None else 100 * float(np.expm1(v)) for v in _interval(np.log(policy / reference)))
    return _cell(*found, "%")


def points(policy: FloatArray, reference: FloatArray) -> str:
    """Mean difference of values in percent, in points; negative = the policy has less. Shapes as above."""
    return _cell(*_interval(policy - reference), "")


def _interval(effect: FloatArray) -> tuple[float, float | None, float | None]:
    if effect.ndim == 2 and effect.shape[1] > 1:
        return crossed_bootstrap(effect)
    found = paired_bootstrap(effect.ravel(), np.arange(effect.size))
    return found.mean, found.low, found.high


def crossed_bootstrap(effect: FloatArray, *, resamples: int = 20_000) -> tuple[float, float, float]:
    """Mean of ``[S, N]`` effects of seeds on replays, and its 95% interval, had other seeds and replays been drawn.

    A drawn seed is taken on all drawn replays: drawing seeds anew for each replay would average out what they differ
    by. Of each kind one fewer than there are is drawn, which makes the variance unbiased also for few (Rao and Wu,
    "Resampling inference with complex survey data", JASA 83, 1988). A single seed counts as the only one.
    """
    rng = np.random.default_rng(0)
    seeds, replays = (
        rng.multinomial(max(n - 1, 1), np.full(n, 1 / n), resamples) / max(n - 1, 1) for n in effect.shape
    )
    low, high = np.quantile(((seeds @ effect) * replays).sum(axis=1), [0.025, 0.975])
    return float(effect.mean()), float(low), float(high)


def _cell(mean: float, low: float | None, high: float | None, unit: str) -> str:
    between = "" if low is None or high is None else f" [{low:+.2f}, {high:+.2f}]"
    return f"{mean:+.2f}{unit}{between}"
