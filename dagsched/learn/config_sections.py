"""The sections of a training configuration; every key is typed and explained in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from dagsched.errors import ConfigError
from dagsched.features.linear import START, start_weights
from dagsched.features.schema import TASK_NAMES, columns
from dagsched.files import exists, is_file
from dagsched.learn.ppo_settings import annealed
from dagsched.nn.config import DEFAULT_MARGIN, NetworkConfig
from dagsched.objective import ObjectiveName
from dagsched.policies.registry import make_policy
from dagsched.pydantic_text import for_pydantic
from dagsched.shipped import shipped

StageName = Literal["evolve", "imitate", "ppo", "self-label", "expert"]


def start_folder(value: str) -> Path | None:
    """The folder of the checkpoint that a start names, here or among what ships; ``None`` = a rule, or nothing."""
    if value in START:
        return None
    if is_file(Path(value) / "card.json"):
        return Path(value)
    try:
        folder = shipped(value)
    except ConfigError:
        return None
    return folder if is_file(folder / "card.json") else None


def known_start(value: str) -> str:
    """The start itself, if there is such a linear rule or checkpoint; for validators."""
    if value in START or start_folder(value) is not None:
        return value
    if "/" in value or exists(value):
        best = "; did you mean its best/?" if is_file(Path(value) / "best" / "card.json") else ""
        raise ValueError(f"there is no checkpoint in {value!r}: card.json is missing{best}")
    with for_pydantic():
        start_weights(value)
    return value


class Section(BaseModel):
    """Base of all sections: frozen, no unknown keys, only finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SuiteShare(Section):
    """One suite of a mixture."""

    suite: str = Field(description="shipped name or path of a suite")
    weight: float = Field(default=1.0, gt=0, le=1e9, description="share of the training instances")
    changes: tuple[str, ...] = Field(default=(), description="KEY=VALUE in the suite, such as objective=slo")


