"""One checkpoint for each family of workloads: ``index.json``, matched by what can be observed.

    {"checkpoints": [{"path": "rcpsp", "objective": "makespan", "when": {"pooled": true}}, ...]}

The first entry that fits wins. ``when`` may say: ``pooled`` (one group of one node), ``resources`` ([least, most] of
the cluster), ``transfers`` (data takes time between groups), ``path_share`` ([least, most]: longest path over work /
capacity, by estimates, of what arrives first: above 1 the paths decide the makespan, below it the room). Left out means
any. Nothing of what arrives later is looked at.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dagsched import graph
from dagsched.errors import CheckpointError
from dagsched.files import exists
from dagsched.models.folder import read_folder
from dagsched.pydantic_text import explain
from dagsched.replay import Replay

INDEX = "index.json"


class When(BaseModel):
    """Conditions on what a scheduler can see; ``None`` = any."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pooled: bool | None = None
    resources: tuple[int, int] | None = None
    transfers: bool | None = None
    path_share: tuple[float, float] | None = None

    def fits(self, replay: Replay) -> bool:
        """Whether a replay meets all conditions."""
        count = len(replay.cluster.resources)
        return (
            (self.pooled is None or self.pooled == (replay.cluster.node_count == 1))
            and (self.resources is None or self.resources[0] <= count <= self.resources[1])
            and (self.transfers is None or self.transfers == _slow_network(replay))
            and (self.path_share is None or self.path_share[0] <= path_share(replay) <= self.path_share[1])
        )


def _slow_network(replay: Replay) -> bool:
    """Whether data can take time between two groups of the cluster."""
    cluster = replay.cluster
    between = ~np.eye(len(cluster.groups), dtype=bool)
    return bool((np.isfinite(cluster.bandwidth) & between).any() or ((cluster.latency > 0) & between).any())


def path_share(replay: Replay) -> float:
    """Longest path over the largest work / capacity of a resource, by estimates, of the workflows that arrive first."""
    count = int(np.searchsorted(replay.arrival, replay.first_arrival, side="right"))
    tasks = slice(0, int(replay.workflow_ptr[count]))
    nodes = np.array([group.nodes for group in replay.cluster.groups], np.float64)
    capacity = (replay.cluster.capacity * nodes[:, None]).sum(axis=0)
    held = replay.instances[tasks] * graph.fastest(replay)[tasks]
    work = (replay.demand[tasks] * held[:, None]).sum(axis=0)
    area = float(np.divide(work, capacity, out=np.zeros_like(work), where=capacity > 0).max())
    path = float(graph.bottom_level(replay)[tasks].max())
    return path / area if area > 0 else np.inf


class IndexEntry(BaseModel):
    """A checkpoint folder below the index, what it was trained for, for which policy (by default both) and when."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(min_length=1)
    objective: str
    policy: Literal["evolved", "ppo"] | None = None
    when: When = When()

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str) -> str:
        parts = PurePosixPath(value)
        if parts.is_absolute() or ".." in parts.parts or "\\" in value or ":" in value:
            raise ValueError("must be a folder below the index")
        return value


class Index(BaseModel):
    """The whole of ``index.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoints: tuple[IndexEntry, ...] = Field(min_length=1)


def read_index(folder: Path) -> Index:
    """The index of a folder.

    Raises:
        CheckpointError: naming the file and the first thing wrong with it.
    """
    data = read_folder(folder, (INDEX,))[INDEX]
    try:
        return Index.model_validate(json.loads(data))
    except ValidationError as error:
        raise CheckpointError(f"{folder}/{INDEX}: {explain(error, Index)}; docs/learning.md shows an index") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder}/{INDEX}: not valid JSON: {error}") from None


def choose(folder: str | Path, replay: Replay, objective: str | None = None, policy: str | None = None) -> Path:
    """The checkpoint folder for a replay: the folder itself, or the first entry of its index that fits.

    Args:
        folder: a checkpoint, or a folder with ``index.json``.
        replay: only its cluster and whether edges can take time are looked at.
        objective: entries trained for another one do not fit; ``None`` = any.
        policy: ``evolved`` or ``ppo``: entries for the other one do not fit; ``None`` = any.

    Raises:
        CheckpointError: if nothing fits, with what there is.
    """
    folder = Path(folder)
    if not exists(folder / INDEX):
        return folder
    index = read_index(folder)
    for entry in index.checkpoints:
        wanted = objective in (None, entry.objective) and (policy is None or entry.policy in (None, policy))
        if wanted and entry.when.fits(replay):
            return folder / entry.path
    known = ", ".join(f"{entry.path} ({entry.objective})" for entry in index.checkpoints)
    raise CheckpointError(
        f"{folder}/{INDEX}: no checkpoint fits this workload for objective {objective!r} and policy {policy!r}; "
        f"there is {known}; name one with --checkpoint {folder}/PATH, ask for another --objective, or train one with "
        f"dagsched train"
    )
