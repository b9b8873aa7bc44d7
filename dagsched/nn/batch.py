"""Decisions of several trajectories as flat tensors: rows of candidates, summaries and graphs.

A decision has a varying number of candidates, so their rows lie one after the other and ``decision`` names the owner.
A workflow's summary is a suffix sum over its tasks in the order in which they start; here are the two ends of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dagsched.nn.encoder import Graph, join_graphs
from dagsched.replay import Replay


class Decisions(Protocol):
    """What is read of a recorded trajectory (``dagsched.learn.rollout.Trajectory`` describes the fields)."""

    @property
    def replay(self) -> Replay: ...  # noqa: D102
    @property
    def row_ptr(self) -> Any: ...  # noqa: D102
    @property
    def task(self) -> Any: ...  # noqa: D102
    @property
    def workflow(self) -> Any: ...  # noqa: D102
    @property
    def started(self) -> Any: ...  # noqa: D102
    @property
    def x(self) -> Any: ...  # noqa: D102
    @property
    def z(self) -> Any: ...  # noqa: D102
    @property
    def g(self) -> Any: ...  # noqa: D102
    @property
    def q(self) -> Any: ...  # noqa: D102
    @property
    def action(self) -> Any: ...  # noqa: D102
    @property
    def start_order(self) -> Any: ...  # noqa: D102


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """``D`` decisions with ``N`` candidate rows, over trajectories whose start orders have ``L`` entries in all.

    Attributes:
        row_ptr: ``[D + 1]`` int64; decision ``d`` owns rows ``row_ptr[d]:row_ptr[d + 1]``.
        decision: ``[N]`` int64 decision of each row.
        x: ``[N, F']`` float32 normalised features. z: ``[N]`` float64 standardised base score.
        g: ``[D, G]`` float32. q: ``[D, groups, Q]`` float32, padded. group_share: ``[D, groups]`` 1 / groups, 0 = pad.
        action: ``[D]`` int64 place within the decision's rows; their number = WAIT.
        can_wait: ``[D]`` bool, whether WAIT was legal.
        node: ``[N]`` int64 row of the task in ``graph``.
        order: ``[L]`` int64 rows of ``graph`` in start order, trajectory by trajectory.
        segment: ``[N]`` int64 which of the ``U`` segments of ``order`` is the unstarted work of the row's workflow.
        begin, end: ``[U]`` int64 ends of each segment, ascending.
        tasks: ``[U]`` float64 number of tasks of its workflow.
        graph: all distinct graphs side by side; ``None`` if nothing encodes them.
    """

    row_ptr: Tensor
    decision: Tensor
    x: Tensor
    z: Tensor
    g: Tensor
    q: Tensor
    group_share: Tensor
    action: Tensor
    can_wait: Tensor
    node: Tensor
    order: Tensor
    segment: Tensor
    begin: Tensor
    end: Tensor
    tasks: Tensor
    graph: Graph | None

    def __len__(self) -> int:
        return len(self.action)

    @property
    def chosen(self) -> Tensor:
        """``[D]`` place of the chosen action among all rows followed by the ``D`` WAITs."""
        counts = self.row_ptr[1:] - self.row_ptr[:-1]
        waits = len(self.x) + torch.arange(len(self), device=self.x.device)
        return torch.where(self.action >= counts, waits, self.row_ptr[:-1] + self.action)

    def select(self, decisions: Tensor) -> Batch:
        """Only the given decisions ``[D']`` (int64), in that order; the graphs stay whole."""
        pointer, owner, rows = self.rows_of(decisions)
        used, segment = torch.unique(self.segment[rows], return_inverse=True)
        of_row = {name: getattr(self, name).index_select(0, rows) for name in ("x", "z", "node")}
        of_decision = {
            name: getattr(self, name).index_select(0, decisions)
            for name in ("g", "q", "group_share", "action", "can_wait")
        }
        return Batch(
            row_ptr=pointer, decision=owner, **of_row, **of_decision, order=self.order, segment=segment,
            begin=self.begin[used], end=self.end[used], tasks=self.tasks[used], graph=self.graph,
        )  # fmt: skip

    def rows_of(self, decisions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``[D' + 1]`` ends, ``[N']`` owners and ``[N']`` places of the rows of some decisions ``[D']``, in turn."""
        first, counts = self.row_ptr[decisions], (self.row_ptr[1:] - self.row_ptr[:-1])[decisions]
        pointer = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        owner = torch.repeat_interleave(torch.arange(len(decisions), device=counts.device), counts)
        return pointer, owner, first[owner] + torch.arange(int(pointer[-1]), device=counts.device) - pointer[:-1][owner]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(**{name: _to(getattr(self, name), device) for name in self.__slots__})


def _to(value: Any, device: torch.device | str) -> Any:
    return None if value is None else value.to(device)


def make_batch(trajectories: Sequence[Decisions], graph_of: Callable[[Replay], Graph] | None = None) -> Batch:
    """Join trajectories; each distinct replay (by identity) enters ``graph`` once.

    Args:
        trajectories: at least one.
        graph_of: the encoder's input of a replay; ``None`` without an encoder.
    """
    replays = {id(t.replay): t.replay for t in trajectories}
    node_start: dict[int, int] = dict.fromkeys(replays, 0)
    graph = None
    if graph_of is not None:
        graph, starts = join_graphs([graph_of(replay) for replay in replays.values()])
        node_start = dict(zip(replays, starts, strict=True))
    groups = max(t.q.shape[1] for t in trajectories)
    pieces: dict[str, list[Any]] = {name: [] for name in _PIECES}
    orders = 0
    for t in trajectories:
        replay, node0 = t.replay, node_start[id(t.replay)]
        first = np.asarray(replay.workflow_ptr)[t.workflow]
        last = np.asarray(replay.workflow_ptr)[np.asarray(t.workflow) + 1]
        count, width = len(t.action), t.q.shape[1]
        q = np.zeros((count, groups, t.q.shape[2]), np.float32)
        q[:, :width] = t.q
        share = np.zeros((count, groups), np.float32)
        share[:, :width] = 1.0 / width
        rows = {
            "counts": np.diff(t.row_ptr), "x": t.x, "z": t.z, "g": t.g, "q": q, "group_share": share,
            "action": t.action, "can_wait": waiting_allowed(t), "node": node0 + np.asarray(t.task),
            "order": node0 + np.asarray(t.start_order), "begin": orders + first + t.started, "end": orders + last,
            "tasks": (last - first).astype(np.float64),
        }  # fmt: skip
        for name, value in rows.items():
            pieces[name].append(value)
        orders += len(t.start_order)
    joined = {name: np.concatenate(values).astype(_PIECES[name], copy=False) for name, values in pieces.items()}
    counts = joined.pop("counts")
    _, first_row, segment = np.unique(
        joined["begin"] * (orders + 1) + joined["end"], return_index=True, return_inverse=True
    )
    joined |= {name: joined[name][first_row] for name in ("begin", "end", "tasks")} | {"segment": segment}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in joined.items()}
    row_ptr = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
    decision = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    return Batch(row_ptr=row_ptr, decision=decision, graph=graph, **tensors)


def waiting_allowed(trajectory: Decisions) -> Any:
    """``[D]`` bool: whether WAIT was legal, as recorded; legal everywhere where that is not recorded."""
    recorded = getattr(trajectory, "can_wait", None)
    return np.ones(len(trajectory.action), np.bool_) if recorded is None else np.asarray(recorded, np.bool_)


_PIECES: dict[str, Any] = {
    "counts": np.int64, "x": np.float32, "z": np.float64, "g": np.float32, "q": np.float32, "group_share": np.float32,
    "action": np.int64, "can_wait": np.bool_, "node": np.int64, "order": np.int64, "begin": np.int64, "end": np.int64,
    "tasks": np.float64,
}  # fmt: skip
