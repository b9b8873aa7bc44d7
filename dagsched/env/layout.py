"""Shapes of the two observations: spaces, buffers, and what each number of the flat one means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from dagsched.env.view import (
    AS_IS,
    CENTRED,
    EXTRAS,
    GROUP_COLUMNS,
    MOST_GROUPS,
    PAST_COLUMNS,
    SATURATE,
    TASK_COLUMNS,
    WINDOWS,
    Observation,
)
from dagsched.errors import ConfigError
from dagsched.features.schema import (
    CLIP,
    GLOBAL_FEATURES,
    GLOBAL_NAMES,
    GROUP_NAMES,
    MOST_CANDIDATES,
    NODE_FEATURES,
    TASK_NAMES,
)
from dagsched.replay import Replay

Kind = Literal["flat", "graph"]
Arrays = dict[str, NDArray[Any]]

FLAT_TASK: dict[str, int] = {"bottom_level": AS_IS, "share": AS_IS, "estimate": SATURATE, "laxity": CENTRED}
"""Task features of the flat observation, by the schema's names, and how each is brought into [0, 1]."""
FLAT_GROUP = ("free_cpu", "free_memory", "nodes", "queue")
FLAT_EXTRA = ("violation_rate", "mean_wait", "can_wait", "cut")
FLAT_PAST = ("overrun", "queued", "utilisation")
GLOBAL_WAY = tuple(SATURATE if "log" in f.unit or f.unit == "scale" else AS_IS for f in GLOBAL_FEATURES)

CLIP_RAW = 100.0
"""Bound of raw features in the graph observation; with a normaliser it is the schema's, in deviations."""
LEAST_CANDIDATES = 8
"""The oldest task and the main rules' picks need places beside the best by priority."""
MOST_ROOM = 10_000_000
assert (len(FLAT_TASK), len(FLAT_GROUP), len(FLAT_EXTRA), len(FLAT_PAST)) == (
    TASK_COLUMNS, GROUP_COLUMNS, EXTRAS, PAST_COLUMNS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """Which observation, and how large.

    Attributes:
        kind: ``flat`` or ``graph``.
        candidates: most candidates; the action space has one action more, WAIT.
        tasks, edges: room of the graph observation, over all workflows of a replay.
        clip: largest absolute value of features in the graph observation.

    Raises:
        ConfigError: naming the option that is out of range.
    """

    kind: Kind = "flat"
    candidates: int = MOST_CANDIDATES
    tasks: int = 0
    edges: int = 0
    clip: float = CLIP_RAW

    def __post_init__(self) -> None:
        if self.kind not in ("flat", "graph"):
            raise ConfigError(f"observation is {self.kind!r}, expected flat or graph")
        for name, value, least in (
            ("max_candidates", self.candidates, LEAST_CANDIDATES),
            ("max_tasks", self.tasks, 0),
            ("max_edges", self.edges, 0),
        ):
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or not least <= value <= MOST_ROOM:
                raise ConfigError(f"{name} is {value!r}, expected a whole number from {least} to {MOST_ROOM}")

    @property
    def actions(self) -> int:
        """Number of actions, WAIT included."""
        return self.candidates + 1

    @property
    def wait(self) -> int:
        """The action that starts nothing."""
        return self.candidates

    def space(self) -> spaces.Space[Any]:
        """The Gymnasium space of the observation."""
        if self.kind == "flat":
            return spaces.Box(0.0, 1.0, (len(flat_names(self.candidates)),), np.float32)
        return spaces.Dict({name: self._space(array) for name, array in self.arrays().items()})

    def _space(self, array: NDArray[Any]) -> spaces.Space[Any]:
        if array.dtype == np.int8:
            return spaces.MultiBinary(array.shape[0])
        if array.dtype == np.int32:
            return spaces.Box(-1, max(self.tasks - 1, 0), array.shape, np.int32)
        return spaces.Box(-self.clip, self.clip, array.shape, np.float32)

    def arrays(self, batch: int | None = None) -> Arrays:
        """Blank arrays of an observation by key; with ``batch`` one more axis in front."""
        lead = () if batch is None else (batch,)
        if self.kind == "flat":
            return {"flat": np.zeros((*lead, len(flat_names(self.candidates))), np.float32)}
        return {
            "candidates": np.zeros((*lead, self.candidates, len(TASK_NAMES)), np.float32),
            "candidate_task": np.full((*lead, self.candidates), -1, np.int32),
            "global": np.zeros((*lead, len(GLOBAL_NAMES)), np.float32),
            "groups": np.zeros((*lead, MOST_GROUPS, len(GROUP_NAMES)), np.float32),
            "group_mask": np.zeros((*lead, MOST_GROUPS), np.int8),
            "nodes": np.zeros((*lead, self.tasks, len(NODE_FEATURES)), np.float32),
            "node_mask": np.zeros((*lead, self.tasks), np.int8),
            "unstarted": np.zeros((*lead, self.tasks), np.int8),
            "edges": np.full((*lead, 2, self.edges), -1, np.int32),
            "action_mask": np.zeros((*lead, self.actions), np.int8),
        }

    def view(self, arrays: Arrays, mask: NDArray[np.int8] | None = None) -> Observation:
        """The kernel's view of the arrays of one observation (of :meth:`arrays`, or rows of a batch)."""
        empty = Layout("graph", LEAST_CANDIDATES).arrays()
        none = {name: array[..., :0] if array.ndim == 1 else array[:0] for name, array in empty.items()}
        none["edges"] = empty["edges"]
        have = {**none, "flat": np.zeros(0, np.float32), **arrays}
        if mask is None:
            mask = arrays["action_mask"] if self.kind == "graph" else np.zeros(self.actions, np.int8)
        return Observation(
            mask=mask,
            flat=have["flat"],
            candidates=have["candidates"],
            candidate_task=have["candidate_task"],
            general=have["global"],
            groups=have["groups"],
            group_mask=have["group_mask"],
            nodes=have["nodes"],
            node_mask=have["node_mask"],
            unstarted=have["unstarted"],
            edges=have["edges"],
        )

    def check_room(self, replay: Replay) -> None:
        """Refuse a replay that the graph observation has no room for.

        Raises:
            ConfigError: naming the option to raise.
        """
        if self.kind != "graph":
            return
        for name, have, need in (
            ("max_tasks", self.tasks, len(replay)),
            ("max_edges", self.edges, len(replay.parent_idx)),
        ):
            if need > have:
                raise ConfigError(
                    f"workload {replay.workload.name!r}: has {need} {name.removeprefix('max_')}, the graph observation "
                    f"has room for {have}; make the environment with {name}={need} or more"
                )


def clear(view: Observation) -> None:
    """Blank an observation before an episode."""
    arrays: dict[str, NDArray[Any]] = view._asdict()
    for name, array in arrays.items():
        array.fill(-1 if name in ("candidate_task", "edges") else 0)


def flat_names(candidates: int = MOST_CANDIDATES) -> tuple[str, ...]:
    """Name of every number of the flat observation, such as ``task 3 share`` or ``2 windows ago queued``."""
    return (
        *(f"task {k} {name}" for k in range(candidates) for name in FLAT_TASK),
        *(f"group {g} {name}" for g in range(MOST_GROUPS) for name in FLAT_GROUP),
        *GLOBAL_NAMES,
        *FLAT_EXTRA,
        *(f"{k} windows ago {name}" for k in range(1, WINDOWS + 1) for name in FLAT_PAST),
    )


def clip_of(normalised: bool) -> float:
    """Bound of the graph observation's features."""
    return CLIP if normalised else CLIP_RAW
