"""Whole replays with a network: greedy to judge it, sampled and recorded to train it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagsched import graph
from dagsched.cost import TARDINESS
from dagsched.features import kernel as features
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.objective import ObjectiveName
from dagsched.policies.learned import learned_kernel
from dagsched.policies.learned.learned_kernel import Float32Array, Head, Record, Scratch
from dagsched.processes import cores
from dagsched.replay import Replay
from dagsched.simulator import kernel
from dagsched.simulator.stepper import MANY
from dagsched.workflow import FloatArray, IntArray

Embed = Callable[[Replay], tuple[Float32Array, Float32Array]]
_FOLLOW = 1e9
"""Outweighs every logit, while differences of one in 10,000 remain clear."""


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """The recorded decisions of one run, those with a single legal action left out.

    Attributes:
        replay: what was run.
        row_ptr: ``[D + 1]`` decision ``d`` has the candidates ``row_ptr[d]:row_ptr[d + 1]``.
        task, workflow: ``[N]`` flat indices of each candidate.
        started: ``[N]`` fully started tasks of the candidate's workflow.
        x: ``[N, F']`` normalised features. z: ``[N]`` standardised base score.
        g: ``[D, G]`` and q: ``[D, groups, Q]`` normalised features of the state.
        action: ``[D]`` place among the decision's candidates; their number = WAIT.
        can_wait: ``[D]`` whether something was running, so that WAIT was legal.
        time: ``[D]`` seconds.
        reward: ``[D]`` from each decision to the next, of sum -cost but for what passed before the first.
        start_order: ``[T]`` tasks by workflow, then in the order in which they had fully started; milestones last.
        cost: of the run (see :func:`dagsched.cost.cost_function`).
        length: decisions of the run, those without a choice included.
        wait: longest time a task was ready before it started, seconds.
        seed: of the sampling.
    """

    replay: Replay
    row_ptr: IntArray
    task: IntArray
    workflow: IntArray
    started: IntArray
    x: Float32Array
    z: FloatArray
    g: Float32Array
    q: Float32Array
    action: IntArray
    can_wait: NDArray[np.bool_]
    time: FloatArray
    reward: FloatArray
    start_order: IntArray
    cost: float
    length: int
    wait: float
    seed: int

    def __len__(self) -> int:
        return len(self.action)


def only(trajectory: Trajectory, decisions: IntArray) -> Trajectory:
    """The trajectory with some of its decisions (ascending places)."""
    counts = np.diff(trajectory.row_ptr)[decisions]
    pointer = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(trajectory.row_ptr[decisions] - pointer[:-1], counts) + np.arange(pointer[-1])
    return replace(
        trajectory,
        row_ptr=pointer,
        **{name: getattr(trajectory, name)[rows] for name in ("task", "workflow", "started", "x", "z")},
        **{name: getattr(trajectory, name)[decisions] for name in ("g", "q", "action", "can_wait", "time", "reward")},
    )


class NetworkEpisodeRunner:
    """An episode runner in which a network decides, with its scratch and, if asked for, a record."""

    def __init__(self, runner: EpisodeRunner) -> None:
        self.inner = runner
        self._scratch: Scratch | None = None
        self._record: Record | None = None
        self._shape: tuple[int, ...] = ()

    def set_policy(self, base_weights: FloatArray, head: Head, embed: Embed | None) -> None:
        """Use these weights from now on."""
        runner = self.inner
        runner.set_weights(base_weights)
        self.head = head
        shape = (embed is None, *(len(a) for a in (head.columns, head.bq, head.b1, head.b2)))
        if embed is not None or shape != self._shape:
            embedding = None if embed is None else embed(runner.replay)
            self._scratch = learned_kernel.new_scratch(runner.problem, head, embedding, noise=len(runner.replay))
        if shape != self._shape:
            self._record = None
        self._shape = shape

    def run(
        self,
        *,
        seed: int | None = None,
        temperature: float = 1.0,
        record: bool = False,
        order: FloatArray | None = None,
    ) -> float:
        """One run, greedy without a ``seed``; returns its cost.

        With ``order`` ``[T]`` the candidate of lowest value runs next, whatever the network says: the way to record
        the decisions of a known schedule.
        """
        self.begin(seed=seed, temperature=temperature, order=order)
        self.go_on(MANY, record=record)
        return self.inner.cost()

    def begin(self, *, seed: int | None = None, temperature: float = 1.0, order: FloatArray | None = None) -> None:
        """Back before the first arrival; arguments as for :meth:`run`."""
        runner, scratch, head = self.inner, self.scratch, self.head
        runner.reset()
        learned_kernel.reset_scratch(scratch)
        scratch.noise[:] = 0.0 if order is None else -_FOLLOW * order / max(float(np.abs(order).max()), 1e-12)
        scratch.counter[learned_kernel.SAMPLING] = seed is not None
        scratch.random[0] = np.uint64((seed or 0) & (2**64 - 1))
        head.setting[learned_kernel.TEMPERATURE] = temperature
        if self._record is None:
            self._record = learned_kernel.new_record(head, len(runner.replay.cluster.groups), 1, 1)

    def go_on(self, maximum: int, *, record: bool) -> bool:
        """Start at most ``maximum`` tasks; False if the run has ended."""
        runner, sim, scratch = self.inner, self.inner.simulator, self.scratch
        assert self._record is not None
        scratch.counter[learned_kernel.RECORDING] = record
        begun = sim.started
        while True:
            status = learned_kernel.run_by_network(
                runner.problem, sim.state, sim.truth, runner.constants, runner.tracker, runner.linear, self.head,
                scratch, self._record, maximum - (sim.started - begun),
            )  # fmt: skip
            if status == kernel.GROW:
                sim.grow()
            elif status == kernel.FULL:
                groups = len(runner.replay.cluster.groups)
                self._record = _larger(self._record, self.head, groups, len(runner.replay))
            else:
                return bool(status != kernel.DONE)

    def logits(self) -> tuple[IntArray, FloatArray]:
        """(candidates, their logits and that of WAIT, -inf where illegal) at the present decision."""
        runner, scratch = self.inner, self.scratch
        count = learned_kernel.evaluate_logits(
            runner.problem, runner.simulator.state, runner.constants, runner.tracker, runner.linear, self.head, scratch
        )
        return scratch.eligible[scratch.candidate[:count]].copy(), scratch.logit[: count + 1].copy()

    @property
    def scratch(self) -> Scratch:
        """Work space of the policy that was set last."""
        assert self._scratch is not None
        return self._scratch

    @property
    def recorded(self) -> int:
        """Decisions recorded in this run."""
        return int(self.scratch.counter[learned_kernel.RECORDED])

    def trajectory(self, cost: float, seed: int) -> Trajectory:
        """What the last run recorded, copied."""
        assert self._record is not None
        runner, record = self.inner, self._record
        decisions = self.recorded
        rows = int(self.scratch.counter[learned_kernel.ROWS])
        state = runner.simulator.state
        task = record.task[:rows].copy()
        time = record.time[:decisions].copy()
        ready = state.task["ready_time"]
        waits = state.task["start"] - ready
        return Trajectory(
            replay=runner.replay,
            row_ptr=record.row_ptr[: decisions + 1].copy(),
            task=task,
            workflow=runner.problem.workflow_of[task],
            started=record.started[:rows].copy(),
            x=record.x[:rows].copy(),
            z=record.z[:rows].copy(),
            g=record.g[:decisions].copy(),
            q=record.q[:decisions].copy(),
            action=record.action[:decisions].copy(),
            can_wait=record.can_wait[:decisions].astype(bool),
            time=time,
            reward=rewards(runner.replay, runner.objective, state.task["finish"], time),
            start_order=_start_order(runner, int(runner.tracker.counter[features.STARTED])),
            cost=cost,
            length=int(state.counter[kernel.DECISIONS]),
            wait=float(waits.max()) if len(waits) else 0.0,
            seed=seed,
        )


def _larger(record: Record, head: Head, groups: int, tasks: int) -> Record:
    decisions = max(2 * (len(record.row_ptr) - 1), tasks + 16)
    larger = learned_kernel.new_record(head, groups, decisions, max(2 * len(record.task), 12 * tasks + 128))
    for name in record._fields:
        old = getattr(record, name)
        getattr(larger, name)[: len(old)] = old
    return larger


def _start_order(runner: EpisodeRunner, started: int) -> IntArray:
    place = np.full(len(runner.replay), len(runner.replay), np.int64)
    place[runner.tracker.order[:started]] = np.arange(started)
    return np.lexsort((place, runner.replay.workflow_of)).astype(np.int64)


def rewards(replay: Replay, objective: ObjectiveName, finish: FloatArray, time: FloatArray) -> FloatArray:
    """``[D]`` minus what the cost grew from each of the times ``[D]`` to the next, the last one to the end."""
    moments = np.append(time, finish.max())
    path = max(float(graph.critical_path(replay).mean()), 1e-9)
    if objective == "makespan":
        grown = moments / max(graph.lower_bound(replay), 1e-9)
    else:
        ends = np.maximum.reduceat(finish, replay.workflow_ptr[:-1])
        if objective == "flow_time":
            share = replay.weight_share
            begin = replay.arrival
        else:
            due = np.isfinite(replay.deadline)
            share = np.where(due, TARDINESS / max(int(due.sum()), 1), 0.0)
            begin = np.where(due, replay.deadline, 0.0)
        grown = np.array([(share * np.clip(np.minimum(m, ends) - begin, 0.0, None)).sum() for m in moments]) / path
        if objective == "slo":
            late = np.sort(replay.deadline[due & (ends > replay.deadline)])
            grown += np.searchsorted(late, moments, side="left") / max(int(due.sum()), 1)
    return np.asarray(-np.diff(grown))


def head_of(arrays: Mapping[str, Any]) -> Head:
    """The compiled head from the arrays of :func:`dagsched.nn.export.head_arrays`."""
    return Head(**arrays)


def network_runners(runners: Sequence[EpisodeRunner]) -> list[NetworkEpisodeRunner]:
    """The same replays under a network; keep the runners for many runs."""
    return [NetworkEpisodeRunner(runner) for runner in runners]


def evaluate(
    runners: Sequence[NetworkEpisodeRunner],
    base_weights: FloatArray,
    head: Head,
    embed: Embed | None = None,
    *,
    threads: int = 1,
) -> FloatArray:
    """``[runners]`` cost of the greedy policy on each."""

    def one(runner: NetworkEpisodeRunner) -> float:
        return runner.run()

    for runner in runners:
        runner.set_policy(base_weights, head, embed)
    return np.array(in_order(one, runners, threads))


def collect(
    runners: Sequence[NetworkEpisodeRunner],
    base_weights: FloatArray,
    head: Head,
    embed: Embed | None = None,
    *,
    seeds: Sequence[Sequence[int]],
    temperature: float = 1.0,
    record: bool = True,
    threads: int = 1,
) -> list[list[Trajectory]]:
    """Sampled runs: for each runner one trajectory per seed of ``seeds[k]``.

    With ``record=False`` trajectories hold the cost alone (no decisions).
    """

    def one(pair: tuple[NetworkEpisodeRunner, Sequence[int]]) -> list[Trajectory]:
        runner, its_seeds = pair
        return [
            runner.trajectory(runner.run(seed=seed, temperature=temperature, record=record), seed) for seed in its_seeds
        ]

    for runner in runners:
        runner.set_policy(base_weights, head, embed)
    return in_order(one, list(zip(runners, seeds, strict=True)), threads)


def in_order(work: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:
    """``work`` of each item, ``threads`` at a time; results in order."""
    if threads <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(threads, cores())) as pool:
        return list(pool.map(work, items))
