"""Families on typed pools: ``build`` and ``join`` (overlapping joins) and ``homog`` (negative control).

A pool is a resource type ``r0``, ``r1``, ...; every task holds one unit of one type. All pools lie on one node whose
capacity is the number of slots. Pool sizes are proportional to the work of their type, the busiest having ``slots``,
so that every pool matters. In ``build`` and ``join`` a task needs several parents which also feed other tasks:
what to run first depends on which joins are nearly complete. ``homog`` has one pool kept busy by wide graphs, where no
order can gain much. The families come from this project's planning (no publication).
"""

from __future__ import annotations

import numpy as np

from dagsched.cluster import Cluster
from dagsched.declared import EXACT, Declared
from dagsched.errors import ConfigError
from dagsched.generate.layered import layered
from dagsched.generate.mix import check_count, check_rng
from dagsched.workflow import FloatArray, Workflow
from dagsched.workload import Workload


def build(rng: np.random.Generator, *, slots: int = 4, name: str = "build") -> Workload:
    """A compile-link-test build: 40-54 compiles -> 14-19 links -> 8-11 second links -> 14-19 tests.

    A link needs 3 to 7 compiles, popular ones more often (rank^-0.5); a second link needs 2 or 3 links; a test
    follows one second link. Compiles use pool 0, links pool 1, tests pool 2.

    Args:
        rng: source of all randomness.
        slots: size of the busiest pool.
        name: of the workload and its workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_count("slots", slots, 1, 10_000)
    compiles, links = int(rng.integers(40, 55)), int(rng.integers(14, 20))
    seconds, tests = int(rng.integers(8, 12)), int(rng.integers(14, 20))
    popularity: FloatArray = np.arange(1, compiles + 1, dtype=np.float64) ** -0.5
    popularity /= popularity.sum()
    rows: list[list[int]] = [[] for _ in range(compiles)]
    rows += [_some(rng, compiles, 3, 7, popularity) for _ in range(links)]
    rows += [[compiles + v for v in _some(rng, links, 2, 3)] for _ in range(seconds)]
    rows += [[compiles + links + int(rng.integers(seconds))] for _ in range(tests)]
    types = [0] * compiles + [1] * (links + seconds) + [2] * tests
    labels = ["compile"] * compiles + ["link"] * links + ["second-link"] * seconds + ["test"] * tests
    return _pooled(name, [_shuffled(rng, name, rows, types, labels, pools=3)], slots, "build")


def join(rng: np.random.Generator, *, slots: int = 4, name: str = "join") -> Workload:
    """Overlapping joins of neighbours: 45-59 sources -> 24-33 joins -> 10-15 second joins.

    Sources lie at random positions in [0, 1]; a join takes 2 to 5 of them with weight exp(-12 |distance to a random
    centre|) + 0.02; a second join takes 2 to 4 joins. The three layers use pools 0, 1 and 2.

    Args:
        rng: source of all randomness.
        slots: size of the busiest pool.
        name: of the workload and its workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_count("slots", slots, 1, 10_000)
    sources, joins, seconds = int(rng.integers(45, 60)), int(rng.integers(24, 34)), int(rng.integers(10, 16))
    position = rng.random(sources)
    rows: list[list[int]] = [[] for _ in range(sources)]
    for _ in range(joins):
        weight = np.exp(-12 * np.abs(position - rng.random())) + 0.02
        rows += [_some(rng, sources, 2, 5, weight / weight.sum())]
    rows += [[sources + v for v in _some(rng, joins, 2, 4)] for _ in range(seconds)]
    types = [0] * sources + [1] * joins + [2] * seconds
    labels = ["source"] * sources + ["join"] * joins + ["second-join"] * seconds
    return _pooled(name, [_shuffled(rng, name, rows, types, labels, pools=3)], slots, "join")


def homog(rng: np.random.Generator, *, slots: int = 5, workflows: int = 5, name: str = "homog") -> Workload:
    """Layered graphs of 14 to 27 tasks that share one pool; bound by throughput, so that rules can only tie.

    Args:
        rng: source of all randomness.
        slots: size of the pool.
        workflows: number of graphs.
        name: of the workload; its workflows are ``homog-1``, ``homog-2``, ...

    Raises:
        ConfigError: naming the parameter.
    """
    check_rng(rng)
    check_count("slots", slots, 1, 10_000)
    check_count("workflows", workflows, 1, 1000)
    made = []
    for number in range(workflows):
        shape = layered(rng, tasks=int(rng.integers(14, 28)))
        rows = [shape.parents(v).tolist() for v in range(len(shape))]
        labels = [str(label) for label in shape.category]
        made.append(_shuffled(rng, f"{name}-{number + 1}", rows, [0] * len(rows), labels, pools=1))
    return _pooled(name, made, slots, "homog")


def _some(rng: np.random.Generator, count: int, least: int, most: int, chance: FloatArray | None = None) -> list[int]:
    """From ``least`` to ``most`` distinct numbers below ``count``, ascending."""
    chosen = rng.choice(count, int(rng.integers(least, most + 1)), replace=False, p=chance)
    return sorted(int(v) for v in chosen)


def _shuffled(
    rng: np.random.Generator, name: str, rows: list[list[int]], types: list[int], labels: list[str], *, pools: int
) -> Workflow:
    """The workflow with ids in random order, so that no rule gains from ties broken by id."""
    count = len(rows)
    place = rng.permutation(count)
    order = np.argsort(place)
    seconds: FloatArray = rng.lognormal(1.2, 0.5, count) + 0.5
    demand = np.zeros((count, pools))
    demand[place, types] = 1.0
    parents = [sorted(int(place[p]) for p in rows[v]) for v in order]
    return Workflow(
        name=name,
        task_ids=tuple(f"t{v + 1}" for v in range(count)),
        resources=tuple(f"r{pool}" for pool in range(pools)),
        duration=seconds,
        estimate=seconds,
        demand=demand,
        instances=np.ones(count, np.int64),
        parent_ptr=np.concatenate([[0], np.cumsum([len(row) for row in parents])]).astype(np.int64),
        parent_idx=np.array([p for row in parents for p in row], np.int64),
        parent_bytes=np.zeros(sum(len(row) for row in parents)),
        category=tuple(labels[v] for v in order),
    )


def _pooled(name: str, workflows: list[Workflow], slots: int, kind: str) -> Workload:
    """Pools in proportion to the work of each type, at least one slot each."""
    work = np.sum([(w.demand * w.duration[:, None]).sum(axis=0) for w in workflows], axis=0)
    if not work.max() > 0:
        raise ConfigError(f"{kind}: holds no work")
    sizes = np.maximum(1.0, np.round(slots * work / work.max()))
    resources = workflows[0].resources
    return Workload(
        name=name,
        workflows=tuple(workflows),
        resources=resources,
        cluster=Cluster.pooled(dict(zip(resources, sizes.tolist(), strict=True))),
        source=f"generated: {kind}(slots={slots})",
        declared=Declared(closed=True, noise=EXACT),
    )
