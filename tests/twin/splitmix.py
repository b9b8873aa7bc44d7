"""The stream of the `random` placement: SplitMix64 words and a reservoir of one."""

from __future__ import annotations

MASK = 2**64 - 1


def mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def reservoir_pick(able: list[int], seed: int, draw: int, nodes: int) -> int:
    """Keep the k-th fitting node with probability 1/k."""
    kept = able[0]
    for seen, node in enumerate(able, 1):
        if mix(mix(seed) + draw * nodes + node & MASK) % seen == 0:
            kept = node
    return kept
