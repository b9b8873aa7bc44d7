"""Every option of the environment, checked, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from dagsched.declared import Declared, parse_noise
from dagsched.env.episode import Rules
from dagsched.env.episodes import EpisodeSource, open_source
from dagsched.env.layout import Kind, Layout, clip_of
from dagsched.errors import ConfigError, closest
from dagsched.features.builder import Normaliser
from dagsched.features.linear import start_weights
from dagsched.features.schema import MOST_CANDIDATES
from dagsched.generate.suite import Split
from dagsched.objective import OBJECTIVES, ObjectiveName, is_objective
from dagsched.replay import SimulationOptions

DEFAULT_SUITE = "build"
SUITE_TASKS, SUITE_EDGES = 1024, 4096
"""Room of the graph observation for problems that are drawn."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of the environment.

    Attributes:
        workload: a path, a ``Workload``, a ``Replay``, or a list of these; each reset draws one.
        suite: instead: a suite's name, path or object; by default ``build``.
        split: of the suite: ``train``, ``validation``, ``confirm`` or ``test``.
        cluster: for workloads: a ``Cluster``, a shipped name, a file or a mapping; by default the workload's own.
        noise: for workloads: sigma of the lognormal error of the estimates, drawn anew at each reset; ``exact`` or
            ``unknown`` declares what holds of the recorded durations.
        closed: for workloads: whether everything is known at the start; by default as they say.
        simulation: for workloads: ``SimulationOptions`` or a mapping of its fields.
        observation: ``flat`` or ``graph``.
        objective: ``slo``, ``makespan`` or ``flow_time``; by default the suite's, or what the workloads
            declare (``makespan`` if they differ).
        base: rule that orders the candidates, a name of ``dagsched.features.linear.START``.
        max_candidates: tasks to choose among; the action after the last is WAIT.
        max_tasks, max_edges: room of the graph observation; by default what the workloads need, 1,024 and 4,096
            with a suite.
        normaliser: of the graph observation: a ``Normaliser`` or its file; by default features are raw.
        skip_forced: take decisions with one legal action without asking.
        allow_wait: offer WAIT while something runs.
        max_steps: steps after which an episode is truncated; ``None`` = never.
        on_illegal: ``raise`` an error, or ``penalise``: take the first legal action and lower the reward.
        illegal_penalty: by how much.
        copy: return arrays of one's own; ``False`` returns buffers that the next step overwrites.

    Raises:
        ConfigError: naming the option.
    """

    workload: Any = None
    suite: Any = None
    split: Split = "train"
    cluster: Any = None
    noise: float | str = 0.0
    closed: bool | None = None
    simulation: SimulationOptions | Mapping[str, Any] | None = None
    observation: Kind = "flat"
    objective: ObjectiveName | None = None
    base: str = "critical-path"
    max_candidates: int = MOST_CANDIDATES
    max_tasks: int | None = None
    max_edges: int | None = None
    normaliser: Normaliser | str | Path | None = None
    skip_forced: bool = False
    allow_wait: bool = True
    max_steps: int | None = None
    on_illegal: Literal["raise", "penalise"] = "raise"
    illegal_penalty: float = 1.0
    copy: bool = True

    def __post_init__(self) -> None:
        if self.objective is not None and not is_objective(self.objective):
            raise ConfigError(f"objective is {self.objective!r}, expected one of {', '.join(OBJECTIVES)}")
        if self.on_illegal not in ("raise", "penalise"):
            raise ConfigError(f"on_illegal is {self.on_illegal!r}, expected raise or penalise")
        steps = self.max_steps
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
            raise ConfigError(f"max_steps is {steps!r}, expected a whole number >= 1, or None")
        penalty = self.illegal_penalty
        if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not 0 <= penalty < float("inf"):
            raise ConfigError(f"illegal_penalty is {penalty!r}, expected a number >= 0")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """From keyword arguments.

        Raises:
            ConfigError: for an unknown option, with the closest one.
        """
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                hint = closest(name, known, f"known options: {', '.join(known)}")
                raise ConfigError(f"unknown option {name!r} of the environment; {hint}")
        return cls(**options)

    def source(self) -> EpisodeSource:
        """Where episodes come from."""
        simulation = self.simulation
        if isinstance(simulation, Mapping):
            known = SimulationOptions.__dataclass_fields__
            for name in simulation:
                if name not in known:
                    raise ConfigError(f"simulation: unknown option {name!r}; known options: {', '.join(known)}")
            simulation = SimulationOptions(**simulation)
        suite = DEFAULT_SUITE if self.workload is None and self.suite is None else self.suite
        sigma, model = parse_noise(self.noise)
        declared = Declared(closed=self.closed, objective=self.objective, noise=model)
        return open_source(self.workload, suite, self.split, self.cluster, sigma, simulation, declared)

    def layout(self, source: EpisodeSource) -> Layout:
        """Shapes of the observation."""
        if self.observation != "graph":
            return Layout(self.observation, self.max_candidates)
        tasks, edges = source.room()
        tasks, edges = (tasks, edges) if tasks else (SUITE_TASKS, SUITE_EDGES)
        return Layout(
            self.observation,
            self.max_candidates,
            tasks if self.max_tasks is None else self.max_tasks,
            max(edges, 1) if self.max_edges is None else self.max_edges,
            clip_of(self.normaliser is not None),
        )

    def rules(self) -> Rules:
        """What an episode does beyond the simulator."""
        return Rules(start_weights(self.base), self.skip_forced, self.allow_wait, self._normaliser())

    def _normaliser(self) -> Normaliser | None:
        if self.normaliser is None or isinstance(self.normaliser, Normaliser):
            return self.normaliser
        path = Path(self.normaliser)
        try:
            return Normaliser.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: cannot read the normaliser: {error}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
