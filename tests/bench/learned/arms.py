"""Several trainings side by side: kinds of models ("arms"), seeds, ablations; and what the shipped cards say.

Runs lie in ``DIR/SUITE/ARM-sSEED``; all of a suite are judged on its test split by their greedy cost.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dagsched.errors import ConfigError, PolicyError
from dagsched.learn.arena import Arena, cost_function
from dagsched.learn.checkpoint import load_checkpoint
from dagsched.learn.choice import read_index
from dagsched.learn.confirm import checkpoint_costs
from dagsched.learn.run_folder import STATE
from dagsched.learn.standard import best_rules, rule_costs
from dagsched.learn.trainer_state import TrainerState
from dagsched.replay import Replay
from dagsched.simulator import simulate
from dagsched.workflow import FloatArray
from tests.bench.figure import Skip
from tests.bench.learned.families import FAMILIES, Family, is_finished
from tests.bench.learned.rows import head, note, points, relative, row

_RUN = re.compile(r"(.+)-s(\d+)")


def measure_arms(options: Namespace) -> None:
    """Every arm of every suite below ``--runs``: against the best rule, and against the arm ``--against``."""
    folders = _folders(options)
    head(
        "suite",
        "arm",
        "seeds",
        "cost",
        "against the best rule",
        "each seed",
        f"against {options.against}",
        "training, s",
    )
    for folder, found in folders.items():
        family = FAMILIES.get(folder.name, Family(folder.name))
        suite = family.load(options.set)
        count = suite.test if options.limit is None else min(options.limit, suite.test)
        replays = [suite.replay("test", k) for k in range(count)]
        known = [suite.replay("validation", k) for k in range(min(count, suite.validation))]
        rule = family.rule or best_rules(known, suite.objective).best
        reference = rule_costs(replays, suite.objective, rule)
        assert reference is not None
        arenas = [Arena(replay, suite.objective) for replay in replays]
        costs = {
            arm: {
                seed: checkpoint_costs(load_checkpoint(best), arenas, options.threads) for seed, best in seeds.items()
            }
            for arm, seeds in found.items()
        }
        effect = points if suite.objective == "slo" else relative
        for arm, seeds in costs.items():
            all_costs, workload = _stacked(seeds, list(seeds))
            other = costs.get(options.against, {})
            common = [seed for seed in seeds if seed in other]
            each = [_mean_effect(c, reference, suite.objective == "slo") for c in seeds.values()]
            row(
                folder.name,
                arm,
                len(seeds),
                float(all_costs.mean()),
                effect(all_costs, np.tile(reference, len(seeds)), workload),
                f"{min(each):+.2f} to {max(each):+.2f}",
                "" if arm == options.against or not common else _compared(seeds, other, common, effect),
                float(np.mean([_elapsed(best.parent) for best in found[arm].values()])),
            )
        headroom = _headroom(replays, reference, options)
        how = "the rule" if family.rule else "best rule on validation"
        note(f"{folder.name}: {count} test replays; {how}: {rule}{headroom}\n")


def measure_time(options: Namespace) -> None:
    """How long the runs below ``--runs`` took, and the simulated decisions of their networks' stages."""
    head("run", "steps", "seconds", "decisions", "decisions/s", "best on validation", "kind")
    for config in sorted(Path(options.runs).rglob("config.yaml")):
        state = _state(config.parent)
        if state is not None:
            best = state.best.get("ratio_best_rule")
            rate = state.decisions / max(state.elapsed, 1e-9)
            shown = "" if best is None else f"{100 * (best - 1):+.2f}%"
            row(config.parent, state.total, state.elapsed, state.decisions, rate, shown, state.best.get("kind", ""))


def measure_cards(options: Namespace) -> None:
    """What the cards of a checkpoint, or of an index, say about their confirmation."""
    if options.checkpoint is None:
        raise Skip("give --checkpoint DIR")
    folder = Path(options.checkpoint)
    paths = [folder]
    if (folder / "index.json").exists():
        paths = [folder / path for path in dict.fromkeys(entry.path for entry in read_index(folder).checkpoints)]
    head("checkpoint", "kind", "objective", "confirmed on", "against", "difference [95% interval]", "ship")
    for path in paths:
        loaded = load_checkpoint(path)
        found = loaded.card.get("confirm", {})
        unit = " points of the cost" if loaded.objective == "slo" else "%"
        ends = [found.get(key) for key in ("mean", "low", "high")]
        mean, low, high = ("" if v is None else f"{100 * v:+.2f}" for v in ends)
        instances, rule = found.get("instances", "-"), found.get("rule", "-")
        row(
            path.name,
            loaded.kind,
            loaded.objective,
            instances,
            rule,
            f"{mean}{unit} [{low}, {high}]",
            loaded.card.get("ship"),
        )


def _folders(options: Namespace) -> dict[Path, dict[str, dict[int, Path]]]:
    """The runs of each family below ``--runs``."""
    top = Path(options.runs)
    if not top.is_dir():
        raise ConfigError(f"--runs is {top}: there is no such folder; `train` makes one")
    found = {path: _runs(path) for path in sorted(top.iterdir()) if path.is_dir()}
    found = {path: runs for path, runs in found.items() if runs}
    if not found:
        raise ConfigError(f"{top}: no finished run lies in SUITE/ARM-sSEED below it")
    arms = sorted({arm for runs in found.values() for arm in runs})
    if options.against not in arms:
        raise ConfigError(f"--against is {options.against!r}, expected one of {', '.join(arms)}")
    return found


def _runs(folder: Path) -> dict[str, dict[int, Path]]:
    """``best/`` of each seed of each arm, of finished runs."""
    found: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.iterdir()):
        name = _RUN.fullmatch(path.name)
        if name and is_finished(path):
            found.setdefault(name[1], {})[int(name[2])] = path / "best"
    return found


def _stacked(
    seeds: Mapping[int, FloatArray], chosen: list[int]
) -> tuple[FloatArray, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Costs of the chosen seeds one after the other, and the instance of each."""
    costs = [seeds[seed] for seed in chosen]
    return np.concatenate(costs), np.tile(np.arange(len(costs[0])), len(costs))


def _compared(seeds: Mapping[int, FloatArray], other: Mapping[int, FloatArray], common: list[int], effect) -> str:  # type: ignore[no-untyped-def]
    mine, workload = _stacked(seeds, common)
    text: str = effect(mine, _stacked(other, common)[0], workload)
    return text


def _mean_effect(costs: FloatArray, reference: FloatArray, rates: bool) -> float:
    if rates:
        return float((costs - reference).mean())
    return 100 * float(np.expm1(np.log(costs / reference).mean()))


def _headroom(replays: list[Replay], reference: FloatArray, options: Namespace) -> str:
    """What the untrained best of n gains over the best rule, where whole batches can be planned."""
    n = options.n or 256
    try:
        cost = [cost_function(r, "makespan")(simulate(r, f"sampling:n={n}:rule=lft").task_finish) for r in replays]
    except PolicyError:
        return ""
    return f"; untrained best of {n} against it: {relative(np.array(cost), reference)}"


def _elapsed(run: Path) -> float:
    state = _state(run)
    return float("nan") if state is None else state.elapsed


def _state(run: Path) -> TrainerState | None:
    steps = {int(p.parent.name[5:]): p for p in (run / "checkpoints").glob(f"step_*/{STATE}")}
    return TrainerState.from_file(steps[max(steps)]) if steps else None
