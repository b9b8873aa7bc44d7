"""Every rule of the registry that is neither a plan nor a search, written from its definition."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dagsched.replay import Replay
from tests.twin.machine import WAIT, Machine, fits


class Facts:
    """What the rules know of a replay: estimates and the graph, by plain recursion."""

    def __init__(self, m: Machine) -> None:
        self.m = m
        replay = m.replay
        nodes = [g.nodes for g in replay.cluster.groups]
        holds = replay.can_hold.tolist()
        groups = range(len(nodes))
        self.fastest = [min(m.estimate[t][g] for g in groups if holds[t][g]) for t in m.tasks]
        self.mean = [
            sum(m.estimate[t][g] * nodes[g] for g in groups if holds[t][g])
            / sum(nodes[g] for g in groups if holds[t][g])
            for t in m.tasks
        ]
        largest = [max(row[r] for row in m.capacity) for r in range(len(m.capacity[0]))]
        self.share = [max([0.0, *(d / c for d, c in zip(m.demand[t], largest, strict=True) if c > 0)]) for t in m.tasks]
        self.deadline = [float(replay.deadline[w]) for w in m.workflow]
        self.order = self._topological()
        self.transfer = self._mean_transfer()
        self.bottom = self._longest(self.fastest)
        self.mean_level = self._longest(self.mean)
        m.upward_rank = self._longest(self.mean, self.transfer)
        self.descendants: list[set[int]] = [set() for _ in m.tasks]
        for t in reversed(self.order):
            for c in m.children[t]:
                self.descendants[t] |= {c} | self.descendants[c]
        own = [self.share[t] * self.fastest[t] * m.instances[t] for t in m.tasks]
        self.area_below = [own[t] + sum(own[d] for d in sorted(self.descendants[t])) for t in m.tasks]
        self.path = [max(self.bottom[u] for u in self.siblings(t)) for t in m.tasks]

    def siblings(self, task: int) -> list[int]:
        return [u for u in self.m.tasks if self.m.workflow[u] == self.m.workflow[task]]

    def _topological(self) -> list[int]:
        order: list[int] = []
        while len(order) < len(self.m.tasks):
            order += [t for t in self.m.tasks if t not in order and all(p in order for p, _ in self.m.parents[t])]
        return order

    def _mean_transfer(self) -> dict[tuple[int, int], float]:
        """Mean over ordered pairs of nodes in different groups; nothing moves to or from a milestone."""
        m, cluster = self.m, self.m.replay.cluster
        pairs = [(m.group_of[a], m.group_of[b]) for a in m.nodes for b in m.nodes if m.group_of[a] != m.group_of[b]]
        seconds = {}
        for child in m.tasks:
            for parent, size in m.parents[child]:
                if not pairs or m.milestone[child] or m.milestone[parent]:
                    seconds[parent, child] = 0.0
                else:
                    each = [float(cluster.latency[p]) + size / float(cluster.bandwidth[p]) for p in pairs]
                    seconds[parent, child] = math.fsum(each) / len(each)
        return seconds

    def _longest(self, weight: list[float], edge: dict[tuple[int, int], float] | None = None) -> list[float]:
        length = [0.0] * len(weight)
        for t in reversed(self.order):
            beyond = [(edge[t, c] if edge else 0.0) + length[c] for c in self.m.children[t]]
            length[t] = weight[t] + max([0.0, *beyond])
        return length

    def workflow_left(self, task: int) -> float:
        """Seconds of instances not started, on the fastest group."""
        return sum(self.fastest[u] * self.m.unstarted[u] for u in self.siblings(task))

    def service(self, task: int) -> float:
        """Share-seconds started in the task's workflow, added up start by start."""
        mine = [(u, count) for u, count in self.m.started if self.m.workflow[u] == self.m.workflow[task]]
        return sum(count * (self.share[u] * self.fastest[u]) for u, count in mine)

    def alignment(self, task: int) -> float:
        m = self.m
        dots = []
        for node in m.nodes:
            if m.fits_now(task, node):
                room = zip(m.demand[task], m.free(node), m.capacity[m.group_of[node]], strict=True)
                dots.append(sum((need / all_) * (free / all_) for need, free, all_ in room if all_ > 0))
        return max(dots)

    def arrived(self) -> list[int]:
        return [t for t in self.m.tasks if self.m.arrival[t] <= self.m.now]


Choice = tuple[int, int | None, int | None]
"""(task or WAIT, node or None for the placement rule, number of instances or None for all that fit)."""
Rule = Callable[[Facts], Choice]


