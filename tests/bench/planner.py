"""The planner beside published makespans, rules, sampling and CP-SAT; see ``python -m tests.bench.plan``."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from dagsched.evaluate.metrics import completion, service_level
from dagsched.formats import load
from dagsched.generate.suite import Suite
from dagsched.graph import critical_path
from dagsched.policies.exact.cpsat import solve
from dagsched.policies.registry import list_policies, make_policy
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.schedule import Schedule
from dagsched.search.plan import plan_batch
from dagsched.search.plan_search import PlanResult
from dagsched.search.seed_schedules import SeedSchedule, best_of, roll_out
from dagsched.search.stepwise import Decider, StepwiseRun
from dagsched.simulator.stepper import Simulator
from dagsched.simulator.validate import validate
from dagsched.workflow import IntArray
from tests.bench.data import ROOT, data_path
from tests.bench.learned.outcomes import CHECKED
from tests.bench.learned.rows import head, points, relative, row

PSPLIB_SECONDS = {"j30": (0.1,), "j60": (0.2,), "j120": (0.25, 6.0)}
PSPLIB_SCHEDULES = (1_000, 5_000, 50_000)
TPCH = (("tpch-50", 0.5), ("tpch-100", 1.0), ("tpch-150", 1.5))
MS_A_TASK = 2.0
HUNDRED = "mixture=[{kind: layered, count: 4, tasks: 25, mean_bytes: 1.0e+9}]"
"""100 tasks of the suite transfers."""


def measure_psplib(options: Namespace) -> None:
    """% over the optimum or best known makespan and over the critical path, by seconds and by schedules."""
    head("family", "projects", "budget", "gap, %", "over the critical path, %", "schedules", "CPU s", "rolled out, s")
    for family in options.family or PSPLIB_SECONDS:
        projects = [(Replay.build(w), w.known_makespan) for w in load(data_path(f"psplib/{family}"))]
        projects = projects[:: options.step][: options.limit]
        plan_batch(projects[0][0], schedules=3)
        for seconds in options.seconds or PSPLIB_SECONDS[family]:
            for seed in range(options.seeds):
                limited = partial(plan_batch, seconds=seconds, seed=seed)
                _psplib_row(family, projects, f"{seconds:g} s, seed {seed}", limited)
            if options.cp_sat:
                _cp_sat_row(family, projects, seconds)
        for count in options.schedules or PSPLIB_SCHEDULES:
            for seed in range(options.seeds):
                limited = partial(plan_batch, schedules=count, seed=seed)
                _psplib_row(family, projects, f"{count:,} schedules, seed {seed}", limited)


def _psplib_row(
    family: str, projects: list[tuple[Replay, float | None]], budget: str, plan: Callable[[Replay], PlanResult]
) -> None:
    gaps, over, counts, cpu, before = [], [], [], [], []
    for replay, known in projects:
        began, wall = time.process_time(), time.perf_counter()
        result = plan(replay)
        cpu.append(time.process_time() - began)
        before.append(time.perf_counter() - wall - result.seconds)
        gaps.append(_gap(result.value, known))
        over.append(100 * (result.value / float(critical_path(replay).max()) - 1))
        counts.append(result.schedules)
    row(family, len(projects), budget, mean(gaps), mean(over), f"{mean(counts):,.0f}", mean(cpu), mean(before))


def _cp_sat_row(family: str, projects: list[tuple[Replay, float | None]], seconds: float) -> None:
    """CP-SAT with one worker for as many seconds of the clock; the rules' plans that it starts from come before."""
    gaps, over, took = [], [], []
    for replay, known in projects:
        began = time.process_time()
        found = simulate(replay, f"cp-sat:time_limit={seconds:g}:workers=1:clock=wall").makespan
        took.append(time.process_time() - began)
        gaps.append(_gap(found, known))
        over.append(100 * (found / float(critical_path(replay).max()) - 1))
    row(family, len(projects), f"CP-SAT, {seconds:g} s", mean(gaps), mean(over), "", mean(took), "")


def _gap(value: float, known: float | None) -> float:
    assert known is not None
    return 100 * (value / known - 1)


def measure_tpch(options: Namespace) -> None:
    """Mean makespan of the published batches in ms, beside sampling for the same time."""
    head("batches", "seconds", "plan, ms", "sampling, ms", "samples", "schedules", "rolled out, s")
    for name, seconds in TPCH:
        replays = [Replay.build(workload) for workload in load(data_path(f"tpch-batch/{name}.jsonl"))][: options.limit]
        plan_batch(replays[0], schedules=3)
        planned, sampled, counts, samples, before = [], [], [], [], []
        for replay in replays:
            began = time.perf_counter()
            result = plan_batch(replay, seconds=seconds)
            before.append(time.perf_counter() - began - result.seconds)
            planned.append(1000 * result.value)
            counts.append(result.schedules)
            value, n = _sampled(replay, seconds)
            sampled.append(1000 * value)
            samples.append(n)
        cells = f"{mean(samples):,.0f}", f"{mean(counts):,.0f}"
        row(name, seconds, f"{mean(planned):,.1f}", f"{mean(sampled):,.1f}", *cells, mean(before))


