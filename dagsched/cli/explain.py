"""``dagsched explain``: why a learned priority picked a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dagsched.cli import options
from dagsched.cli.console import examples

if TYPE_CHECKING:
    from dagsched.policies.learned.explain import Explanation
    from dagsched.replay import Replay

EXAMPLES = examples(
    "dagsched explain NAME.json",
    "dagsched explain NAME.json --decision 12 --top 8",
    "dagsched explain NAME.json --checkpoint runs/mine-s0/best",
)


def explain(
    path: options.OnePath,
    decision: Annotated[int, typer.Option("--decision", help="Which decision of the run, from 1.")] = 1,
    top: Annotated[int, typer.Option("--top", help="Reasons shown for a task.")] = 5,
    objective: Annotated[
        str | None,
        typer.Option("--objective", help="makespan, flow_time or slo; by default what the file asks for."),
    ] = None,
    checkpoint: options.Checkpoint = None,
    cluster: options.ClusterFile = None,
    seed: options.Seed = 0,
    noise: options.Noise = "0",
    closed: options.Closed = None,
    deadlines: options.Deadlines = None,
    format: options.Format = None,  # noqa: A002
    processors: options.Processors = 4,
) -> None:
    """Show why the evolved priority picked a task: the features that put it above the other candidates.

    The priority is a weighted sum of features, so the parts shown add up. A network (policy ppo) corrects this
    priority; its correction is not taken apart here.
    """
    from dagsched.cli.loading import load_all
    from dagsched.cluster import cluster_named
    from dagsched.errors import ConfigError
    from dagsched.evaluate.config import CompareConfig, given_declarations, parse_deadlines
    from dagsched.evaluate.scenario import build_replay
    from dagsched.policies.learned.explain import explain as look
    from dagsched.policies.learned.trained import LearnedOptions

    workloads = load_all([path], format=format, strict=False, processors=processors, known=None)
    if len(workloads) != 1:
        raise ConfigError(f"{path} holds {len(workloads)} workloads, explain takes one")
    sigma, declared = given_declarations(noise=noise, closed=closed, objective=objective)  # type: ignore[arg-type]
    config = CompareConfig(
        cluster=cluster_named(cluster),
        seed=seed,
        noise=sigma,
        deadlines=parse_deadlines(deadlines),
        declared=declared,
    )
    replay = build_replay(workloads[0], config, 0)
    given = {"checkpoint": str(checkpoint)} if checkpoint is not None else {}
    chosen = LearnedOptions.parse("evolved", "evolved", given).load(replay)
    _print(replay, look(replay, chosen.base, decision), top)


def _print(replay: Replay, found: Explanation, top: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from dagsched.cli.console import output, plural

    console = output()
    workflow, task = replay.task_name(int(found.task[0]))
    count = plural(len(found.task), "candidate")
    console.print(
        f"decision {found.decision} at {found.now:g} s: task {task} of workflow {workflow}, out of {count}",
        markup=False,
        soft_wrap=True,
    )
    console.print(f"Declared: {replay.nature}.")
    for place in range(min(2, len(found.task))):
        workflow, task = replay.task_name(int(found.task[place]))
        title = "picked" if place == 0 else "next best"
        table = Table(box=None, pad_edge=False, title=Text(f"{title}: {task} ({workflow})"), title_justify="left")
        for name, side in (("feature", "left"), ("value", "right"), ("mean", "right"), ("adds", "right")):
            table.add_column(name, justify=side)  # type: ignore[arg-type]
        mean = found.value.mean(axis=0)
        from dagsched.features.schema import TASK_NAMES

        for name, value, part in found.reasons(place, top):
            table.add_row(name, f"{value:.3g}", f"{mean[TASK_NAMES.index(name)]:.3g}", f"{part:+.3g}")
        total = float(found.score[place] - found.score.mean())
        table.add_row("all features", "", "", f"{total:+.3g}")
        console.print(table)
