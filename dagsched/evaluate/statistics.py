"""Whether one policy is better than another: paired intervals, tests, profiles and counts.

Effects are paired: every policy met the same replays. The unit of independence is the workload; replays of one
workload are averaged, and resampled inside it. References: Hesterberg, "What teachers should know about the
bootstrap", The American Statistician 69(4), 2015 (expanded percentile intervals); Dolan and More, "Benchmarking
optimization software with performance profiles", Mathematical Programming 91, 2002; Agarwal et al., "Deep
reinforcement learning at the edge of the statistical precipice", NeurIPS 2021 (interquartile mean).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dagsched.workflow import FloatArray, IntArray

TIE_TOLERANCE = 1e-9
"""Two values tie if they differ by at most this share of the larger one."""

_DRAWS_AT_ONCE = 1 << 20
_WEIGHTS_KEPT = 1 << 22


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean effect with a confidence interval.

    Attributes:
        mean: mean over workloads of the mean over their replays.
        low, high: ends of the interval; ``None`` with a single replay, where none is possible.
        unit: what was resampled: ``workloads``, ``replays`` (of the only workload) or ``none``.
        count: how many of them.
    """

    mean: float
    low: float | None
    high: float | None
    unit: str
    count: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def paired_bootstrap(
    effect: FloatArray, workload: IntArray, *, seed: int = 0, resamples: int = 2000, confidence: float = 0.95
) -> Interval:
    """Interval of the mean effect by resampling workloads, then replays within each drawn workload.

    The percentiles are widened for small samples (Hesterberg 2015), so that few workloads give wide intervals
    instead of false precision.

    Args:
        effect: ``[C]`` paired log ratios (times) or differences (rates), one per replay; no NaN.
        workload: ``[C]`` index of the workload of each replay.
        seed: of the resampling; the same input gives the same interval.
        resamples: number of bootstrap samples.
        confidence: coverage of the interval.

    Raises:
        ValueError: for no effects at all.
    """
    if not len(effect):
        raise ValueError("no paired effects")
    sizes = np.unique(workload, return_counts=True)[1]
    mean = float(workload_means(effect, workload).mean())
    units = len(sizes) if len(sizes) > 1 else int(sizes[0])
    if units == 1:
        return Interval(mean, None, None, "none", 1)
    cells = np.ascontiguousarray(workload, np.int64).tobytes()
    if resamples * len(effect) <= _WEIGHTS_KEPT:
        means = _kept_weights(cells, seed, resamples) @ effect
    else:
        means = np.concatenate([weights @ effect for weights in _weights(cells, seed, resamples)])
    tail = _expanded_tail((1 - confidence) / 2, units)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(mean, float(low), float(high), "workloads" if len(sizes) > 1 else "replays", units)


@lru_cache(maxsize=4)
def _kept_weights(cells: bytes, seed: int, resamples: int) -> FloatArray:
    return np.concatenate(list(_weights(cells, seed, resamples)))


