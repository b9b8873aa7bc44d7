"""One replay in progress under the environment's rules: actions are places among the candidates, rewards in parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dagsched import graph
from dagsched.env import step as compiled
from dagsched.env.direct import direct
from dagsched.env.layout import FLAT_TASK, GLOBAL_WAY, Layout, clear
from dagsched.env.view import (
    CLIP,
    CPU,
    CUT,
    FLOW,
    IDLE,
    MAY_WAIT,
    MEMORY,
    OVERRUN,
    PENDING,
    QUEUED,
    SKIP_FORCED,
    TAU,
    TIME,
    WINDOWS,
    EpisodeArrays,
    Observation,
    Scale,
)
from dagsched.errors import PolicyError
from dagsched.features.builder import Constants, Normaliser, build_constants, node_features
from dagsched.features.kernel import new_tracker, reset_tracker
from dagsched.features.schema import GLOBAL_NAMES, GROUP_NAMES, NODE_FEATURES, TASK_NAMES
from dagsched.objective import ObjectiveName
from dagsched.policies.learned.learned_kernel import new_linear
from dagsched.replay import Replay
from dagsched.schedule import Schedule
from dagsched.simulator import kernel
from dagsched.simulator.kernel import Problem
from dagsched.simulator.state import with_area_below
from dagsched.simulator.stepper import Simulator
from dagsched.workflow import FloatArray

ALPHA, BETA, GAMMA = 2.0, 0.5, 0.1
"""Weights of overrun, queued share and idle share in the ``slo`` reward."""
_LEAST_SECONDS = 1e-6


@dataclass(frozen=True, slots=True)
class Rules:
    """What an episode does beyond the simulator.

    Attributes:
        base: ``[F]`` weights of the priority that orders the candidates.
        skip_forced: take decisions with one legal action without asking.
        allow_wait: offer WAIT while something runs, beside tasks.
        normaliser: scales the graph observation; ``None`` leaves features raw.
    """

    base: FloatArray
    skip_forced: bool = False
    allow_wait: bool = True
    normaliser: Normaliser | None = None


@dataclass(frozen=True, slots=True)
class Reward:
    """What one step cost; each component is a reward (at most 0), ``slo`` is the sum of the last three."""

    makespan: float
    flow_time: float
    overrun: float
    queued: float
    idle: float

    @property
    def slo(self) -> float:
        """Sum of its three components."""
        return self.overrun + self.queued + self.idle

    def of(self, objective: ObjectiveName) -> float:
        """The component that is the step's reward."""
        return float(getattr(self, objective))

    def as_info(self) -> dict[str, float]:
        """``reward/<component>``."""
        return {
            "reward/makespan": self.makespan,
            "reward/flow_time": self.flow_time,
            "reward/slo": self.slo,
            "reward/overrun": self.overrun,
            "reward/queued": self.queued,
            "reward/idle": self.idle,
        }


