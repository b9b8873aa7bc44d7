"""The checkpoints of a run and what their cards say: where a policy comes from and how it stood on validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dagsched.features.builder import Normaliser
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, NODE_FEATURES, TASK_NAMES
from dagsched.learn.instances import InstanceSource
from dagsched.learn.learner import Learner
from dagsched.learn.train_config import TrainConfig
from dagsched.learn.trainer_state import TrainerState
from dagsched.models.checkpoint import Checkpoint
from dagsched.workflow import FloatArray


class Cards:
    """Makes the checkpoints of one run.

    Args:
        config: of the run.
        source: of its instances.
        data: what the run trains on, for the card.
        command: the command line.
        validation_instances: how many choose the model.
    """

    def __init__(
        self,
        config: TrainConfig,
        source: InstanceSource,
        data: Mapping[str, Any],
        command: str,
        validation_instances: int,
    ) -> None:
        self._config, self._objective, self._origin = config, source.objective, source.origin
        self._data, self._command, self._instances = data, command, validation_instances

    def card(self, state: TrainerState) -> dict[str, Any]:
        """What a checkpoint says of itself before it is confirmed; :meth:`Confirmation.card` adds to it."""
        return {
            "name": self._config.name,
            "origin": self._origin,
            "data": dict(self._data),
            "seed": self._config.seed,
            "start": self._config.start,
            "stages": list(self._config.stages),
            "step": state.total,
            "validation": {"instances": self._instances, **state.best},
            "command": self._command,
        }

    def network(self, state: TrainerState, learner: Learner) -> Checkpoint:
        """The network as it is."""
        return learner.checkpoint(self._objective, self.card(state))

    def linear(self, state: TrainerState, weights: FloatArray, learner: Learner | None) -> Checkpoint:
        """A linear priority ``[F]``, with the normaliser of the network, if there is one."""
        normaliser = learner.normaliser if learner is not None else plain_normaliser()
        return Checkpoint("evolved", self._objective, weights, normaliser, card=self.card(state))


def plain_normaliser() -> Normaliser:
    """Of a policy without a network: changes nothing."""
    parts = {"task": TASK_NAMES, "global": GLOBAL_NAMES, "group": GROUP_NAMES, "node": NODE_FEATURES}
    zeros = {f"{name}_mean": np.zeros(len(names)) for name, names in parts.items()}
    return Normaliser(**zeros, **{f"{name}_std": np.ones(len(names)) for name, names in parts.items()})