def _weights(cells: bytes, seed: int, resamples: int) -> Iterator[FloatArray]:
    """``[b, C]`` blocks of the weight of each replay in each hierarchical resample; rows add up to 1."""
    workload = np.frombuffer(cells, np.int64)
    order = np.argsort(workload, kind="stable")
    first, sizes = np.unique(workload[order], return_index=True, return_counts=True)[1:]
    many, deepest = len(sizes), int(sizes.max())
    rng = np.random.default_rng(seed)
    block = max(1, _DRAWS_AT_ONCE // (many * deepest))
    for done in range(0, resamples, block):
        count = min(block, resamples - done)
        drawn = rng.integers(0, many, (count, many)) if many > 1 else np.zeros((count, 1), np.int64)
        depth = sizes[drawn]
        inside = np.floor(rng.random((count, many, deepest)) * depth[..., None]).astype(np.int64)
        cell = order[first[drawn][..., None] + inside]
        share = np.where(np.arange(deepest) < depth[..., None], 1.0 / (many * depth[..., None]), 0.0)
        flat = (np.arange(count) * len(workload))[:, None, None] + cell
        weights = np.bincount(flat.ravel(), share.ravel(), count * len(workload))
        yield np.asarray(weights, np.float64).reshape(count, len(workload))


def _expanded_tail(tail: float, count: int) -> float:
    """Tail probability of the expanded percentile interval: Phi(-sqrt(n / (n - 1)) t)."""
    from scipy.stats import norm, t

    return float(norm.cdf(math.sqrt(count / (count - 1)) * t.ppf(tail, count - 1)))


def workload_means(effect: FloatArray, workload: IntArray) -> FloatArray:
    """``[W]`` mean effect of each workload, in ascending order of index."""
    _, inverse = np.unique(workload, return_inverse=True)
    return np.asarray(np.bincount(inverse, effect) / np.bincount(inverse))


def wilcoxon_p(effect: FloatArray, workload: IntArray) -> float:
    """Two-sided p-value of the Wilcoxon signed rank test on the workloads' mean effects; 1 if all are zero.

    With one workload its replays are the sample. Zeros keep their rank (Pratt).
    """
    from scipy.stats import wilcoxon

    sample = workload_means(effect, workload) if len(np.unique(workload)) > 1 else effect
    sample = np.where(np.abs(sample) <= TIE_TOLERANCE, 0.0, sample)
    if len(sample) < 2 or not sample.any():
        return 1.0
    exact = len(sample) <= 50 and len(np.unique(np.abs(sample))) == len(sample) and bool(sample.all())
    return float(wilcoxon(sample, zero_method="pratt", method="exact" if exact else "asymptotic").pvalue)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """P-values adjusted for testing them all (Holm 1979), in the given order; NaN stays NaN and does not count."""
    known = [i for i, p in enumerate(p_values) if not math.isnan(p)]
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(known, key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(known) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def compare_values(left: FloatArray, right: FloatArray) -> IntArray:
    """Elementwise -1, 0 or 1: left smaller, tied (:data:`TIE_TOLERANCE`), larger; finite values only."""
    near = np.abs(left - right) <= TIE_TOLERANCE * np.maximum(np.abs(left), np.abs(right))
    return np.asarray(np.where(near, 0, np.sign(left - right)), np.int64)


def win_tie_loss(values: FloatArray, direction: int = -1) -> IntArray:
    """``[P, P, 3]`` replays on which the row policy wins, ties and loses against the column policy.

    Args:
        values: ``[C, P]``; replays where either is NaN do not count.
        direction: -1 where smaller is better, 1 where larger is.
    """
    count = values.shape[1]
    table = np.zeros((count, count, 3), np.int64)
    for row in range(count):
        for column in range(count):
            both = ~np.isnan(values[:, row]) & ~np.isnan(values[:, column])
            order = direction * compare_values(values[both, row], values[both, column])
            table[row, column] = (order > 0).sum(), (order == 0).sum(), (order < 0).sum()
    return table


def ratios_to_best(values: FloatArray, direction: int = -1) -> FloatArray:
    """``[C, P]`` factor by which each policy is worse than the best on each replay: 1 = best, inf = no result.

    Replays without any result are NaN. Zero against a best of zero is 1, anything else against it infinite.
    """
    known = np.where(np.isnan(values), np.inf * -direction, values)
    best = known.min(axis=1, keepdims=True) if direction < 0 else known.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = known / best if direction < 0 else best / known
    ratio = np.where((known == best) | (ratio <= 1 + TIE_TOLERANCE), 1.0, ratio)
    ratio = np.where(np.isnan(values) | np.isnan(ratio), np.inf, ratio)
    return np.where(np.isnan(values).all(axis=1, keepdims=True), np.nan, ratio)


def differences_to_best(values: FloatArray, direction: int = -1) -> FloatArray:
    """``[C, P]`` amount by which each policy is worse than the best on each replay: 0 = best, inf = no result.

    Replays without any result are NaN.
    """
    known = np.where(np.isnan(values), np.inf * -direction, values)
    best = known.min(axis=1, keepdims=True) if direction < 0 else known.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        excess = np.abs(known - best)
        near = excess <= TIE_TOLERANCE * np.maximum(np.abs(known), np.abs(best))
    excess = np.where(np.isnan(values), np.inf, np.where(near, 0.0, excess))
    return np.where(np.isnan(values).all(axis=1, keepdims=True), np.nan, excess)


def performance_profile(ratios: FloatArray, factors: FloatArray) -> FloatArray:
    """``[P, K]`` share of replays on which each policy is within each factor ``[K]`` of the best (Dolan-More).

    ``ratios`` come from :func:`ratios_to_best`; replays without any result are left out.
    """
    known = ratios[~np.isnan(ratios).all(axis=1)]
    if not len(known):
        return np.zeros((ratios.shape[1], len(factors)))
    ordered = np.sort(known, axis=0)
    limits = factors * (1 + TIE_TOLERANCE)
    return np.array([np.searchsorted(column, limits, "right") for column in ordered.T]) / len(known)


def interquartile_mean(values: FloatArray) -> float:
    """Mean of the middle half: a quarter (rounded down) is cut at each end; NaN for nothing."""
    known = np.sort(values[~np.isnan(values)])
    cut = len(known) // 4
    return float(known[cut : len(known) - cut].mean()) if len(known) else math.nan


def size_class(task_count: int) -> str:
    """Slice of a workload by its number of tasks."""
    for limit, name in ((30, "up to 30 tasks"), (100, "31 to 100 tasks"), (300, "101 to 300 tasks")):
        if task_count <= limit:
            return name
    return "301 to 1000 tasks" if task_count <= 1000 else "over 1000 tasks"


def slices(labels: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """Masks ``[C]`` of the cells with each label, in order of first appearance; one slice is none at all."""
    names = tuple(dict.fromkeys(labels))
    array = np.array(labels, dtype=object)
    return {name: np.asarray(array == name, np.bool_) for name in names} if len(names) > 1 else {}
