"""Evolves a linear priority over the task features, judged by the greedy schedules it gives.

CMA-ES (Hansen, "The CMA evolution strategy: a tutorial", arXiv:1604.00772, through the library ``cmaes``), starting
from a classic rule. Every generation runs the whole population on the same instances; what is kept is the vector
that does best on validation instances that training never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagsched.features.schema import columns
from dagsched.learn.episode_runner import EpisodeRunner, linear_costs
from dagsched.workflow import FloatArray

_DOMAIN = 0x45564F4C
_LOOKED_AT = 48
_AVERAGING = 0.05
"""Share of the newest mean in the running average of means, which noise moves less than the mean itself."""


@dataclass(frozen=True, slots=True)
class EvolveSettings:
    """Parameters of the search.

    Attributes:
        steps: generations.
        population: candidates in a generation.
        instances: training instances that a generation shares.
        refresh: share of these that are new in each generation. Whoever sees the same few hundred instances again and
            again learns their accidents: 53 weights can gain 1% on 600 instances that is not there on others.
        sigma: first step size, in units of the start rule's spread.
        validate_every: generations between looks at the validation instances.
        blocks: feature blocks that may get weight.
        threads: compiled runs at a time.
    """

    steps: int = 300
    population: int = 20
    instances: int = 64
    refresh: float = 0.25
    sigma: float = 0.3
    validate_every: int = 10
    blocks: tuple[str, ...] = ("base", "typed")
    threads: int = 1


@dataclass(slots=True)
class Generation:
    """State of a search after a generation."""

    step: int
    train: float
    """Mean cost of the generation's best candidate over that of the start rule."""
    validation: float
    """The kept vector's mean cost over that of the start rule, on the validation instances; the cost itself on those
    that the start brings to 0."""
    weights: FloatArray
    """``[F]`` raw weights of the kept vector."""
    sigma: float
    improved: bool = False
    costs: tuple[float, float] = (np.nan, np.nan)
    """Mean cost of the kept vector and of the start rule, on the validation instances."""


class FeatureScale:
    """Units in which the search moves: directions of score change among the candidates of a decision.

    Features are nearly collinear (several read the bottom level), so the search space is their principal axes
    within decisions, each scaled so that a step of one changes scores as much as the start rule spreads them.
    ``ridge`` (share of a feature's variance) keeps directions in which features hardly differ from being blown up.
    """

    def __init__(
        self,
        runners: Sequence[EpisodeRunner],
        start: FloatArray,
        blocks: Sequence[str],
        *,
        decisions: int = 50,
        ridge: float = 0.03,
    ) -> None:
        centred, base = [], []
        for runner in runners:
            for row in runner.rows(start, decisions)[0]:
                centred.append((row - row.mean(axis=0)) / np.sqrt(len(row)))
                base.append(float((row @ start).std()))
        rows = np.concatenate(centred) if centred else np.zeros((1, len(start)))
        within = np.sqrt((rows**2).sum(axis=0) / max(len(centred), 1))
        unit = float(np.sqrt(np.mean(np.square(base)))) if base else 1.0
        usable = np.zeros(len(start), bool)
        usable[list(columns(blocks))] = True
        usable &= within > 1e-9
        used: NDArray[np.int64] = np.flatnonzero(usable)
        standard = rows[:, used] / within[used]
        variance, axes = np.linalg.eigh(standard.T @ standard / max(len(centred), 1))
        signs = np.where(axes[np.abs(axes).argmax(axis=0), np.arange(len(used))] < 0, -1.0, 1.0)
        self._map = np.zeros((len(used), len(start)))
        self._map[:, used] = (axes * signs / np.sqrt(variance + ridge)).T / within[used] * (unit if unit > 0 else 1.0)
        self._start = start

    @property
    def dimensions(self) -> int:
        """Of the search space."""
        return len(self._map)

    def raw(self, vectors: FloatArray) -> FloatArray:
        """``[P, F]`` raw weights of search vectors ``[P, D]``."""
        return np.asarray(self._start + vectors @ self._map)


def evolve(
    start: FloatArray,
    train: Callable[[int], EpisodeRunner],
    validation: Sequence[EpisodeRunner],
    settings: EvolveSettings,
    *,
    seed: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Generation]:
    """Search, yielding after every generation; the last one holds the result.

    Args:
        start: ``[F]`` raw weights of the start rule.
        train: training instance by number, without end.
        validation: instances that choose what is kept.
        settings: see :class:`EvolveSettings`.
        seed: of the strategy and of the instances drawn.
        stop: asked before every generation.
    """
    window = [train(k) for k in range(settings.instances)]
    scale = FeatureScale(window[:_LOOKED_AT], start, settings.blocks)
    dimensions = scale.dimensions
    strategy = _strategy(dimensions, settings, seed)
    zero = scale.raw(np.zeros((1, dimensions)))
    average = np.zeros(dimensions)
    base = linear_costs(zero, window, settings.threads)[0]
    began = linear_costs(zero, validation, settings.threads)[0]
    held_base = reference(began, validation)
    best, best_weights = start_ratio(began, validation), start.copy()
    best_cost = began_cost = float(began.mean())
    count, renewed = len(window), min(len(window), max(1, round(settings.refresh * len(window))))
    for step in range(1, settings.steps + 1):
        if stop():
            return
        if step > 1:
            fresh = [train(count + k) for k in range(renewed)]
            count += renewed
            window = window[renewed:] + fresh
            base = np.concatenate([base[renewed:], linear_costs(zero, fresh, settings.threads)[0]])
        vectors = np.array([strategy.ask() for _ in range(settings.population)])
        costs = (linear_costs(scale.raw(vectors), window, settings.threads) / reference(base, window)).mean(axis=1)
        strategy.tell(list(zip(vectors, costs.tolist(), strict=True)))
        average += (np.asarray(strategy.mean) - average) * max(1.0 / step, _AVERAGING)
        improved = False
        if step % settings.validate_every == 0 or step == settings.steps:
            looks = scale.raw(np.stack([np.asarray(strategy.mean), average]))
            raw = linear_costs(looks, validation, settings.threads)
            held = (raw / held_base).mean(axis=1)
            pick = int(held.argmin())
            if held[pick] < best:
                best, best_weights, improved = float(held[pick]), looks[pick], True
                best_cost = float(raw[pick].mean())
        both = (best_cost, began_cost)
        yield Generation(step, float(costs.min()), best, best_weights.copy(), float(strategy._sigma), improved, both)


def _strategy(dimensions: int, settings: EvolveSettings, seed: int) -> Any:
    from cmaes import CMA  # slow to import, and not needed by other stages

    return CMA(
        mean=np.zeros(dimensions),
        sigma=settings.sigma,
        population_size=settings.population,
        seed=int(np.random.SeedSequence([seed], spawn_key=(_DOMAIN,)).generate_state(1)[0]),
    )


def reference(costs: FloatArray, runners: Sequence[EpisodeRunner]) -> FloatArray:
    """``[runners]`` what to divide costs by: the start's own cost; the mean of them where rates may be zero (SLO)."""
    if runners[0].objective == "slo":
        costs = np.full(len(costs), costs.mean())
    return np.asarray(np.where(costs > 1e-12, costs, 1.0))


def start_ratio(costs: FloatArray, runners: Sequence[EpisodeRunner]) -> float:
    """What the start itself reaches in the ratios to :func:`reference`: 1, but 0 where it costs nothing."""
    if runners[0].objective == "slo":
        return float(costs.mean() > 1e-12)
    return float((costs > 1e-12).mean())
