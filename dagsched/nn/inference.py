"""The graph encoder without torch: NumPy matrices and compiled sums over neighbours, workflow by workflow.

Equal to :class:`dagsched.nn.encoder.GraphEncoder` within 1e-5. Every workflow is encoded by itself, so that not even
the rounding of an embedding depends on what arrives later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dagsched.features.builder import Constants, Normaliser, node_features
from dagsched.features.schema import CLIP
from dagsched.nn.config import NetworkConfig
from dagsched.replay import Replay
from dagsched.workflow import IntArray

Float32 = NDArray[np.float32]
_EPSILON = np.float32(1e-5)
"""Of layer normalisation, as in torch."""


@njit(cache=True, nogil=True)
def _mean_and_sum(ptr, idx, first, last, h, out):  # type: ignore[no-untyped-def]
    """``out`` ``[n, 2 W]``: mean and sum over the neighbours of tasks ``first..last``; ``h`` ``[n, W]``."""
    width = h.shape[1]
    for task in range(first, last):
        row = task - first
        for k in range(2 * width):
            out[row, k] = 0.0
        for at in range(ptr[task], ptr[task + 1]):
            other = idx[at] - first
            for k in range(width):
                out[row, width + k] += h[other, k]
        count = ptr[task + 1] - ptr[task]
        if count > 0:
            per = np.float32(1.0) / np.float32(count)
            for k in range(width):
                out[row, k] = out[row, width + k] * per


def embedder(
    tensors: Mapping[str, NDArray[np.float32]], config: NetworkConfig, normaliser: Normaliser
) -> Callable[[Replay], tuple[Float32, Float32]]:
    """The function that embeds a replay: ``[T, H]`` arrays ``e w1e`` and ``e w1u``."""
    weight = {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}
    return lambda replay: embed(weight, config, inputs(replay, normaliser), replay)


def inputs(replay: Replay, normaliser: Normaliser, constants: Constants | None = None) -> Float32:
    """``[T, S]`` normalised node features, clipped; ``constants`` saves computing them again."""
    raw = node_features(replay, constants)
    return np.clip((raw - normaliser.node_mean) / normaliser.node_std, -CLIP, CLIP).astype(np.float32)


def embed(weight: Mapping[str, Float32], config: NetworkConfig, x: Float32, replay: Replay) -> tuple[Float32, Float32]:
    """``[T, H]`` arrays ``e w1e`` and ``e w1u`` from the inputs ``[T, S]``."""
    fixed, pooled = (np.empty((len(replay), config.hidden), np.float32) for _ in range(2))
    for first, last in zip(replay.workflow_ptr[:-1].tolist(), replay.workflow_ptr[1:].tolist(), strict=True):
        e = _encode(weight, config.layers, x[first:last], replay, first, last)
        fixed[first:last], pooled[first:last] = e @ weight["w1e"], e @ weight["w1u"]
    return fixed, pooled


def _encode(weight: Mapping[str, Float32], layers: int, x: Float32, replay: Replay, first: int, last: int) -> Float32:
    """``[n, W]`` embeddings of the tasks of one workflow from their inputs ``[n, S]``."""
    h = np.maximum(_affine(weight, "encoder.inlet", x), np.float32(0))
    gathered = np.empty((last - first, 2 * h.shape[1]), np.float32)
    for layer in range(layers):
        name = f"encoder.layers.{layer}"
        mixed = _affine(weight, f"{name}.own", h)
        for way, ptr, idx in _ways(replay):
            _mean_and_sum(ptr, idx, first, last, h, gathered)
            mixed += gathered @ weight[f"{name}.{way}.weight"].T
        mixed -= mixed.mean(axis=1, keepdims=True)
        mixed /= np.sqrt((mixed * mixed).mean(axis=1, keepdims=True) + _EPSILON)
        mixed = mixed * weight[f"{name}.norm.weight"] + weight[f"{name}.norm.bias"]
        h = h + np.maximum(mixed, np.float32(0))
    return np.asarray(_affine(weight, "encoder.outlet", h), np.float32)


def _ways(replay: Replay) -> tuple[tuple[str, IntArray, IntArray], ...]:
    return ("down", replay.parent_ptr, replay.parent_idx), ("up", replay.child_ptr, replay.child_idx)


def _affine(weight: Mapping[str, Float32], name: str, x: Float32) -> Any:
    return x @ weight[f"{name}.weight"].T + weight[f"{name}.bias"]
