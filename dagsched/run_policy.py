"""One replay, one policy, one schedule; and what policies run on, compiled beforehand."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from dagsched.checks import check_type
from dagsched.cluster import Cluster, NodeGroup
from dagsched.declared import EXACT, Declared
from dagsched.errors import ConfigError, PolicyError
from dagsched.policies.base import Policy, ScoreFunction
from dagsched.policies.info import parse_spec
from dagsched.policies.own.function import FunctionPolicy
from dagsched.policies.placed import PlacedPolicy
from dagsched.policies.registry import list_policies, make_policy
from dagsched.processes import serve
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.search.options import MODES, PLANNERS
from dagsched.simulator.stepper import MANY, Simulator
from dagsched.task import Task
from dagsched.texts import described
from dagsched.workflow import Workflow
from dagsched.workload import Workload

TIMED_DECISIONS = 2_000
"""With timings on, this many decisions are taken one by one; the rest of the replay runs compiled."""


def simulate(
    replay: Replay,
    policy: str | Policy | ScoreFunction = "critical-path",
    *,
    timings: bool = False,
    policy_seed: int = 0,
) -> Schedule:
    """Run a policy on a replay to the end.

    Args:
        replay: what to run.
        policy: a spec such as ``"heft"`` or ``"sampling:n=1000"``, a function of an ``ObservedState``, or a policy.
        timings: measure the wall-clock ms of the first decisions (``schedule.timings_ms``).
        policy_seed: for policies and placements with a random stream of their own; never the replay's seed.

    Raises:
        PolicyError: for an unknown policy, or one that cannot handle this replay.
        TypeError: for something else than a replay or a policy.
    """
    check_type(replay, Replay, "replay")
    if isinstance(policy_seed, bool) or not isinstance(policy_seed, int) or not 0 <= policy_seed < 2**63:
        raise ConfigError(f"policy_seed is {policy_seed!r}, expected a whole number from 0 to 2^63 - 1")
    chosen = as_policy(policy)
    if timings and ".py:" not in chosen.name:
        load_kernels(chosen.name, modes_of(chosen, replay))
    simulator = Simulator(replay, policy_seed=policy_seed)
    run = chosen.begin(simulator)
    elapsed: list[float] = []
    while timings and len(elapsed) < TIMED_DECISIONS and not simulator.done:
        begin = time.perf_counter()
        run.advance(1)
        elapsed.append((time.perf_counter() - begin) * 1e3)
    if not simulator.done:
        run.advance(MANY)
    return simulator.schedule(chosen.name, timings_ms=np.array(elapsed), report=run.report())


def as_policy(policy: object) -> Policy:
    """A policy from its spec, a function of an ``ObservedState``, or itself.

    Raises:
        PolicyError: for an unknown spec.
        TypeError: for anything else.
    """
    if isinstance(policy, str):
        return make_policy(policy)
    if callable(getattr(policy, "begin", None)):
        return cast("Policy", policy)
    if callable(policy) and not isinstance(policy, type):
        return FunctionPolicy(getattr(policy, "__name__", "function"), cast("ScoreFunction", policy))
    raise TypeError(f"policy is {described(policy)}, expected a spec such as 'heft', a function or a policy")


@lru_cache(maxsize=1)
def _tiny() -> Replay:

    tasks = [Task("a", 2.0), Task("b", 1.0, parents=("a",), edge_bytes={"a": 1.0}), Task("c", 1.0, parents=("a",))]
    return Replay.build(Workload("warmup", (Workflow.from_tasks("w", tasks),)))


@lru_cache(maxsize=256)
def load_kernels(spec: str, modes: tuple[str, ...] = MODES) -> None:
    """Compile, or load from disk, what a policy runs on: its first decision is then timed without.

    ``modes``: kinds of search that a planner needs (:func:`modes_of`). Where no shipped checkpoint fits the tiny
    replay, a learned policy is left to compile when it first runs.
    """
    kinds = {info.name: info.kind for info in list_policies() if not info.name.endswith("-sample")}
    kind = kinds.get(parse_spec(spec)[0])
    if kind in ("rule", "list"):
        simulate(_tiny(), spec)
    elif kind == "planner":
        for mode in modes:
            _load_search(spec, mode)
    elif kind == "auto":
        simulate(_tiny(), spec)
        simulate(_tiny_stream(), spec)
    elif kind == "learned":
        for replay in (_tiny_stream(), _tiny()):  # the shipped ones fit any stream
            with contextlib.suppress(PolicyError):
                simulate(replay, spec)


@lru_cache(maxsize=2)
def _tiny_stream(sigma: float = 0.1) -> Replay:
    """Long enough for a look back, crowded enough for better schedules than a rule's, and fit for what ships."""
    flows = []
    for k in range(40):
        tasks = [Task(f"t{n}", 1.0 + (7 * k + 3 * n) % 9, {"cpu": 1.0, "memory": 1.0}) for n in range(1 + k % 3)]
        flows.append(Workflow.from_tasks(f"w{k}", tasks, arrival=4.0 * k))
    made = Workload("warmup", tuple(flows), declared=Declared(noise=None if sigma else EXACT))
    return Replay.build(made, Cluster((NodeGroup("n", 2, {"cpu": 1.0, "memory": 2.0}),)), sigma=sigma)


