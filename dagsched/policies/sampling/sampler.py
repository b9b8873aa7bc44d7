"""``sampling``: the best of many whole schedules from one rule's priorities with Gumbel noise.

The untrained control of every learned sampler and planner. The noise ladder and the default rule were chosen on
generated problems (random RCPSP networks, fresh mixes of TPC-H queries), none of them a published test problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from dagsched.errors import PolicyError
from dagsched.graph import lower_bound
from dagsched.policies.base import Plan
from dagsched.policies.info import PolicyInfo
from dagsched.policies.rules import keys
from dagsched.policies.runners import PlanPolicy, PriorityPolicy
from dagsched.policies.sampling import sgs
from dagsched.policies.spec_options import option_int
from dagsched.policies.static.listing import Inserter
from dagsched.replay import FIT_TOLERANCE, Replay
from dagsched.simulator.kernel import Problem
from dagsched.simulator.state import build_problem
from dagsched.simulator.stepper import MANY, Simulator
from dagsched.workflow import FloatArray, IntArray, child_rows

RULES: Mapping[str, Callable[[Replay, Problem], FloatArray]] = {
    "lft": keys.lft,
    "lst": keys.lst,
    "mts": keys.mts,
    "critical-path": keys.critical_path,
    "cp+demand": keys.cp_demand,
    "cp+demand+work": keys.cp_demand_work,
    "graphene": keys.graphene,
    "sjf": keys.sjf,
    "ljf": keys.ljf,
}
GENERATIONS = {"serial": sgs.SERIAL, "parallel": sgs.PARALLEL, "mixed": sgs.MIXED}
OBJECTIVES = {"makespan": sgs.MAKESPAN, "flow_time": sgs.FLOW_TIME}
OPTIONS: Mapping[str, str] = {
    "rule": f"base priority: {', '.join(RULES)} (cp+demand+work)",
    "n": "schedules generated; a forward-backward round counts 2 (256)",
    "sgs": "schedule generation: serial, parallel or mixed (mixed; parallel with fbi=1, which adds serial passes)",
    "fbi": "1 = forward-backward improvement of every sample, one pooled node only (0)",
    "scales": "ladder of noise scales as shares of the rule's spread, taken in turn (0.01,0.02,0.05,0.1)",
    "objective": "makespan or flow_time (makespan)",
    "seed": "random seed (0)",
}
_SEED_DOMAIN = 0x53414D50


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """The options of a ``sampling`` spec.

    Attributes:
        rule: base priority, a key of ``RULES``.
        n: schedule generation passes.
        generation: ``serial``, ``parallel`` or ``mixed`` (taking turns, parallel first).
        improve: forward-backward improvement of every sample.
        scales: sample ``k`` adds Gumbel noise of ``scales[k % len(scales)]`` x (max - min of the rule's keys);
            sample 0 is the plain rule.
        objective: ``makespan`` or ``flow_time`` (mean over workflows by weight).
        seed: of the noise.
    """

    rule: str = "cp+demand+work"
    n: int = 256
    generation: str = "mixed"
    improve: bool = False
    scales: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1)
    objective: str = "makespan"
    seed: int = 0

    @classmethod
    def parse(cls, spec: str, options: Mapping[str, str]) -> SamplingOptions:
        """Read the options of a spec.

        Raises:
            PolicyError: naming the option, what was found and what is expected.
        """

        def pick(key: str, default: str, known: Mapping[str, object]) -> str:
            value = options.get(key, default)
            if value not in known:
                raise PolicyError(f"policy {spec!r}: {key} is {value!r}, expected one of {', '.join(known)}")
            return value

        default = cls()
        return cls(
            rule=pick("rule", default.rule, RULES),
            n=option_int(spec, options, "n", default.n, 1),
            generation=pick("sgs", "parallel" if options.get("fbi") == "1" else "mixed", GENERATIONS),
            improve=pick("fbi", "0", {"0": None, "1": None}) == "1",
            scales=read_scales(spec, options.get("scales")),
            objective=pick("objective", default.objective, OBJECTIVES),
            seed=option_int(spec, options, "seed", 0),
        )


def read_scales(spec: str, text: str | None) -> tuple[float, ...]:
    """The noise ladder of a spec, by default that of :class:`SamplingOptions`."""
    if text is None:
        return SamplingOptions().scales
    try:
        scales = tuple(float(part) for part in text.split(","))
    except ValueError:
        scales = (math.nan,)
    if not all(0 <= scale < math.inf for scale in scales):
        raise PolicyError(f"policy {spec!r}: scales is {text!r}, expected numbers >= 0 with commas between them")
    return scales


def make_sampling(spec: str, options: Mapping[str, str]) -> PlanPolicy:
    """The policy for a ``sampling`` spec; raises :class:`PolicyError` for wrong options."""
    chosen = SamplingOptions.parse(spec, options)
    return PlanPolicy(spec, partial(SamplingPlanner, spec, chosen))


class SamplingPlanner:
    """Plans one batch by :func:`sample`; see :class:`dagsched.policies.runners.Planner`.

    Raises:
        PolicyError: if the estimates are not exact, workflows arrive later, or forward-backward improvement is
            asked for where it is not defined.
    """

    def __init__(self, spec: str, options: SamplingOptions, replay: Replay, policy_seed: int = 0) -> None:
        check_plannable(spec, replay)
        if options.improve and not is_pooled(replay):
            raise PolicyError(
                f"policy {spec!r}: fbi=1 needs one pooled node, tasks of one instance each and decisions at any time; "
                f"use fbi=0 here"
            )
        self._options, self._replay, self._policy_seed = options, replay, policy_seed

    def plan_arrivals(self, workflows: IntArray, now: float) -> Plan:  # noqa: ARG002
        """The plan of the whole batch; everything arrives at the first call."""
        return sample(self._replay, self._options, policy_seed=self._policy_seed)[1]


def check_plannable(spec: str, replay: Replay) -> None:
    """Whether a whole schedule can be planned at the start.

    Raises:
        PolicyError: if not everything is known at the start, or estimates are not declared exact.
    """
    if not replay.is_batch:
        why = "workflows arrive at different times" if replay.closed else "this workload is open: more may arrive"
        raise PolicyError(
            f"policy {spec!r}: plans one batch, but {why}; choose a rule, or declare a batch that is known as a whole "
            f"(--closed)"
        )
    if replay.noise.kind != "exact":
        raise PolicyError(
            f"policy {spec!r}: plans on exact estimates, but this replay has {replay.noise}; declare them exact if "
            f"they are (--noise exact), or choose a rule"
        )


def is_pooled(replay: Replay) -> bool:
    """One node, one instance a task, decisions at any time: the compiled generators apply."""
    options = replay.options
    plain = options.decision_interval == 0 and options.max_wait == math.inf
    return replay.cluster.node_count == 1 and bool((replay.instances == 1).all()) and plain


def sample(replay: Replay, options: SamplingOptions, *, policy_seed: int = 0) -> tuple[float, Plan]:
    """Best of ``options.n`` schedules: (its objective in seconds on the estimates, the plan).

    On one pooled node schedules come from :mod:`dagsched.policies.sampling.sgs`. Elsewhere the serial scheme puts each
    task where it finishes first (insertion) and the parallel one is the simulator under the perturbed priority,
    so that sample 0 is the rule's own schedule; with ``instances`` > 1 the same holds on one node.
    """
    problem = build_problem(replay)
    score = normalised(RULES[options.rule](replay, problem))
    stream = np.random.SeedSequence([options.seed, policy_seed], spawn_key=(_SEED_DOMAIN,))
    seed = stream.generate_state(1, np.uint64)[0]
    search = _sample_pooled if is_pooled(replay) else _sample_nodes
    return search(replay, problem, score, options, seed)


class SerialSampler:
    """Serial generation from one rule's keys with Gumbel noise, schedule after schedule, on one pooled node."""

    def __init__(self, replay: Replay, rule: str, seeds: tuple[int, int]) -> None:
        problem = build_problem(replay)
        self._order, self._place = np.argsort(problem.tie), problem.tie
        self._score = normalised(RULES[rule](replay, problem))[self._order]
        self._problem = pooled_problem(replay, self._order)
        self._work = sgs.new_work(len(replay), replay.demand.shape[1])
        stream = np.random.SeedSequence(seeds, spawn_key=(_SEED_DOMAIN,))
        self._state = stream.generate_state(1, np.uint64)
        self._origin = replay.first_arrival

    def draw(self, scale: float) -> tuple[FloatArray, FloatArray]:
        """(``[T]`` starts, ``[T]`` finishes) in seconds; ``scale`` is a share of the rule's spread."""
        key, start, finish = (np.empty(len(self._score)) for _ in range(3))
        sgs.perturb(self._score, scale, self._state, key)
        sgs.serial(key, self._problem, self._work, self._origin, start, finish)
        return start[self._place], finish[self._place]


def normalised(score: FloatArray) -> FloatArray:
    """Scores divided by their spread, so that a noise scale means the same for every rule and problem."""
    spread = float(score.max() - score.min())
    return np.asarray((score - score.min()) / spread if spread > 0 else np.zeros_like(score))


def pooled_problem(replay: Replay, order: IntArray) -> tuple[FloatArray | IntArray, ...]:
    """The arrays of :mod:`dagsched.policies.sampling.sgs` with tasks renumbered: new task ``k`` is ``order[k]``."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    counts = np.diff(replay.parent_ptr)[order]
    parent_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    offsets = np.repeat(replay.parent_ptr[:-1][order] - parent_ptr[:-1], counts) + np.arange(counts.sum())
    parent_idx = place[replay.parent_idx[offsets]]
    child_ptr, child_idx, _ = child_rows(parent_ptr, parent_idx)
    capacity = np.ascontiguousarray(replay.cluster.capacity[0])
    demand = replay.demand[order] * replay.instances[order][:, None]
    duration = np.ascontiguousarray(replay.estimate[order, 0])
    need = demand - FIT_TOLERANCE * capacity
    return duration, demand, need, capacity, parent_ptr, parent_idx, child_ptr, child_idx


def plan_from_starts(replay: Replay, start: FloatArray) -> Plan:
    """The plan of start times ``[T]`` (seconds) on the only node; milestones are left out.

    At equal starts tasks of zero duration come first: what starts with them may need all that is left.
    """
    position = np.empty(len(replay), np.int64)
    position[replay.topological_order] = np.arange(len(replay))
    order = np.lexsort((position, replay.estimate[:, 0] > 0, start))
    order = order[~replay.milestone[order]]
    return Plan(order, np.zeros(len(order), np.int64), replay.instances[order], start[order])


def _sample_pooled(
    replay: Replay, problem: Problem, score: FloatArray, options: SamplingOptions, seed: np.uint64
) -> tuple[float, Plan]:
    order = np.argsort(problem.tie)  # ties by index then are the ties of all rules
    flow_time = options.objective == "flow_time"
    value, start, _ = sgs.best_of(
        options.n,
        score[order],
        (np.array(options.scales), seed),
        GENERATIONS[options.generation],
        options.improve,
        pooled_problem(replay, order),
        replay.first_arrival,
        OBJECTIVES[options.objective],
        (replay.workflow_of[order], replay.weight_share),
        -math.inf if flow_time else lower_bound(replay, realised=False),
    )
    return float(value), plan_from_starts(replay, start[problem.tie])


def _sample_nodes(
    replay: Replay, problem: Problem, score: FloatArray, options: SamplingOptions, seed: np.uint64
) -> tuple[float, Plan]:
    state, key = np.array([seed], np.uint64), np.empty(len(score))
    simulator, inserter = Simulator(replay), Inserter(replay)
    simulator.truth = replay.estimate
    bound = -math.inf if options.objective == "flow_time" else lower_bound(replay, realised=False)
    best, best_plan, k = math.inf, None, 0
    while k < options.n and best > bound:
        sgs.perturb(score, options.scales[k % len(options.scales)] if k else 0.0, state, key)
        parallel = options.generation == "parallel" or (options.generation == "mixed" and k % 2 == 0)
        if parallel:
            plan, finish = _simulate(simulator, key)
        else:
            inserter.clear()
            plan = inserter.plan(np.lexsort((problem.tie, -key)), replay.first_arrival)
            finish = inserter.finish
        value = objective_value(replay, finish, options.objective)
        if value < best:
            best, best_plan = value, plan
        k += 1
    assert best_plan is not None
    return best, best_plan


def objective_value(replay: Replay, finish: FloatArray, objective: str) -> float:
    """Makespan, or weighted mean flow time, in seconds of finish times ``[T]``."""
    if objective == "flow_time":
        flow = np.maximum.reduceat(finish, replay.workflow_ptr[:-1]) - replay.arrival
        return float((replay.weight_share * flow).sum())
    return float(finish.max() - replay.first_arrival)


def _simulate(simulator: Simulator, key: FloatArray) -> tuple[Plan, FloatArray]:
    """The simulator's schedule under a fixed priority, as a plan, and every task's finish in seconds."""
    simulator.reset()
    PriorityPolicy("sampling", lambda _replay, _problem: key).begin(simulator).advance(MANY)
    schedule = simulator.schedule("sampling")
    return Plan(schedule.task, schedule.node, schedule.count, schedule.start), simulator.state.task["finish"].copy()


POLICIES = (
    PolicyInfo(
        "sampling",
        "best of n whole schedules from one rule with Gumbel noise (batch, no noise)",
        "search",
        make_sampling,
        OPTIONS,
    ),
)
