"""A trained policy on disk: one folder of plain files, checked before use. Torch-free, and never a pickle.

    model.safetensors  weights of the network (empty for an evolved priority)
    schema.json        the features it was made for: other features are refused
    normaliser.json    mean and deviation of each feature over the training set
    card.json          kind, objective, base priority, shape, digest of all content, and where it comes from
    card.md            the same for people

Instead of a policy a folder may hold an ``index.json`` that names one for each family: :mod:`dagsched.models.index`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dagsched.checks import as_number
from dagsched.errors import CheckpointError, ConfigError
from dagsched.features import schema
from dagsched.features.builder import Normaliser
from dagsched.files import exists
from dagsched.models.folder import read_folder, write_folder
from dagsched.models.index import INDEX, read_index
from dagsched.models.parts import card_text, check_schema, listed, of_today, read_json, read_tensors
from dagsched.nn.config import NetworkConfig
from dagsched.nn.shapes import weight_shapes
from dagsched.objective import OBJECTIVES, is_objective
from dagsched.texts import described
from dagsched.workflow import FloatArray

FORMAT = 1
FILES = ("model.safetensors", "schema.json", "normaliser.json", "card.json")

Kind = Literal["evolved", "ppo"]
KINDS = ("evolved", "ppo")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """One trained policy.

    Attributes:
        kind: ``evolved`` (a linear priority) or ``ppo`` (that priority plus a network).
        objective: what it was trained for.
        base: ``[F]`` float64 weight of each raw task feature; 0 = unused.
        normaliser: of the network's inputs.
        network: shape of the network; ``None`` for ``evolved``.
        tensors: float32 weights by name; empty for ``evolved``.
        card: where it comes from: data, sizes, baselines beaten and lost, command; anything JSON can hold.
        stated: schema and normaliser as its files state them, which the digest covers; ``None`` if it was not read.
    """

    kind: Kind
    objective: str
    base: FloatArray
    normaliser: Normaliser
    network: NetworkConfig | None = None
    tensors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)
    stated: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None

    @property
    def priority(self) -> dict[str, float]:
        """Weights in use by feature name."""
        return {n: float(w) for n, w in zip(schema.TASK_NAMES, self.base, strict=True) if w != 0}

    @property
    def digest(self) -> str:
        """SHA-256 over weights, priority, shape, normaliser, features and card."""
        stated = self.stated or (schema.to_dict(), self.normaliser.to_dict())
        digest = hashlib.sha256(_canonical([*stated, self.described()]))
        for name in sorted(self.tensors):
            value = np.ascontiguousarray(self.tensors[name], "<f4")
            digest.update(f"{name}{value.shape}".encode() + value.tobytes())
        return digest.hexdigest()

    def described(self) -> dict[str, Any]:
        """What ``card.json`` says besides the digest."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "objective": self.objective,
            "base": self.priority,
            "network": None if self.network is None else self.network.model_dump(mode="json"),
            "card": dict(self.card),
        }


