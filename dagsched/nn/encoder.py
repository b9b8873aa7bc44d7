"""Graph encoder: one embedding a task, computed once when its workflow arrives.

Bidirectional message passing with separate weights for parent -> child and child -> parent. A layer is
    h' = h + relu(norm(h W + [mean, sum](parents' h) W_down + [mean, sum](children's h) W_up + b))
with layer normalisation, so that the sum over a thousand children stays bounded. Graphs deeper than the layers are
covered by the dynamic-programming ranks among the node features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing  # type: ignore[import-untyped]

from dagsched.features.schema import NODE_FEATURES
from dagsched.nn.inference import inputs
from dagsched.replay import Replay

if TYPE_CHECKING:
    from dagsched.features.builder import Constants, Normaliser


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The encoder's input for ``T`` tasks and ``E`` edges.

    Attributes:
        x: ``[T, S]`` float32, normalised ``NODE_FEATURES``.
        edges: ``[2, E]`` int64, parents in row 0, children in row 1.
    """

    x: Tensor
    edges: Tensor

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device."""
        return Graph(self.x.to(device), self.edges.to(device))


def edge_index(replay: Replay) -> Tensor:
    """``[2, E]`` parents above children, flat task indices."""
    child = np.repeat(np.arange(len(replay)), np.diff(replay.parent_ptr))
    return torch.from_numpy(np.stack([np.asarray(replay.parent_idx, np.int64), child.astype(np.int64)]))


def graph_of(replay: Replay, normaliser: Normaliser, constants: Constants | None = None) -> Graph:
    """The graph of a replay, as it is when each workflow arrives; ``constants`` saves computing them again."""
    return Graph(torch.from_numpy(inputs(replay, normaliser, constants)), edge_index(replay))


def join_graphs(graphs: list[Graph]) -> tuple[Graph, list[int]]:
    """One graph of disjoint parts, and the place of each part's first node."""
    starts = np.concatenate([[0], np.cumsum([len(graph.x) for graph in graphs])]).tolist()
    edges = [graph.edges + start for graph, start in zip(graphs, starts[:-1], strict=True)]
    return Graph(torch.cat([graph.x for graph in graphs]), torch.cat(edges, dim=1)), starts[:-1]


class _Gather(MessagePassing):  # type: ignore[misc]
    """``[T, W]`` sum of the neighbours' rows; zeros without neighbours."""

    def __init__(self) -> None:
        super().__init__(aggr="sum")

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        out: Tensor = self.propagate(edges, x=x, size=(x.size(0), x.size(0)))
        return out

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


@dataclass(frozen=True, slots=True, eq=False)
class _Neighbours:
    """Edges in one direction, and ``[T, 1]`` 1 / number of neighbours (1 without any): sums become means."""

    edges: Tensor
    inverse: Tensor

    @classmethod
    def of(cls, edges: Tensor, tasks: int) -> _Neighbours:
        counts = torch.bincount(edges[1], minlength=tasks)
        return cls(edges, 1.0 / counts.clamp(min=1).to(torch.float32).unsqueeze(1))


class _Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.up = nn.Linear(2 * width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.gather = _Gather()

    def forward(self, h: Tensor, parents: _Neighbours, children: _Neighbours) -> Tensor:
        mixed = self.own(h) + self.down(self._mean_and_sum(h, parents)) + self.up(self._mean_and_sum(h, children))
        out: Tensor = h + torch.relu(self.norm(mixed))
        return out

    def _mean_and_sum(self, h: Tensor, neighbours: _Neighbours) -> Tensor:
        total = self.gather(h, neighbours.edges)
        return torch.cat([total * neighbours.inverse, total], 1)


class GraphEncoder(nn.Module):
    """``[T, S]`` node features and ``[2, E]`` edges -> ``[T, width]`` embeddings."""

    def __init__(self, width: int = 32, layers: int = 3, features: int = len(NODE_FEATURES)) -> None:
        super().__init__()
        self.inlet = nn.Linear(features, width)
        self.layers = nn.ModuleList(_Layer(width) for _ in range(layers))
        self.outlet = nn.Linear(width, width)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Embeddings ``[T, width]``, float32."""
        h = torch.relu(self.inlet(x))
        parents, children = _Neighbours.of(edges, len(x)), _Neighbours.of(edges.flip(0), len(x))
        for layer in self.layers:
            h = layer(h, parents, children)
        out: Tensor = self.outlet(h)
        return out