def by_score(score: Callable[[Facts, int], float]) -> Rule:
    """The eligible task of largest score; ties by upward rank, arrival, workflow name, task id."""

    def choose(f: Facts) -> Choice:
        able = f.m.eligible()
        scores = {t: score(f, t) for t in able}
        return min(able, key=lambda t: (-scores[t], f.m.tie(t))), None, None

    return choose


def as_submitted(score: Callable[[Facts, int], float]) -> Rule:
    """The eligible task of largest score; ties by arrival, then place in the source."""

    def choose(f: Facts) -> Choice:
        able = f.m.eligible()
        scores = {t: score(f, t) for t in able}
        return min(able, key=lambda t: (-scores[t], f.m.submission(t))), None, None

    return choose


def packer(shortness: float) -> Rule:
    """The published Tetris: alignment plus so much for 1 / least estimate."""

    def score(f: Facts, t: int) -> float:
        if not shortness:
            return f.alignment(t)
        return f.alignment(t) + (shortness / f.fastest[t] if f.fastest[t] else math.inf)

    return as_submitted(score)


def hrrn(f: Facts, t: int) -> float:
    return (f.m.now - f.m.ready[t] + f.mean[t]) / f.mean[t] if f.mean[t] > 0 else math.inf


def graphene(f: Facts, t: int) -> float:
    longest = max(f.fastest[u] for u in f.siblings(t))

    def trouble(u: int) -> float:
        return max(f.fastest[u] / longest if longest > 0 else 0.0, f.share[u])

    most = max(trouble(u) for u in {t} | f.descendants[t])
    return math.floor(10 * most) / 10 + 0.1 * (f.bottom[t] / f.path[t] if f.path[t] > 0 else 0.0)


def cp_demand(f: Facts, t: int, weight: float = 1.0) -> float:
    most = max(f.bottom[u] for u in f.arrived())
    return f.share[t] * weight + (f.bottom[t] / most if most > 0 else 0.0)


def cp_demand_work(f: Facts, t: int) -> float:
    most = max(f.area_below[u] for u in f.arrived())
    return cp_demand(f, t, 0.5) + (0.3 * f.area_below[t] / most if most > 0 else 0.0)


def tetris_srw(f: Facts) -> Choice:
    able = f.m.eligible()
    alignment = {t: f.alignment(t) for t in able}
    left = {t: f.workflow_left(t) for t in able}
    mean_alignment = sum(alignment.values()) / len(able) or 1.0
    mean_left = sum(left.values()) / len(able) or 1.0
    score = {t: alignment[t] / mean_alignment - left[t] / mean_left for t in able}
    return min(able, key=lambda t: (-score[t], f.m.tie(t))), None, None


def random_rule(f: Facts) -> Choice:
    key = np.random.default_rng(np.random.SeedSequence([0, f.m.placement_seed], spawn_key=(0x52414E44,))).random(
        len(f.m.tasks)
    )
    return max(f.m.eligible(), key=lambda t: key[t]), None, None


# --- Min-Min, Max-Min, Sufferage --------------------------------------------------------------------------------


class Profile:
    """Free amounts of one node over time, as running work is expected to end and bookings are made."""

    def __init__(self, m: Machine, node: int) -> None:
        self.m, self.group = m, m.group_of[node]
        self.held: list[tuple[float, float, list[float]]] = []
        for a in m.running:
            if a.node == node:
                expected = a.execution + m.estimate[a.task][self.group]
                if expected <= m.now:  # remaining time 0, but it still runs: it may end at any moment, not yet
                    expected = math.nextafter(m.now, math.inf)
                self.held.append((-math.inf, expected, [d * a.count for d in m.demand[a.task]]))

    def free(self, time: float) -> list[float]:
        left = list(self.m.capacity[self.group])
        for begin, end, amount in self.held:
            if begin <= time < end:
                left = [x - y for x, y in zip(left, amount, strict=True)]
        return left

    def fits(self, task: int, start: float, end: float) -> bool:
        """Whether one instance fits at every moment of ``[start, end)``, and at ``start`` in any case."""
        changes = [start, *(t for begin, over, _ in self.held for t in (begin, over) if start < t < end)]
        room = self.m.capacity[self.group]
        return all(fits(self.m.demand[task], self.free(t), room) for t in changes)

    def earliest(self, task: int) -> tuple[float, float]:
        """(start, completion): the earliest start at which the demand fits until completion."""
        m = self.m
        data = m.data_ready(task, self.group)
        for start in sorted({m.now, *(t for begin, end, _ in self.held for t in (begin, end) if t > m.now)}):
            end = max(start, data) + m.estimate[task][self.group]
            if self.fits(task, start, end):
                return start, end
        raise AssertionError("after the last change the node is empty")

    def book(self, task: int, start: float, end: float) -> None:
        self.held.append((start, end, self.m.demand[task]))


