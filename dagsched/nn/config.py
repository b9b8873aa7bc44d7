"""The shape of a network: everything besides its weights that a forward pass depends on. Torch-free."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from dagsched.features import schema

DEFAULT_MARGIN = 5.0
"""By how much the untrained WAIT logit lies below the best candidate."""


class NetworkConfig(BaseModel):
    """Sizes and constants of one actor-critic; saved with every checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoder: Literal["gnn", "none"] = Field(default="gnn", description="graph encoder, or none: the no-GNN control")
    width: int = Field(default=32, ge=1, le=1024, description="width E of a task embedding")
    layers: int = Field(default=3, ge=1, le=32, description="message-passing layers")
    hidden: int = Field(default=64, ge=1, le=4096, description="width H of the head's first layer")
    hidden2: int = Field(default=64, ge=1, le=4096, description="width H2 of the head's second layer")
    group_width: int = Field(default=16, ge=1, le=1024, description="width C of the summary of the node groups")
    residual: bool = Field(default=True, description="logits = scale x priority + network; false: the network alone")
    wait: bool = Field(default=False, description="whether WAIT is an action")
    scale: float = Field(default=2.0, ge=0, description="factor a of the standardised base priority")
    margin: float = Field(default=DEFAULT_MARGIN, description="start of the WAIT logit below the best candidate")
    features: tuple[str, ...] = Field(
        default=tuple(schema.TASK_NAMES[k] for k in schema.columns(("base",))),
        description="task features the head reads",
    )

    @property
    def columns(self) -> tuple[int, ...]:
        """Places of ``features`` in ``TASK_FEATURES``; ``ValueError`` for an unknown name."""
        return tuple(schema.TASK_NAMES.index(name) for name in self.features)

    @property
    def embedding(self) -> int:
        """Width E of an embedding: 0 without an encoder."""
        return self.width if self.encoder == "gnn" else 0

    @property
    def gain(self) -> float:
        """Factor of the network's part of a logit: that of the priority, or a sharp priority could not be corrected."""
        return max(1.0, self.logit_scale)

    @property
    def logit_scale(self) -> float:
        """The factor ``a``: 0 without the residual form."""
        return self.scale if self.residual else 0.0
