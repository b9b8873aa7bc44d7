"""Plan mode beside published makespans, rules, sampling and CP-SAT; see ``python -m tests.bench.plan``."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from statistics import mean

from dagsched.formats import load
from dagsched.generate.suite import Suite
from dagsched.graph import critical_path
from dagsched.policies.registry import list_policies
from dagsched.replay import Replay
from dagsched.search.contained import Incumbent, best_of, roll_out
from dagsched.search.plan import PlanResult, plan_batch
from dagsched.simulator.simulate import simulate
from tests.bench.data import ROOT, data_path
from tests.bench.learned.rows import head, row

PSPLIB_SECONDS = {"j30": (0.1,), "j60": (0.2,), "j120": (0.25, 6.0)}
PSPLIB_SCHEDULES = (1_000, 5_000, 50_000)
TPCH = (("tpch-50", 0.5), ("tpch-100", 1.0), ("tpch-150", 1.5))
MS_A_TASK = 2.0


def measure_psplib(options: Namespace) -> None:
    """% over the optimum or best known makespan and over the critical path, by seconds and by schedules."""
    head("family", "projects", "budget", "gap, %", "over the critical path, %", "schedules", "CPU s", "rolled out, s")
    for family in options.family or PSPLIB_SECONDS:
        projects = [(Replay.build(w), w.known_makespan) for w in load(data_path(f"psplib/{family}"))]
        projects = projects[:: options.step][: options.limit]
        plan_batch(projects[0][0], schedules=3)
        for seconds in options.seconds or PSPLIB_SECONDS[family]:
            _psplib_row(family, projects, f"{seconds:g} s", lambda replay, s=seconds: plan_batch(replay, seconds=s))
            if options.cp_sat:
                _cp_sat_row(family, projects, seconds)
        for count in options.schedules or PSPLIB_SCHEDULES:
            budget = f"{count:,} schedules"
            _psplib_row(family, projects, budget, lambda replay, n=count: plan_batch(replay, schedules=n))


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
    """CP-SAT with one worker; its seconds are OR-Tools' deterministic ones, the true ones are printed."""
    gaps, over, took = [], [], []
    for replay, known in projects:
        began = time.perf_counter()
        found = simulate(replay, f"cp-sat:time_limit={seconds:g}:workers=1").makespan
        took.append(time.perf_counter() - began)
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
        ("transfers", ("mixture=[{kind: layered, count: 4, tasks: 25, mean_bytes: 1.0e+9}]",)),
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


def _value(incumbents: list[Incumbent], spec: str) -> float:
    """Seconds of one contained policy; 0 if it was not rolled out."""
    return next((i.value for i in incumbents if i.source == spec), 0.0)
