"""Where a run stands between two steps; saved beside each checkpoint, read back with ``weights_only``."""

from __future__ import annotations

import io
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dagsched.errors import CheckpointError

FORMAT = 1


@dataclass(slots=True)
class TrainerState:
    """Progress of a run; plain numbers, texts, lists and tensors only.

    All randomness comes from (seed, stage, step), so that no generator has to be saved.

    Attributes:
        stage: index of the stage in progress; the number of stages = all done.
        step: steps done in it.
        total: steps done in all stages.
        decisions: simulated decisions.
        elapsed: seconds of training.
        evolved: ``[F]`` weights that evolve has found so far.
        reached: steps in all stages when a stopped evolve stage had found them.
        scale: factor of the base priority, once calibrated.
        best: ``{"cost", "step", "kind"}`` of the checkpoint in ``best/``, or set aside by a stopped evolve stage.
        history: one mapping of metrics for each validation.
        optimiser: state of the algorithm of the stage in progress; that of its optimiser, if it keeps nothing else.
    """

    stage: int = 0
    step: int = 0
    total: int = 0
    decisions: int = 0
    elapsed: float = 0.0
    evolved: list[float] | None = None
    reached: int = 0
    scale: float | None = None
    best: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    optimiser: dict[str, Any] | None = None

    def to_bytes(self) -> bytes:
        """For the file ``trainer_state.pt``."""
        import torch

        buffer = io.BytesIO()
        torch.save({"format": FORMAT, **asdict(self)}, buffer)
        return buffer.getvalue()

    @classmethod
    def from_file(cls, file: Path) -> TrainerState:
        """Read a state; nothing in it can run.

        Raises:
            CheckpointError: naming the file, if it is damaged, foreign or holds anything but plain values.
        """
        import torch

        try:
            data = torch.load(file, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError) as error:
            reason = str(error).split("\n")[0][:200]
            raise CheckpointError(f"{file}: cannot be read as the state of a run: {reason}") from None
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT or set(data) != set(cls.__slots__):
            raise CheckpointError(f"{file}: is not the state of a run of this version; start the run again")
        return cls(**data)
