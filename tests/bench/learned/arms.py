"""Several trainings side by side: kinds of models ("arms"), seeds, ablations; and what the shipped cards say.

Runs lie in ``DIR/SUITE/ARM-sSEED``; all of a suite are judged on its test split by their greedy cost.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np

from dagsched.errors import ConfigError
from dagsched.learn.run_folder import STATE
from dagsched.learn.trainer_state import TrainerState
from dagsched.models.checkpoint import load_checkpoint
from dagsched.models.index import read_index
from dagsched.workflow import FloatArray
from tests.bench.figure import Skip
from tests.bench.learned.families import RUN, is_finished
from tests.bench.learned.judged import judge
from tests.bench.learned.rows import head, note, points, relative, row


def measure_arms(options: Namespace) -> None:
    """Every arm of every suite below ``--runs``: against the best rule, and against the arm ``--against``."""
    families = _families(options)
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
    for name, runs in families.items():
        found = judge(name, runs, options)
        effect = points if found.objective == "slo" else relative
        reference, arms = found.columns[found.rule], found.arms()
        other = arms.get(options.against, {})
        for arm, seeds in arms.items():
            costs = np.stack(list(seeds.values()))
            common = [seed for seed in seeds if seed in other and arm != options.against]
            beside = [np.stack([of[seed] for seed in common]) for of in (seeds, other)] if common else None
            each = [_mean_effect(c, reference, found.objective == "slo") for c in costs]
            times = [_elapsed(best.parent) for run, best in runs.items() if run.rpartition("-s")[0] == arm]
            row(
                name,
                arm,
                len(seeds),
                float(costs.mean()),
                effect(costs, reference),
                f"{min(each):+.2f} to {max(each):+.2f}",
                effect(*beside) if beside else "",
                float(np.mean(times)) if times else "",
            )
        headroom = "" if other else f"; no run of {options.against} to compare with"
        if found.sampler is not None:
            headroom += f"; untrained {found.sampler} against it: {relative(found.columns[found.sampler], reference)}"
        note(f"{name}: {len(reference)} test replays; compared with {found.rule}{headroom}\n")


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


def _folders(top: Path) -> list[Path]:
    return sorted((path for path in top.iterdir() if path.is_dir()), reverse=True)


def _checkpoints(folder: Path) -> list[Path]:
    if not (folder / "index.json").exists():
        return [folder]
    return [folder / path for path in dict.fromkeys(entry.path for entry in read_index(folder).checkpoints)]


def measure_cards(options: Namespace) -> None:
    """What the cards of a checkpoint, of an index, or of a folder of these say about their confirmation."""
    if options.checkpoint is None:
        raise Skip("give --checkpoint DIR")
    top = Path(options.checkpoint)
    folders = [top] if any((top / name).exists() for name in ("index.json", "card.json")) else _folders(top)
    paths = [path for folder in folders for path in _checkpoints(folder)]
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


def _families(options: Namespace) -> dict[str, dict[str, Path]]:
    """``best/`` of the finished runs of each family below ``--runs``, by the run's name; families of ``--costs``."""
    top = Path(options.runs)
    found = {path.name: _runs(path) for path in sorted(top.iterdir()) if path.is_dir()} if top.is_dir() else {}
    found = {name: runs for name, runs in found.items() if runs}
    if options.costs is not None:
        if options.limit is not None or options.set:
            raise ConfigError("--costs keeps costs of whole test splits: --limit and --set have no place beside it")
        kept = sorted(file.stem for file in Path(options.costs).glob("*.csv"))
        found |= {name: {} for name in kept if name not in found}
    if not found:
        raise ConfigError(f"--runs is {top}: no finished run lies in SUITE/ARM-sSEED below it; `train` makes them")
    return dict(sorted(found.items()))


def _runs(folder: Path) -> dict[str, Path]:
    """``best/`` of each finished run of a family."""
    return {p.name: p / "best" for p in sorted(folder.iterdir()) if RUN.fullmatch(p.name) and is_finished(p)}


def _mean_effect(costs: FloatArray, reference: FloatArray, rates: bool) -> float:
    if rates:
        return float((costs - reference).mean())
    return 100 * float(np.expm1(np.log(costs / reference).mean()))


def _elapsed(run: Path) -> float:
    state = _state(run)
    return float("nan") if state is None else state.elapsed


def _state(run: Path) -> TrainerState | None:
    steps = {int(p.parent.name[5:]): p for p in (run / "checkpoints").glob(f"step_*/{STATE}")}
    return TrainerState.from_file(steps[max(steps)]) if steps else None
