"""What a comparison is to do: one validated value, read by every other part of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

from dagsched.checks import as_number
from dagsched.cluster import Cluster
from dagsched.declared import NOTHING, Declared, parse_noise
from dagsched.errors import ConfigError
from dagsched.objective import OBJECTIVES, ObjectiveName, is_objective
from dagsched.policies.base import Policy
from dagsched.replay import SimulationOptions
from dagsched.texts import described

DEFAULT_POLICIES = (
    "critical-path",
    "heft",
    "cpop",
    "peft",
    "min-min",
    "max-min",
    "sufferage",
    "cp+demand",
    "tetris",
    "srw",
    "sjf",
    "fcfs",
    "random",
)
"""What ``dagsched compare`` runs when no policies are named: the classic rules, and random as the floor."""


@dataclass(frozen=True, slots=True)
class CompareConfig:
    """Everything but the workloads that decides what a comparison computes.

    Attributes:
        policies: specs, distinct, at least one.
        cluster: where to run; ``None`` = each workload's own cluster, else the shipped default.
        replays: how often each workload is replayed with fresh random outcomes; 1 when nothing is random.
        seed: from which every random stream is derived.
        noise: sigma of the lognormal error of the estimates; 0 = recorded durations.
        load: offered load of Poisson arrivals; ``None`` keeps the arrivals of the files.
        deadlines: factor of the critical path, ``"tight"`` for a factor in [1.2, 2] per workflow, ``None`` = as read.
        options: placement and decision times.
        objective: which metric decides what "best" means.
        declared: closedness, objective and noise that the caller states of every workload.
        learned_options: ``objective`` and ``checkpoint`` of learned policies that name none; by default the shipped
            checkpoints, by the nature of each replay.
        validate: check every schedule with the independent validator.
        save_schedules: keep every schedule as JSON.
        own: functions and objects among the policies, by the name that stands for them there.
        ablation_base: policy that the first planner starts from, if its variants were added (``--ablate``).

    Raises:
        ConfigError: naming the option, what was found and what is expected.
    """

    policies: tuple[str, ...] = DEFAULT_POLICIES
    cluster: Cluster | None = None
    replays: int = 1
    seed: int = 0
    noise: float = 0.0
    load: float | None = None
    deadlines: float | Literal["tight"] | None = None
    options: SimulationOptions = field(default_factory=SimulationOptions)
    objective: ObjectiveName = "makespan"
    declared: Declared = NOTHING
    learned_options: Mapping[str, str] = field(default_factory=dict)
    validate: bool = True
    save_schedules: bool = False
    ablation_base: str | None = None
    own: Mapping[str, Policy] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What differs from the defaults."""
        own = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return f"CompareConfig({', '.join(f'{name}={described(value)}' for name, value in own)})"

    def __post_init__(self) -> None:
        _check_policies(self.policies)
        if isinstance(self.replays, bool) or not isinstance(self.replays, int) or self.replays < 1:
            raise ConfigError(f"replays is {described(self.replays)}, expected a whole number >= 1")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ConfigError(f"seed is {described(self.seed)}, expected a whole number >= 0")
        noise = as_number(self.noise)
        if noise is None or not 0 <= noise < math.inf:
            raise ConfigError(f"noise is {described(self.noise)}, expected a spread (sigma) >= 0")
        if not is_objective(self.objective):
            raise ConfigError(f"objective is {described(self.objective)}, expected one of {', '.join(OBJECTIVES)}")

    def make(self, spec: str) -> Policy:
        """The policy behind a name of ``policies``.

        Raises:
            PolicyError: for an unknown one.
        """
        from dagsched.policies.registry import make_policy

        return self.own[spec] if spec in self.own else make_policy(spec, learned_options=self.learned_options)

    def key(self, spec: str) -> str:
        """What its results depend on besides the package's code; functions and objects are not looked into."""
        from dagsched.policies.registry import policy_key

        return spec if spec in self.own else policy_key(spec, self.learned_options)

    @property
    def is_random(self) -> bool:
        """Whether replays differ; if not, each workload is replayed once."""
        return self.noise > 0 or self.load is not None or self.deadlines == "tight"

    @property
    def replay_count(self) -> int:
        """Replays of each workload: 1 where nothing is random."""
        return self.replays if self.is_random else 1

    @property
    def digest(self) -> str:
        """SHA-256 of all that a row depends on besides its workload, replay number and policy, code included."""
        settings = {
            "code": code_digest(),
            "cluster": None if self.cluster is None else self.cluster.to_dict(),
            "seed": self.seed,
            "noise": self.noise,
            "load": self.load,
            "deadlines": self.deadlines,
            "options": asdict(self.options),
            "declared": asdict(self.declared),
            "learned_options": dict(self.learned_options),
            "validate": self.validate,
            "schedules": self.save_schedules,
        }
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _check_policies(policies: Sequence[str]) -> None:
    if not policies:
        raise ConfigError("policies: none given; name at least one (see: dagsched policies)")
    seen: set[str] = set()
    for spec in policies:
        if spec in seen:
            raise ConfigError(f"policies: {spec!r} is named twice; name each policy once")
        seen.add(spec)


def given_declarations(
    *, noise: Any = None, closed: bool | None = None, objective: ObjectiveName | None = None
) -> tuple[float, Declared]:
    """(sigma of the noise that is drawn, what is declared) from the options of a command or call.

    Args:
        noise: a sigma, or what holds of recorded durations: ``exact`` or ``unknown``; ``None`` = as the source says.
        closed: whether everything is known at the start; ``None`` = as the source says.
        objective: likewise.

    Raises:
        ConfigError: naming the option.
    """
    sigma, model = parse_noise(0.0 if noise is None else noise)
    return sigma, Declared(closed=closed, objective=objective, noise=model)


@cache
def code_digest() -> str:
    """SHA-256 over the package's source files, so that no result outlives the code that computed it."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def parse_arrivals(text: str | None) -> float | None:
    """The load of ``poisson:LOAD``.

    Raises:
        ConfigError: for anything else.
    """
    if text is None:
        return None
    kind, _, value = text.partition(":") if isinstance(text, str) else ("", "", "")
    load = _positive(value)
    if kind != "poisson" or load is None:
        raise ConfigError(
            f"arrivals is {described(text)}, expected poisson:LOAD with a load > 0, for example poisson:0.8"
        )
    return load


def parse_deadlines(text: str | float | None) -> float | Literal["tight"] | None:
    """``tight``, or a factor of the critical path.

    Raises:
        ConfigError: for anything else.
    """
    if text is None:
        return None
    if isinstance(text, str) and text == "tight":
        return "tight"
    factor = _positive(text)
    if factor is None:
        raise ConfigError(
            f"deadlines is {described(text)}, expected 'tight' or a factor > 0 of the critical path, such as 1.5"
        )
    return factor


def _positive(value: str | float) -> float | None:
    try:
        number = float(value) if isinstance(value, str) else as_number(value)
    except ValueError:
        return None
    return number if number is not None and 0 < number < math.inf else None
