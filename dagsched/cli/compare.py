"""``dagsched compare``: many policies on the same replays."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagsched.cli import options
from dagsched.cli.completion import complete_policies
from dagsched.cli.console import examples

if TYPE_CHECKING:
    from dagsched.evaluate.results import Comparison
    from dagsched.workload import Workload

EXAMPLES = examples(
    "dagsched compare workloads/wfcommons --out runs/first",
    "dagsched compare psplib/j30 --policies lft,mts,sampling:n=1000:fbi=1",
    "dagsched compare workloads/wfcommons --arrivals poisson:0.8 --deadlines tight --objective slo --replays 20",
    "dagsched compare psplib/j30 --policies lft,mcts --simulations 20 --ablate --out runs/ablation",
    "dagsched compare workloads/wfcommons --noise 0.3 --replays 10 --policies heft,srw,my_rule.py:score",
)


def compare(
    paths: options.Paths,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            metavar="a,b,...",
            help="Specs name[:key=value]... separated by commas (see dagsched policies), or your own "
            "path/to/file.py:function. Without it, a dozen classic rules.",
            autocompletion=complete_policies,
            show_default=False,
        ),
    ] = None,
    cluster: options.ClusterFile = None,
    replays: Annotated[
        int, typer.Option("--replays", help="Replays with fresh random outcomes; without randomness one is enough.")
    ] = 1,
    seed: options.Seed = 0,
    noise: options.Noise = "0",
    closed: options.Closed = None,
    arrivals: options.Arrivals = None,
    deadlines: options.Deadlines = None,
    known: options.Known = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="What best means, and what planners and trained policies make small: makespan, flow_time or slo. "
            "Without it, what the file says; else makespan where everything is known at the start, slo where all work "
            "has deadlines, else flow_time.",
            show_default=False,
        ),
    ] = None,
    checkpoint: options.Checkpoint = None,
    search: options.Search = None,
    budget_ms: options.BudgetMs = None,
    simulations: options.Simulations = None,
    scenarios: options.Scenarios = None,
    leaf: options.Leaf = None,
    prior: options.Prior = None,
    workers: options.Workers = None,
    time_limit: options.TimeLimit = None,
    ablate: Annotated[
        bool,
        typer.Option(
            "--ablate",
            metavar=options.FLAG,
            help="Add variants of the first planner (mcts, if none is named) that differ in one thing each: nothing "
            "learned, no WAIT, other leaves, selections and budgets. The report then shows what search contributes.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", help="Processes, at most (and by default) one per core; the result is the same."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for results.csv, timings.csv, summary.json and report.html; those of an earlier comparison "
            "are replaced at the end. The same command resumes there after an interruption.",
            show_default=False,
        ),
    ] = None,
    save_schedules: Annotated[
        bool, typer.Option("--save-schedules", metavar=options.FLAG, help="Keep every schedule under DIR/schedules.")
    ] = False,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate/--no-validate",
            metavar=options.FLAG,
            help="Check every schedule with the independent validator.",
        ),
    ] = True,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only the first so many workloads.", show_default=False)
    ] = None,
    placement: options.Placement = "earliest-finish",
    decision_interval: options.DecisionInterval = 0.0,
    max_wait: options.MaxWait = math.inf,
    format: options.Format = None,  # noqa: A002
    strict: options.Strict = False,
    processors: options.Processors = 4,
    as_json: options.Json = False,
) -> None:
    """Compare policies on the same replays: tables here, and results.csv and report.html in a folder.

    Every policy meets the same durations, arrivals and deadlines; every schedule is checked by a validator that
    shares no code with the simulator.
    """
    from dagsched.cli.console import Interrupted, output, progress, say
    from dagsched.cli.loading import load_all
    from dagsched.evaluate.analysis.ablation import with_planner
    from dagsched.evaluate.compare import compare_baselines
    from dagsched.evaluate.config import DEFAULT_POLICIES
    from dagsched.evaluate.runner import default_jobs

    specs = DEFAULT_POLICIES if policies is None else split_policies(policies)
    if ablate:
        specs = with_planner(specs)
    specs = options.with_planner_options(
        specs, search=search, budget_ms=budget_ms, simulations=simulations, scenarios=scenarios, leaf=leaf, prior=prior,
        workers=workers, time_limit=time_limit,
    )  # fmt: skip
    try:
        workloads = load_all(paths, format=format, strict=strict, processors=processors, known=known)
        with progress("comparing") as update:
            comparison = compare_baselines(
                workloads,
                specs,
                cluster=cluster,
                replays=replays,
                seed=seed,
                noise=noise,
                closed=closed,
                arrivals=arrivals,
                deadlines=deadlines,
                objective=objective,  # type: ignore[arg-type]
                checkpoint=checkpoint,
                placement=placement,  # type: ignore[arg-type]
                decision_interval=decision_interval,
                max_wait=max_wait,
                limit=limit,
                jobs=default_jobs() if jobs is None else jobs,
                out=out,
                save_schedules=save_schedules,
                validate=validate,
                ablate=ablate,
                progress=update,
                say=say,
            )
    except KeyboardInterrupt:
        kept = f"; finished runs are kept in {out}, the same command goes on from there" if out is not None else ""
        raise Interrupted(f"interrupted{kept}") from None
    if as_json:
        from dagsched.evaluate.results import command_line, json_text, summary

        print(json_text(summary(comparison, command_line())), end="")  # noqa: T201
        return
    _show(comparison, workloads, out, output_console=output())


def split_policies(text: str) -> list[str]:
    """Specs between commas; a comma within an option value (``scales=0.1,0.2``) does not separate.

    A part that has no name of its own, only a number, belongs to the spec before it.
    """
    specs: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        if specs and _is_number(part.partition(":")[0]) and "=" in specs[-1]:
            specs[-1] += f",{part}"
        elif part:
            specs.append(part)
    return specs


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _show(comparison: Comparison, workloads: list[Workload], out: Path | None, *, output_console: object) -> None:
    from dagsched.cli.tables import print_comparison

    print_comparison(comparison, workloads, out, output_console)  # type: ignore[arg-type]
