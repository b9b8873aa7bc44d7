"""From a trained network to the arrays of the compiled head. Importing this module imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dagsched.nn.config import NetworkConfig

if TYPE_CHECKING:
    from dagsched.nn.actor_critic import ActorCritic
    from dagsched.replay import Replay

Float32 = NDArray[np.float32]
Embed = Callable[["Replay"], tuple[Float32, Float32]]
"""Replay -> ``[T, H]`` float32 arrays ``e w1e`` and ``e w1u``."""

HEAD_WEIGHTS = ("wq", "bq", "w1x", "w1g", "w1c", "b1", "w2", "b2", "w3", "ww1", "bw1", "ww2")
HEAD_FIELDS = ("columns", "x_mean", "x_scale", "g_mean", "g_scale", "q_mean", "q_scale", *HEAD_WEIGHTS, "setting")
"""Fields of the compiled ``Head`` in order."""


def head_arrays(
    tensors: Mapping[str, Any], config: NetworkConfig, normaliser: Any, *, temperature: float = 1.0
) -> dict[str, NDArray[Any]]:
    """The fields of the compiled ``Head`` from a checkpoint's tensors, in order; weights float32, C-contiguous.

    Args:
        tensors: name -> NumPy array.
        config: shape of the network.
        normaliser: ``dagsched.features.builder.Normaliser``.
        temperature: by which sampled logits are divided.
    """
    columns = np.array(config.columns, np.int64)
    setting = np.zeros(4)
    setting[:] = config.logit_scale, float(config.wait), config.margin, temperature
    arrays: dict[str, NDArray[Any]] = {
        "columns": columns,
        "x_mean": _f32(np.asarray(normaliser.task_mean)[columns]),
        "x_scale": _f32(1.0 / np.asarray(normaliser.task_std)[columns]),
        "g_mean": _f32(normaliser.global_mean),
        "g_scale": _f32(1.0 / np.asarray(normaliser.global_std)),
        "q_mean": _f32(normaliser.group_mean),
        "q_scale": _f32(1.0 / np.asarray(normaliser.group_std)),
        **{name: _f32(tensors[name]) for name in HEAD_WEIGHTS},
        "w3": _f32(np.asarray(tensors["w3"]) * config.gain),
        "setting": setting,
    }
    return {name: arrays[name] for name in HEAD_FIELDS}


def to_head(
    model: ActorCritic, normaliser: Any, columns: Sequence[int] | None = None, *, temperature: float = 1.0
) -> dict[str, NDArray[Any]]:
    """:func:`head_arrays` of a live network; ``columns``, if given, must be those of its configuration."""
    if columns is not None and tuple(columns) != model.config.columns:
        raise ValueError("columns differ from those the network was built for")
    return head_arrays(tensors_of(model), model.config, normaliser, temperature=temperature)


def tensors_of(model: ActorCritic) -> dict[str, NDArray[Any]]:
    """Copies of all weights as NumPy arrays by name."""
    return {name: value.detach().cpu().numpy().copy() for name, value in model.state_dict().items()}


def build_model(tensors: Mapping[str, Any], config: NetworkConfig) -> ActorCritic:
    """The network of saved weights.

    Raises:
        RuntimeError: by torch, for missing, unexpected or misshapen tensors.
    """
    import torch

    from dagsched.nn.actor_critic import ActorCritic

    model = ActorCritic(config)
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in tensors.items()})
    return model.eval()


def embed_fn(model: ActorCritic, normaliser: Any) -> Embed | None:
    """The function that embeds a replay with the present weights; ``None`` without an encoder."""
    if model.encoder is None:
        return None

    def embed(replay: Replay) -> tuple[Float32, Float32]:
        import torch

        from dagsched.nn.encoder import graph_of

        graph = graph_of(replay, normaliser).to(next(model.parameters()).device)
        with torch.no_grad():
            fixed, pooled = model.embed(graph.x, graph.edges)
        return _f32(fixed.cpu().numpy()), _f32(pooled.cpu().numpy())

    return embed


def _f32(values: Any) -> Float32:
    return np.ascontiguousarray(values, np.float32)