def save_checkpoint(path: str | Path, checkpoint: Checkpoint, *, extra: Mapping[str, bytes] | None = None) -> None:
    """Write a checkpoint folder that appears only when complete; an older checkpoint there is replaced.

    Args:
        path: the folder.
        checkpoint: what to write; it must itself pass the checks of :func:`load_checkpoint`.
        extra: further files by name, such as the trainer's state.

    Raises:
        CheckpointError: if a weight is not finite, or tensors do not fit the shape.
        ConfigError: if it cannot be written there.
    """
    from safetensors.numpy import save

    checkpoint = replace(checkpoint, stated=None)
    _check(Path(path), checkpoint)
    described = {**checkpoint.described(), "digest": checkpoint.digest}
    write_folder(
        Path(path),
        {
            "model.safetensors": save({n: np.ascontiguousarray(v) for n, v in checkpoint.tensors.items()}),
            "schema.json": _pretty(schema.to_dict()),
            "normaliser.json": _pretty(checkpoint.normaliser.to_dict()),
            "card.json": _pretty(described),
            "card.md": card_text(described, checkpoint.tensors).encode(),
            **(extra or {}),
        },
    )


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read and check a checkpoint folder.

    Raises:
        CheckpointError: naming file and reason, if anything is missing, damaged, foreign, edited or made for
            other features.
    """
    path = Path(path)
    files = read_folder(path, FILES)
    described = read_json(path / "card.json", files["card.json"])
    if described.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}/card.json: format is {described.get('format')!r}, this version reads {FORMAT}; "
            "train or export the model again"
        )
    stated = read_json(path / "schema.json", files["schema.json"])
    network = _network(path, described.get("network"))
    read = {*_mapping(path, "base", described.get("base")), *(network.features if network is not None else ())}
    check_schema(path / "schema.json", stated, read, network=network is not None)
    raw = read_json(path / "normaliser.json", files["normaliser.json"])
    try:
        normaliser = Normaliser.from_dict(of_today(stated, raw))
    except (ConfigError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path}/normaliser.json: {error}") from None
    checkpoint = Checkpoint(
        kind=described.get("kind"),  # type: ignore[arg-type]
        objective=described.get("objective"),  # type: ignore[arg-type]
        base=_base(path, described.get("base")),
        normaliser=normaliser,
        network=network,
        tensors=read_tensors(path / "model.safetensors", files["model.safetensors"]),
        card=_mapping(path, "card", described.get("card")),
        stated=(stated, raw),
    )
    _check(path, checkpoint)
    if described.get("digest") != checkpoint.digest:
        raise CheckpointError(
            f"{path}: the content does not match its digest: a file was edited or damaged; copy it again"
        )
    return checkpoint


def _check(path: Path, checkpoint: Checkpoint) -> None:
    """Everything that must hold for any checkpoint, read or about to be written."""
    if checkpoint.kind not in KINDS:
        raise CheckpointError(f"{path}: kind is {checkpoint.kind!r}, expected one of {', '.join(KINDS)}")
    if not is_objective(checkpoint.objective):
        raise CheckpointError(f"{path}: objective is {checkpoint.objective!r}, expected one of {', '.join(OBJECTIVES)}")
    if checkpoint.base.shape != (len(schema.TASK_NAMES),) or not np.isfinite(checkpoint.base).all():
        raise CheckpointError(
            f"{path}: the base priority needs a finite weight for each of {len(schema.TASK_NAMES)} features"
        )
    if (checkpoint.network is None) != (checkpoint.kind == "evolved"):
        raise CheckpointError(
            f"{path}: kind is {checkpoint.kind!r}, but it has {'no' if checkpoint.network is None else 'a'} network"
        )
    shapes = {} if checkpoint.network is None else weight_shapes(checkpoint.network)
    found = set(checkpoint.tensors)
    if found != set(shapes):
        missing, more = sorted(set(shapes) - found), sorted(found - set(shapes))
        what = "; ".join(t for t in (listed("missing", missing), listed("unexpected", more)) if t)
        raise CheckpointError(f"{path}/model.safetensors: tensors do not fit the network in card.json: {what}")
    for name, shape in shapes.items():
        value = checkpoint.tensors[name]
        if value.shape != shape or value.dtype != np.float32:
            raise CheckpointError(
                f"{path}/model.safetensors: tensor {name!r} is {value.dtype} {list(value.shape)}, "
                f"expected float32 {list(shape)}"
            )
        if not np.isfinite(value).all():
            raise CheckpointError(
                f"{path}/model.safetensors: tensor {name!r} holds NaN or infinity; use an earlier checkpoint"
            )


def _base(path: Path, found: object) -> FloatArray:
    base = np.zeros(len(schema.TASK_NAMES))
    for name, weight in _mapping(path, "base", found).items():
        number = as_number(weight)
        if name not in schema.TASK_NAMES or number is None:
            what = f"{described(name)}: {described(weight)}"
            raise CheckpointError(f"{path}/card.json: base: {what} is not a weight of a known feature")
        base[schema.TASK_NAMES.index(name)] = number
    return base


def _network(path: Path, found: object) -> NetworkConfig | None:
    if found is None:
        return None
    try:
        network = NetworkConfig.model_validate(_mapping(path, "network", found))
        if len(set(network.columns)) != len(network.features):
            raise ValueError("a feature is named twice")
    except ValueError as error:  # also pydantic's
        raise CheckpointError(f"{path}/card.json: network: {' '.join(str(error).split())[:300]}") from None
    return network


def _mapping(path: Path, key: str, found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}/card.json: {key} is {found!r}, expected a mapping")
    return found


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()


def _pretty(value: object) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


def check_folder(folder: Path) -> None:
    """Read every checkpoint of a folder, so that a broken one shows before anything runs.

    Raises:
        CheckpointError: if one cannot be used, or there is none.
    """
    indexed = exists(folder / INDEX)
    for path in [entry.path for entry in read_index(folder).checkpoints] if indexed else ["."]:
        load_checkpoint(folder / path)
