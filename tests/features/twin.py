"""Every feature again from its meaning in ``dagsched.features.schema``: plain lists and obvious loops."""

from __future__ import annotations

import math
from typing import Any

from dagsched.features.schema import TYPES
from dagsched.replay import Replay
from dagsched.simulator.observation import ObservedState

TOLERANCE = 1e-9
FIRST_CHILDREN = 32
Row = dict[str, float]


def fits(need: list[float], free: list[float], capacity: list[float]) -> bool:
    return all(f - d >= -TOLERANCE * c for d, f, c in zip(need, free, capacity, strict=True))


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def clip(value: float, most: float) -> float:
    return min(max(value, -most), most)


class FeatureTwin:
    """What does not change of a replay, then three methods that read an observed state."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        groups = replay.cluster.groups
        self.resources = range(len(replay.cluster.resources))
        self.groups = range(len(groups))
        self.count = [g.nodes for g in groups]
        self.speed = [g.speed for g in groups]
        self.group_of = [g for g in self.groups for _ in range(self.count[g])]
        self.nodes = range(len(self.group_of))
        self.capacity = [[float(g.capacity.get(r, 0.0)) for r in replay.cluster.resources] for g in groups]
        self.largest = [max(self.capacity[g][r] for g in self.groups) for r in self.resources]
        self.total = [sum(self.capacity[g][r] * self.count[g] for g in self.groups) for r in self.resources]
        self.tasks = range(len(replay))
        self.workflows = range(len(replay.workflows))
        self.workflow = [int(w) for w in replay.workflow_of]
        self.members = [[t for t in self.tasks if self.workflow[t] == w] for w in self.workflows]
        self.arrival = [float(a) for a in replay.arrival]
        self.deadline = [float(d) for d in replay.deadline]
        self.weight = [float(w) for w in replay.weight]
        self.instances = [int(n) for n in replay.instances]
        self.milestone = [bool(m) for m in replay.milestone]
        self.demand = [[float(d) for d in row] for row in replay.demand]
        self.estimate = [[float(e) for e in row] for row in replay.estimate]
        self.parents: list[list[int]] = []
        self.carried: list[dict[int, float]] = []
        self.children: list[list[int]] = [[] for _ in self.tasks]
        for t in self.tasks:
            edges = range(int(replay.parent_ptr[t]), int(replay.parent_ptr[t + 1]))
            self.parents.append([int(replay.parent_idx[e]) for e in edges])
            self.carried.append({int(replay.parent_idx[e]): float(replay.parent_bytes[e]) for e in edges})
            for p in self.parents[t]:
                self.children[p].append(t)
        self._ranks()
        self._work()
        self.types = [self._type_order(w) for w in self.workflows]

    def _ranks(self) -> None:
        holders = [
            [g for g in self.groups if fits(self.demand[t], self.capacity[g], self.capacity[g])] for t in self.tasks
        ]
        self.own = [min(self.estimate[t][g] for g in holders[t]) for t in self.tasks]
        self.mean_own = [
            sum(self.estimate[t][g] * self.count[g] for g in holders[t]) / sum(self.count[g] for g in holders[t])
            for t in self.tasks
        ]
        order: list[int] = []
        placed: set[int] = set()
        while len(order) < len(self.tasks):
            new = [t for t in self.tasks if t not in placed and all(p in placed for p in self.parents[t])]
            order += new
            placed |= set(new)
        self.bottom, self.mean_level, self.top = ([0.0] * len(order) for _ in range(3))
        self.descendants: list[set[int]] = [set() for _ in self.tasks]
        for t in reversed(order):
            self.bottom[t] = self.own[t] + max([self.bottom[c] for c in self.children[t]], default=0.0)
            self.mean_level[t] = self.mean_own[t] + max([self.mean_level[c] for c in self.children[t]], default=0.0)
            for c in self.children[t]:
                self.descendants[t] |= {c} | self.descendants[c]
        for t in order:
            self.top[t] = max([self.top[p] + self.own[p] for p in self.parents[t]], default=0.0)
        self.path = [max(self.bottom[t] for t in members) for members in self.members]

    def _work(self) -> None:
        """Shares of the largest node, cluster-seconds of one instance, and what lies below each task."""
        self.shares = [
            [self.demand[t][r] / self.largest[r] if self.largest[r] > 0 else 0.0 for r in self.resources]
            for t in self.tasks
        ]
        self.share = [max(row) for row in self.shares]
        self.work = [
            [self.demand[t][r] / self.total[r] * self.own[t] if self.total[r] > 0 else 0.0 for r in self.resources]
            for t in self.tasks
        ]
        below = [sorted(found) for found in self.descendants]
        self.tail = [
            [math.fsum(self.work[d][r] * self.instances[d] for d in below[t]) for r in self.resources]
            for t in self.tasks
        ]
        area = [self.share[t] * self.own[t] * self.instances[t] for t in self.tasks]
        self.area_below = [area[t] + math.fsum(area[d] for d in below[t]) for t in self.tasks]
        self.near = [self._nearness(t) for t in self.tasks]

    def _nearness(self, task: int) -> list[float]:
        best = list(self.shares[task])
        seen, ring, factor = {task}, [task], 1.0
        while ring:
            ring = sorted({c for t in ring for c in self.children[t]} - seen)
            seen |= set(ring)
            factor /= 2
            for t in ring:
                best = [max(b, factor * s) for b, s in zip(best, self.shares[t], strict=True)]
        return best

    def _type_order(self, workflow: int) -> list[int]:
        """Resources, the one whose work lies earliest in the graphs first, as known when the workflow arrives."""
        known = [t for t in self.tasks if self.arrival[self.workflow[t]] <= self.arrival[workflow]]
        height = []
        for r in self.resources:
            amount = [self.work[t][r] * self.instances[t] for t in known]
            level = [self.bottom[t] / (self.path[self.workflow[t]] or 1.0) for t in known]
            spent = math.fsum(amount)
            high = math.fsum(a * x for a, x in zip(amount, level, strict=True))
            height.append(round(high / spent, 12) if spent > 0 else 0.0)
        return sorted(self.resources, key=lambda r: (-height[r], r))

    # --- at a moment -----------------------------------------------------------------------------------------

    def look(self, state: ObservedState) -> Any:
        """What all candidates share."""
        return Moment(self, state)


class Moment:
    """One observed state, read by plain loops."""

    def __init__(self, twin: FeatureTwin, state: ObservedState) -> None:
        self.f, self.now = twin, state.now
        f = twin
        self.free = [[float(x) for x in row] for row in state.free]
        self.arrived = [w for w in f.workflows if f.arrival[w] <= self.now]
        self.known = [t for w in self.arrived for t in f.members[w]]
        self.left = {t: 0 if f.milestone[t] else int(state.unstarted[t]) for t in self.known}
        self.ready_time = {t: float(state.ready_time[t]) for t in self.known}
        self.finished = {t: not math.isnan(float(state.finished[t])) for t in self.known}
        self.running = list(
            zip(state.running_task.tolist(), state.running_node.tolist(), state.running_count.tolist(),
                state.running_execution.tolist(), strict=True)
        )  # fmt: skip
        self.ready = [t for t in self.known if not math.isnan(self.ready_time[t]) and self.left[t] > 0]
        self.eligible = [t for t in self.ready if self.fits_now(t)]
        self.scale = max(mean([f.path[w] for w in self.arrived]), 1e-9)
        self.level = max(max(f.bottom[t] for t in self.known), 1e-12)
        self.most_below = max(f.area_below[t] for t in self.known)
        self.unstarted = [math.fsum(f.work[t][r] * self.left[t] for t in self.known) for r in f.resources]
        in_all = [math.fsum(f.work[t][r] * f.instances[t] for t in self.known) for r in f.resources]
        self.longest = max([f.bottom[t] for t in self.ready], default=0.0)
        self.bound = max([1e-12, self.longest, *self.unstarted])
        self.progress = sum(self.unstarted) / sum(in_all) if sum(in_all) > 0 else 0.0
        self.load = [x / self.bound for x in self.unstarted]
        waiting = [
            math.fsum(f.demand[t][r] * self.left[t] for t in self.ready) / f.total[r] if f.total[r] > 0 else 0.0
            for r in f.resources
        ]
        self.starvation = [x / (1 + q) for x, q in zip(self.load, waiting, strict=True)]
        self.queue = max(math.fsum(f.work[t][r] * self.left[t] for t in self.ready) for r in f.resources)
        self.free_share = [
            sum(self.free[n][r] for n in f.nodes) / f.total[r] if f.total[r] > 0 else 0.0 for r in f.resources
        ]
        ends = [execution + f.estimate[t][f.group_of[n]] for t, n, _, execution in self.running]
        self.next = max(min(ends) - self.now, 0.0) if ends else None
        stuck = [t for t in self.ready if t not in self.eligible]
        self.blocked = max([f.bottom[t] for t in stuck], default=-1.0)

    def fits_now(self, task: int) -> bool:
        f = self.f
        return any(fits(f.demand[task], self.free[n], f.capacity[f.group_of[n]]) for n in f.nodes)

    def task(self, task: int, node: int, finish: float) -> Row:
        """Features of an eligible task whose instance on ``node`` would be expected to end at ``finish``."""
        f, scale = self.f, self.scale
        w = f.workflow[task]
        own, bottom, path, share = f.own[task], f.bottom[task], f.path[w], f.share[task]
        children = f.children[task]
        row: Row = {
            "estimate": own / scale,
            "mean_level": f.mean_level[task] / scale,
            "bottom": bottom / scale,
            "path_after": (bottom - own) / scale,
            "path": path / scale,
            "slack": (path - f.top[task] - bottom) / scale,
            "tail": max([bottom - own, *f.tail[task]]) / scale,
            "child_work": sum(f.own[c] for c in children) / scale,
            "area": share * own / scale,
            "share": share,
            "mean_share": mean(f.shares[task]),
            "children": math.log(1 + len(children)),
            "descendants": len(f.descendants[task]) / max(len(f.members[w]) - 1, 1),
            "depth": f.top[task] / path if path > 0 else 0.0,
            "instances": math.log(1 + f.instances[task]),
        }
        level, progress = bottom / self.level, self.progress
        row |= {
            "bottom_level": level,
            "below": f.area_below[task] / self.most_below if self.most_below > 0 else 0.0,
            "share_x_level": share * level,
            "bottom_bound": bottom / self.bound,
            **{f"hinge_{h}": max(0.0, bottom / self.bound - h / 100) for h in (25, 50, 75)},
            "share_x_progress": share * progress,
            "bottom_x_progress": level * progress,
            "estimate_x_progress": own / scale * progress,
        }
        left = math.fsum(f.own[t] * self.left[t] for t in f.members[w]) / scale
        longest = max(f.bottom[t] for t in self.ready if f.workflow[t] == w)
        mine = [math.fsum(f.work[t][r] * self.left[t] for t in f.members[w]) for r in f.resources]
        of_all = sum(load * work for load, work in zip(self.load, mine, strict=True))
        begun = [t for t in f.members[w] if self.left[t] == 0 and not f.milestone[t]]
        row |= {
            "left_work": of_all / scale,
            "some_left_work": of_all / (scale + of_all),
            "left_bound": of_all / self.bound,
            "left_path": longest / scale,
            "begun": len(begun) / len(f.members[w]),
        }
        due = f.deadline[w] < math.inf
        laxity = clip((f.deadline[w] - self.now - bottom) / scale, 5.0) if due else 5.0
        row |= {
            "left": left,
            "some_left": left / (1 + left),
            "criticality": bottom / longest if longest > 0 else 1.0,
            "age": (self.now - self.ready_time[task]) / scale,
            "workflow_age": (self.now - f.arrival[w]) / scale,
            "weight": math.log(f.weight[w]),
            "laxity": laxity,
            "urgency": max(0.0, 1 - laxity),
            "lost": float(laxity < 0),
            "deadline": clip((f.deadline[w] - self.now) / scale, 50.0) if due else 50.0,
            "detour": (finish - (self.now + own)) / scale,
            "outlasts": 0.0 if self.next is None else (finish - (self.now + self.next)) / scale,
            "blocks": share if self.blocked > bottom else 0.0,
            "blocks_long": own / scale if self.blocked > bottom else 0.0,
        }
        return row | self._node(task, node) | self._children(task) | self._sums(task) | self._below(task)

    def _node(self, task: int, node: int) -> Row:
        f = self.f
        room = f.capacity[f.group_of[node]]
        parts = [(f.demand[task][r], self.free[node][r], room[r]) for r in f.resources]
        return {
            "demand_free": max([min(d / free, 1.0) if free > 0 else 1.0 for d, free, _ in parts if d > 0], default=0.0),
            "leftover": mean([(free - d) / c if c > 0 else 0.0 for d, free, c in parts]),
            "alignment": sum(d * free / c**2 for d, free, c in parts if c > 0),
        }

    def _children(self, task: int) -> Row:
        f = self.f
        open_parents = {
            c: sum(not self.finished[p] for p in f.parents[c]) for c in sorted(f.children[task])[:FIRST_CHILDREN]
        }
        alone = [c for c, count in open_parents.items() if count == 1]
        return {
            "unlocks": math.log(1 + len(alone)),
            "unlocks_bottom": max([f.bottom[c] for c in alone], default=0.0) / self.bound,
            "join_most": max([1 / count for count in open_parents.values()], default=0.0),
            "join_sum": sum(1 / count for count in open_parents.values()),
        }

    def _sums(self, task: int) -> Row:
        f = self.f

        def total(weight: list[float], value: list[float]) -> float:
            return sum(a * b for a, b in zip(weight, value, strict=True))

        child = [mean([f.shares[c][r] for c in f.children[task]]) for r in f.resources]
        return {
            "load_demand": total(self.load, f.shares[task]),
            "load_tail": total(self.load, f.tail[task]) / self.scale,
            "free_demand": total(self.free_share, f.shares[task]),
            "starve_demand": total(self.starvation, f.shares[task]),
            "starve_tail": total(self.starvation, f.tail[task]) / self.scale,
            "starve_near": total(self.starvation, f.near[task]),
            "starve_child": total(self.starvation, child),
        }

    def _below(self, task: int) -> Row:
        f = self.f
        order = f.types[f.workflow[task]][:TYPES]
        row: Row = {}
        for k in range(TYPES):
            r = order[k] if k < len(order) else None
            row[f"demand_{k + 1}"] = 0.0 if r is None else f.shares[task][r]
            row[f"tail_{k + 1}"] = 0.0 if r is None else f.tail[task][r] / self.scale
            row[f"near_{k + 1}"] = 0.0 if r is None else f.near[task][r]

        def of_children(t: int, value: Any) -> float:
            return mean([value(c) for c in f.children[t]])

        def parents(t: int) -> float:
            return math.log(1 + len(f.parents[t]))

        others = [p for c in f.children[task] for p in f.parents[c] if p != task]
        once = {
            "estimate": lambda t: f.own[t] / self.scale,
            "bottom": lambda t: f.bottom[t] / self.scale,
            "share": lambda t: f.share[t],
            "parents": parents,
        }
        row |= {f"child_{name}": of_children(task, value) for name, value in once.items()}
        for name in ("estimate", "share", "parents"):
            row[f"grandchild_{name}"] = of_children(task, lambda c, name=name: of_children(c, once[name]))
        return row | {f"sibling_{name}": mean([once[name](p) for p in others]) for name in ("estimate", "share")}

    def general(self) -> Row:
        f, scale = self.f, self.scale
        active = sorted({f.workflow[t] for t in self.ready})
        arrivals = [f.arrival[w] for w in self.arrived]
        ages = [self.now - self.ready_time[t] for t in self.ready]
        return {
            "progress": self.progress,
            "bound_scale": math.log(1 + self.bound / scale),
            "path_bound": self.longest / self.bound,
            "free": mean(self.free_share),
            "free_least": min([1.0, *self.free_share]),
            "load_spread": min(self.load) / max(self.load) if max(self.load) > 0 else 1.0,
            "ready": math.log(1 + len(self.ready)),
            "eligible": math.log(1 + len(self.eligible)),
            "running": math.log(1 + len(self.running)),
            "queue": math.log(1 + self.queue / scale),
            "next_completion": (self.next or 0.0) / scale,
            "blocked_bottom": max(self.blocked, 0.0) / self.bound,
            "active": math.log(1 + len(active)),
            "late": mean([float(f.deadline[w] < self.now) for w in active]),
            "mean_age": mean(ages) / scale,
            "arrival_gap": (max(arrivals) - min(arrivals)) / (len(arrivals) - 1) / scale if len(arrivals) > 1 else 0.0,
        }

    def group(self, g: int) -> Row:
        f = self.f
        mine = [n for n in f.nodes if f.group_of[n] == g]
        has = [r for r in f.resources if f.capacity[g][r] > 0]
        share = {r: sum(self.free[n][r] for n in mine) / (f.capacity[g][r] * len(mine)) for r in has}
        busy = {n for _, n, _, _ in self.running}
        return {
            "nodes": len(mine) / len(f.nodes),
            "speed": f.speed[g] / max(f.speed),
            "free": mean([share.get(r, 1.0) for r in f.resources]),
            "free_least": min(share.values()),
            "largest_free": min(max(self.free[n][r] for n in mine) / f.largest[r] for r in has),
            "capacity": mean([f.capacity[g][r] / f.largest[r] if f.largest[r] > 0 else 0.0 for r in f.resources]),
            "idle": sum(n not in busy for n in mine) / len(mine),
        }
