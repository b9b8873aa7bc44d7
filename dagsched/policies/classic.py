"""Rules and static list schedulers by name. To add one, add a line to ``POLICIES``."""

from __future__ import annotations

from functools import partial

from dagsched.errors import PolicyError
from dagsched.policies.base import Policy
from dagsched.policies.info import Options, PolicyInfo
from dagsched.policies.rules import keys
from dagsched.policies.runners import (
    BookingPolicy,
    KeyFunction,
    PlanPolicy,
    PriorityPolicy,
    RandomPolicy,
    ScorePolicy,
)
from dagsched.policies.spec_options import option_float, option_int
from dagsched.policies.static.listing import ListPlanner
from dagsched.replay import Replay
from dagsched.simulator import kernel

PUBLISHED_EPS = 0.0
TETRIS_OPTIONS = {
    "score": "published = alignment + eps x 1 / least estimate in s; ties: earlier arrival, then place in the source",
    "eps": f"seconds, with score=published ({PUBLISHED_EPS:g} = alignment alone, the packer)",
}


def _make_random(spec: str, options: Options) -> Policy:
    return RandomPolicy(spec, option_int(spec, options, "seed", 0))


def _priority(name: str, description: str, key: KeyFunction | None) -> PolicyInfo:
    return PolicyInfo(name, description, "rule", lambda spec, _: PriorityPolicy(spec, key), placed=True)


def _score(name: str, description: str, rule: int, batch_key: KeyFunction | None = None) -> PolicyInfo:
    needs_below = rule == kernel.CP_DEMAND_WORK

    def make(spec: str, options: Options) -> Policy:  # noqa: ARG001
        return ScorePolicy(spec, rule, needs_below, batch_key)

    return PolicyInfo(name, description, "rule", make, placed=True)


def _make_tetris(spec: str, options: Options) -> Policy:
    if "score" not in options:
        if "eps" in options:
            raise PolicyError(
                f"policy {spec!r}: eps is an option of score=published; write tetris:score=published:eps=..."
            )
        return ScorePolicy(spec, kernel.TETRIS)
    if options["score"] != "published":
        raise PolicyError(f"policy {spec!r}: score is {options['score']!r}, expected published")
    return ScorePolicy(spec, kernel.PACKER, shortness=option_float(spec, options, "eps", PUBLISHED_EPS, 0.0))


def _booking(name: str, description: str, rule: int) -> PolicyInfo:
    return PolicyInfo(name, description, "rule", lambda spec, _: BookingPolicy(spec, rule))


def _list_planner(kind: str, replay: Replay, policy_seed: int) -> ListPlanner:  # noqa: ARG001
    return ListPlanner(kind, replay)


def _list(name: str, description: str) -> PolicyInfo:
    def make(spec: str, options: Options) -> Policy:  # noqa: ARG001
        return PlanPolicy(spec, partial(_list_planner, name))

    return PolicyInfo(name, description, "list", make)


POLICIES = (
    PolicyInfo(
        "random", "a random order, from its own seed", "rule", _make_random, {"seed": "random seed (0)"}, placed=True
    ),
    _priority("fcfs", "first come, first served: earliest ready first", None),
    _score("round-robin", "the workflow served least recently first", kernel.ROUND_ROBIN),
    _priority("sjf", "shortest estimate first", keys.sjf),
    _priority("ljf", "longest estimate first", keys.ljf),
    _score("hrrn", "highest response ratio (wait + estimate) / estimate first", kernel.HRRN),
    _priority("edf", "earliest workflow deadline first", keys.edf),
    _priority("llf", "least laxity (deadline - now - remaining path) first", keys.llf),
    _score("weighted-fair", "the workflow that got least service per weight first", kernel.WEIGHTED_FAIR),
    _booking("min-min", "ready task and node of least completion time, booked virtually", kernel.MIN_MIN),
    _booking("max-min", "ready task whose least completion time is greatest, booked virtually", kernel.MAX_MIN),
    _booking("sufferage", "ready task that loses most on its second-best node", kernel.SUFFERAGE),
    _priority("critical-path", "longest remaining path (mean estimates) first", keys.critical_path),
    _list("heft", "HEFT: upward rank, insertion, earliest finish (Topcuoglu et al. 2002)"),
    _list("cpop", "CPoP: critical path on one processor (Topcuoglu et al. 2002)"),
    _list("peft", "PEFT: optimistic cost table (Arabnejad and Barbosa 2014)"),
    _priority("lft", "earliest latest-finish time first (RCPSP)", keys.lft),
    _priority("lst", "earliest latest-start time first (RCPSP)", keys.lst),
    _priority("mts", "most total successors first (RCPSP)", keys.mts),
    _score("srw", "smallest remaining workflow work first", kernel.SRW),
    _score("srw*cp", "srw with 0.02 x bottom level against it", kernel.SRW_CP),
    PolicyInfo(
        "tetris", "best alignment of demand with free capacity first", "rule", _make_tetris, TETRIS_OPTIONS, placed=True
    ),
    _score("tetris+srw", "alignment against remaining workflow work, each by its mean", kernel.TETRIS_SRW),
    _priority("graphene", "troublesome tasks and their ancestors first (after Grandl et al. 2016)", keys.graphene),
    _score("cp+demand", "bottom level / max + demand / capacity", kernel.CP_DEMAND, keys.cp_demand),
    _score(
        "cp+demand+work",
        "cp+demand with half the demand and 0.3 x work of all descendants",
        kernel.CP_DEMAND_WORK,
        keys.cp_demand_work,
    ),
)
