"""What each action at a decision would cost: a copy of the run takes it and goes on greedily, in compiled code.

The copies share durations and arrivals ("common random numbers"), those of the training instance itself: they look
into its future, which observations do not. Used for labels alone.
"""

from __future__ import annotations

import copy

import numpy as np

from dagsched.cost import cost_function
from dagsched.learn.rollout import NetworkEpisodeRunner
from dagsched.policies.learned import learned_kernel
from dagsched.policies.learned.trained import LinearRunner, NetworkRunner
from dagsched.schedule import WAIT
from dagsched.simulator import kernel
from dagsched.simulator.state import copy_into, new_state
from dagsched.workflow import FloatArray, IntArray


class Lookahead:
    """Looks ahead from the present decision of a runner whose policy has been set.

    Args:
        runner: the run in progress; it is not changed.
        arrivals: later workflows that the copies meet; ``None`` = all. Their cost counts, that of later ones does not.
        network: who goes on: the network, or else its base priority.
    """

    def __init__(self, runner: NetworkEpisodeRunner, arrivals: int | None, *, network: bool) -> None:
        inner = runner.inner
        self._runner, self._arrivals = runner, arrivals
        self._simulator = copy.copy(inner.simulator)
        self._new_state()
        weights, scratch = inner.linear.weights, runner.scratch
        if network:
            embedded = (scratch.fixed, scratch.pooled) if len(scratch.fixed) else None
            self._follower: LinearRunner = NetworkRunner(
                self._simulator, weights, runner.head, embedded and (lambda *_: embedded), problem=inner.problem,
                constants=inner.constants,
            )  # fmt: skip
        else:
            self._follower = LinearRunner(self._simulator, weights, problem=inner.problem, constants=inner.constants)
        self._cost = cost_function(inner.replay, inner.objective)

    def costs(self, actions: IntArray) -> FloatArray:
        """``[actions]`` cost of each task or WAIT as the next action; what all have in common may be left out."""
        runner, follower, simulator = self._runner.inner, self._follower, self._simulator
        state = runner.simulator.state
        if len(simulator.state.alloc) < len(state.alloc) or len(simulator.state.decision) < len(state.decision):
            self._new_state()
        known = len(runner.problem.workflow)
        if self._arrivals is not None:
            known = min(known, int(state.counter[kernel.ARRIVED]) + self._arrivals)
        problem = follower.problem = runner.problem._replace(workflow=runner.problem.workflow[:known])
        last = int(problem.workflow_ptr[known])
        left = int(np.isnan(state.task["finish"][:last]).sum())
        found = np.zeros(len(actions))
        for k, action in enumerate(actions):
            self._restore()
            simulator.state.counter[kernel.LEFT] = left
            if action == WAIT:
                kernel.log_wait(simulator.state)
                kernel.advance(problem, simulator.state)
            else:
                node = kernel.place(problem, simulator.state, action)
                kernel.start(problem, simulator.state, simulator.truth, action, node, 0)
            follower.run()
            found[k] = self._cost(simulator.state.task["finish"][:last])
        return found

    def _restore(self) -> None:
        """Make the copy equal to the run."""
        inner, follower = self._runner.inner, self._follower
        copy_into(inner.simulator.state, self._simulator.state)
        copy_into(inner.tracker, follower.tracker)
        if isinstance(follower, NetworkRunner):
            np.copyto(follower.scratch.summary, self._runner.scratch.summary)
            np.copyto(follower.scratch.counter, self._runner.scratch.counter)
            follower.scratch.counter[[learned_kernel.RECORDING, learned_kernel.SAMPLING]] = 0

    def _new_state(self) -> None:
        inner = self._runner.inner
        state = inner.simulator.state
        self._simulator.state = new_state(inner.problem, len(state.alloc), len(state.decision))
