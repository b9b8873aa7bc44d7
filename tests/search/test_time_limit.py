"""A time limit holds for contained policies and search; what it left out is said; Ctrl-C keeps what there is."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from dagsched.cli.searching import print_search
from dagsched.errors import PolicyError
from dagsched.policies.registry import make_policy
from dagsched.policies.sampling.sampler import objective_value
from dagsched.policies.static.listing import KINDS, ListPlanner
from dagsched.replay import Replay
from dagsched.run_policy import simulate
from dagsched.search import allowance as clock
from dagsched.search.allowance import Allowance, OutOfTimeError
from dagsched.search.plan import begin_plan, plan_batch
from dagsched.search.seed_schedules import BOOKING, Roller, contained_specs, followed, plan_of, roll_out
from dagsched.simulator.stepper import MANY, Simulator
from dagsched.simulator.validate import validate
from dagsched.task import Task

from ..handmade import one_workflow, two_groups
from ..policies.test_listing import random_replay

RULES = ("min-min", "critical-path", "tetris", "heft", "fcfs")


def wide(tasks: int, *, demands: int = 1, instances: int = 1) -> Replay:
    made = [Task(f"t{k}", 1.0 + k % 7, {"cpu": 1 + (k % demands) / demands}, instances=instances) for k in range(tasks)]
    return one_workflow(made, two_groups(cpu=8))


class Jumping:
    """A clock that stands still but for one hour at the ``at``-th look."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self) -> float:
        self.left -= 1
        return 0.0 if self.left > 0 else 3600.0


def test_without_time_the_first_policy_alone_is_run_and_the_others_are_named() -> None:
    replay = random_replay(6, workflows=4)
    policy = make_policy("mcts-rules:time_limit=0")
    schedule = simulate(replay, policy)
    validate(schedule)
    found = schedule.report["plan"]
    assert found.rolled_out == ("fcfs",)
    assert found.left_out == tuple(s for s in contained_specs(replay, learning=False) if s != "fcfs")
    assert schedule.makespan == simulate(replay, "fcfs").makespan == found.value


def test_the_command_says_what_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    policy = make_policy("mcts-rules:time_limit=0:workers=5000")
    print_search(policy, simulate(random_replay(6, workflows=4), policy).report)
    said = capsys.readouterr().out
    assert "Rolled out: fcfs. Left out for lack of time: round-robin, sjf, " in said
    assert "instead of 5000, one for each core." in said


def test_where_time_suffices_nothing_is_left_out() -> None:
    replay = random_replay(6, workflows=4)
    result = plan_batch(replay, time_limit=600.0, schedules=10, learning=False)
    assert result.rolled_out == tuple(contained_specs(replay, learning=False))
    assert result.left_out == ()
    assert result.value <= min(incumbent.value for incumbent in roll_out(replay, learning=False))


def test_cheap_policies_come_first() -> None:
    """Priorities, then lists, scores that change and bookings; many demands make lists the cheapest."""

    def order(replay: Replay) -> tuple[str, ...]:
        seen = []

        class Stop(Roller):
            def _roll(self, spec, allowance, *, first):  # type: ignore[no-untyped-def]
                seen.append(spec)
                return super()._roll(spec, allowance, first=first)

        Stop(replay, "makespan", 0, {}).roll_all(RULES, Allowance())
        return tuple(seen)

    assert order(wide(20)) == ("critical-path", "fcfs", "heft", "tetris", "min-min")
    assert order(wide(600, demands=600)) == ("heft", "critical-path", "fcfs", "tetris", "min-min")
    assert order(wide(20, instances=9)) == ("heft", "critical-path", "fcfs", "tetris", "min-min")


def test_the_clock_is_asked_inside_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = wide(2000)
    plan = plan_of(simulate(replay, "fcfs"))
    seen = []

    class Watched(Simulator):
        pass

    monkeypatch.setattr(clock, "time", type("Time", (), {"monotonic": Jumping(5)}))
    allowance = Allowance(60.0)
    monkeypatch.setattr(clock, "GRACE_SECONDS", -1.0)
    simulator = Watched(replay)
    run = make_policy("fcfs").begin(simulator)

    def go_on(most: int) -> bool:
        run.advance(most)
        seen.append(int((~np.isnan(simulator.state.task["start"])).sum()))
        return not simulator.done

    with pytest.raises(OutOfTimeError):
        allowance.pieces(go_on)
    assert seen == [64]
    with pytest.raises(OutOfTimeError):
        followed(replay, plan, policy_seed=0, allowance=allowance)


