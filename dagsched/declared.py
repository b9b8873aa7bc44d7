"""What is declared about a workload before anything runs: whether it is closed, what counts, how good estimates are.

A policy may build on these; it may not build on hidden durations or on what has not arrived. They are therefore stated
by the caller, by the data or by the kind of source, and never looked up in values that show only later. What nobody
declares follows from what the source *states*, not from the numbers in it:

- closed (everything known at the start) where the source states no arrivals at all, else open;
- objective: makespan where closed; ``slo`` where the source states that all work has deadlines; else flow time;
- noise: exact where the source is closed and states no estimates of its own, else unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from dagsched.checks import as_number
from dagsched.errors import ConfigError
from dagsched.objective import OBJECTIVES, ObjectiveName, is_objective
from dagsched.texts import described

NoiseKind = Literal["exact", "lognormal", "unknown"]
MOST_SIGMA = 10.0


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """What the scheduler is told about the error of its estimates.

    ``kind``: ``exact`` (estimates are the durations), ``lognormal`` (with known ``sigma``) or ``unknown``
    (recorded durations against given estimates).

    Raises:
        ConfigError: for another kind, or a sigma that does not go with it.
    """

    kind: NoiseKind
    sigma: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("exact", "lognormal", "unknown"):
            raise ConfigError(f"noise is {self.kind!r}, expected exact, lognormal or unknown")
        if isinstance(self.sigma, bool) or not isinstance(self.sigma, int | float) or not 0 <= self.sigma <= MOST_SIGMA:
            raise ConfigError(f"noise sigma is {self.sigma!r}, expected a number from 0 to {MOST_SIGMA:g}")
        if (self.sigma > 0) != (self.kind == "lognormal"):
            raise ConfigError(f"noise sigma is {self.sigma:g}, but {self.kind} noise {_SIGMA_OF[self.kind]}")

    def __str__(self) -> str:
        if self.kind == "lognormal":
            return f"estimates with lognormal error, sigma {self.sigma:g}"
        return "estimates exact" if self.kind == "exact" else "estimates of unknown error"


_SIGMA_OF = {"exact": "has none", "unknown": "has none that is known", "lognormal": "needs one above 0"}
EXACT, UNKNOWN = NoiseModel("exact"), NoiseModel("unknown")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a caller or a source says of a workload; ``None`` = says nothing.

    Attributes:
        closed: whether everything is known at the start; workflows may still become ready for work later.
        objective: what a policy is to make small.
        noise: the error of the estimates.
        all_have_deadlines: whether every workflow has a deadline, also those yet to come.

    Raises:
        ConfigError: naming the field.
    """

    closed: bool | None = None
    objective: ObjectiveName | None = None
    noise: NoiseModel | None = None
    all_have_deadlines: bool = False

    def __post_init__(self) -> None:
        if self.closed is not None and not isinstance(self.closed, bool):
            raise ConfigError(f"closed is {self.closed!r}, expected true or false")
        if self.objective is not None and not is_objective(self.objective):
            raise ConfigError(f"objective is {self.objective!r}, expected one of {', '.join(OBJECTIVES)}")
        if self.noise is not None and not isinstance(self.noise, NoiseModel):
            raise ConfigError(f"noise is {self.noise!r}, expected a NoiseModel such as NoiseModel('exact')")
        if not isinstance(self.all_have_deadlines, bool):
            raise ConfigError(f"all_have_deadlines is {self.all_have_deadlines!r}, expected true or false")

    def over(self, other: Declared) -> Declared:
        """These declarations, and the other's where these say nothing: a caller's over those of the data."""
        return Declared(
            closed=other.closed if self.closed is None else self.closed,
            objective=self.objective or other.objective,
            noise=self.noise or other.noise,
            all_have_deadlines=self.all_have_deadlines or other.all_have_deadlines,
        )


NOTHING = Declared()
BATCH = Declared(closed=True, noise=EXACT)
"""One recorded run, project or batch: no arrivals; the durations are the problem's, or those that were recorded."""
TRACE = Declared(closed=False, noise=EXACT)
"""Jobs that came one after another; without estimates of their own the scheduler is told the recorded durations."""


@dataclass(frozen=True, slots=True)
class Nature:
    """What holds of a workload, fixed before any policy runs; see the module."""

    closed: bool
    objective: ObjectiveName
    noise: NoiseModel

    def __str__(self) -> str:
        return f"{'closed' if self.closed else 'open'}, objective {self.objective}, {self.noise}"


def resolve(declared: Declared, *, states_arrivals: bool, states_estimates: bool) -> Nature:
    """What holds, from what is declared and from what the source states.

    Args:
        declared: by caller and source.
        states_arrivals: whether the source says of any workflow when it arrives.
        states_estimates: whether it says of any task what its estimate is.
    """
    closed = not states_arrivals if declared.closed is None else declared.closed
    open_objective: ObjectiveName = "slo" if declared.all_have_deadlines else "flow_time"
    return Nature(
        closed=closed,
        objective=declared.objective or ("makespan" if closed else open_objective),
        noise=declared.noise or (EXACT if closed and not states_estimates else UNKNOWN),
    )


def common(natures: Iterable[Nature], declared: Iterable[Declared]) -> Declared:
    """What may be declared of several sources merged into one stream: what holds of each of them."""
    noises = list(dict.fromkeys(nature.noise for nature in natures))
    said = list(declared)
    objectives = list(dict.fromkeys(one.objective for one in said))
    return Declared(
        objective=objectives[0] if len(objectives) == 1 else None,
        noise=noises[0] if len(noises) == 1 else UNKNOWN,
        all_have_deadlines=all(one.all_have_deadlines for one in said),
    )


def parse_noise(value: Any) -> tuple[float, NoiseModel | None]:
    """(sigma that is drawn, declared model) of an option ``--noise``: a number, ``exact`` or ``unknown``.

    Raises:
        ConfigError: for anything else.
    """
    if isinstance(value, str) and value in ("exact", "unknown"):
        return 0.0, NoiseModel(value)  # type: ignore[arg-type]
    try:
        sigma = float(value) if isinstance(value, str) else as_number(value)
    except ValueError:
        sigma = None
    if sigma is None or not 0 <= sigma <= MOST_SIGMA:
        raise ConfigError(
            f"noise is {described(value)}, expected a spread (sigma) from 0 to {MOST_SIGMA:g}, or what holds of the "
            f"recorded durations: exact or unknown"
        )
    return sigma, None