def modes_of(policy: Policy, replay: Replay) -> tuple[str, ...]:
    """Kinds of search that a planner needs on a replay; of any other policy none."""
    if ".py:" in policy.name or parse_spec(policy.name)[0] not in PLANNERS:
        return ()
    from dagsched.search.mcts import MctsPolicy, choose_mode

    planner = policy.policy if isinstance(policy, PlacedPolicy) else policy
    assert isinstance(planner, MctsPolicy)
    with contextlib.suppress(PolicyError):  # it says so when it begins
        return (choose_mode(replay, planner.options, planner.objective(replay)),)
    return ()


def _load_search(spec: str, mode: str) -> None:
    """Run one kind of search on tiny projects."""
    name, given = parse_spec(spec)
    kept = [f"{key}={given[key]}" for key in ("leaf", "select", "wait") if key in given]
    crowd = [("a", 1.0, 2), ("b", 1.0, 2), ("c", 1.0, 2), ("d", 1.0, 2)]  # no search ends at the lower bound
    nodes = _project(Cluster((NodeGroup("n", 2, {"cpu": 3.0}),)), crowd)
    simulate(nodes, ":".join([name, f"search={mode}", "simulations=12", *kept]))
    if mode == "plan":
        simulate(_project(Cluster.pooled({"cpu": 3.0}), crowd), f"{name}:search=plan:simulations=2")
    elif mode == "tree":  # not all orders can be seen
        larger = [(f"{task}{k}", seconds, cores) for k in range(3) for task, seconds, cores in crowd]
        simulate(_project(nodes.cluster, larger), ":".join([name, "search=tree", "simulations=12", *kept]))
        simulate(_tiny_stream(0.0), ":".join([name, "search=tree:prior=ljf:simulations=12", *kept]))
    else:  # a list beats every rule
        chain = [("a", 1.0, 1), ("b", 10.0, 1), ("c", 3.0, 2, "a"), ("d", 10.0, 1, "c")]
        simulate(_project(Cluster.pooled({"cpu": 2.0}), chain, sigma=0.05), ":".join([name, "simulations=40", *kept]))


def _project(cluster: Cluster, tasks: Sequence[tuple[Any, ...]], sigma: float = 0.0) -> Replay:
    """From (name, seconds, cores, parents...)."""
    made = [Task(name, seconds, {"cpu": cores}, parents) for name, seconds, cores, *parents in tasks]
    return Replay.build(Workload("warmup", (Workflow.from_tasks("w", made),)), cluster, sigma=sigma)


Part = tuple[str, ...]
"""What one process compiles: policies, and kinds of search as ``mcts@tree``."""
_HALVES: tuple[Part, Part] = (
    ("critical-path", "peft", "min-min", "srw", "evolved", "ppo", "mcts@plan"),
    ("mcts@tree", "mcts@race", "auto"),
)


def compile_parts(parts: Sequence[Part], processes: int = 1) -> None:
    """Compile each part, in a process of its own where there may be more than one."""
    if processes > 1 and len(parts) > 1:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(len(parts), multiprocessing.get_context("spawn"), serve) as pool:
            list(pool.map(_compile_part, parts))
        return
    for part in parts:
        _compile_part(part)


def _compile_part(part: Part) -> None:
    for name in part:
        planner, _, mode = name.partition("@")
        if mode:
            load_kernels(planner, (mode,))
        else:
            load_kernels(name)


def warmup(processes: int = 1) -> None:
    """Compile every kernel, or load it from the cache on disk; some minutes the first time.

    Args:
        processes: 2 = compile two halves of about equal work side by side, which takes two thirds of the time.
    """
    if processes > 1:
        compile_parts(_HALVES, processes)
    tiny = _tiny()
    for info in list_policies():
        load_kernels(info.name)
    simulate(tiny, "sampling:n=2")
    pooled = Replay.build(tiny.workload, Cluster.pooled({"cpu": 2.0}))
    simulate(pooled, "sampling:n=4:fbi=1")
    simulator = Simulator(tiny)
    while not simulator.done:
        if not simulator.advance():
            break
        while len(ready := simulator.observe().eligible):
            simulator.start(int(ready[0]))
