"""From workloads and a configuration to replays: names, merged streams, arrivals, deadlines, seeds.

Each random stream has its own key below the seed, so that changing one (say, the noise) leaves the others
alone, and no stream depends on the order of the inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum

import numpy as np

from dagsched.cluster import Cluster
from dagsched.declared import Declared, Nature, NoiseModel, common
from dagsched.errors import ConfigError, InvalidReplayError
from dagsched.evaluate.config import CompareConfig
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay, cluster_for
from dagsched.workload import Workload


class Stream(IntEnum):
    """Domains of the random streams of one replay."""

    ARRIVALS = 1
    DEADLINES = 2
    NOISE = 3
    POLICY = 4


def stream_seed(seed: int, stream: Stream, replay: int) -> int:
    """Seed of one stream of replay number ``replay``: 63 bits."""
    words = np.random.SeedSequence(seed, spawn_key=(int(stream), replay)).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def distinct_names(workloads: Sequence[Workload]) -> list[Workload]:
    """Workloads under names that differ: a repeated name gets ``#2``, ``#3``, ... in order of the inputs."""
    taken = {workload.name for workload in workloads}
    seen: Counter[str] = Counter()
    result = []
    for workload in workloads:
        seen[workload.name] += 1
        name = workload.name
        if seen[name] > 1:
            number = seen[name]
            while f"{name}#{number}" in taken:
                number += 1
            taken.add(f"{name}#{number}")
            workload = replace(workload, name=f"{name}#{number}")
        result.append(workload)
    return result


def merge(workloads: Sequence[Workload]) -> Workload:
    """All workflows of all workloads as one stream, for arrivals.

    Workflows whose names repeat are called ``workload/workflow``.

    Raises:
        ConfigError: if the workloads bring different clusters of their own.
    """
    if len(workloads) == 1:
        return workloads[0]
    clusters = [workload.cluster for workload in workloads]
    described = [None if cluster is None else cluster.to_dict() | {"name": ""} for cluster in clusters]
    if any(other != described[0] for other in described):
        raise ConfigError(
            "arrivals merge all inputs into one stream, but they belong to different clusters; "
            "choose one for all with --cluster FILE"
        )
    counts = Counter(workflow.name for workload in workloads for workflow in workload.workflows)
    workflows = [
        workflow if counts[workflow.name] == 1 else workflow.with_(name=f"{workload.name}/{workflow.name}")
        for workload in workloads
        for workflow in workload.workflows
    ]
    rejects = tuple(reject for workload in workloads for reject in workload.rejects)
    assumed = tuple(assumption for workload in workloads for assumption in workload.assumed)
    units = {name: unit for workload in workloads for name, unit in workload.units.items()}
    resources = tuple(dict.fromkeys(r for workload in workloads for r in workload.resources))
    return Workload(
        name=f"stream of {len(workflows)} workflows",
        workflows=tuple(workflow.with_resources(resources) for workflow in workflows),
        resources=resources,
        units=units,
        cluster=clusters[0],
        source=", ".join(dict.fromkeys(workload.source for workload in workloads if workload.source)),
        rejects=rejects,
        assumed=assumed,
        declared=common([workload.nature for workload in workloads], [workload.declared for workload in workloads]),
    )


def prepare(workloads: Sequence[Workload], config: CompareConfig) -> list[Workload]:
    """The workloads that will be replayed: merged into one stream under ``--arrivals``, with distinct names."""
    if not workloads:
        raise ConfigError("compare: no workloads; give at least one file or directory")
    named = distinct_names(workloads)
    if config.load is None:
        return named
    if config.cluster is not None:
        named = [replace(workload, cluster=None) for workload in named]
    return [merge(named)]


def nature_of(workload: Workload, config: CompareConfig) -> Nature:
    """What holds of a prepared workload in every replay, known before any is built."""
    made = Declared(
        closed=None if config.load is None else False,
        noise=NoiseModel("lognormal", config.noise) if config.noise > 0 else None,
        all_have_deadlines=config.deadlines is not None,
    )
    return workload.nature_under(config.declared.over(made))


def agreed_objective(workloads: Sequence[Workload], config: CompareConfig) -> ObjectiveName:
    """What decides which policy is best if nobody says it: the objective of all workloads, makespan if they differ."""
    found = {nature_of(workload, config).objective for workload in prepare(workloads, config)}
    return found.pop() if len(found) == 1 else "makespan"


def cluster_of(workload: Workload, config: CompareConfig) -> Cluster:
    """Where a workload runs."""
    return config.cluster if config.cluster is not None else cluster_for(workload)


def build_replay(workload: Workload, config: CompareConfig, number: int) -> Replay:
    """Replay ``number`` of a prepared workload: the same for every policy, process and order of inputs.

    Raises:
        InvalidReplayError: naming workload, task, demand and the largest node.
    """
    from dagsched.generate import poisson_arrivals, with_deadlines

    cluster = cluster_of(workload, config)
    try:
        if config.load is not None:
            seed = stream_seed(config.seed, Stream.ARRIVALS, number)
            workload = poisson_arrivals(workload, config.load, cluster=cluster, seed=seed)
        if config.deadlines is not None:
            seed = stream_seed(config.seed, Stream.DEADLINES, number)
            workload = with_deadlines(workload, config.deadlines, cluster=cluster, seed=seed)
        seed = stream_seed(config.seed, Stream.NOISE, number)
        return Replay.build(
            workload, cluster, seed=seed, sigma=config.noise, options=config.options, declared=config.declared
        )
    except InvalidReplayError as error:
        raise InvalidReplayError(f"workload {workload.name!r}: {error}") from None
