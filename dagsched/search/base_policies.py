"""Base policies of the planner: what simulations start from, and what the planner must beat.

A base runs the scratch of a :class:`Workspace` from the root to the end, as the policy itself would go on from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from dagsched.errors import PolicyError
from dagsched.features import kernel as features
from dagsched.policies.learned import learned_kernel
from dagsched.policies.learned.trained import LearnedOptions, LinearRunner, NetworkRunner, make_runner
from dagsched.policies.rules.alike import alike_by_score
from dagsched.policies.runners import PriorityPolicy, ScorePolicy
from dagsched.search import rollout
from dagsched.search.options import FALLBACK
from dagsched.search.workspace import Workspace
from dagsched.simulator import kernel
from dagsched.simulator.kernel import Problem
from dagsched.simulator.state import copy_into
from dagsched.simulator.stepper import MANY
from dagsched.workflow import FloatArray, IntArray

RACED = ("lft", "critical-path", "lst", "cp+demand+work", "srw*cp")
"""Rules that may be the base of a race for the makespan."""


class Base(Protocol):
    """A policy that can go on from where the scratch is."""

    name: str

    def roll(self, workspace: Workspace, most: int = MANY) -> int:
        """Run the scratch to its end, or for so many decisions; returns the kernel's status."""
        ...

    def pick(self, workspace: Workspace, legal: IntArray) -> int:
        """What the policy does now, with these tasks eligible: one of them, or WAIT."""
        ...


class KeyBase:
    """A rule with a fixed priority."""

    def __init__(self, name: str, key: FloatArray) -> None:
        self.name, self.key = name, key

    def roll(self, workspace: Workspace, most: int = MANY) -> int:
        """See :class:`Base`."""
        workspace.buckets.key[:] = self.key
        return int(rollout.run_keys(workspace.problem, workspace.scratch, workspace.buckets, workspace.truth, most))

    def pick(self, workspace: Workspace, legal: IntArray) -> int:
        """See :class:`Base`."""
        return int(legal[np.lexsort((workspace.whole.task["tie"][legal], -self.key[legal]))[0]])


class ScoreBase:
    """A rule whose scores change."""

    def __init__(self, name: str, policy: ScorePolicy, problem: Problem, place: IntArray) -> None:
        self.name, self.rule, self.shortness = name, policy.rule, policy.shortness
        self._alike = alike_by_score(problem, policy.rule, place)

    def roll(self, workspace: Workspace, most: int = MANY) -> int:
        """See :class:`Base`."""
        kernel.regroup(workspace.scratch, self._alike)
        return int(
            kernel.run_by_score(
                workspace.problem, workspace.scratch, workspace.truth, self._alike, self.rule, self.shortness, most
            )
        )

    def pick(self, workspace: Workspace, legal: IntArray) -> int:  # noqa: ARG002
        """See :class:`Base`."""
        return first_rolled(self, workspace)


class LearnedBase:
    """A trained priority, or a network on it."""

    def __init__(self, name: str, runner: LinearRunner) -> None:
        self.name, self.runner = name, runner
        self._copy = features.new_tracker(runner.problem)

    def roll(self, workspace: Workspace, most: int = MANY) -> int:
        """See :class:`Base`."""
        problem, runner, tracker = workspace.problem, self.runner, self._copy
        features.catch_up(problem, workspace.simulator.state, runner.constants, runner.tracker)
        copy_into(runner.tracker, tracker)
        tracker.counter[features.SEEN_DECISIONS] = 0
        if not isinstance(runner, NetworkRunner):
            return int(
                learned_kernel.run_by_linear(
                    problem, workspace.scratch, workspace.truth, runner.constants, tracker, runner.linear, most
                )
            )
        learned_kernel.reset_scratch(runner.scratch)
        return int(
            learned_kernel.run_by_network(
                problem, workspace.scratch, workspace.truth, runner.constants, tracker, runner.linear, runner.head,
                runner.scratch, runner.record, most,
            )
        )  # fmt: skip

    def pick(self, workspace: Workspace, legal: IntArray) -> int:  # noqa: ARG002
        """See :class:`Base`."""
        runner = self.runner
        if isinstance(runner, NetworkRunner):
            return first_rolled(self, workspace)
        state = workspace.simulator.state
        return int(
            learned_kernel.pick_linear(workspace.problem, state, runner.constants, runner.tracker, runner.linear)
        )


def roll_whole(base: Base, workspace: Workspace, most: int = MANY) -> None:
    """Run a base policy from the root in the scratch, with as much room for logs as it takes."""
    workspace.restart()
    while base.roll(workspace, most) == kernel.GROW:
        workspace.regrow()
        workspace.restart()


def first_rolled(base: Base, workspace: Workspace) -> int:
    """The first decision of a base policy that is run from the root."""
    roll_whole(base, workspace, 1)
    return int(workspace.scratch.decision["task"][0])


def make_base(
    workspace: Workspace, spec: str, prior: str, learned_options: Mapping[str, str], *, learning: bool
) -> Base:
    """The base policy that ``prior`` names.

    ``auto`` = ``evolved`` where a checkpoint fits, else a rule.

    Raises:
        PolicyError: if the named one does not exist or does not fit.
    """
    if prior == "auto" and not learning:
        prior = FALLBACK[workspace.objective]
    if prior in ("auto", "evolved", "ppo"):
        if not learning:
            raise PolicyError(f"policy {spec!r}: mcts-rules uses no trained policy; choose a rule as prior")
        try:
            return _learned(workspace, spec, "evolved" if prior == "auto" else prior, learned_options)
        except PolicyError:
            if prior != "auto":
                raise
            prior = FALLBACK[workspace.objective]
    return rule_base(workspace, spec, prior)


def rival_bases(workspace: Workspace, spec: str, learned_options: Mapping[str, str], *, learning: bool) -> list[Base]:
    """What may be the base of a race for the makespan if none is named: ``evolved`` if a checkpoint fits, and rules."""
    rivals: list[Base] = []
    if learning:
        with contextlib.suppress(PolicyError):  # no checkpoint fits
            rivals.append(_learned(workspace, spec, "evolved", learned_options))
    return [*rivals, *(rule_base(workspace, spec, rule) for rule in RACED)]


def _learned(workspace: Workspace, spec: str, kind: str, learned_options: Mapping[str, str]) -> LearnedBase:
    options = LearnedOptions.parse(spec, kind, {**learned_options, "objective": workspace.objective})
    checkpoint = options.load(workspace.simulator.replay)
    return LearnedBase(kind, make_runner(workspace.simulator, checkpoint, kind, problem=workspace.whole))


def rule_base(workspace: Workspace, spec: str, rule: str) -> Base:
    """A rule as a base: one with a fixed priority or a changing score.

    Raises:
        PolicyError: for anything else.
    """
    from dagsched.policies.registry import make_policy

    try:
        policy = make_policy(rule)
    except PolicyError as error:
        raise PolicyError(f"policy {spec!r}: prior is {rule!r}: {error}") from None
    replay, problem = workspace.simulator.replay, workspace.whole
    if isinstance(policy, PriorityPolicy) and policy.key is not None:
        return KeyBase(rule, policy.key(replay, problem))
    if isinstance(policy, ScorePolicy):
        return ScoreBase(rule, policy, problem, replay.place)
    raise PolicyError(f"policy {spec!r}: prior is {rule!r}, expected ppo, evolved or a rule with a priority or a score")