def test_a_policy_that_is_cut_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "GRACE_SECONDS", -1.0)
    replay = wide(2000)
    first = Roller(replay, "makespan", 0, {}).roll_all(["fcfs"], Allowance())
    monkeypatch.setattr(clock, "time", type("Time", (), {"monotonic": Jumping(60)}))
    rolled = Roller(replay, "makespan", 0, {}).roll_all(["fcfs", "sjf", "ljf", "srw"], Allowance(60.0))
    assert [incumbent.source for incumbent in rolled.incumbents][:1] == ["fcfs"]
    assert rolled.incumbents[0].value == first.incumbents[0].value
    assert "srw" in rolled.left_out
    assert {i.source for i in rolled.incumbents} | set(rolled.left_out) == {"fcfs", "sjf", "ljf", "srw"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_planned_in_pieces_is_the_same_list(kind: str) -> None:
    def one_by_one(go_on):  # type: ignore[no-untyped-def]
        while go_on(1):
            pass

    for seed in range(8):
        replay = random_replay(seed, transfers=seed % 2 == 0, workflows=3, bulk=seed % 3 == 0)
        whole, pieces = ListPlanner(kind, replay), ListPlanner(kind, replay, one_by_one)
        plans = [planner.plan_arrivals(range(len(replay.workflows)), 0.0) for planner in (whole, pieces)]
        for name in ("task", "node", "count", "start"):
            assert getattr(plans[0], name).tobytes() == getattr(plans[1], name).tobytes()
        assert whole.finish.tobytes() == pieces.finish.tobytes()


def test_booking_rules_are_left_out_by_instances_and_not_by_tasks() -> None:
    assert set(BOOKING) <= set(contained_specs(wide(300)))
    assert not set(BOOKING) & set(contained_specs(wide(300, instances=1000)))


@pytest.mark.parametrize("spec", ["mcts-rules:time_limit=0", "mcts-rules:simulations=3"])
def test_the_end_that_was_simulated_before_is_the_end_of_following_step_by_step(spec: str) -> None:
    for seed in range(6):
        replay = random_replay(seed, transfers=seed % 2 == 0, workflows=3, bulk=seed % 3 == 0)
        policy = make_policy(spec)
        schedule = simulate(replay, policy)
        validate(schedule)
        stepped = Simulator(replay)
        steps = begin_plan("plan", schedule.report["plan"], stepped)
        while not stepped.done:
            steps.advance(1)
        other = stepped.schedule("plan")
        for name in ("task", "node", "count", "start", "finish", "decision_time", "decision_task", "ready"):
            assert getattr(schedule, name).tobytes() == getattr(other, name).tobytes(), name


def test_a_kept_end_is_not_given_to_a_replay_with_other_durations() -> None:
    replay = random_replay(1, workflows=3)
    result = plan_batch(replay, schedules=3, learning=False)
    other = Simulator(replay)
    other.truth = replay.estimate * 2.0
    begin_plan("plan", result, other).advance(MANY)
    assert other.schedule("plan").finish.max() > result.value * 1.5


def test_ctrl_c_between_two_policies_keeps_the_schedule_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Roller._least_seconds

    def press(self: Roller, spec: str) -> float:
        if spec == "sjf":
            os.kill(os.getpid(), signal.SIGINT)
        return ask(self, spec)

    monkeypatch.setattr(Roller, "_least_seconds", press)
    replay = random_replay(6, workflows=4)
    result = plan_batch(replay, schedules=10**9, learning=False)
    assert result.interrupted
    assert result.rolled_out == ("fcfs",)
    simulator = Simulator(replay)
    begin_plan("plan", result, simulator).advance(MANY)
    validate(simulator.schedule("plan"))
    assert objective_value(replay, simulator.state.task["finish"], "makespan") == result.value


def test_ctrl_c_before_anything_has_run_ends_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "GRACE_SECONDS", -1.0)
    begin = Roller._begin

    def press(self, spec, simulator, allowance):  # type: ignore[no-untyped-def]
        os.kill(os.getpid(), signal.SIGINT)
        return begin(self, spec, simulator, allowance)

    monkeypatch.setattr(Roller, "_begin", press)
    with pytest.raises(KeyboardInterrupt):
        plan_batch(wide(2000), schedules=10**9, learning=False)


@pytest.mark.parametrize("limit", [-1.0, float("nan"), float("inf")])
def test_a_time_limit_is_a_number_of_seconds(limit: float) -> None:
    with pytest.raises(PolicyError, match="time_limit is"):
        plan_batch(wide(3), time_limit=limit)
