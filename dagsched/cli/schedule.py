"""``dagsched schedule``: one policy on one workload, and its schedule as a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagsched.cli import options
from dagsched.cli.completion import complete_policy
from dagsched.cli.console import examples

if TYPE_CHECKING:
    from dagsched.evaluate.metrics import Metrics
    from dagsched.schedule import Schedule
    from dagsched.workload import Workload

EXAMPLES = examples(
    "dagsched schedule NAME.json --policy heft --gantt gantt.png",
    "dagsched schedule j301_1.sm --policy lft --out schedule.csv",
    "dagsched schedule j1201_1.sm --policy mcts --time-limit 10s --gantt gantt.png",
    "dagsched schedule NAME.json --out run.trace.json   (open it at https://ui.perfetto.dev)",
)


def schedule(
    path: options.OnePath,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            "-p",
            help="A spec (see dagsched policies) or path/to/file.py:function.",
            autocompletion=complete_policy,
        ),
    ] = "critical-path",
    workload: Annotated[
        str | None, typer.Option("--workload", help="Name of the workload, if the file holds several.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Save the schedule: .json, .csv, .wfformat.json or .trace.json.", show_default=False
        ),
    ] = None,
    out_format: Annotated[
        str | None,
        typer.Option(
            "--out-format", help="json, csv, wfformat or trace, if the suffix does not tell.", show_default=False
        ),
    ] = None,
    gantt: Annotated[
        Path | None, typer.Option("--gantt", help="Draw the schedule: .png or .svg.", show_default=False)
    ] = None,
    checkpoint: options.Checkpoint = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="makespan, flow_time or slo, for trained policies and planners; without it, as in dagsched compare.",
            show_default=False,
        ),
    ] = None,
    search: options.Search = None,
    budget_ms: options.BudgetMs = None,
    simulations: options.Simulations = None,
    scenarios: options.Scenarios = None,
    leaf: options.Leaf = None,
    prior: options.Prior = None,
    workers: options.Workers = None,
    time_limit: options.TimeLimit = None,
    cluster: options.ClusterFile = None,
    seed: options.Seed = 0,
    noise: options.Noise = "0",
    closed: options.Closed = None,
    deadlines: options.Deadlines = None,
    known: options.Known = None,
    placement: options.Placement = "earliest-finish",
    decision_interval: options.DecisionInterval = 0.0,
    max_wait: options.MaxWait = math.inf,
    format: options.Format = None,  # noqa: A002
    strict: options.Strict = False,
    processors: options.Processors = 4,
    as_json: options.Json = False,
) -> None:
    """Run one policy, check its schedule, print its metrics and save or draw it.

    With --policy mcts a batch is searched as a whole: incumbent, lower bound and gap are shown as they improve, and
    Ctrl-C keeps the best schedule found.
    """
    from dagsched.cli.console import say
    from dagsched.cli.loading import load_all
    from dagsched.cli.searching import print_search, searching
    from dagsched.cluster import cluster_named
    from dagsched.draw.figures import picture_kind
    from dagsched.evaluate.compare import given_options
    from dagsched.evaluate.compiling import ensure_compiled
    from dagsched.evaluate.config import CompareConfig, given_declarations, parse_deadlines
    from dagsched.evaluate.metrics import metrics
    from dagsched.evaluate.results import json_text
    from dagsched.evaluate.scenario import Stream, build_replay, stream_seed
    from dagsched.interrupts import remembered_interrupts
    from dagsched.policies.registry import make_policy
    from dagsched.processes import cores
    from dagsched.replay import SimulationOptions
    from dagsched.run_policy import modes_of, simulate
    from dagsched.schedule_io import schedule_format
    from dagsched.simulator.validate import validate

    [policy] = options.with_planner_options(
        [policy], search=search, budget_ms=budget_ms, simulations=simulations, scenarios=scenarios, leaf=leaf,
        prior=prior, workers=workers, time_limit=time_limit,
    )  # fmt: skip
    if out is not None:
        schedule_format(out, out_format)
    if gantt is not None:
        picture_kind(gantt)
    chosen = _choose(load_all([path], format=format, strict=strict, processors=processors, known=known), workload)
    sigma, declared = given_declarations(noise=noise, closed=closed, objective=objective)  # type: ignore[arg-type]
    config = CompareConfig(
        policies=(policy,),
        cluster=cluster_named(cluster),
        seed=seed,
        noise=sigma,
        declared=declared,
        deadlines=parse_deadlines(deadlines),
        options=SimulationOptions(placement, decision_interval, max_wait),  # type: ignore[arg-type]
    )
    replay = build_replay(chosen, config, 0)
    made = make_policy(policy, learned_options=given_options(objective, checkpoint))
    ensure_compiled(say, cores(), (policy,), modes_of(made, replay))
    with searching(made) as watched:
        result = simulate(replay, watched, timings=True, policy_seed=stream_seed(seed, Stream.POLICY, 0))
    with remembered_interrupts(lambda: say("writing what was found; Ctrl-C again stops at once")):
        validate(result)
        if as_json:
            about = {"workload": chosen.name, "policy": result.policy, "declared": str(replay.nature)}
            print(json_text({**about, "metrics": metrics(result)}), end="")  # noqa: T201
        else:
            _print_metrics(result, metrics(result))
            print_search(made, result.report)
        _write(result, out, out_format, gantt)


def _choose(workloads: list[Workload], name: str | None) -> Workload:
    from dagsched.errors import ConfigError

    if name is not None:
        for workload in workloads:
            if workload.name == name:
                return workload
    if name is None and len(workloads) == 1:
        return workloads[0]
    names = ", ".join(workload.name for workload in workloads[:6])
    more = f" and {len(workloads) - 6} more" if len(workloads) > 6 else ""
    found = "there is no such workload" if name is not None else f"there are {len(workloads)} workloads"
    raise ConfigError(f"{found}; choose one with --workload NAME: {names}{more}")


def _print_metrics(result: Schedule, values: Metrics) -> None:
    from rich.table import Table
    from rich.text import Text

    from dagsched.cli.console import output, plural
    from dagsched.evaluate.columns import display, metric_label

    replay = result.replay
    console = output()
    size = f"{plural(len(replay), 'task')} of {plural(len(replay.workflows), 'workflow')}"
    console.print(
        f"{replay.workload.name}: {size} on cluster {replay.cluster.name} by {result.policy}. The schedule is valid.",
        markup=False,
        soft_wrap=True,
    )
    console.print(f"Declared: {replay.nature}.")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in values.items():
        if value is not None:
            table.add_row(Text(metric_label(name)), Text(display(name, value)))
    console.print(table)


def _write(result: Schedule, out: Path | None, out_format: str | None, gantt: Path | None) -> None:
    from dagsched.cli.console import say

    if out is not None:
        from dagsched.schedule_io import save_schedule

        save_schedule(result, out, format=out_format)
        say(f"schedule written to {out}")
    if gantt is not None:
        from dagsched.draw.gantt import save_gantt

        save_gantt(result, gantt)
        say(f"Gantt chart written to {gantt}")