class Booking:
    """Virtual bookings of all ready tasks, made once at each moment; those due now are started one after another."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.made_at = 0
        self.due: list[list[int]] = []

    def __call__(self, f: Facts) -> Choice:
        m = f.m
        if self.made_at != m.moment:
            self.made_at = m.moment
            self.due = self._book_all(f)
        while self.due:
            entry = self.due[0]
            task, node, count = entry
            count = min(count, m.unstarted[task], m.options.instances_per_decision or count)
            if not count or not m.fits_now(task, node):
                self.due.pop(0)
                continue
            entry[2] -= count
            return task, node, count
        return WAIT, None, None

    def _book_all(self, f: Facts) -> list[list[int]]:
        m = f.m
        profiles = [Profile(m, node) for node in m.nodes]
        left = {t: m.unstarted[t] for t in m.waiting()}
        due = []
        while left:
            completion = {
                t: sorted((profiles[n].earliest(t)[1], n) for n in m.nodes if m.could_hold(t, n)) for t in left
            }
            task = max(left, key=lambda t: (self._value(completion[t]), -m.tie(t)[0], -t))
            node = completion[task][0][1]
            start, end = profiles[node].earliest(task)
            count = 0
            while left[task] and (not count or profiles[node].fits(task, start, end)):
                profiles[node].book(task, start, end)
                left[task] -= 1
                count += 1
            if start == m.now:
                due.append([task, node, count])
            if not left[task]:
                del left[task]
        return due

    def _value(self, completion: list[tuple[float, int]]) -> float:
        least = completion[0][0]
        if self.kind == "min-min":
            return -least
        if self.kind == "max-min":
            return least
        return completion[1][0] - least if len(completion) > 1 else math.inf


BOOKED = ("min-min", "max-min", "sufferage")
RULES: dict[str, Rule] = {
    "random": random_rule,
    "fcfs": as_submitted(lambda f, t: -f.m.ready[t]),
    "round-robin": as_submitted(lambda f, t: -f.m.last_served[f.m.workflow[t]]),
    "sjf": by_score(lambda f, t: -f.mean[t]),
    "ljf": by_score(lambda f, t: f.mean[t]),
    "hrrn": by_score(hrrn),
    "edf": by_score(lambda f, t: -f.deadline[t]),
    "llf": by_score(lambda f, t: f.bottom[t] - f.deadline[t]),
    "weighted-fair": by_score(lambda f, t: -f.service(t) / float(f.m.replay.weight[f.m.workflow[t]])),
    "critical-path": by_score(lambda f, t: f.mean_level[t]),
    "lft": by_score(lambda f, t: -(f.m.arrival[t] + f.path[t] - (f.bottom[t] - f.fastest[t]))),
    "lst": by_score(lambda f, t: -(f.m.arrival[t] + f.path[t] - f.bottom[t])),
    "mts": by_score(lambda f, t: len(f.descendants[t])),
    "srw": by_score(lambda f, t: -f.workflow_left(t)),
    "srw*cp": by_score(lambda f, t: -f.workflow_left(t) + 0.02 * f.bottom[t]),
    "tetris": by_score(Facts.alignment),
    "tetris+srw": tetris_srw,
    "graphene": by_score(graphene),
    "cp+demand": by_score(cp_demand),
    "cp+demand+work": by_score(cp_demand_work),
}

RULE_NAMES = (*RULES, *BOOKED)
OPTIONS: dict[str, Rule] = {
    "tetris:score=published": packer(0.0),
    "tetris:score=published:eps=0.5": packer(0.5),
    "tetris:score=published:eps=40": packer(40.0),
}
"""Rules with options."""


def run_twin(replay: Replay, rule: str, policy_seed: int = 0) -> Machine:
    """Run a rule to the end."""
    choose = Booking(rule) if rule in BOOKED else (RULES | OPTIONS)[rule]
    machine = Machine(replay, policy_seed)
    facts = Facts(machine)
    going = machine.to_decision()
    while going:
        forced = machine.forced()
        task, node, count = (forced, None, None) if forced is not None else choose(facts)
        if task == WAIT:
            going = machine.wait()
        else:
            machine.start(task, node, count)
            going = bool(machine.eligible()) or machine.to_decision()
    return machine