class Episode:
    """A replay that is stepped by actions; fills ``view`` in place at every decision.

    Raises:
        ConfigError: if the graph observation has no room for the replay.
    """

    def __init__(self, replay: Replay, layout: Layout, rules: Rules, view: Observation) -> None:
        layout.check_room(replay)
        self.replay, self.layout, self.view = replay, layout, view
        self.simulator = Simulator(replay)
        self.problem = with_area_below(self.simulator.problem, replay)
        self.constants = build_constants(replay, self.problem)
        self._tracker = new_tracker(self.problem)
        self._linear = new_linear(self.constants, rules.base)
        self._scale = _scale(replay, self.constants, rules.normaliser, layout)
        self._arrays = _new_arrays(replay, self.problem, layout, rules)
        self._compiled = direct(
            compiled.step, self.problem, self.simulator.state, self.simulator.truth, self.constants, self._tracker,
            self._linear, self._scale, self._arrays, view, 0,
        )  # fmt: skip
        self._tau = float(self._arrays.setting[TAU])
        known = replay.known_at_start  # scales of the rewards: later arrivals must not show
        self._bound = max(graph.lower_bound(replay, realised=False, workflows=known), _LEAST_SECONDS)
        path = max(float(graph.critical_path(replay, realised=False)[:known].mean()), _LEAST_SECONDS)
        self._flow_scale = max(float(replay.weight[:known].sum()), 1e-9) * path
        self.done = False

    def reset(self) -> None:
        """Go to the first decision of the replay, or to its end where there is none to take."""
        self.simulator.reset()
        reset_tracker(self._tracker)
        clear(self.view)
        arrays = self._arrays
        for array in (arrays.counter, arrays.waited, arrays.gained, arrays.past, arrays.exit_time):
            array.fill(0)
        arrays.exit_next[:] = arrays.exit_ptr[:-1]
        arrays.present.fill(0.0)
        self.done = False
        self._call(compiled.GO_ON)

    def step(self, action: int) -> bool:
        """Take an action and go on to the next decision; False (and nothing changes) if the action is not legal."""
        if not 0 <= action <= self.layout.wait:
            return False
        if self.done:
            return action == self.layout.wait
        return self._call(action)

    def _call(self, action: int) -> bool:
        sim = self.simulator
        while True:
            status = self._compiled(
                self.problem, sim.state, sim.truth, self.constants, self._tracker, self._linear, self._scale,
                self._arrays, self.view, action,
            )  # fmt: skip
            if status != kernel.GROW:
                break
            sim.grow()
            action = int(self._arrays.counter[PENDING])
        if status == kernel.STUCK:
            raise AssertionError("the replay cannot go on; please report this as a bug of dagsched")
        self.done = status == kernel.DONE
        return bool(status != kernel.ILLEGAL)

    def take_reward(self) -> Reward:
        """What passed since the last call, time before the first decision included."""
        gained = self._arrays.gained.tolist()
        self._arrays.gained.fill(0.0)
        tau = self._tau
        return Reward(
            makespan=-gained[TIME] / self._bound,
            flow_time=-gained[FLOW] / self._flow_scale,
            overrun=-ALPHA * gained[OVERRUN] / tau,
            queued=-BETA * gained[QUEUED] / tau,
            idle=-GAMMA * gained[IDLE] / tau,
        )

    def legal(self) -> list[int]:
        """The legal actions, ascending."""
        return np.flatnonzero(self.view.mask).tolist()

    def task_of(self, action: int) -> int:
        """Flat index of the task that a legal action starts; -1 = WAIT."""
        if action == self.layout.wait:
            return -1
        return int(self._arrays.eligible[self._arrays.candidate[action]])

    def name_of(self, action: int) -> str:
        """What an action does, for messages."""
        task = self.task_of(action)
        return "WAIT" if task < 0 else "start {1!r} of {0!r}".format(*self.replay.task_name(task))

    def refuse(self, action: int) -> PolicyError:
        """The error for an action that is not legal."""
        legal = self.legal()
        shown = ", ".join(f"{k} ({self.name_of(k) if not self.done else 'WAIT'})" for k in legal[:6])
        more = f" and {len(legal) - 6} more" if len(legal) > 6 else ""
        return PolicyError(
            f"action {action} is not legal at {self.simulator.now:g} s; legal are {shown}{more}; choose among "
            f"action_masks(), or make the environment with on_illegal='penalise'"
        )

    def schedule(self) -> Schedule:
        """The schedule of the finished replay."""
        self.simulator.truncated = int(self._arrays.counter[CUT])
        return self.simulator.schedule("environment")


