"""dagsched: which ready task of a workflow graph should run next?

Front doors: :func:`load` reads workflows, :func:`replay` runs one policy on them, :func:`compare_baselines`
runs many on the same replays. Everything named in ``__all__`` is public; heavy parts are imported on first use.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dagsched.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dagsched.cluster import Cluster, NodeGroup
    from dagsched.declared import Declared, NoiseModel
    from dagsched.errors import (
        ConfigError,
        DagschedError,
        FormatError,
        InvalidClusterError,
        InvalidReplayError,
        InvalidScheduleError,
        InvalidWorkflowError,
        PolicyError,
    )
    from dagsched.evaluate.compare import Comparison, compare_baselines, run_comparison
    from dagsched.evaluate.config import CompareConfig
    from dagsched.evaluate.metrics import metrics
    from dagsched.formats import load, save
    from dagsched.policies.base import Decision, Policy, ScoreFunction
    from dagsched.policies.registry import list_policies
    from dagsched.replay import Replay, SimulationOptions
    from dagsched.run_policy import simulate
    from dagsched.schedule import Schedule
    from dagsched.simulator.observation import ObservedState
    from dagsched.simulator.validate import validate
    from dagsched.task import Task
    from dagsched.workflow import Workflow
    from dagsched.workload import Workload

__version__ = VERSION

_HOME = {
    "Cluster": "dagsched.cluster",
    "CompareConfig": "dagsched.evaluate.config",
    "Comparison": "dagsched.evaluate.compare",
    "ConfigError": "dagsched.errors",
    "Declared": "dagsched.declared",
    "DagschedError": "dagsched.errors",
    "Decision": "dagsched.policies.base",
    "FormatError": "dagsched.errors",
    "InvalidClusterError": "dagsched.errors",
    "InvalidReplayError": "dagsched.errors",
    "InvalidScheduleError": "dagsched.errors",
    "InvalidWorkflowError": "dagsched.errors",
    "NodeGroup": "dagsched.cluster",
    "NoiseModel": "dagsched.declared",
    "ObservedState": "dagsched.simulator.observation",
    "PolicyError": "dagsched.errors",
    "Replay": "dagsched.replay",
    "Schedule": "dagsched.schedule",
    "SimulationOptions": "dagsched.replay",
    "Task": "dagsched.task",
    "Workflow": "dagsched.workflow",
    "Workload": "dagsched.workload",
    "compare_baselines": "dagsched.evaluate.compare",
    "list_policies": "dagsched.policies.registry",
    "metrics": "dagsched.evaluate.metrics",
    "run_comparison": "dagsched.evaluate.compare",
    "load": "dagsched.formats",
    "save": "dagsched.formats",
    "simulate": "dagsched.run_policy",
    "validate": "dagsched.simulator.validate",
}

__all__ = [
    "Cluster",
    "CompareConfig",
    "Comparison",
    "ConfigError",
    "DagschedError",
    "Decision",
    "Declared",
    "FormatError",
    "InvalidClusterError",
    "InvalidReplayError",
    "InvalidScheduleError",
    "InvalidWorkflowError",
    "NodeGroup",
    "NoiseModel",
    "ObservedState",
    "PolicyError",
    "Replay",
    "Schedule",
    "SimulationOptions",
    "Task",
    "Workflow",
    "Workload",
    "__version__",
    "compare_baselines",
    "list_policies",
    "load",
    "metrics",
    "replay",
    "run_comparison",
    "save",
    "simulate",
    "validate",
]


def replay(
    workload: Workload | Workflow | Sequence[Workflow] | str | Path,
    cluster: Cluster | str | Path | None = None,
    policy: str | Policy | ScoreFunction = "critical-path",
    seed: int = 0,
    sigma: float = 0.0,
    closed: bool | None = None,
    objective: str | None = None,
    noise: float | str | None = None,
    **options: Any,
) -> Schedule:
    """Run one policy on a workload and return its schedule.

    Args:
        workload: what to run, for example ``load(path)[0]``; also workflows, or a path with one workload.
        cluster: where, also a YAML file or the name of a shipped one; by default the workload's own cluster, else the
            shipped ``default`` (14 nodes).
        policy: spec ``name[:key=value]...`` (see :func:`list_policies`), ``path/to/file.py:function``, a function of an
            :class:`ObservedState` that scores the eligible tasks, or a policy object.
        seed: of the duration noise and of the policy's own random stream.
        sigma: the same as ``noise`` with a number.
        closed: whether everything is known at the start; by default as the workload says (:mod:`dagsched.declared`).
        objective: ``makespan``, ``flow_time`` or ``slo``: what planners and learned policies make small; likewise.
        noise: spread of lognormal noise around the estimates, where 0 keeps the recorded durations; or ``exact`` or
            ``unknown``: what policies are told of the estimates of recorded durations.
        options: fields of :class:`SimulationOptions`: ``placement``, ``decision_interval`` and ``max_wait`` in
            seconds, ``instances_per_decision``.

    Raises:
        InvalidReplayError: if a task fits no node.
        PolicyError: for an unknown policy, or one that refuses this replay.
        ConfigError: for an option or a cluster that does not exist, or is out of range.
    """
    from dagsched.cluster import cluster_named
    from dagsched.declared import Declared, parse_noise
    from dagsched.errors import ConfigError
    from dagsched.evaluate.scenario import Stream, stream_seed
    from dagsched.formats import workload_of
    from dagsched.replay import Replay, SimulationOptions
    from dagsched.run_policy import simulate

    known = SimulationOptions.__dataclass_fields__
    for name in options:
        if name not in known:
            raise ConfigError(f"replay: unknown option {name!r}; known options: {', '.join(known)}")
    where = cluster_named(cluster)
    drawn, model = (sigma, None) if noise is None else parse_noise(noise)
    if noise is not None and sigma and drawn != sigma:
        raise ConfigError(f"noise is {noise!r} and sigma {sigma!r}: two names for one thing; give one of them")
    built = Replay.build(
        workload_of(workload),
        where,
        seed=seed,
        sigma=drawn,
        options=SimulationOptions(**options),
        declared=Declared(closed=closed, objective=objective, noise=model),  # type: ignore[arg-type]
    )
    return simulate(built, policy, policy_seed=stream_seed(seed, Stream.POLICY, 0))


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'dagsched' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps ``dagsched.replay`` the function: importing the submodule of that name would rebind it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "replay" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

from dagsched.env.registration import register_when_loaded  # noqa: E402

register_when_loaded()