class Features(Section):
    """Blocks of task features besides the base ones."""

    typed: bool = Field(default=True, description="what lies below a task by resource")
    workflow: bool = Field(default=False, description="what is left of the task's workflow, by resource: for streams")
    khop: bool = Field(default=False, description="fixed neighbour aggregations: the control of a graph network")

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks in use."""
        return ("base", *(name for name in ("typed", "workflow", "khop") if getattr(self, name)))


class EvolveSection(Section):
    """The CMA-ES stage; a step is a generation."""

    steps: int = Field(default=300, ge=0, description="generations")
    population: int = Field(default=20, ge=4, description="candidates in a generation")
    instances: int = Field(default=64, ge=1, description="training instances that a generation shares")
    refresh: float = Field(default=0.25, gt=0, le=1, description="share of these that are new in each generation")
    sigma: float = Field(default=0.3, gt=0, description="first step size, in units of the start rule's spread")
    seeds: int = Field(default=1, ge=1, le=20, description="independent searches; the best by validation is kept")
    validate_every: int = Field(default=10, ge=1, description="generations between validations")


class NetworkSection(Section):
    """Shape of the actor-critic."""

    encoder: Literal["gnn", "none"] = Field(default="gnn", description="graph encoder, or none: the no-GNN control")
    width: int = Field(default=32, ge=1, le=1024, description="width of a task embedding")
    layers: int = Field(default=3, ge=1, le=32, description="message-passing layers")
    hidden: int = Field(default=64, ge=1, le=4096, description="width of the head's first layer")
    hidden2: int = Field(default=64, ge=1, le=4096, description="width of the head's second layer")
    group_width: int = Field(default=16, ge=1, le=1024, description="width of the summary of node groups")
    residual: bool = Field(default=True, description="start from the base priority; false: the network alone")
    base: Literal["evolved", "rule"] = Field(
        default="evolved", description="the base priority: what evolve found, if it ran, or the start rule"
    )
    wait: bool = Field(default=False, description="whether WAIT is an action")
    margin: float = Field(default=DEFAULT_MARGIN, description="start of the WAIT logit below the best candidate")
    scale: float | Literal["auto"] = Field(
        default="auto", description="factor of the standardised priority; auto: so that sampling has the entropy below"
    )
    entropy: float = Field(
        default=0.7, gt=0, lt=1, description="scale auto: mean entropy / log(candidates) at the start"
    )

    @field_validator("scale")
    @classmethod
    def _positive(cls, value: float | str) -> float | str:
        if not isinstance(value, str) and not value >= 0:
            raise ValueError("expected auto or a number >= 0")
        return value

    def resolved(self, features: Features, scale: float) -> NetworkConfig:
        """The shape with features by name and a number as scale."""
        shared = self.model_dump(exclude={"scale", "entropy", "base"})
        names = tuple(TASK_NAMES[k] for k in columns(features.blocks))
        return NetworkConfig(**shared, scale=scale, features=names)


class ImitateSection(Section):
    """Behaviour cloning of a rule, before anything else teaches the network; a step is a collection."""

    rule: str = Field(default="critical-path", description="any policy that replays can be run with")
    steps: int = Field(default=20, ge=0, description="collections")
    instances: int = Field(default=16, ge=1, description="training instances a step")
    epochs: int = Field(default=2, ge=1, le=50, description="passes over the decisions of a step")
    minibatch: int = Field(default=2048, ge=1, description="decisions a gradient step")
    learning_rate: float = Field(default=1e-3, gt=0, description="of Adam")

    @field_validator("rule")
    @classmethod
    def _known(cls, value: str) -> str:
        with for_pydantic():
            make_policy(value)
        return value


class SelfLabelSection(Section):
    """Expert iteration: imitate the best of N rollouts of the current policy; a step is a collection."""

    steps: int = Field(default=100, ge=0, description="collect-and-imitate rounds")
    instances: int = Field(default=32, ge=1, description="training instances a step")
    rollouts: int = Field(
        default=16, ge=2, description="N: sampled rollouts of each instance, of which the best is imitated"
    )
    epochs: int = Field(default=2, ge=1, le=50, description="passes over the decisions of a step")
    minibatch: int = Field(default=1024, ge=1, description="decisions a gradient step")
    learning_rate: float = Field(default=3e-4, gt=0, description="of Adam")
    entropy_weight: float = Field(default=0.01, ge=0, description="weight of the entropy over legal actions")
    max_grad_norm: float = Field(default=0.5, gt=0, description="gradients are scaled down to this norm")
    temperature: float = Field(default=1.0, gt=0, description="by which logits are divided when sampling")


class ExpertSection(Section):
    """Expert iteration: look ahead from decisions, then learn from the cost of every action tried there."""

    steps: int = Field(default=100, ge=0, description="collect-and-learn rounds")
    instances: int = Field(default=16, ge=1, description="training instances a step")
    decisions: int = Field(default=64, ge=1, description="decisions of each instance that are looked ahead from, about")
    actions: int = Field(default=8, ge=2, description="most actions tried at a decision; the greedy one is among them")
    arrivals: int | None = Field(
        default=10, ge=0, description="later workflows that a look-ahead meets; null = all that come"
    )
    follow: Literal["network", "base"] = Field(
        default="network", description="who goes on after the action: the network as it is, or the base priority"
    )
    temperature: float = Field(
        default=0.25, gt=0, description="by which logits are divided when sampling the runs on whose way decisions lie"
    )
    kl_weight: float = Field(default=0.3, ge=0, description="weight of the divergence from the base priority's softmax")
    entropy_weight: float = Field(default=0.01, ge=0, description="weight of the entropy over the actions tried")
    epochs: int = Field(default=2, ge=1, le=50, description="passes over the decisions of a step")
    minibatch: int = Field(default=512, ge=1, description="decisions a gradient step")
    learning_rate: float = Field(default=1e-3, gt=0, description="of Adam")
    anneal: bool = Field(default=True, description="learning rate falls linearly to a tenth over the steps")
    max_grad_norm: float = Field(default=0.5, gt=0, description="gradients are scaled down to this norm")

    def learning_rate_at(self, progress: float) -> float:
        """``learning_rate``, falling to a tenth with ``anneal``."""
        return annealed(self.learning_rate, progress) if self.anneal else self.learning_rate


class ValidationSection(Section):
    """How the model is chosen, and confirmed on instances that chose nothing."""

    instances: int = Field(
        default=100, ge=1, description="instances that choose the model; fewer than 100 choose noise"
    )
    confirm: int = Field(default=100, ge=1, description="fresh instances on which the choice must beat the best rule")
    every: int = Field(default=10, ge=1, description="steps between validations of a network")
    samples: int = Field(
        default=16, ge=1, description="instances on which the sampled policy's cost is logged beside the greedy"
    )
    rules: tuple[str, ...] = Field(default=(), description="rules to beat; none = every standard rule")

    @field_validator("rules")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for rule in value:
            with for_pydantic():
                make_policy(rule)
        return value


class TraceSection(Section):
    """How ``--trace`` cuts a recorded trace into instances."""

    window: int = Field(
        default=20, ge=1, description="consecutive workflows of one instance, where a trace is one stream"
    )
    cluster: str | None = Field(default=None, description="cluster file or shipped name; null = the trace's own")
    objective: ObjectiveName | None = Field(default=None, description="null = by arrivals and deadlines")
