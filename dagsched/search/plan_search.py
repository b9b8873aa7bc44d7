"""One worker's anytime search over whole schedules: what it is given, what it reports, what it finds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from dagsched.graph import lower_bound
from dagsched.policies.base import Plan
from dagsched.policies.sampling.sampler import is_pooled, objective_value, plan_from_starts
from dagsched.replay import Replay
from dagsched.search.allowance import Allowance, OutOfTimeError
from dagsched.search.lns_placed import NodeSearch
from dagsched.search.lns_pooled import Neighbourhood
from dagsched.search.seed_schedules import (
    SeedSchedule,
    best_of,
    followed,
    plan_of,
)
from dagsched.simulator.stepper import Simulator

MOST_SEEDS = 12
"""Contained schedules that search starts from, best first."""
REPORT_SECONDS = 0.2
UNLIMITED = 2**62
_SEED_DOMAIN = 0x504C414E
_TIE = 1e-12
_LEAST_PASSES = 3
"""Schedules that the time must suffice for, or search does not begin."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """Where a search stands.

    Attributes:
        elapsed: seconds since search began.
        schedules: generated so far.
        value: objective of the incumbent in seconds.
        bound: no schedule is below; minus infinity if none is known.
    """

    elapsed: float
    schedules: int
    value: float
    bound: float


@dataclass(frozen=True, slots=True, eq=False)
class PlanResult:
    """What plan mode found.

    Attributes:
        value: objective in seconds on the estimates.
        plan: to be followed.
        source: spec of the first incumbent.
        first: its value in seconds.
        bound: seconds no schedule can beat (makespan), minus infinity for other objectives.
        schedules: generated in all, by all workers.
        seconds: of search, without the contained policies.
        log: the first incumbent and every improvement; values never rise.
        optimal: whether the value reaches the bound.
        interrupted: whether Ctrl-C ended it.
        run_instead: the spec to run in place of the plan, where following the plan would lose what the policy
            itself reaches (:attr:`dagsched.search.seed_schedules.SeedSchedule.followable`); else ``None``.
        rolled_out: contained policies whose schedules are among what was chosen from; the plan is not worse than any.
        left_out: contained policies for which the time limit, or Ctrl-C, left no time.
        workers: processes that searched, never more than this process may use cores.
        ended: a simulator at the end of this plan, or of the policy to run instead, if one was kept.
    """

    value: float
    plan: Plan
    source: str
    first: float
    bound: float
    schedules: int
    seconds: float
    log: tuple[SearchProgress, ...]
    optimal: bool
    interrupted: bool = False
    run_instead: str | None = None
    rolled_out: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    workers: int = 1
    ended: Simulator | None = None


Improved = Callable[[SearchProgress], None]


@dataclass(frozen=True, slots=True)
class PlanTask:
    """One search as a worker process gets it; see :func:`plan_batch` for the fields.

    Attributes:
        deadline: moment of ``time.monotonic()`` at which to stop.
        pass_seconds, following_seconds: about what a schedule takes, and what following one takes.
    """

    replay: Replay
    objective: str
    incumbents: tuple[SeedSchedule, ...]
    seconds: float | None
    schedules: int | None
    seed: int
    policy_seed: int
    deadline: float = math.inf
    pass_seconds: float = 0.0
    following_seconds: float = 0.0
    worker: int = 0


def may_begin(task: PlanTask, allowance: Allowance) -> bool:
    """Whether time suffices for a search at all."""
    needed = _LEAST_PASSES * task.pass_seconds + task.following_seconds
    return not allowance.pressed() and (allowance.deadline == math.inf or allowance.affords(needed))


class Search(Protocol):
    """A search in slices: :class:`Neighbourhood` on one pooled node, :class:`NodeSearch` elsewhere."""

    @property
    def schedules(self) -> int:
        """Generated so far."""
        ...

    @property
    def value(self) -> float:
        """Objective of its best schedule in seconds."""
        ...

    def advance(self, until: int, limit: int) -> None:
        """Go on until so many schedules."""
        ...


@dataclass(slots=True)
class _Best:
    """The incumbent of a running search."""

    value: float
    plan: Plan
    run_instead: str | None
    log: list[SearchProgress] = field(default_factory=list)
    ended: Simulator | None = None


def run_search(
    task: PlanTask, improved: Improved | None = None, pressed: Callable[[], bool] = lambda: False
) -> PlanResult:
    """One worker's search; see :func:`plan_batch`. ``pressed`` says whether to stop."""
    replay = task.replay
    allowance = Allowance(deadline=task.deadline, pressed=pressed)
    first = best_of(task.incumbents)
    bound = lower_bound(replay, realised=False) if task.objective == "makespan" else -math.inf
    limit = UNLIMITED if task.schedules is None else task.schedules
    began = time.monotonic()
    best = _Best(first.value, first.plan, None if first.followable else first.source)
    best.log.append(SearchProgress(0.0, 0, first.value, bound))
    search, interrupted, reported = None, False, 0.0
    each = task.pass_seconds
    try:
        if improved is not None:
            improved(best.log[0])
        if first.value > bound and limit > 0 and task.seconds != 0 and may_begin(task, allowance):
            search = _new_search(task, bound)
            size = _slice_size(replay, search)
        while search is not None and search.schedules < limit and search.value > bound and not pressed():
            if task.seconds is not None and time.monotonic() - began >= task.seconds:
                break
            most = min(limit, search.schedules + _affordable(task, allowance, each))
            if most == search.schedules:
                break
            before, passed, moment = search.value, search.schedules, time.monotonic()
            search.advance(min(most, search.schedules + size), most)
            elapsed = time.monotonic() - began
            each = (time.monotonic() - moment) / max(search.schedules - passed, 1)
            better = search.value < before and _take(task, search, best, allowance)
            if better:
                best.log.append(SearchProgress(elapsed, search.schedules, best.value, bound))
            if improved is not None and (better or elapsed - reported >= REPORT_SECONDS):
                reported = elapsed
                improved(SearchProgress(elapsed, search.schedules, best.value, bound))
    except KeyboardInterrupt:
        interrupted = True
    interrupted = interrupted or pressed()
    return PlanResult(
        value=best.value,
        plan=best.plan,
        source=first.source,
        first=first.value,
        bound=bound,
        schedules=0 if search is None else search.schedules,
        seconds=time.monotonic() - began,
        log=tuple(best.log),
        optimal=best.value <= bound * (1 + _TIE),
        interrupted=interrupted,
        run_instead=best.run_instead,
        ended=best.ended,
    )