def _sampled(replay: Replay, seconds: float) -> tuple[float, int]:
    """(makespan, samples) of sampling for so many seconds, after a short run that measures its speed."""
    spec = "sampling:rule=cp+demand+work:sgs=mixed:n="
    began = time.perf_counter()
    simulate(replay, f"{spec}40")
    n = max(40, round(40 * seconds / (time.perf_counter() - began)))
    return simulate(replay, f"{spec}{n}").makespan, n


def measure_groups(options: Namespace) -> None:
    """Several groups at 2 ms a task: against HEFT and the best single rule, by mean makespan."""
    head("suite", "problems", "tasks", "against the best rule, %", "against HEFT, %", "over the bound, %", "worse")
    cases: list[tuple[str, tuple[str, ...]]] = [
        ("transfers", ()),
        ("transfers", (HUNDRED,)),
        ("transfers", ("mixture=[{kind: layered, count: 20, tasks: 50, mean_bytes: 1.0e+9}]",)),
        ("batch", ()),
    ]
    for name, changes in cases:
        suite = Suite.load(ROOT / "workloads" / f"{name}.yaml", changes)
        replays = [suite.replay("test", index) for index in range(options.limit or 10)]
        _groups_row(name, replays)


def _groups_row(name: str, replays: list[Replay]) -> None:
    rolled = [roll_out(replay) for replay in replays]
    plan_batch(replays[0], schedules=3)
    results = [plan_batch(replay, seconds=MS_A_TASK / 1e3 * len(replay)) for replay in replays]
    rules = [i.name for i in list_policies() if i.kind == "rule" and all(_value(one, i.name) for one in rolled)]
    by_rule = {rule: mean(_value(one, rule) for one in rolled) for rule in rules}
    best = min(by_rule, key=lambda rule: by_rule[rule])
    heft = mean(_value(one, "heft") for one in rolled)
    value, bound = mean(r.value for r in results), mean(r.bound for r in results)
    worse = sum(r.value > best_of(one).value for r, one in zip(results, rolled, strict=True))
    tasks = f"{min(map(len, replays))}-{max(map(len, replays))}"
    cells = f"{100 * (value / by_rule[best] - 1):+.2f} ({best})", f"{100 * (value / heft - 1):+.2f}"
    row(name, len(replays), tasks, *cells, f"{100 * (value / bound - 1):.2f}", worse)


NODES = {8: (3, 3, 1, 1), 32: (12, 12, 4, 4)}
CP_SAT_SECONDS = 60.0


def measure_nodes(options: Namespace) -> None:
    """100 tasks with transfers on 8 and on 32 nodes of four groups: plan at 2 ms a task against CP-SAT with 60 s."""
    head("nodes", "problems", "plan, s", "CP-SAT, s", "plan against CP-SAT, %", "HEFT against CP-SAT, %", "proven")
    given = Suite.load(ROOT / "workloads" / "transfers.yaml").replay("test", 0).cluster
    for count, sizes in NODES.items():
        cluster = replace(given, groups=tuple(replace(g, nodes=n) for g, n in zip(given.groups, sizes, strict=True)))
        suite = Suite.load(ROOT / "workloads" / "transfers.yaml", (HUNDRED,))
        replays = [Replay.build(suite.replay("test", k).workload, cluster) for k in range(options.limit or 3)]
        plan_batch(replays[0], schedules=3)
        planned, solved, heft, proven = [], [], [], 0
        for replay in replays:
            planned.append(plan_batch(replay, seconds=MS_A_TASK / 1e3 * len(replay)).value)
            heft.append(simulate(replay, "heft").makespan)
            result = solve(replay, time_limit=CP_SAT_SECONDS, workers=1)
            solved.append(result.makespan)
            proven += result.proven
        gaps = (f"{100 * (mean(one) / mean(solved) - 1):+.2f}" for one in (planned, heft))
        row(count, len(replays), mean(planned), mean(solved), *gaps, proven)


def _value(incumbents: list[SeedSchedule], spec: str) -> float:
    """Seconds of one contained policy; 0 if it was not rolled out."""
    return next((i.value for i in incumbents if i.source == spec), 0.0)


STREAM_RULES = ("srw*cp", "srw", "edf", "evolved")


def measure_online(options: Namespace) -> None:
    """Layered stream at load 1.0: mean flow time with exact and with uncertain durations; deadlines at load 0.85."""
    head("case", "replays", "policy", "value", "against the best rule, %", "ms a decision, mean", "p99")
    for noise in (0.0, 0.25):
        suite = Suite.load("online-layered", ["arrivals.load=1.0", f"noise={noise}", "deadlines=null"])
        _stream_rows(f"flow time, sigma {noise:g}", suite, options, "flow_time")
    suite = Suite.load("online-layered", ["arrivals.load=0.85", "noise=0", "objective=slo"])
    _stream_rows("late workflows, %", suite, options, "slo")


