"""Batches: TPC-H and PSPLIB, greedy and best of many."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence

import numpy as np

from dagsched.formats import load
from dagsched.graph import critical_path
from dagsched.replay import Replay
from dagsched.workflow import FloatArray
from tests.bench.data import data_path
from tests.bench.learned.outcomes import Outcomes, outcomes
from tests.bench.learned.rows import head, note, points, relative, row

RULES = ("critical-path", "cp+demand", "cp+demand+work")
LEARNED = ("evolved", "ppo")
SIZES = ("tpch-50", "tpch-100", "tpch-150")


def measure_tpch(options: Namespace) -> None:
    """The 30 published batches: mean makespan in ms, and each learned policy against the untrained ones."""
    batches = {size: _batch(f"tpch-batch/{size}.jsonl", options.limit) for size in SIZES}
    n = options.n or 256
    greedy = [*RULES, *LEARNED]
    untrained = [f"sampling:n={n}:rule={rule}:sgs={sgs}" for rule in RULES[1:] for sgs in ("parallel", "mixed")]
    sampled = [f"{name}-sample:n={n}:sgs={sgs}" for name in LEARNED for sgs in ("parallel", "mixed")]
    found = _table(batches, [*greedy, *untrained, *sampled], options)
    _against(batches, found, LEARNED, RULES)
    _against(batches, found, sampled, untrained)
    _equal_time(batches, found, n, "cp+demand+work:sgs=mixed", options)


def measure_psplib(options: Namespace) -> None:
    """The published projects: % over the critical-path bound, greedy and best of 100, in the same run."""
    n = options.n or 100
    head("family", "policy", "% over the bound", "s a project", "against, points [95% interval]")
    for family in ("j60", "j120"):
        replays = _batch(f"psplib/{family}", options.limit)
        bound = np.array([critical_path(replay).max() for replay in replays])
        controls = ("lft", f"sampling:rule=lft:n={n}:sgs=parallel", f"sampling:rule=lft:n={n}:sgs=mixed")
        over: dict[str, FloatArray] = {}
        samplers = [f"{name}-sample:n={n}:sgs={sgs}" for name in LEARNED for sgs in ("parallel", "mixed")]
        for spec in (*controls, *LEARNED, *samplers):
            done = outcomes(replays, spec, options.checkpoint, options.threads)
            if done is None:
                continue
            over[spec] = 100 * (done.makespan / bound - 1)
            beside = controls[1:] if "-sample" in spec else ("lft",)
            shown = [f"{points(over[spec], over[other])} vs {other}" for other in beside if other != spec]
            row(family, spec, float(over[spec].mean()), done.seconds, "; ".join(shown))
        note(f"{family}: {len(replays)} projects\n")


def _batch(path: str, limit: int | None) -> list[Replay]:
    return [Replay.build(workload) for workload in load(data_path(path))[:limit]]


def _table(
    batches: Mapping[str, list[Replay]], specs: Sequence[str], options: Namespace
) -> dict[tuple[str, str], Outcomes]:
    found: dict[tuple[str, str], Outcomes] = {}
    head("policy", *(f"{size}, ms" for size in batches), "s a batch")
    for spec in specs:
        done = {size: outcomes(r, spec, options.checkpoint, options.threads) for size, r in batches.items()}
        known = {size: value for size, value in done.items() if value is not None}
        if len(known) < len(batches):
            continue
        found |= {(spec, size): value for size, value in known.items()}
        cells = [f"{1000 * value.makespan.mean():,.0f}" for value in known.values()]
        row(spec, *cells, float(np.mean([value.seconds for value in known.values()])))
    return found


def _against(
    batches: Mapping[str, list[Replay]],
    found: Mapping[tuple[str, str], Outcomes],
    policies: Sequence[str],
    references: Sequence[str],
) -> None:
    print()
    head("policy", "against", *batches, "all")
    for policy in policies:
        for reference in references:
            pairs = [(found.get((policy, s)), found.get((reference, s))) for s in batches]
            known = [(p.makespan, r.makespan) for p, r in pairs if p is not None and r is not None]
            if len(known) == len(batches):
                whole = np.concatenate([p for p, _ in known]), np.concatenate([r for _, r in known])
                row(policy, reference, *(relative(p, r) for p, r in known), relative(*whole))


def _equal_time(
    batches: Mapping[str, list[Replay]], found: dict[tuple[str, str], Outcomes], n: int, rule: str, options: Namespace
) -> None:
    """The untrained sampler with as many samples as fit into a learned sampler's time."""
    print()
    head("policy", "against, in the same time", *batches)
    for name in LEARNED:
        cells = []
        for size, replays in batches.items():
            learned, control = (
                found.get((f"{name}-sample:n={n}:sgs=parallel", size)),
                found.get((f"sampling:n={n}:rule={rule}", size)),
            )
            if learned is None or control is None:
                return
            more = min(200_000, max(n, round(n * learned.seconds / control.seconds)))
            equal = outcomes(replays, f"sampling:n={more}:rule={rule}", None, options.threads)
            assert equal is not None
            cells.append(
                f"{relative(learned.makespan, equal.makespan)} (n={more:,}: {1000 * equal.makespan.mean():,.0f})"
            )
        row(f"{name}-sample:n={n}:sgs=parallel", f"sampling:rule={rule}", *cells)
