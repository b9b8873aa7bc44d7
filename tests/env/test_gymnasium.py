"""The contract with Gymnasium and Stable-Baselines3."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import dagsched.env
from dagsched.env import WorkflowEnv, flat_names
from dagsched.env.layout import Layout
from dagsched.env.settings import Settings
from dagsched.features.builder import Normaliser
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, NODE_FEATURES, TASK_NAMES
from tests.bench.data import four_groups, layered
from tests.env.play import first, play
from tests.handmade import random_replay

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("flat", "graph")


def made(kind: str, **options: Any) -> WorkflowEnv:
    workloads = [layered(30 + k, seed=k) for k in range(3)]
    fixed = {"workload": workloads, "cluster": four_groups(), "observation": kind, "on_illegal": "penalise"}
    return gymnasium.make("dagsched.env:dagsched/Workflow-v0", **fixed, **options).unwrapped  # type: ignore[return-value]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"skip_forced": True, "noise": 0.3}, {"render_mode": "rgb_array"}])
def test_gymnasiums_checker_has_nothing_to_say(kind: str, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(made(kind, **options))


def test_stable_baselines_checker_has_nothing_to_say() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(made("flat"))


def test_stable_baselines_checker_only_advises_a_policy_of_ones_own_for_graphs() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        checker.check_env(made("graph"))
    assert all("use a custom policy to properly process the data" in str(w.message) for w in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_vector_environments_stack_observations(kind: str, vector: type) -> None:
    options = {"workload": random_replay(1), "observation": kind, "on_illegal": "penalise"}
    envs = vector([lambda: gymnasium.make("dagsched.env:dagsched/Workflow-v0", **options) for _ in range(2)])
    observation, info = envs.reset(seed=1)
    assert envs.observation_space.contains(observation)
    ended = 0
    for _ in range(800):
        actions = np.array([np.flatnonzero(mask)[0] for mask in info["action_mask"]])
        observation, reward, over, _, info = envs.step(actions)
        assert reward.shape == (2,)
        ended += int(over.sum())
        if over.any():
            assert set(info["metrics"]) > {"makespan"}
    assert ended >= 2
    envs.close()


_IMPORTS = {
    "gymnasium first": "import gymnasium, dagsched.env",
    "dagsched first": "import sys, dagsched.env; assert 'gymnasium' not in sys.modules; import gymnasium",
    "by module name": "import gymnasium",
    "within import": "import dagsched.env; from gymnasium.envs.registration import make; import gymnasium",
}


@pytest.mark.parametrize("order", _IMPORTS)
def test_the_environment_is_registered_in_any_order_of_imports(order: str) -> None:
    name = "dagsched.env:dagsched/Workflow-v0" if order == "by module name" else "dagsched/Workflow-v0"
    code = f"{_IMPORTS[order]}; env = gymnasium.make({name!r}); print(env.reset(seed=1)[0].shape)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "(434,)", done.stderr


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, dagsched.env; print([m for m in ('gymnasium', 'numba', 'torch', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=os.environ)
    assert done.stdout.strip() == "[]"
    assert dagsched.env.ENV_ID == "dagsched/Workflow-v0"


@pytest.mark.parametrize("kind", KINDS)
def test_returned_arrays_are_the_callers_own_unless_asked_otherwise(kind: str) -> None:
    env = made(kind)
    one, _ = env.reset(seed=1)
    kept = {k: v.copy() for k, v in one.items()} if kind == "graph" else one.copy()
    two, *_ = env.step(first(env, one))
    if kind == "graph":
        assert all(np.array_equal(kept[name], one[name]) for name in kept)
        assert not any(np.shares_memory(one[name], two[name]) for name in kept)
    else:
        assert np.array_equal(kept, one)
    env = made(kind, copy=False)
    one, _ = env.reset(seed=1)
    two, *_ = env.step(first(env, one))
    assert (one is two) if kind == "flat" else (one["nodes"] is two["nodes"])


def test_the_graph_observation_is_the_graph() -> None:
    replay = random_replay(2)
    env = WorkflowEnv(workload=replay, observation="graph", max_tasks=200, max_edges=300)
    observation, _ = env.reset()
    over = False
    while not over:
        sim = env._running().simulator
        state = sim.observe()
        known = len(state.unstarted)
        assert observation["node_mask"].sum() == known
        edges = observation["edges"]
        assert (edges[:, len(state.parent_idx) :] == -1).all()
        assert np.array_equal(edges[0, : len(state.parent_idx)], state.parent_idx)
        assert np.array_equal(edges[1, : len(state.parent_idx)], np.repeat(np.arange(known), np.diff(state.parent_ptr)))
        waiting = np.where(replay.milestone[:known], np.isnan(state.finished), state.unstarted > 0)
        assert np.array_equal(observation["unstarted"][:known], waiting)
        shown = observation["candidate_task"][observation["candidate_task"] >= 0]
        assert sorted(shown.tolist()) == state.eligible.tolist()
        assert np.array_equal(observation["action_mask"].astype(bool), env.action_masks())
        column = TASK_NAMES.index("share")
        share = (state.demand[shown] / state.capacity.max(axis=0)).max(axis=1)
        np.testing.assert_allclose(observation["candidates"][: len(shown), column], share, rtol=1e-6)
        assert not observation["candidates"][len(shown) :].any()
        observation, _, over, _, _ = env.step(first(env, observation))
    assert not observation["unstarted"].any()
    assert (observation["candidate_task"] == -1).all()


def test_a_normaliser_scales_the_graph_observation(tmp_path: Path) -> None:
    import json

    rng = np.random.default_rng(1)
    sizes = (len(TASK_NAMES), len(GLOBAL_NAMES), len(GROUP_NAMES), len(NODE_FEATURES))
    normaliser = Normaliser.fit(*(rng.random((50, size)) for size in sizes))
    file = tmp_path / "normaliser.json"
    file.write_text(json.dumps(normaliser.to_dict()))
    raw = WorkflowEnv(workload=random_replay(2), observation="graph")
    env = WorkflowEnv(workload=random_replay(2), observation="graph", normaliser=str(file))
    one, two = raw.reset()[0], env.reset()[0]
    for name, part, rows in (("candidates", "task", 1), ("global", "global", None), ("nodes", "node", 5)):
        mean, std = getattr(normaliser, f"{part}_mean"), getattr(normaliser, f"{part}_std")
        want = np.clip((one[name][:rows] - mean) / std, -5, 5)
        np.testing.assert_allclose(two[name][:rows], want, rtol=1e-4, atol=1e-4)


def test_render_draws_frames_of_one_size() -> None:
    env = WorkflowEnv(workload=random_replay(1), render_mode="rgb_array")
    env.reset()
    frames = [env.render()]
    over = False
    while not over:
        over = env.step(first(env, None))[2]
    frames.append(env.render())
    assert [frame.shape for frame in frames] == [(480, 880, 3)] * 2
    assert frames[0].dtype == np.uint8
    assert (frames[0] != frames[1]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_maskable_ppo_learns_for_a_few_steps(kind: str) -> None:
    sb3 = pytest.importorskip("sb3_contrib")
    options = {"workload": random_replay(1, tasks=8), "observation": kind, "max_candidates": 16, "max_steps": 200}
    env = gymnasium.make("dagsched.env:dagsched/Workflow-v0", **options)
    policy = "MlpPolicy" if kind == "flat" else "MultiInputPolicy"
    model = sb3.MaskablePPO(policy, env, n_steps=64, batch_size=32, n_epochs=2, seed=1, device="cpu")
    model.learn(192)
    observation, _ = env.reset(seed=1)
    over = False
    while not over:
        action, _ = model.predict(observation, action_masks=env.unwrapped.action_masks(), deterministic=True)
        observation, _, over, truncated, _ = env.step(action)
        over = over or truncated


def test_suites_are_played_with_their_own_objective() -> None:
    for suite, objective in (("build", "makespan"), ("online-layered", "flow_time")):
        env = WorkflowEnv(suite=suite, observation="graph", allow_wait=False, max_tasks=8000, max_edges=16000)
        assert env.objective == objective
        play(env, seed=1)


def test_the_documentation_gives_the_shapes() -> None:
    text = (ROOT / "docs" / "environment.md").read_text()
    for name, array in Layout("graph", tasks=0, edges=0).arrays().items():
        shape = str(list(array.shape)).replace("[0", "[max_tasks").replace("2, 0]", "2, max_edges]")
        row = next(line for line in text.splitlines() if line.startswith("| ") and f"`{name}`" in line and "[" in line)
        assert f"{shape} {array.dtype}" in row, name
    assert f"A vector of {len(flat_names())} numbers" in text
    for option in Settings.__dataclass_fields__:
        assert f"`{option}`" in text, option