def _scale(replay: Replay, constants: Constants, normaliser: Normaliser | None, layout: Layout) -> Scale:
    sizes = {"task": len(TASK_NAMES), "global": len(GLOBAL_NAMES), "group": len(GROUP_NAMES)}
    parts = {}
    for name, size in sizes.items():
        mean = np.zeros(size) if normaliser is None else getattr(normaliser, f"{name}_mean")
        std = np.ones(size) if normaliser is None else getattr(normaliser, f"{name}_std")
        parts[f"{name}_mean"], parts[f"{name}_per"] = np.array(mean, np.float64), 1.0 / np.array(std, np.float64)
    nodes = np.zeros((0, len(NODE_FEATURES)), np.float32)
    if layout.kind == "graph":
        raw = node_features(replay, constants)
        if normaliser is not None:
            raw = (raw - normaliser.node_mean) / normaliser.node_std
        nodes = np.clip(raw, -layout.clip, layout.clip).astype(np.float32)
    return Scale(
        **parts,
        nodes=np.ascontiguousarray(nodes),
        flat_column=np.array([TASK_NAMES.index(name) for name in FLAT_TASK], np.int64),
        flat_way=np.array(list(FLAT_TASK.values()), np.int64),
        global_way=np.array(GLOBAL_WAY, np.int64),
    )


def _column(resources: tuple[str, ...], names: tuple[str, ...], otherwise: int) -> int:
    """The column of a resource by its usual names, else the given place; -1 where the cluster has none there."""
    for name in names:
        if name in resources:
            return resources.index(name)
    return otherwise if otherwise < len(resources) else -1


def _new_arrays(replay: Replay, problem: Problem, layout: Layout, rules: Rules) -> EpisodeArrays:
    tasks, workflows = len(replay), len(replay.arrival)
    is_exit = np.diff(replay.child_ptr) == 0
    exits = np.concatenate([[0], np.cumsum(np.add.reduceat(is_exit.astype(np.int64), replay.workflow_ptr[:-1]))])
    resources = replay.cluster.resources
    cpu = _column(resources, ("cpu", "cores"), 0)
    memory = _column(resources, ("memory", "mem"), 1)
    return EpisodeArrays(
        eligible=np.zeros(tasks, np.int64),
        node=np.zeros(tasks, np.int64),
        score=np.zeros(tasks),
        candidate=np.zeros(layout.candidates, np.int64),
        counter=np.zeros(10, np.int64),
        switch=_switches(rules, cpu, memory),
        setting=_settings(replay, problem, layout),
        row=np.zeros(len(TASK_NAMES)),
        general=np.zeros(len(GLOBAL_NAMES)),
        groups=np.zeros((len(replay.cluster.groups), len(GROUP_NAMES))),
        waited=np.zeros(1),
        present=np.zeros(5),
        gained=np.zeros(5),
        past=np.zeros((WINDOWS + 1, 3)),
        per_path=1.0 / np.maximum(graph.critical_path(replay, realised=False), 1e-9),
        active=np.zeros(workflows, np.int64),
        exit_ptr=exits.astype(np.int64),
        exit_task=np.flatnonzero(is_exit).astype(np.int64),
        exit_next=exits[:-1].astype(np.int64),
        exit_time=np.zeros(workflows),
    )


def _switches(rules: Rules, cpu: int, memory: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    switch = np.zeros(4, np.int64)
    switch[SKIP_FORCED], switch[MAY_WAIT] = rules.skip_forced, rules.allow_wait
    switch[CPU], switch[MEMORY] = cpu, memory
    return switch


def _settings(replay: Replay, problem: Problem, layout: Layout) -> FloatArray:
    """The unit of time of the service-level reward, and the clip.

    Without a decision interval the unit is the mean estimate of what arrives first: later arrivals must not show.
    """
    setting = np.zeros(2)
    first = replay.workflow_ptr[np.searchsorted(replay.arrival, replay.first_arrival, "right")]
    known = problem.fastest[:first][~replay.milestone[:first]]
    mean = float(known.mean()) if len(known) else 0.0
    setting[TAU] = replay.options.decision_interval or (mean if mean > _LEAST_SECONDS else 1.0)
    setting[CLIP] = layout.clip
    return setting
