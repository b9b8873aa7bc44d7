"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dagsched.cli.command import FORMATS
from dagsched.cli.completion import complete_format
from dagsched.cli.loading import existing, existing_one

FLAG = ""
"""The metavar of an option that takes no value."""

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH",
        callback=existing,
        help=f"Files or directories of any of these formats: {FORMATS}; gzip too. workloads/... is the shipped one "
        "where there is no such path.",
        show_default=False,
    ),
]
OnePath = Annotated[
    Path, typer.Argument(metavar="PATH", callback=existing_one, help="A workload file.", show_default=False)
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"Read the input as this format instead of recognising it: {FORMATS}.",
        autocompletion=complete_format,
        show_default=False,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", metavar=FLAG, help="Print JSON on standard output, for programs, in place of tables.")
]
Strict = Annotated[
    bool, typer.Option("--strict", metavar=FLAG, help="An unusable record of a trace is an error, not a reject.")
]
Processors = Annotated[int, typer.Option("--processors", help="Processors for STG files, which do not say it.")]
Known = Annotated[
    Path | None,
    typer.Option("--known", help="Table of published makespans for gap_known; else those beside the instance."),
]
ClusterFile = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="Cluster YAML file or a shipped one (default, small, alibaba). Without it, the workload's own "
        "cluster, else the shipped default of 14 nodes.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="From which every random stream is derived.")]
Noise = Annotated[
    str,
    typer.Option(
        "--noise",
        metavar="SIGMA|exact|unknown",
        help="Lognormal error of the estimates; 0 = recorded durations; exact or unknown: the same, and what policies "
        "are told of the estimates, if the file does not say it.",
    ),
]
Closed = Annotated[
    bool | None,
    typer.Option(
        "--closed/--open",
        metavar=FLAG,
        help="Everything is known at the start, or more may arrive. Without it, as the file says; closed where it "
        "has no arrivals.",
        show_default=False,
    ),
]
Arrivals = Annotated[
    str | None,
    typer.Option(
        "--arrivals",
        metavar="poisson:LOAD",
        help="Merge all inputs into one stream with Poisson arrivals at this load of the cluster.",
        show_default=False,
    ),
]
Deadlines = Annotated[
    str | None,
    typer.Option(
        "--deadlines",
        metavar="tight|FACTOR",
        help="Deadline = arrival + FACTOR x critical path; tight: a factor between 1.2 and 2 for each workflow.",
        show_default=False,
    ),
]
Placement = Annotated[
    str,
    typer.Option(
        "--placement",
        help="How the node is chosen: earliest-finish, best-fit, least-loaded, round-robin or random.",
    ),
]
DecisionInterval = Annotated[
    float, typer.Option("--decision-interval", metavar="SECONDS", help="Decide only at ticks; 0 = at every event.")
]
MaxWait = Annotated[
    float, typer.Option("--max-wait", metavar="SECONDS", help="A task that is ready for longer must be picked first.")
]
NO_GUARD = math.inf
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="Folder of the trained policy that evolved, ppo and their samplers use; by default the shipped ones.",
        show_default=False,
    ),
]
Search = Annotated[
    str | None,
    typer.Option("--search", help="Of mcts and mcts-rules: auto, plan, tree or race.", show_default=False),
]
BudgetMs = Annotated[
    float | None,
    typer.Option(
        "--budget-ms",
        help="mcts: milliseconds of search a decision; in plan mode times the tasks, at the start.",
        show_default=False,
    ),
]
Simulations = Annotated[
    int | None,
    typer.Option(
        "--simulations",
        help="mcts: simulated schedules a decision instead of milliseconds; reproducible.",
        show_default=False,
    ),
]
Scenarios = Annotated[
    int | None, typer.Option("--scenarios", help="mcts under noise: most scenarios a decision.", show_default=False)
]
Leaf = Annotated[
    str | None,
    typer.Option("--leaf", help="mcts: a simulation ends with rollout, value or mix.", show_default=False),
]
Prior = Annotated[
    str | None, typer.Option("--prior", help="mcts: base policy: ppo, evolved or a rule.", show_default=False)
]
Workers = Annotated[
    int | None, typer.Option("--workers", help="mcts in plan mode: processes, at most one a core.", show_default=False)
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="10s|2m",
        help="mcts in plan mode: time in all, rules and search, instead of a budget a decision.",
        show_default=False,
    ),
]


def with_planner_options(specs: Sequence[str], **given: object) -> list[str]:
    """Specs with the options that were given for every planner on the command line; ``time_limit`` as text like 10s.

    Raises:
        ConfigError: for an option that none of these policies reads.
    """
    from dagsched.errors import ConfigError
    from dagsched.evaluate.analysis.ablation import first_planner
    from dagsched.search.options import PLANNERS, with_options

    if given.get("time_limit") is not None:
        from dagsched.cli.durations import parse_budget

        given["time_limit"] = f"{parse_budget(str(given['time_limit']), 'time-limit'):g}"
    shown = {key: f"{value:g}" if isinstance(value, float) else value for key, value in given.items()}
    known = {key: value for key, value in shown.items() if value is not None}
    if known and first_planner(specs) is None:
        flags = ", ".join(f"--{key.replace('_', '-')}" for key in known)
        raise ConfigError(f"{flags}: for the planners {' and '.join(PLANNERS)}, and none is among the policies")
    return [with_options(spec, known) for spec in specs]
