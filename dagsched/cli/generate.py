"""``dagsched generate``: random workflows as a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from dagsched.cli import options
from dagsched.cli.console import examples

EXAMPLES = examples(
    "dagsched generate layered --tasks 200 --count 10 --out layered.json",
    "dagsched generate fork-join --count 50 --arrivals poisson:0.8 --deadlines tight --out stream.json",
)


def generate(
    kind: Annotated[str, typer.Argument(help="layered or fork-join.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (dagsched-workload JSON).")],
    count: Annotated[int, typer.Option("--count", help="Number of workflows.")] = 1,
    tasks: Annotated[
        int | None, typer.Option("--tasks", help="Tasks of a layered workflow (100).", show_default=False)
    ] = None,
    layers: Annotated[
        int | None, typer.Option("--layers", help="Layers; by default the root of the tasks.", show_default=False)
    ] = None,
    stages: Annotated[
        int | None, typer.Option("--stages", help="Parallel sections of a fork-join workflow (4).", show_default=False)
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", help="Mean tasks in a fork-join section (16).", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the workload.", show_default=False)] = None,
    arrivals: options.Arrivals = None,
    deadlines: options.Deadlines = None,
    cluster: options.ClusterFile = None,
    seed: options.Seed = 0,
) -> None:
    """Write random workflows with durations, demands and data, and, if wanted, arrivals and deadlines.

    The load of the arrivals and the critical paths of the deadlines refer to --cluster (the shipped default).
    """
    import numpy as np

    from dagsched.cli.console import plural, say
    from dagsched.cluster import default_cluster
    from dagsched.evaluate.config import parse_arrivals, parse_deadlines, read_cluster
    from dagsched.evaluate.scenario import Stream, stream_seed
    from dagsched.formats import save
    from dagsched.generate import poisson_arrivals, random_workload, with_deadlines

    load, factor = parse_arrivals(arrivals), parse_deadlines(deadlines)
    where = read_cluster(cluster) or default_cluster()
    given = {"tasks": tasks, "layers": layers, "stages": stages, "width": width}
    parameters = {key: value for key, value in given.items() if value is not None}
    _check_options(kind, given, parameters)
    rng = np.random.default_rng(_checked(seed))
    workload = random_workload(kind, rng, count=count, name=name, **parameters)
    if load is not None:
        workload = poisson_arrivals(workload, load, cluster=where, seed=stream_seed(seed, Stream.ARRIVALS, 0))
    if factor is not None:
        workload = with_deadlines(workload, factor, cluster=where, seed=stream_seed(seed, Stream.DEADLINES, 0))
    save(workload, out)
    written = f"{plural(len(workload.workflows), 'workflow')}, {plural(workload.task_count, 'task')}"
    say(f"{written} written to {out}")


def _check_options(kind: str, options: Iterable[str], given: Iterable[str]) -> None:
    """Refuse an option of the other kind; the generators have parameters that no option sets."""
    from inspect import signature

    from dagsched.errors import ConfigError
    from dagsched.generate.collection import GENERATORS

    if kind not in GENERATORS:
        return  # random_workload names the kinds
    known = [key for key in options if key in signature(GENERATORS[kind]).parameters]
    for key in given:
        if key not in known:
            expected = ", ".join(f"--{key}" for key in known)
            raise ConfigError(f"{kind} has no option --{key}, expected {expected}")


def _checked(seed: int) -> int:
    from dagsched.errors import ConfigError

    if seed < 0:
        raise ConfigError(f"seed is {seed}, expected a whole number >= 0")
    return seed
