"""The actor-critic: a base priority plus a network whose last layer starts at zero, and a value.

The formulas, with ``[x]`` clipped normalised features and ``relu`` elementwise:
    c   = mean over groups of relu(q wq + bq)
    u_w = sum over the not fully started tasks of workflow w of e_t / number of its tasks
    h1  = relu(x w1x + e_t w1e + u_w w1u + g w1g + c w1c + b1),  h2 = relu(h1 w2 + b2)
    logit = a z + max(a, 1) h2 w3,  WAIT = max(a z) - margin + relu([g, c] ww1 + bw1) ww2
    value = relu([g, c] v1 + bv1) v2 + bv2
The compiled inference (``dagsched.policies.learned.learned_kernel``) computes the same numbers in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dagsched.features.schema import GLOBAL_FEATURES, GROUP_FEATURES
from dagsched.nn.batch import Batch
from dagsched.nn.config import NetworkConfig
from dagsched.nn.encoder import GraphEncoder
from dagsched.nn.masked import masked_categorical
from dagsched.nn.unstarted import unstarted_means


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What the network says about a batch of ``D`` decisions with ``N`` rows.

    Attributes:
        logits: ``[N + D]`` float64, candidates then one WAIT a decision; before the temperature.
        base: ``[N + D]`` float64, the same without what the network adds.
        log_prob: ``[D]`` of the chosen actions at the temperature.
        entropy: ``[D]`` nats over legal actions at the temperature.
        value: ``[D]`` expected sum of the rewards to come.
    """

    logits: Tensor
    base: Tensor
    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class ActorCritic(nn.Module):
    """Weights as ``[in, out]`` matrices with the names of the compiled head."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        x, g, q = len(config.features), len(GLOBAL_FEATURES), len(GROUP_FEATURES)
        c, h, h2, e = config.group_width, config.hidden, config.hidden2, config.embedding
        fan_in = x + 2 * e + g + c
        self.encoder = GraphEncoder(config.width, config.layers) if e else None
        self.wq, self.bq = _weights(q, c), _zeros(c)
        self.w1x, self.w1e, self.w1u = _weights(x, h, fan_in), _weights(e, h, fan_in), _weights(e, h, fan_in)
        self.w1g, self.w1c, self.b1 = _weights(g, h, fan_in), _weights(c, h, fan_in), _zeros(h)
        self.w2, self.b2, self.w3 = _weights(h, h2), _zeros(h2), _zeros(h2)
        self.ww1, self.bw1, self.ww2 = _weights(g + c, h2), _zeros(h2), _zeros(h2)
        self.v1, self.bv1, self.v2, self.bv2 = _weights(g + c, h2), _zeros(h2), _zeros(h2), _zeros(1)

    def forward(
        self, batch: Batch, temperature: float = 1.0, embedding: tuple[Tensor, Tensor] | None = None
    ) -> Evaluation:
        """Logits, log-probabilities of the chosen actions, entropies and values.

        Args:
            batch: ``D`` decisions.
            temperature: by which logits are divided.
            embedding: what :meth:`embed_batch` says, where several batches of the same graphs share it.
        """
        count = len(batch)
        groups = torch.relu(batch.q @ self.wq + self.bq)
        c = (groups * batch.group_share.unsqueeze(2)).sum(1)
        overall = torch.cat([batch.g, c], 1)
        shared = batch.g @ self.w1g + c @ self.w1c + self.b1
        first = batch.x @ self.w1x + shared.index_select(0, batch.decision) + self._embedded(batch, embedding)
        hidden = torch.relu(torch.relu(first) @ self.w2 + self.b2)
        base = self.config.logit_scale * batch.z
        best = torch.full((count,), -math.inf, dtype=base.dtype, device=base.device)
        best = best.scatter_reduce(0, batch.decision, base, "amax")
        base = torch.cat([base, best - self.config.margin])
        wait = torch.relu(overall @ self.ww1 + self.bw1) @ self.ww2
        logits = base + torch.cat([hidden @ (self.w3 * self.config.gain), wait]).double()
        owner = torch.cat([batch.decision, torch.arange(count, device=base.device)])
        may_wait = batch.can_wait & self.config.wait
        legal = torch.cat([torch.ones_like(batch.decision, dtype=torch.bool), may_wait])
        actions = masked_categorical(logits / temperature, owner, count, legal)
        value = self._value(overall)
        return Evaluation(logits, base, actions.log_prob[batch.chosen].float(), actions.entropy.float(), value)

    def value(self, g: Tensor, q: Tensor) -> Tensor:
        """``[D]`` values of states ``[D, G]`` with node groups ``[D, groups, Q]``."""
        return self._value(torch.cat([g, torch.relu(q @ self.wq + self.bq).mean(1)], 1))

    def embed(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """``[T, H]`` ``e w1e`` and ``e w1u`` of every task; ``ValueError`` without an encoder."""
        if self.encoder is None:
            raise ValueError("this network has no encoder")
        e = self.encoder(x, edges)
        return e @ self.w1e, e @ self.w1u

    def _value(self, overall: Tensor) -> Tensor:
        out: Tensor = torch.relu(overall @ self.v1 + self.bv1) @ self.v2 + self.bv2
        return out

    def embed_batch(self, batch: Batch) -> tuple[Tensor, Tensor] | None:
        """:meth:`embed` of a batch's graphs; ``None`` without an encoder."""
        if self.encoder is None or batch.graph is None:
            return None
        return self.embed(batch.graph.x, batch.graph.edges)

    def _embedded(self, batch: Batch, embedding: tuple[Tensor, Tensor] | None) -> Tensor:
        """``[N, H]`` what task and workflow embeddings add to the first layer; 0 without an encoder."""
        embedding = self.embed_batch(batch) if embedding is None else embedding
        if embedding is None:
            return batch.x.new_zeros(1)
        fixed, pooled = embedding
        summary = unstarted_means(pooled, batch.order, batch.begin, batch.end, batch.tasks)
        return fixed.index_select(0, batch.node) + summary.index_select(0, batch.segment)


def _weights(rows: int, columns: int, fan_in: int | None = None) -> nn.Parameter:
    """He initialisation for relu layers; ``fan_in`` where several matrices feed one layer."""
    return nn.Parameter(torch.randn(rows, columns) * math.sqrt(2.0 / max(1, fan_in or rows)))


def _zeros(count: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(count))
