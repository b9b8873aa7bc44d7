"""Suites against the standard rules: mean flow time and deadlines; other loads, sizes and clusters than in training."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence

import numpy as np

from dagsched.generate.suite import Split, Suite
from dagsched.learn.baselines import SCREENED, best_rules, standard_rules
from dagsched.objective import ObjectiveName
from dagsched.policies.registry import list_policies
from dagsched.replay import Replay
from dagsched.workflow import FloatArray
from tests.bench.data import data_path
from tests.bench.learned.outcomes import Outcomes, outcomes
from tests.bench.learned.rows import head, note, points, relative, row

SLOW = ("min-min", "max-min", "sufferage")
"""Rules that take seconds a replay here: they run on the first few, unless validation chose them."""
LEARNED = tuple(f"{kind}:objective={goal}" for kind in ("evolved", "ppo") for goal in ("flow_time", "slo"))
ALWAYS = ("srw", "srw*cp", "edf")
UNSEEN = (
    "{name: unseen, resources: [cpu, memory], groups: [{name: old, nodes: 9, capacity: {cpu: 12, memory: 48.0e+9}, "
    "speed: 0.7}, {name: new, nodes: 3, capacity: {cpu: 48, memory: 192.0e+9}, speed: 1.5}]}"
)


def measure_online(options: Namespace) -> None:
    """Layered workflows that arrive at 14 nodes, against every standard rule."""
    compare(Suite.load("online-layered", options.set), options, standard_rules())


def measure_stream(options: Namespace) -> None:
    """Queries like TPC-H that arrive at 6,000 executors."""
    compare(Suite.load("online-tpch-like", options.set), options, standard_rules())


def measure_wfcommons(options: Namespace) -> None:
    """The shipped recorded workflows, redrawn, that arrive at 4 nodes."""
    compare(Suite.load("wfcommons", options.set), options, standard_rules())


def measure_wfinstances(options: Namespace) -> None:
    """All recorded workflows of WfInstances 1.5, redrawn, that arrive at 14 nodes."""
    where = [f"mixture.0.path={data_path('wfinstances/1.5')}", "cluster=default", "name=wfinstances"]
    compare(Suite.load("wfcommons", [*where, *options.set]), options, standard_rules())


def measure_alibaba(options: Namespace) -> None:
    """Recorded jobs of the Alibaba trace 2018 that arrive at 20 machines."""
    where = [f"mixture.0.path={data_path('alibaba-2018/batch_task.csv')}", "mixture.0.kind=trace"]
    more = ["mixture.0.count=50", "cluster=alibaba", "name=alibaba"]
    compare(Suite.load("wfcommons", [*where, *more, *options.set]), options, standard_rules())


def measure_load(options: Namespace) -> None:
    """Layered workflows at loads that training has not seen."""
    for load in options.load or (0.6, 0.7, 0.8, 0.9, 1.3):
        compare(Suite.load("online-layered", [f"arrivals.load={load}", *options.set]), options, ALWAYS, f"load {load}")


def measure_cluster(options: Namespace) -> None:
    """Layered workflows on a cluster that training has not seen."""
    compare(Suite.load("online-layered", [f"cluster={UNSEEN}", *options.set]), options, ALWAYS, "unseen cluster")


def measure_sizes(options: Namespace) -> None:
    """Problems 1, 5 and 10 times as large as in training: streams by their workflows, batches whole."""
    for times in (1, 5, 10):
        tasks = f"mixture.0.tasks=[{10 * times}, {60 * times}]"
        compare(Suite.load("online-layered", [tasks, *options.set]), options, ALWAYS, f"stream x{times}", large=True)
    for times in (1, 5, 10):
        projects = Suite.load("rcpsp-60", [f"mixture.0.tasks={60 * times}", *options.set])
        compare(projects, options, ("lft", "lst"), f"projects x{times}", large=True)
    for times in (1, 5, 10):
        only = f"mixture=[{{kind: tpch-like, count: {50 * times}}}]"
        rules = ("cp+demand", "cp+demand+work")
        compare(Suite.load("tpch-like", [only, *options.set]), options, rules, f"queries x{times}", large=True)


def measure_family(options: Namespace) -> None:
    """Any suite (``--suite``): makespan or flow time against every standard rule."""
    compare(Suite.load(options.suite, options.set), options, standard_rules())


def compare(suite: Suite, options: Namespace, rules: Sequence[str], label: str = "", *, large: bool = False) -> None:
    """Rows of every learned policy against the rule that validation chose and ``rules``, on the test split.

    ``large``: validation chooses among the rules that take no planning, on a few replays.
    """
    test = _replays(suite, "test", options.limit)
    streams = suite.objective != "makespan"
    goals: tuple[ObjectiveName, ...] = (
        ("flow_time", "slo") if streams and suite.deadlines is not None else (suite.objective,)
    )
    best = {goal: _best_on_validation(suite, goal, options, large) for goal in goals}
    found: dict[str, Outcomes] = {}
    for rule in dict.fromkeys([*best.values(), *rules]):
        few = rule in SLOW and rule not in best.values()
        done = outcomes(test[:SCREENED] if few else test, rule, None, options.threads)
        if done is not None:
            found[rule] = done
    learned = LEARNED if streams else ("evolved", "ppo")
    for spec in learned:
        done = outcomes(test, spec, options.checkpoint, options.threads)
        if done is not None:
            found[spec] = done
    chosen = ", ".join(f"{rule} for {goal}" for goal, rule in best.items())
    note(f"{label or suite.name}: {len(test)} test replays; best rule on validation: {chosen}\n")
    _means(found, streams)
    shown = [spec for spec in learned if spec in found]
    if not shown:
        return
    _differences(
        found, shown, best, "mean flow time" if streams else "makespan", lambda it: it.flow if streams else it.makespan
    )
    if streams and suite.deadlines is not None:
        _differences(found, shown, best, "violations, points", lambda it: it.late)


def _means(found: dict[str, Outcomes], streams: bool) -> None:
    what = "mean flow time, s" if streams else "makespan, s"
    head("policy", what, "violations, %", "longest wait, s", "s a replay", "replays")
    order = sorted(found, key=lambda spec: float((found[spec].flow if streams else found[spec].makespan).mean()))
    for spec in order:
        it = found[spec]
        value = float((it.flow if streams else it.makespan).mean())
        late = "" if np.isnan(it.late).any() else f"{it.late.mean():.2f}"
        row(spec, value, late, float(it.wait.mean()), it.seconds, len(it.flow))


def _differences(
    found: dict[str, Outcomes],
    learned: Sequence[str],
    best: dict[ObjectiveName, str],
    what: str,
    value: Callable[[Outcomes], FloatArray],
) -> None:
    """A row a rule, a column a learned policy: the policy against the rule."""
    effect = points if "points" in what else relative
    print()
    head(f"against, {what}", *learned, "replays")
    for rule, it in found.items():
        if rule not in learned:
            marks = [goal for goal, name in best.items() if name == rule]
            name = f"**{rule}** (validation: {', '.join(marks)})" if marks else rule
            count = len(it.flow)
            row(name, *(effect(value(found[spec].first(count)), value(it)) for spec in learned), count)


def _best_on_validation(suite: Suite, goal: ObjectiveName, options: Namespace, large: bool) -> str:
    if not large:
        return best_rules(_replays(suite, "validation", options.limit), goal).best
    quick = [p.name for p in list_policies() if p.kind == "rule" and p.name not in (*SLOW, "random")]
    return best_rules(_replays(suite, "validation", min(SCREENED, options.limit or SCREENED)), goal, quick).best


def _replays(suite: Suite, split: Split, limit: int | None) -> list[Replay]:
    size = suite.size(split) or 0
    return [suite.replay(split, k) for k in range(size if limit is None else min(limit, size))]
