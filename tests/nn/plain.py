"""The contract's formulas in plain NumPy, one decision at a time: what torch and the compiled head must equal."""

from __future__ import annotations

import numpy as np


def relu(x):
    return np.maximum(x, 0.0)


def plain_decision(weights, config, trajectory, d, fixed, pooled):
    """(``[n + 1]`` logits, the last for WAIT, and the value) of one decision; embeddings ``[T, H]``."""
    w = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    rows = range(trajectory.row_ptr[d], trajectory.row_ptr[d + 1])
    g, q = trajectory.g[d].astype(np.float64), trajectory.q[d].astype(np.float64)
    c = relu(q @ w["wq"] + w["bq"]).mean(axis=0)
    base = [config.logit_scale * trajectory.z[row] for row in rows]
    logits = []
    for row, start in zip(rows, base, strict=True):
        h1 = trajectory.x[row].astype(np.float64) @ w["w1x"] + g @ w["w1g"] + c @ w["w1c"] + w["b1"]
        if len(fixed):
            workflow = trajectory.workflow[row]
            first, last = trajectory.replay.workflow_ptr[workflow], trajectory.replay.workflow_ptr[workflow + 1]
            left = trajectory.start_order[first + trajectory.started[row] : last]
            h1 = h1 + fixed[trajectory.task[row]] + pooled[left].astype(np.float64).sum(axis=0) / (last - first)
        logits.append(start + relu(relu(h1) @ w["w2"] + w["b2"]) @ w["w3"] * config.gain)
    overall = np.concatenate([g, c])
    logits.append(max(base) - config.margin + relu(overall @ w["ww1"] + w["bw1"]) @ w["ww2"])
    return np.array(logits), float(relu(overall @ w["v1"] + w["bv1"]) @ w["v2"] + w["bv2"][0])
