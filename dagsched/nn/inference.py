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


@njit(cache=True, nogil=True)
def _row_sum(row):  # type: ignore[no-untyped-def]
    """Sum of float32 in NumPy's order for up to 128 values, by eight running sums: the published bits."""
    count, total = len(row), np.float32(0.0)
    whole = count - count % 8
    if whole > 0:
        a, b, c, d, e, f, g, h = row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]
        for k in range(8, whole, 8):
            a += row[k]
            b += row[k + 1]
            c += row[k + 2]
            d += row[k + 3]
            e += row[k + 4]
            f += row[k + 5]
            g += row[k + 6]
            h += row[k + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for k in range(whole, count):
        total += row[k]
    return total


@njit(cache=True, nogil=True)
def _finish_layer(own, bias, down, up, norm_weight, norm_bias, square, h):  # type: ignore[no-untyped-def]
    """Add to ``h`` ``[n, W]`` the normalised relu of the three products; one pass instead of a dozen.

    ``own`` ``[n, W]`` is overwritten, ``square`` ``[W]`` is scratch.
    """
    width = h.shape[1]
    for row in range(h.shape[0]):
        mixed = own[row]
        for k in range(width):
            mixed[k] = ((mixed[k] + bias[k]) + down[row, k]) + up[row, k]
        mean = _row_sum(mixed) / np.float32(width)
        for k in range(width):
            mixed[k] -= mean
            square[k] = mixed[k] * mixed[k]
        deviation = np.sqrt(_row_sum(square) / np.float32(width) + _EPSILON)
        for k in range(width):
            h[row, k] += max(mixed[k] / deviation * norm_weight[k] + norm_bias[k], np.float32(0.0))


def embedder(
    tensors: Mapping[str, NDArray[np.float32]], config: NetworkConfig, normaliser: Normaliser
) -> Callable[..., tuple[Float32, Float32]]:
    """The function that embeds a replay: ``[T, H]`` arrays ``e w1e`` and ``e w1u``; also given its ``constants``."""
    weight = {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}

    def of(replay: Replay, constants: Constants | None = None) -> tuple[Float32, Float32]:
        return embed(weight, config, inputs(replay, normaliser, constants), replay)

    return of


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
    h = _affine(weight, "encoder.inlet", x)
    np.maximum(h, np.float32(0), out=h)
    gathered = np.empty((len(h), 2 * h.shape[1]), np.float32)
    own, down, up, square = (np.empty_like(rows) for rows in (h, h, h, h[0]))
    for layer in range(layers):
        name = f"encoder.layers.{layer}"
        np.matmul(h, weight[f"{name}.own.weight"].T, out=own)
        for way, ptr, idx, product in (
            ("down", replay.parent_ptr, replay.parent_idx, down),
            ("up", replay.child_ptr, replay.child_idx, up),
        ):
            _mean_and_sum(ptr, idx, first, last, h, gathered)
            np.matmul(gathered, weight[f"{name}.{way}.weight"].T, out=product)
        norm = weight[f"{name}.norm.weight"], weight[f"{name}.norm.bias"]
        _finish_layer(own, weight[f"{name}.own.bias"], down, up, *norm, square, h)
    return np.asarray(_affine(weight, "encoder.outlet", h), np.float32)


def _affine(weight: Mapping[str, Float32], name: str, x: Float32) -> Any:
    out = x @ weight[f"{name}.weight"].T
    out += weight[f"{name}.bias"]
    return out