def measure_noise(options: Namespace) -> None:
    """PSPLIB j120 with noisy durations: makespan against the best rule."""
    head("case", "projects", "policy", "value", "against the best rule, %", "ms a decision, mean", "p99")
    for sigma in (0.1, 0.25, 0.5):
        workloads = load(data_path("psplib/j120"))[:: options.step][: options.limit]
        replays = [Replay.build(workload, seed=3, sigma=sigma) for workload in workloads]
        _rows(f"j120, sigma {sigma:g}", replays, ("lft", "lst", "mts", "critical-path", "evolved"), options, "makespan")


def _stream_rows(case: str, suite: Suite, options: Namespace, objective: str) -> None:
    replays = [suite.replay("test", index) for index in range(options.limit or 10)]
    _rows(case, replays, STREAM_RULES, options, objective)


def _rows(case: str, replays: list[Replay], others: Sequence[str], options: Namespace, objective: str) -> None:
    """Every policy on the same replays; "best rule" = the best of ``others`` but for ``evolved`` by mean."""
    budget = f"budget_ms={options.ms:g}" if not options.simulations else f"simulations={options.simulations}"
    planners = [f"{name}:{budget}:{extra}".rstrip(":") for name in ("mcts-rules", "mcts") for extra in options.also]
    found: dict[str, NDArray[np.float64]] = {}
    timing: dict[str, NDArray[np.float64]] = {}
    for spec in (*others, *planners):
        policy = make_policy(spec, learned_options={"objective": objective})
        simulate(replays[0], policy)
        runs = [simulate(replay, policy, timings=spec in planners) for replay in replays]
        for run in runs[:CHECKED]:
            validate(run)
        found[spec] = np.array([_objective(run, objective) for run in runs])
        if spec in planners:
            timing[spec] = np.concatenate([run.timings_ms for run in runs])
    rules = [name for name in others if name != "evolved"]
    best = min(rules, key=lambda name: float(found[name].mean()))
    effect = points if objective == "slo" else relative
    for spec, values in found.items():
        against = f"({best})" if spec == best else effect(values, found[best])
        times = timing.get(spec)
        cells = ("", "") if times is None else (f"{times.mean():.2f}", f"{np.percentile(times, 99):.2f}")
        row(case, len(replays), spec, float(values.mean()), against, *cells)
    with_rules, learned = (f"{name}:{budget}" for name in ("mcts-rules", "mcts"))
    row(case, len(replays), "mcts against mcts-rules", "", effect(found[learned], found[with_rules]), "", "")


def _objective(schedule: Schedule, objective: str) -> float:
    if objective == "makespan":
        return schedule.makespan
    if objective == "flow_time":
        return float(completion(schedule)["mean_flow_time"] or 0.0)
    return 100.0 * float(service_level(schedule)["slo_violation_rate"] or 0.0)


RATED_MS = 10
"""Largest budget at which an episode is run to its end."""
EPISODE = 1_000
"""Tasks up to which simulations a second are those of a whole episode."""


def _timed_decisions(decider: Decider) -> list[float]:
    """Milliseconds of each decision from now on, WAIT included, as they are taken."""
    times: list[float] = []
    decide = decider.decide

    def timed(legal: IntArray) -> int:
        began = time.perf_counter()
        task = decide(legal)
        times.append(1000 * (time.perf_counter() - began))
        return task

    decider.decide = timed  # type: ignore[method-assign]
    return times


def measure_rates(options: Namespace) -> None:
    """Simulations a second over an episode, and decision times by budget, at 100, 1,000 and 10,000 tasks."""
    head("tasks", "search", "simulations/s", "p99 ms at 2", "at 10", "at 50")
    for count in (1, 10, 100):
        mixture = f"mixture=[{{kind: layered, count: {4 * count}, tasks: 25, mean_bytes: 0}}]"
        for noise, search in ((0.0, "tree"), (0.2, "race")):
            replay = Suite.load("batch", [mixture, f"noise={noise}"]).replay("test", 0)
            cells, rate = [], 0.0
            for budget in (2, 10, 50):
                policy = make_policy(f"mcts-rules:search={search}:budget_ms={budget}:prior=critical-path")
                simulator = Simulator(replay)
                run = policy.begin(simulator)
                assert isinstance(run, StepwiseRun)
                run.advance(20)
                times = _timed_decisions(run.prepare())
                before, began = run.report()["simulations"], time.perf_counter()
                whole = len(replay) <= EPISODE and budget <= RATED_MS  # simulations get shorter towards the end
                run.advance(len(replay) if whole else options.limit or 150)
                seconds = time.perf_counter() - began
                cells.append(f"{np.percentile(times, 99):.1f}")
                rate = max(rate, (run.report()["simulations"] - before) / seconds)
            row(f"{len(replay):,}", search, f"{rate:,.0f}", *cells)
