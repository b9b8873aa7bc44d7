"""Recording the decisions of any rule as a network would see them, one decision at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagsched.features import kernel as features
from dagsched.features.builder import Normaliser
from dagsched.features.schema import CLIP
from dagsched.learn.episode_runner import EpisodeRunner, Observer
from dagsched.policies.registry import make_policy
from dagsched.replay import Replay
from dagsched.schedule import WAIT
from dagsched.simulator import kernel
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray, IntArray


@dataclass(slots=True)
class Demonstration:
    """Decisions of any rule, in the form of a rollout's trajectory (see ``dagsched.learn.rollout.Trajectory``)."""

    replay: Replay
    row_ptr: IntArray
    task: IntArray
    workflow: IntArray
    started: IntArray
    x: NDArray[np.float32]
    z: FloatArray
    g: NDArray[np.float32]
    q: NDArray[np.float32]
    action: IntArray
    start_order: IntArray
    can_wait: NDArray[np.bool_]
    cost: float


def record_rule(
    runner: EpisodeRunner,
    rule: str,
    base: FloatArray,
    normaliser: Normaliser,
    columns: tuple[int, ...],
    *,
    wait: bool = False,
) -> Demonstration:
    """Run a rule one decision at a time and record what the network would see at each.

    Decisions with a single action are left out, and those where the rule picks a task outside the candidates.

    Args:
        runner: the replay.
        rule: any policy spec.
        base: ``[F]`` raw weights of the network's base priority, for ``z``.
        normaliser: of the network's inputs.
        columns: task features the network reads.
        wait: whether WAIT is an action; if not, decisions in which the rule waits are left out.
    """
    runner.reset()
    simulator, observer = runner.simulator, Observer(runner)
    run = make_policy(rule).begin(simulator)
    rows = _Rows(base, normaliser, list(columns))
    seen = 0
    while simulator.advance():
        while not simulator.done and (choices := len(simulator.eligible())):
            now, count = simulator.now, observer.observe()
            tasks, raw = observer.candidates[:count].copy(), observer.tasks[:count].copy()
            started = runner.tracker.started[runner.replay.workflow_of[tasks]].copy()
            general, groups, can_wait = observer.general.copy(), observer.groups.copy(), simulator.can_wait
            run.advance(1)
            taken, when = _decision(simulator, seen)
            seen = int(simulator.state.counter[kernel.DECISIONS])
            place = np.flatnonzero(tasks == taken)
            action = (count if wait else -1) if taken == WAIT else int(place[0]) if len(place) else -1
            if choices > 1 and count > 1 and action >= 0 and when == now:
                rows.add(tasks, started, raw, general, groups)
                rows.action.append(action)
                rows.can_wait.append(can_wait)
    observer.observe()  # brings the order of starts to its end
    return rows.demonstration(runner, observer)


class _Rows:
    """What the network would see at the decisions so far."""

    def __init__(self, base: FloatArray, normaliser: Normaliser, columns: list[int]) -> None:
        self._base, self._normaliser, self._columns = base, normaliser, columns
        self._parts: dict[str, list[Any]] = {name: [] for name in ("task", "started", "x", "z", "g", "q")}
        self.action: list[int] = []
        self.can_wait: list[bool] = []

    def add(self, tasks: IntArray, started: IntArray, raw: FloatArray, general: FloatArray, groups: FloatArray) -> None:
        """One decision by the raw features of its candidates ``[candidates, F]`` and of the state."""
        parts, normaliser = self._parts, self._normaliser
        score = raw @ self._base
        spread = score.std()
        parts["task"].append(tasks)
        parts["started"].append(started)
        parts["x"].append(_scaled(raw, normaliser.task_mean, normaliser.task_std)[:, self._columns])
        parts["z"].append((score - score.mean()) / spread if spread > 0 else np.zeros(len(tasks)))
        parts["g"].append(_scaled(general, normaliser.global_mean, normaliser.global_std))
        parts["q"].append(_scaled(groups, normaliser.group_mean, normaliser.group_std))

    def demonstration(self, runner: EpisodeRunner, observer: Observer) -> Demonstration:
        """All decisions, once the run has ended."""
        parts = self._parts
        counts = [len(tasks) for tasks in parts["task"]]
        task = np.concatenate(parts["task"]) if counts else np.zeros(0, np.int64)
        return Demonstration(
            replay=runner.replay,
            row_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            task=task,
            workflow=runner.replay.workflow_of[task],
            started=np.concatenate(parts["started"]) if counts else np.zeros(0, np.int64),
            x=np.concatenate(parts["x"]) if counts else np.zeros((0, len(self._columns)), np.float32),
            z=np.concatenate(parts["z"]) if counts else np.zeros(0),
            g=_stack(parts["g"], observer.general.shape),
            q=_stack(parts["q"], observer.groups.shape),
            action=np.array(self.action, np.int64),
            start_order=_start_order(runner),
            can_wait=np.array(self.can_wait, np.bool_),
            cost=runner.cost(),
        )


def _decision(simulator: Simulator, place: int) -> tuple[int, float]:
    """(task, s) of a logged decision; nothing happened there: (-2, NaN)."""
    if place >= simulator.state.counter[kernel.DECISIONS]:
        return -2, float("nan")
    decision = simulator.state.decision[place]
    return int(decision["task"]), float(decision["time"])


def _scaled(raw: FloatArray, mean: FloatArray, std: FloatArray) -> NDArray[np.float32]:
    return np.clip((raw - mean) / std, -CLIP, CLIP).astype(np.float32)


def _stack(rows: list[NDArray[np.float32]], shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.stack(rows) if rows else np.zeros((0, *shape), np.float32)


def _start_order(runner: EpisodeRunner) -> IntArray:
    """``[T]`` tasks by workflow, then in the order in which they were fully started; milestones last."""
    started = runner.tracker.order[: runner.tracker.counter[features.STARTED]]
    rest = np.setdiff1d(np.arange(len(runner.replay)), started)
    order = np.concatenate([started, rest])
    return order[np.argsort(runner.replay.workflow_of[order], kind="stable")]
