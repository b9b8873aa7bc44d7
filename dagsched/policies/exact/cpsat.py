"""``cp-sat``: makespan-optimal batch plans by constraint programming (OR-Tools), ground truth for small problems.

Times are whole ticks: 1 s if all times are whole seconds, else the power of two of a second that cuts the
horizon into about a million ticks, durations and transfers rounded up, so that planned starts stay feasible.
Demands are scaled by a power of ten up to 10^6; what is still fractional is rounded up. A bound is reported as
proven only where nothing was rounded.

On several nodes every instance has one optional interval a node; a transfer delays the child where the two
groups differ. For a parent of many instances the whole of an edge's bytes is counted for each of them, since
the share of an allocation depends on what runs together: feasible, but then nothing is proven.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagsched.errors import PolicyError
from dagsched.graph import lower_bound
from dagsched.policies.base import Plan
from dagsched.policies.exact.cliques import exclusive_cliques
from dagsched.policies.info import PolicyInfo
from dagsched.policies.runners import PlanPolicy
from dagsched.policies.sampling.sampler import SamplingOptions, check_plannable, is_pooled, sample
from dagsched.policies.static.listing import ListPlanner
from dagsched.replay import FIT_TOLERANCE, Replay
from dagsched.workflow import IntArray

MAX_UNITS = 3_000
"""Task instances at most."""
MAX_PLACES = 20_000
"""Pairs of an instance and a node at most."""
MAX_LINKS = 200_000
"""Pairs of a parent and a child instance, times pairs of groups where transfers take time, at most."""
_SEED_DOMAIN = 0x43505341
OPTIONS: Mapping[str, str] = {
    "time_limit": "seconds in all, of a model that is built at once (10)",
    "workers": "parallel search workers (2)",
    "clock": "of the limit: wall, or deterministic (OR-Tools' own, so that results repeat; workers=1 only) "
    "(auto: deterministic with workers=1)",
    "seed": "random seed (0)",
}
_TICKS = 2**20


@dataclass(frozen=True, slots=True)
class CpSatResult:
    """What the solver found.

    Attributes:
        plan: the best plan known, at worst that of a rule.
        makespan: its seconds on the estimates, an upper bound where times were rounded up.
        bound: seconds no schedule can beat.
        proven: whether the plan is optimal.
        status: OR-Tools' status name; ``BOUND`` or ``NO_TIME`` where nothing was searched.
    """

    plan: Plan
    makespan: float
    bound: float
    proven: bool
    status: str


def make_cp_sat(spec: str, options: Mapping[str, str]) -> PlanPolicy:
    """The policy for a ``cp-sat`` spec; raises :class:`PolicyError` for wrong options or a missing OR-Tools."""

    def number(key: str, default: str, pattern: str, expected: str) -> float:
        text = options.get(key, default)
        if not re.fullmatch(pattern, text) or (key != "seed" and float(text) <= 0):
            raise PolicyError(f"policy {spec!r}: {key} is {text!r}, expected {expected}")
        return float(text)

    time_limit = number("time_limit", "10", r"\d{1,6}(\.\d{1,6})?", "seconds > 0")
    workers = int(number("workers", "2", r"\d{1,3}", "a whole number from 1 to 999"))
    seed = int(number("seed", "0", r"\d{1,9}", "a whole number >= 0"))
    clock = options.get("clock", "auto")
    if clock not in ("auto", "wall", "deterministic"):
        raise PolicyError(f"policy {spec!r}: clock is {clock!r}, expected auto, wall or deterministic")
    if clock == "deterministic" and workers > 1:
        raise PolicyError(f"policy {spec!r}: a deterministic clock needs workers=1")
    repeats = workers == 1 and clock != "wall"
    _import_cp_model(spec)

    return PlanPolicy(spec, partial(_planner, spec, time_limit, workers, seed, repeats), reproducible=repeats)


def _planner(
    spec: str,
    time_limit: float,
    workers: int,
    seed: int,
    repeats: bool,
    replay: Replay,
    policy_seed: int,
) -> CpSatPlanner:
    stream = np.random.SeedSequence([seed, policy_seed], spawn_key=(_SEED_DOMAIN,))
    word = int(stream.generate_state(1)[0]) >> 1  # the solver takes 31 bits
    return CpSatPlanner(spec, replay, time_limit, workers, word, deterministic=repeats)


class CpSatPlanner:
    """Plans one batch; ``result`` holds the solver's answer afterwards.

    Raises:
        PolicyError: under noise, with later arrivals, or for a problem over the limits of this module.
    """

    def __init__(
        self, spec: str, replay: Replay, time_limit: float, workers: int, seed: int, *, deterministic: bool
    ) -> None:
        check_plannable(spec, replay)
        _check_size(spec, replay)
        self._replay = replay
        self._arguments: Mapping[str, Any] = {
            "time_limit": time_limit, "workers": workers, "seed": seed, "deterministic": deterministic
        }  # fmt: skip
        self.result: CpSatResult | None = None

    def plan_arrivals(self, workflows: IntArray, now: float) -> Plan:  # noqa: ARG002
        """The plan of the whole batch; everything arrives at the first call."""
        self.result = solve(self._replay, **self._arguments)
        return self.result.plan


def _import_cp_model(spec: str) -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise PolicyError(f"policy {spec!r}: needs OR-Tools; install it with: pip install 'dagsched[cp]'") from None
    return cp_model


def _check_size(spec: str, replay: Replay) -> None:
    units = float(replay.instances[~replay.milestone].sum())
    nodes = replay.cluster.node_count
    children = np.repeat(np.arange(len(replay)), np.diff(replay.parent_ptr))
    links = float((replay.instances[replay.parent_idx] * replay.instances[children].astype(np.float64)).sum())
    if replay.has_transfers:
        links *= len(replay.cluster.groups) ** 2
    for found, most, what in (
        (units, MAX_UNITS, "task instances"),
        (units * nodes, MAX_PLACES, "pairs of an instance and a node"),
        (links, MAX_LINKS, "pairs of parent and child instances (times pairs of groups)"),
    ):
        if found > most:
            raise PolicyError(
                f"policy {spec!r}: {found:.0f} {what} are too many for an exact model (at most {most}); use sampling "
                f"or a rule"
            )


def solve(
    replay: Replay, *, time_limit: float = 10.0, workers: int = 2, seed: int = 0, deterministic: bool = False
) -> CpSatResult:
    """Minimise the makespan of a batch with exact estimates; see the module for what is exact.

    Args:
        replay: at most ``MAX_UNITS`` task instances, see the limits of this module.
        time_limit: seconds in all: the rules' plans, which always come first, the model and search. In deterministic
            time: of search alone.
        workers: threads.
        seed: of the search.
        deterministic: whether the limit is in OR-Tools' deterministic time, so that one worker's results repeat.
    """
    cp_model = _import_cp_model("cp-sat")
    deadline = time.monotonic() + time_limit
    incumbent, makespan = _best_known(replay)
    bound = lower_bound(replay, realised=False)
    if makespan <= bound * (1 + 1e-12):
        return CpSatResult(incumbent, makespan, min(bound, makespan), True, "BOUND")
    if not deterministic and time.monotonic() >= deadline:
        return CpSatResult(incumbent, makespan, min(bound, makespan), False, "NO_TIME")
    model = _Model(cp_model, replay, incumbent, makespan, bound)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    if workers == 2:  # of the pairs of strategies tried, this one proved most j30-like problems
        solver.parameters.subsolvers.extend(["quick_restart", "default_lp"])
    if deterministic:
        solver.parameters.max_deterministic_time = time_limit
    else:
        solver.parameters.max_time_in_seconds = max(0.01, deadline - time.monotonic())
    status = solver.solve(model.model)
    if model.exact:
        bound = max(bound, float(math.ceil(solver.best_objective_bound - 1e-6)) * model.tick)
    plan = incumbent
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = round(solver.objective_value) * model.tick
        if found < makespan:
            plan, makespan = model.plan(solver), found
    bound = min(bound, makespan)
    proven = bound == makespan or (model.exact and status == cp_model.OPTIMAL)
    return CpSatResult(plan, makespan, bound, proven, solver.status_name(status))


def _best_known(replay: Replay) -> tuple[Plan, float]:
    """The best plan of a few rules and HEFT, with its makespan in seconds: warm start and fallback."""
    pooled = is_pooled(replay)
    found = []
    for rule in ("lft", "cp+demand"):
        options = SamplingOptions(rule=rule, n=300 if pooled else 8, generation="mixed", improve=pooled)
        makespan, plan = sample(replay, options)
        found.append((makespan, plan))
    if not pooled:
        planner = ListPlanner("heft", replay)
        plan = planner.plan_arrivals(range(len(replay.workflows)), replay.first_arrival)
        found.append((float(planner.finish.max()) - replay.first_arrival, plan))
    makespan, plan = min(found, key=lambda pair: pair[0])
    return plan, makespan


class _Model:
    """The CP-SAT model: variables by unit (a task instance or a milestone)."""

    def __init__(self, cp_model: Any, replay: Replay, incumbent: Plan, makespan: float, bound: float) -> None:
        self.model = cp_model.CpModel()
        self.replay = replay
        self._scale_times(makespan)
        self._scale_demands()
        several = np.where(replay.milestone, 1, replay.instances)
        self.unit_ptr = np.concatenate([[0], np.cumsum(several)]).astype(np.int64)
        self.task_of = np.repeat(np.arange(len(replay)), several)
        count = len(self.task_of)
        horizon = math.ceil(makespan / self.tick)
        if not self.exact:  # rounding up adds less than one tick a task and one a transfer along any chain
            horizon += 2 * count
        if not self.exact_demands:
            horizon = int(self.ticks.max(axis=1)[self.task_of].sum() + horizon)
        self.start = [self.model.new_int_var(0, horizon, "") for _ in range(count)]
        self.end = list(self.start)
        self.place: list[dict[int, Any]] = [{} for _ in range(count)]
        self._groups: dict[tuple[int, int], Any] = {}
        least = 0 if not self.exact else math.ceil(bound / self.tick - 1e-9)
        self.makespan = self.model.new_int_var(least, horizon, "makespan")
        self._add_places()
        self._add_precedence()
        self._add_cliques()
        for unit in range(count):
            self.model.add(self.end[unit] <= self.makespan)
        self.model.minimize(self.makespan)
        self._add_hint(incumbent)

    def _scale_times(self, makespan: float) -> None:
        replay = self.replay
        cluster = replay.cluster
        seconds = np.where(replay.can_hold, replay.estimate, 0.0)
        origin = np.arange(len(cluster.groups))
        delay = np.zeros((len(replay.parent_idx), len(origin), len(origin)))
        if replay.has_transfers:
            children = np.repeat(np.arange(len(replay)), np.diff(replay.parent_ptr))
            timed = ~(replay.milestone[replay.parent_idx] | replay.milestone[children])
            delay[timed] = cluster.latency + replay.parent_bytes[timed, None, None] / cluster.bandwidth
            delay[:, origin, origin] = 0.0
        shared = bool(delay[replay.instances[replay.parent_idx] > 1].any())
        whole = bool((seconds == np.floor(seconds)).all() and (delay == np.floor(delay)).all())
        self.tick = 1.0 if whole else 2.0 ** math.ceil(math.log2(makespan / _TICKS))
        self.exact_times = whole and not shared
        self.ticks = np.ceil(seconds / self.tick).astype(np.int64)
        instant = (replay.demand > 0).any(axis=1, keepdims=True) & (
            self.ticks == 0
        )  # must fit, though it holds nothing for long
        self.ticks[instant] = 1
        self.exact_times = self.exact_times and not (instant & replay.can_hold).any()
        self.delay = np.ceil(delay / self.tick).astype(np.int64)

    def _scale_demands(self) -> None:
        """Whole amounts per resource; zero where no resource can ever be short."""
        demand, capacity = self.replay.demand, self.replay.cluster.capacity
        self.demand: NDArray[np.int64] = np.zeros(demand.shape, np.int64)
        self.capacity: NDArray[np.int64] = np.zeros(capacity.shape, np.int64)
        self.exact_demands = True
        for r in range(demand.shape[1]):
            factor = next((f for f in (10.0**k for k in range(7)) if _whole(demand[:, r] * f)), 0.0)
            if factor == 0.0 or capacity[:, r].max() * factor > 2**40:
                largest = max(capacity[:, r].max(), 1e-300)
                factor, self.exact_demands = 1e6 / largest, False
            self.demand[:, r] = np.ceil(demand[:, r] * factor * (1 - FIT_TOLERANCE) - FIT_TOLERANCE)
            self.capacity[:, r] = np.floor(capacity[:, r] * factor * (1 + FIT_TOLERANCE) + FIT_TOLERANCE)
        self.exact = self.exact_times and self.exact_demands

    def _add_places(self) -> None:
        """Intervals and capacity: one fixed place on a single node, else an optional interval a node."""
        replay, model = self.replay, self.model
        node_group = replay.cluster.node_group
        intervals: list[list[tuple[int, Any]]] = [[] for _ in node_group]
        used = np.zeros(len(replay.cluster.groups), np.int64)
        for unit, task in enumerate(self.task_of.tolist()):
            if replay.milestone[task]:
                continue
            if unit > self.unit_ptr[task]:  # instances are alike
                model.add(self.start[unit] >= self.start[unit - 1])
            first = np.searchsorted(node_group, np.arange(len(used)))
            seconds: Any = 0
            for node, group in enumerate(node_group.tolist()):
                # Empty nodes of a group are alike: its k-th unit may open only one of the first k nodes.
                if not replay.can_hold[task, group] or node - first[group] > used[group]:
                    continue
                length = int(self.ticks[task, group])
                if len(node_group) == 1:
                    here: Any = 1
                    interval = model.new_fixed_size_interval_var(self.start[unit], length, "")
                else:
                    here = model.new_bool_var("")
                    interval = model.new_optional_fixed_size_interval_var(self.start[unit], length, here, "")
                self.place[unit][node] = here
                seconds = seconds + length * here
                intervals[node].append((task, interval))
            used += replay.can_hold[task]
            if len(node_group) > 1:
                model.add_exactly_one(self.place[unit].values())
            self.end[unit] = self.start[unit] + seconds
        for node, group in enumerate(node_group.tolist()):
            for r in range(self.demand.shape[1]):
                held = [(i, int(self.demand[task, r])) for task, i in intervals[node] if self.demand[task, r] > 0]
                if held:
                    model.add_cumulative([i for i, _ in held], [d for _, d in held], int(self.capacity[group, r]))

    def _add_precedence(self) -> None:
        replay = self.replay
        for child in range(len(replay)):
            for edge in range(replay.parent_ptr[child], replay.parent_ptr[child + 1]):
                parent = int(replay.parent_idx[edge])
                for u in range(self.unit_ptr[parent], self.unit_ptr[parent + 1]):
                    for v in range(self.unit_ptr[child], self.unit_ptr[child + 1]):
                        self.model.add(self.start[v] >= self.end[u])
                        if self.delay[edge].any():
                            self._add_transfer(u, v, self.delay[edge])

    def _add_cliques(self) -> None:
        """Redundant: tasks that exclude each other pairwise, over all resources and paths at once."""
        for clique in exclusive_cliques(self.replay):
            units = self.unit_ptr[clique].tolist()
            lengths = self.ticks[clique, 0].tolist()
            self.model.add_no_overlap(
                [
                    self.model.new_fixed_size_interval_var(self.start[unit], length, "")
                    for unit, length in zip(units, lengths, strict=True)
                ]
            )

    def _add_transfer(self, u: int, v: int, delay: NDArray[np.int64]) -> None:
        for a, b in np.argwhere(delay > 0).tolist():
            leaves, enters = self._in_group(u, a), self._in_group(v, b)
            if leaves is not None and enters is not None:
                constraint = self.model.add(self.start[v] >= self.end[u] + int(delay[a, b]))
                constraint.only_enforce_if([leaves, enters])

    def _in_group(self, unit: int, group: int) -> Any:
        """A literal that holds if the unit runs in the group (made once), ``None`` if it cannot."""
        known = self._groups
        if (unit, group) not in known:
            node_group = self.replay.cluster.node_group
            nodes = [here for node, here in self.place[unit].items() if node_group[node] == group]
            if len(nodes) > 1:
                inside = self.model.new_bool_var("")
                self.model.add(sum(nodes) == inside)
                nodes = [inside]
            known[unit, group] = nodes[0] if nodes else None
        return known[unit, group]

    def _add_hint(self, plan: Plan) -> None:
        """Start the search at the incumbent, its nodes renamed in order of first use within their group."""
        node_group = self.replay.cluster.node_group
        taken = self.unit_ptr[:-1].copy()
        node_of = np.full(len(self.start), -1)
        for entry in np.argsort(plan.start, kind="stable"):
            task, count = int(plan.task[entry]), int(plan.count[entry])
            ticks = math.ceil((plan.start[entry] - self.replay.first_arrival) / self.tick)
            for unit in range(taken[task], taken[task] + count):
                self.model.add_hint(self.start[unit], ticks)
                node_of[unit] = plan.node[entry]
            taken[task] += count
        if len(node_group) == 1:
            return
        renamed: dict[int, int] = {}
        opened = np.searchsorted(node_group, np.arange(len(self.replay.cluster.groups)))
        for unit, node in enumerate(node_of.tolist()):
            if node >= 0 and node not in renamed:
                renamed[node] = int(opened[node_group[node]])
                opened[node_group[node]] += 1
            for candidate, here in self.place[unit].items():
                self.model.add_hint(here, candidate == renamed[node])

    def plan(self, solver: Any) -> Plan:
        """The solution as a plan: units of a task with one node and start make one entry."""
        replay = self.replay
        position = np.empty(len(replay), np.int64)
        position[replay.topological_order] = np.arange(len(replay))
        rows: dict[tuple[int, bool, int, int, int], int] = {}
        for unit, task in enumerate(self.task_of.tolist()):
            if replay.milestone[task]:
                continue
            ticks = int(solver.value(self.start[unit]))
            node = next(n for n, here in self.place[unit].items() if isinstance(here, int) or solver.value(here))
            lasts = bool(self.ticks[task, replay.cluster.node_group[node]] > 0)
            key = (ticks, lasts, int(position[task]), task, node)
            rows[key] = rows.get(key, 0) + 1
        table = np.array([(*key, count) for key, count in sorted(rows.items())], np.int64).reshape(-1, 6)
        start = np.asarray(replay.first_arrival + table[:, 0] * self.tick, np.float64)
        return Plan(table[:, 3].copy(), table[:, 4].copy(), table[:, 5].copy(), start)


def _whole(values: NDArray[np.float64]) -> bool:
    return bool((np.abs(values - np.round(values)) <= FIT_TOLERANCE * np.maximum(1.0, np.abs(values))).all())


POLICIES = (
    PolicyInfo(
        "cp-sat",
        "OR-Tools CP-SAT, ground truth to about 60 tasks (batch, no noise; extra 'cp')",
        "exact",
        make_cp_sat,
        OPTIONS,
    ),
)
