"""Names and shapes of all weights of a network, without building it (and without torch)."""

from __future__ import annotations

from dagsched.features.schema import GLOBAL_FEATURES, GROUP_FEATURES, NODE_FEATURES
from dagsched.nn.config import NetworkConfig


def weight_shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor of ``ActorCritic(config).state_dict()`` by name."""
    x, g, q = len(config.features), len(GLOBAL_FEATURES), len(GROUP_FEATURES)
    c, h, h2, e = config.group_width, config.hidden, config.hidden2, config.embedding
    shapes: dict[str, tuple[int, ...]] = {
        "wq": (q, c), "bq": (c,),
        "w1x": (x, h), "w1e": (e, h), "w1u": (e, h), "w1g": (g, h), "w1c": (c, h), "b1": (h,),
        "w2": (h, h2), "b2": (h2,), "w3": (h2,),
        "ww1": (g + c, h2), "bw1": (h2,), "ww2": (h2,),
        "v1": (g + c, h2), "bv1": (h2,), "v2": (h2,), "bv2": (1,),
    }  # fmt: skip
    if e:
        shapes |= _linear("encoder.inlet", len(NODE_FEATURES), e) | _linear("encoder.outlet", e, e)
        for layer in range(config.layers):
            name = f"encoder.layers.{layer}"
            shapes |= _linear(f"{name}.own", e, e)
            shapes |= {f"{name}.down.weight": (e, 2 * e), f"{name}.up.weight": (e, 2 * e)}
            shapes |= {f"{name}.norm.weight": (e,), f"{name}.norm.bias": (e,)}
    return shapes


def _linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (columns, rows), f"{name}.bias": (columns,)}
