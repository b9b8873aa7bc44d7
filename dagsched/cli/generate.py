"""``dagsched generate``: random workflows, or one problem of a suite, as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dagsched.cli import options
from dagsched.cli.console import examples

if TYPE_CHECKING:
    from dagsched.generate.arrivals import ArrivalKind
    from dagsched.workload import Workload

EXAMPLES = examples(
    "dagsched generate layered --tasks 200 --count 10 --out layered.json",
    "dagsched generate fork-join --count 50 --arrivals poisson:0.8 --deadlines tight --out stream.json",
    "dagsched generate rcpsp --set strength=0.2 --set complexity=2.1 --out project.json",
    "dagsched generate cholesky --set tiles=12 --out cholesky.json",
    "dagsched generate tpch --profiles decima-sim/spark_env/tpch --count 50 --out batch.json",
    "dagsched generate workloads/online-layered.yaml --split validation --index 3 --out problem.json",
)

_SUITE = (".yaml", ".yml")
_OPTIONS = ("tasks", "layers", "stages", "width", "profiles", "path")
"""Parameters of kinds that have an option of their own; --set reaches them all."""


def generate(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND|SUITE",
            help="layered, fork-join, pipelines, cholesky, lu, qr, montage-like, epigenomics-like, cybershake-like, "
            "tpch-like, tpch, wfcommons, trace, rcpsp, build, join or homog; or a suite file.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (dagsched-workload JSON).")],
    count: Annotated[int | None, typer.Option("--count", help="Number of workflows (1).", show_default=False)] = None,
    tasks: Annotated[
        int | None, typer.Option("--tasks", help="Tasks of a layered workflow or a project.", show_default=False)
    ] = None,
    layers: Annotated[
        int | None, typer.Option("--layers", help="Layers; by default the root of the tasks.", show_default=False)
    ] = None,
    stages: Annotated[
        int | None,
        typer.Option("--stages", help="Sections of a fork-join, stages of a pipeline.", show_default=False),
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", help="Parallel tasks of a section or lane, images.", show_default=False)
    ] = None,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of the Decima profiles, for tpch.", show_default=False)
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option("--path", help="File or folder to draw from, for trace and wfcommons.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any parameter of the kind, such as tiles=12 or tasks=[10,60]; of a suite, any key, such as noise=0.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Of a suite: train, validation, confirm or test (test).", show_default=False),
    ] = None,
    index: Annotated[
        int | None, typer.Option("--index", help="Of a suite: number of the problem (0).", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the workload.", show_default=False)] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            "--arrivals",
            metavar="poisson:LOAD|bursty:LOAD",
            help="Let the workflows arrive one by one or in bursts, at this mean load of the cluster.",
            show_default=False,
        ),
    ] = None,
    deadlines: options.Deadlines = None,
    cluster: options.ClusterFile = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="From which every random stream is derived (0).", show_default=False),
    ] = None,
) -> None:
    """Write random workflows with durations, demands and data, and, if wanted, arrivals and deadlines.

    The load of the arrivals and the critical paths of the deadlines refer to --cluster, else to the cluster that comes
    with the kind, else to the shipped default. Of a suite, one problem is written with its cluster and the durations
    that were drawn. docs/generators.md lists every kind and its parameters.
    """
    from dagsched.cli.console import plural, say
    from dagsched.errors import ConfigError
    from dagsched.formats import save

    given: dict[str, Any] = {"tasks": tasks, "layers": layers, "stages": stages, "width": width}
    given |= {key: None if value is None else str(value) for key, value in (("profiles", profiles), ("path", path))}
    given = {key: value for key, value in given.items() if value is not None}
    if kind.endswith(_SUITE) or split is not None or index is not None:
        fixed = {"count": count, "arrivals": arrivals, "deadlines": deadlines, "cluster": cluster, "seed": seed}
        for key, value in (given | fixed).items():
            if value is not None:
                raise ConfigError(f"--{key} has no meaning for a suite; change its keys with --set, such as seed=1")
        workload = _of_suite(kind, settings or (), split or "test", 0 if index is None else index)
    else:
        workload = _of_kind(
            kind, _parameters(kind, given, settings or ()), count, _seed(seed), arrivals, deadlines, cluster
        )
    if name is not None:
        from dataclasses import replace

        workload = replace(workload, name=name)
    save(workload, out)
    written = f"{plural(len(workload.workflows), 'workflow')}, {plural(workload.task_count, 'task')}"
    say(f"{written} written to {out}")


def _of_suite(path: str, changes: Sequence[str], split: str, index: int) -> Workload:
    from dataclasses import replace

    from dagsched.generate.frozen import frozen
    from dagsched.generate.suite import Suite

    suite = Suite.load(path, changes)
    workload = frozen(suite.replay(split, index))  # type: ignore[arg-type]  # checked there
    return replace(workload, source=f"suite {suite.name}: {split} {index}")


def _of_kind(
    kind: str,
    parameters: Mapping[str, Any],
    count: int | None,
    seed: int,
    arrivals: str | None,
    deadlines: str | None,
    cluster: str | None,
) -> Workload:
    import numpy as np

    from dagsched.cluster import cluster_named
    from dagsched.evaluate.config import parse_deadlines
    from dagsched.evaluate.scenario import Stream, stream_seed
    from dagsched.generate import random_workload, with_deadlines
    from dagsched.generate.arrivals import arrive
    from dagsched.replay import cluster_for

    process, factor, where = _arrivals(arrivals), parse_deadlines(deadlines), cluster_named(cluster)
    workload = random_workload(kind, np.random.default_rng(seed), count=1 if count is None else count, **parameters)
    where = where or cluster_for(workload)
    if process is not None:
        rng = np.random.default_rng(stream_seed(seed, Stream.ARRIVALS, 0))
        workload = arrive(workload, where, *process, rng)
    if factor is not None:
        workload = with_deadlines(workload, factor, cluster=where, seed=stream_seed(seed, Stream.DEADLINES, 0))
    return workload


def _parameters(kind: str, given: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Parameters from options and from ``--set``, ranges checked."""
    from dagsched.errors import ConfigError
    from dagsched.generate.kinds import kind_named
    from dagsched.generate.ranges import check_range
    from dagsched.yaml_text import parse_yaml

    chosen = kind_named(kind)
    known = (*chosen.file_parameters, *chosen.parameters)
    for key in given:
        if key not in known:
            expected = ", ".join(f"--{option}" for option in _OPTIONS if option in known) or "--set NAME=VALUE"
            raise ConfigError(f"{kind} has no option --{key}, expected {expected}")
    parameters = dict(given)
    for setting in settings:
        key, equals, text = setting.partition("=")
        value = parse_yaml(text, f"--set {setting!r}")
        if not equals or value is None:
            raise ConfigError(f"--set {setting!r}: expected NAME=VALUE, for example {(*known, 'tasks')[0]}=5")
        parameters[key] = value if key in chosen.file_parameters else check_range(key, value)
    return parameters


def _arrivals(text: str | None) -> tuple[ArrivalKind, float | None] | None:
    """Kind and load of ``poisson:0.8``, ``bursty:0.8``, ``recorded:0.8`` or ``recorded``."""
    from typing import cast

    from dagsched.errors import ConfigError

    if text is None:
        return None
    kind, colon, value = text.partition(":")
    if text == "recorded":
        return "recorded", None
    try:
        load = float(value)
    except ValueError:
        load = -1.0
    if kind not in ("poisson", "bursty", "recorded") or not colon or not 0 < load < float("inf"):
        raise ConfigError(
            f"arrivals is {text!r}, expected poisson:LOAD, bursty:LOAD or recorded, with a load > 0 such as poisson:0.8"
        )
    return cast("ArrivalKind", kind), load


def _seed(seed: int | None) -> int:
    from dagsched.errors import ConfigError

    if seed is not None and seed < 0:
        raise ConfigError(f"seed is {seed}, expected a whole number >= 0")
    return 0 if seed is None else seed