def _affordable(task: PlanTask, allowance: Allowance, each: float) -> int:
    """Schedules that what is left of a time limit buys, if one takes ``each`` seconds and must then be followed."""
    left = allowance.left() - task.following_seconds
    if left == math.inf:
        return UNLIMITED
    return max(0, int(left / max(each, 1e-6)))


def _new_search(task: PlanTask, bound: float) -> Neighbourhood | NodeSearch:
    stream = np.random.SeedSequence([task.seed, task.policy_seed, task.worker], spawn_key=(_SEED_DOMAIN,))
    known = _distinct(sorted(task.incumbents, key=lambda incumbent: incumbent.value))[:MOST_SEEDS]
    starts = np.array([incumbent.start for incumbent in known])
    if is_pooled(task.replay):
        return Neighbourhood(task.replay, starts, objective=task.objective, bound=bound, stream=stream)
    groups = np.array([incumbent.group for incumbent in known])
    return NodeSearch(task.replay, starts, groups, objective=task.objective, bound=bound, stream=stream)


def _distinct(incumbents: Sequence[SeedSchedule]) -> list[SeedSchedule]:
    """Without schedules that another policy gave before."""
    seen: dict[bytes, SeedSchedule] = {}
    for incumbent in incumbents:
        seen.setdefault(incumbent.start.tobytes() + incumbent.group.tobytes(), incumbent)
    return list(seen.values())


def _slice_size(replay: Replay, search: Search) -> int:
    """Schedules of a slice that takes some milliseconds; of the problem alone, so that slices never depend on time."""
    each = 20_000 if isinstance(search, Neighbourhood) else 4_000
    return max(1, each // len(replay))


def _take(task: PlanTask, search: Neighbourhood | NodeSearch, best: _Best, allowance: Allowance) -> bool:
    """Follow the search's best schedule and make it the incumbent if that is an improvement and time suffices."""
    replay = task.replay
    if search.value >= best.value and is_pooled(replay):
        return False
    plan = plan_from_starts(replay, search.start) if isinstance(search, Neighbourhood) else search.plan()
    try:
        ended = followed(replay, plan, policy_seed=task.policy_seed, allowance=allowance)
    except OutOfTimeError:
        return False
    value = objective_value(replay, ended.state.task["finish"], task.objective)
    if value >= best.value * (1 - _TIE):
        return False
    best.value, best.plan, best.run_instead, best.ended = value, plan, None, ended
    _settle(task, best, allowance)
    return True


def _settle(task: PlanTask, best: _Best, allowance: Allowance) -> None:
    """What following gave as the plan, with its true starts, if following that gives the same again."""
    assert best.ended is not None
    plan = plan_of(best.ended.schedule("plan"))
    try:
        again = followed(task.replay, plan, policy_seed=task.policy_seed, allowance=allowance)
    except OutOfTimeError:
        return
    if objective_value(task.replay, again.state.task["finish"], task.objective) <= best.value:
        best.plan, best.ended = plan, again


def merged(results: Sequence[PlanResult], seconds: float) -> PlanResult:
    """The best of several workers' results, of equal ones the first worker's."""
    best = min(results, key=lambda result: result.value)
    events = sorted((p for result in results for p in result.log), key=lambda p: (p.elapsed, p.value))
    log: list[SearchProgress] = []
    for event in events:
        if not log or event.value < log[-1].value:
            log.append(event)
    return replace(
        best,
        schedules=sum(result.schedules for result in results),
        seconds=seconds,
        log=tuple(log),
        interrupted=any(result.interrupted for result in results),
    )
