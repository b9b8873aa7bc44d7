"""The encoder without torch equals the one that was trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dagsched.generate.suite import Suite
from dagsched.nn.export import build_model, embed_fn
from dagsched.nn.inference import embedder
from dagsched.replay import Replay
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.features.replays import draw_wide
from tests.policies.nets import random_checkpoint


def _pair(seed: int):
    checkpoint = random_checkpoint("ppo", seed=seed, encoder="gnn", strength=1.0)
    parts = checkpoint.tensors, checkpoint.network
    return embedder(*parts, checkpoint.normaliser), embed_fn(build_model(*parts), checkpoint.normaliser)


@pytest.mark.parametrize("seed", range(4))
def test_both_encoders_give_the_same_embeddings(seed: int) -> None:
    torch.set_num_threads(1)
    plain, trained = _pair(seed)
    replays = [draw_wide(100 * seed + k) for k in range(6)] + [Suite.load("build").replay("test", seed)]
    for replay in replays:
        for one, two in zip(plain(replay), trained(replay), strict=True):
            assert one.dtype == np.float32
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(two).max())))


def test_a_single_task_has_an_embedding() -> None:
    plain, trained = _pair(9)
    replay = Replay.build(Workload("one", (Workflow.from_tasks("w", [Task("a", 3.0)]),)))
    np.testing.assert_allclose(plain(replay)[0], trained(replay)[0], rtol=1e-4, atol=1e-5)


def test_an_embedding_does_not_depend_on_what_arrives_later() -> None:
    plain, _ = _pair(5)
    replay = Suite.load("online-layered").replay("test", 0)
    few = replay.workload.with_workflows(replay.workflows[:7])
    known = int(replay.workflow_ptr[7])
    for one, two in zip(plain(replay), plain(Replay.build(few, replay.cluster)), strict=True):
        assert np.array_equal(one[:known], two)
