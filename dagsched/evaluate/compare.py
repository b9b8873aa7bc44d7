"""The front door of every comparison: the same replays for every policy, then tables that can be trusted.

:func:`compare_baselines` is what people call; the command line calls the same function. The parts: ``config``
(what to do), ``scenario`` (replays), ``runner`` (processes), ``resume`` (interruptions), ``results`` (files).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dagsched.checks import as_list, is_name
from dagsched.cluster import Cluster, cluster_named
from dagsched.errors import ConfigError, PolicyError
from dagsched.evaluate.analysis.ablation import expand, first_planner, with_planner
from dagsched.evaluate.compiling import ensure_compiled
from dagsched.evaluate.config import (
    DEFAULT_POLICIES,
    CompareConfig,
    given_declarations,
    parse_arrivals,
    parse_deadlines,
)
from dagsched.evaluate.drawn_schedules import drawn_workload, gantt_schedules
from dagsched.evaluate.resolved import resolve
from dagsched.evaluate.results import Comparison, Refusal
from dagsched.evaluate.resume import Key, ResumeLog
from dagsched.evaluate.runner import Job, RunOutcome, RunProgress, Setting, default_jobs, run_jobs, split
from dagsched.evaluate.scenario import agreed_objective, build_replay, cluster_of, nature_of, prepare
from dagsched.formats import load, workload_of
from dagsched.locks import FolderLock
from dagsched.objective import ObjectiveName
from dagsched.policies.base import Policy, ScoreFunction
from dagsched.policies.info import policy_name
from dagsched.policies.registry import list_policies
from dagsched.processes import check_spawnable, useful
from dagsched.replay import Placement, SimulationOptions
from dagsched.run_policy import as_policy, modes_of
from dagsched.search.options import PLANNERS
from dagsched.texts import described
from dagsched.workflow import Workflow
from dagsched.workload import Workload

__all__ = ["Comparison", "compare_baselines", "run_comparison"]

Input = str | os.PathLike[str] | Workload | Workflow
_ONE = (str, os.PathLike, Workload, Workflow)


def compare_baselines(
    inputs: Input | Sequence[Input],
    policies: Sequence[str | ScoreFunction | Policy] = DEFAULT_POLICIES,
    *,
    cluster: Cluster | str | Path | None = None,
    replays: int = 1,
    seed: int = 0,
    noise: float | str = 0.0,
    closed: bool | None = None,
    arrivals: str | None = None,
    deadlines: str | float | None = None,
    known: str | Path | None = None,
    objective: ObjectiveName | None = None,
    checkpoint: str | Path | None = None,
    placement: Placement = "earliest-finish",
    decision_interval: float = 0.0,
    max_wait: float = math.inf,
    format: str | None = None,  # noqa: A002 - the word users know
    strict: bool = False,
    processors: int = 4,
    limit: int | None = None,
    jobs: int = 1,
    out: str | Path | None = None,
    save_schedules: bool = False,
    validate: bool = True,
    ablate: bool = False,
    progress: RunProgress | None = None,
    say: Callable[[str], None] | None = None,
) -> Comparison:
    """Run every policy on the same replays of every workload.

    The front door: everything is a keyword of its own, which is why there are many. :class:`CompareConfig` with
    :func:`run_comparison` is the same in groups, for workloads that are loaded.

    Args:
        inputs: files, directories, workloads or workflows, one or several.
        policies: specs (see ``dagsched policies``), ``path/to/file.py:function``, functions of an
            :class:`ObservedState`, which appear under their names, or policy objects.
        cluster: a cluster, a YAML file or the name of a shipped one; by default each workload's own, else the
            shipped default.
        replays: replays with fresh random outcomes; a workload without randomness runs once all the same.
        seed: from which every random stream is derived.
        noise: sigma of the lognormal error of the estimates; 0 = recorded durations, ``exact`` or ``unknown`` declares
            what holds of them.
        closed: whether everything is known at the start; by default as the source says (:mod:`dagsched.declared`).
        arrivals: ``poisson:LOAD`` merges all inputs into one stream of arrivals.
        deadlines: ``tight`` or a factor of the critical path.
        known: table of published makespans for ``gap_known``; else those beside an instance.
        objective: decides what "best" means, and what planners and learned policies make small: ``makespan``,
            ``flow_time`` or ``slo``; by default what the workloads declare, else makespan where they are closed,
            ``slo`` where all work has deadlines, and flow time elsewhere.
        checkpoint: of learned policies whose spec names none; by default the shipped ones.
        placement: rule that picks the node.
        decision_interval: seconds between decision ticks; 0 = decide at every event.
        max_wait: seconds after which a ready task must be picked first.
        format: of the files, if it is not to be recognised.
        strict: an unusable record of a trace is an error.
        processors: machine count for STG files.
        limit: only the first so many workloads.
        jobs: processes, at most one for each core; the result does not depend on it. A script that asks for more than
            one needs the usual
            ``if __name__ == "__main__":``.
        out: folder for results.csv, timings.csv, summary.json and report.html; an interrupted run resumes there.
            Those files of an earlier comparison are replaced at the end. One process at a time may write there.
        save_schedules: keep every schedule under ``out/schedules``.
        validate: check every schedule with the independent validator.
        ablate: add variants of the first planner among the policies (``mcts``, if there is none) that differ in one
            thing each; see :mod:`dagsched.evaluate.analysis.ablation`.
        progress: called with (finished runs, all runs).
        say: called with one line for every remark (resuming, compiling).

    Returns:
        All rows, with tables and a verdict.

    Raises:
        ConfigError: for an option that is out of range, a folder that another process writes to, or a script without
            the guard that processes need.
        FormatError: for an input that cannot be read.
        PolicyError: for an unknown policy, or one that refuses every replay.
        PolicyCrashError: if a policy fails or its schedule is not valid.
    """
    sigma, declared = given_declarations(noise=noise, closed=closed, objective=objective)
    specs, own = _specs(policies)
    config = CompareConfig(
        policies=tuple(with_planner(specs) if ablate else specs),
        cluster=cluster_named(cluster),
        replays=replays,
        seed=seed,
        noise=sigma,
        load=parse_arrivals(arrivals),
        deadlines=parse_deadlines(deadlines),
        options=SimulationOptions(placement, decision_interval, max_wait),
        objective=objective or "makespan",
        declared=declared,
        learned_options=given_options(objective, checkpoint),
        validate=validate,
        save_schedules=save_schedules,
        own=own,
    )
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ConfigError(f"jobs is {described(jobs)}, expected a whole number >= 1")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ConfigError(f"limit is {described(limit)}, expected a whole number >= 1")
    if save_schedules and out is None:
        raise ConfigError("save_schedules needs a folder to save to; give one with out (--out DIR)")
    many = [inputs] if isinstance(inputs, _ONE) else as_list(inputs, _ONE)
    if many is None:
        raise ConfigError(f"inputs is {described(inputs)}, expected files, folders or workloads, one or several")
    workloads: list[Workload] = []
    for entry in many:
        if isinstance(entry, Workload | Workflow):
            workloads.append(workload_of(entry))
        else:
            workloads += load(entry, format=format, strict=strict, processors=processors, known=known)
    if objective is None and workloads:
        config = replace(config, objective=agreed_objective(workloads[:limit], config))
    if ablate:
        config = ablated(workloads[:limit], config)
    return run_comparison(workloads[:limit], config, jobs=jobs, out=out, progress=progress, say=say)


def _specs(policies: Sequence[str | ScoreFunction | Policy]) -> tuple[tuple[str, ...], dict[str, Policy]]:
    """(names, what of them is a function or an object)."""
    expected = "expected a list of specs, functions or policies, such as ['fcfs', 'heft']"
    if not isinstance(policies, Sequence) or isinstance(policies, str | bytes):
        raise ConfigError(f"policies is {described(policies)}, {expected}")
    known = {info.name for info in list_policies()}
    names: list[str] = []
    own: dict[str, Policy] = {}
    for policy in policies:
        if isinstance(policy, str):
            if not is_name(policy):
                raise ConfigError(f"policies has {described(policy)}, {expected}")
            names.append(policy)
            continue
        try:
            made = as_policy(policy)
        except TypeError:
            raise ConfigError(f"policies has {described(policy)}, {expected}") from None
        if made is not policy and made.name in known:
            raise ConfigError(f"policies: the function {made.name!r} has the name of a policy; call it something else")
        if made.name in own:
            raise ConfigError(f"policies: {made.name!r} is named twice; give each function a __name__ of its own")
        names.append(made.name)
        own[made.name] = made
    return tuple(names), own


@dataclass(frozen=True, slots=True)
class _Plan:
    """Prepared workloads, their keys in the resume log, all jobs, and the kinds of search that planners need."""

    workloads: tuple[Workload, ...]
    keys: tuple[str, ...]
    jobs: tuple[Job, ...]
    modes: tuple[str, ...]


def run_comparison(
    workloads: Sequence[Workload],
    config: CompareConfig,
    *,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: RunProgress | None = None,
    say: Callable[[str], None] | None = None,
) -> Comparison:
    """:func:`compare_baselines` for workloads that are loaded and options that are checked."""
    from dagsched.evaluate.results import write_results

    tell = say or (lambda _line: None)
    plan = _plan(workloads, config)
    _check_policies(config)
    keys = {policy: config.key(policy) for policy in config.policies}
    folder = None if out is None else Path(out)
    if folder is not None:
        _check_folder(folder)
    asked = jobs
    jobs, fewer = useful(asked, len(plan.jobs) * len(config.policies))
    if fewer and asked != default_jobs():
        tell(f"jobs: {fewer}")
    if jobs > 1:
        check_spawnable("jobs")
        _check_sendable(config)
    lock = None if folder is None else FolderLock(folder)
    try:
        ensure_compiled(tell, jobs, config.policies, plan.modes)
        log = None if folder is None else ResumeLog(folder, config.digest)
        if log is not None and log.note:
            tell(log.note)
        outcomes = _run(plan, config, jobs, folder, log, progress, keys)
        comparison = _assemble(plan, config, outcomes, keys)
        if folder is not None and log is not None:
            write_results(comparison, folder, gantt_schedules(comparison, log.folder))
            log.remove()
        return comparison
    finally:
        if lock is not None:
            lock.release()


def ablated(workloads: Sequence[Workload], config: CompareConfig) -> CompareConfig:
    """The configuration with the variants of its first planner, for the modes that run on replay 0 of each workload.

    Raises:
        PolicyError: if the planner refuses every replay.
    """
    planner = first_planner(config.policies)
    assert planner is not None
    replays = (build_replay(workload, config, 0) for workload in prepare(workloads, config))
    found = resolve(planner, replays, config.learned_options)
    policies = expand(config.policies, found.modes, found.base, found.rule)
    return replace(config, policies=policies, ablation_base=found.base)


def given_options(objective: str | None, checkpoint: str | Path | None) -> dict[str, str]:
    """Options of learned policies that were given for all of them.

    Raises:
        CheckpointError: if the checkpoint, or one that its index names, cannot be read.
    """
    if checkpoint is not None:
        from dagsched.models.checkpoint import check_folder

        check_folder(Path(checkpoint))
    given = {"objective": objective, "checkpoint": checkpoint}
    return {key: str(value) for key, value in given.items() if value is not None}


def _plan(workloads: Sequence[Workload], config: CompareConfig) -> _Plan:
    """Build replay 0 of every workload once, so that a misfit shows before the long run."""
    prepared = tuple(prepare(workloads, config))
    due = config.deadlines is not None or any(w.deadline is not None for p in prepared for w in p.workflows)
    if config.objective == "slo" and not due:
        raise ConfigError("objective slo: no workflow has a deadline; give some with --deadlines tight|FACTOR")
    planners = [config.make(policy) for policy in config.policies if policy_name(policy) in PLANNERS]
    modes: dict[str, None] = {}
    for workload in prepared:
        replay = build_replay(workload, config, 0)
        modes |= dict.fromkeys(mode for planner in planners for mode in modes_of(planner, replay))
    keys = tuple(_workload_key(workload, config) for workload in prepared)
    jobs = tuple(
        Job(index, number, config.policies) for index in range(len(prepared)) for number in range(config.replay_count)
    )
    return _Plan(prepared, keys, jobs, tuple(modes))


def _workload_key(workload: Workload, config: CompareConfig) -> str:
    nature = str(nature_of(workload, config))
    parts = [workload.name, workload.digest, workload.known_makespan, cluster_of(workload, config).to_dict(), nature]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _check_policies(config: CompareConfig) -> None:
    for policy in config.policies:
        config.make(policy)


def _check_sendable(config: CompareConfig) -> None:
    """Functions that other processes cannot import are refused before these start."""
    for name, policy in config.own.items():
        function = getattr(policy, "function", policy)
        try:
            sent = pickle.dumps(policy) and getattr(function, "__module__", "") != "__main__"
        except (pickle.PicklingError, AttributeError, TypeError):
            sent = False
        if not sent:
            raise ConfigError(
                f"policies: {name!r} cannot be sent to other processes, which import functions by name; put it into a "
                f"file (path/to/file.py:{name}), or use jobs=1"
            )


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot make this folder: {error.strerror}; choose another with --out") from None


def _run(
    plan: _Plan,
    config: CompareConfig,
    processes: int,
    folder: Path | None,
    log: ResumeLog | None,
    progress: RunProgress | None,
    keys: Mapping[str, str],
) -> dict[tuple[int, int, str], RunOutcome]:
    """Every outcome by (workload, replay, policy), from the log where it is there already."""
    setting = Setting(
        workloads=plan.workloads,
        policy_keys=keys,
        config=config,
        schedules=folder / "schedules" if folder is not None and config.save_schedules else None,
        keep=None if log is None else log.folder,
        keep_workload=drawn_workload(plan.workloads),
    )
    outcomes: dict[tuple[int, int, str], RunOutcome] = {}
    left = []
    for job in plan.jobs:
        missing = []
        for policy in job.policies:
            key = Key(plan.keys[job.workload], job.replay, keys[policy])
            is_known = log is not None and policy not in config.own  # a function may have changed since
            kept = log.entries.get(key) if log is not None and is_known else None
            if kept is None:
                missing.append(policy)
            else:
                outcomes[job.workload, job.replay, policy] = RunOutcome(job.workload, job.replay, policy, **kept)
        if missing:
            left.append(Job(job.workload, job.replay, tuple(missing)))
    total = len(plan.jobs) * len(config.policies)
    if progress is not None:
        progress(len(outcomes), total)
    try:
        for batch in run_jobs(setting, split(left, processes), processes):
            for outcome in batch:
                outcomes[outcome.workload, outcome.replay, outcome.policy] = outcome
                if log is not None:
                    key = Key(plan.keys[outcome.workload], outcome.replay, keys[outcome.policy])
                    log.add(key, {"row": outcome.row, "timing": outcome.timing, "refusal": outcome.refusal})
            if progress is not None:
                progress(len(outcomes), total)
    finally:
        if log is not None:
            log.close()
    return outcomes


def _assemble(
    plan: _Plan, config: CompareConfig, outcomes: dict[tuple[int, int, str], RunOutcome], keys: Mapping[str, str]
) -> Comparison:
    """Rows in the order of the inputs and of the policies, whatever the order in which they finished."""
    ordered = [outcomes[job.workload, job.replay, policy] for job in plan.jobs for policy in job.policies]
    refusals = tuple(
        Refusal(o.policy, plan.workloads[o.workload].name, o.replay, o.refusal) for o in ordered if o.refusal
    )
    rows = tuple(o.row for o in ordered if not o.refusal)
    if not rows:
        raise PolicyError(f"every policy refuses every replay; the first: {refusals[0].policy}: {refusals[0].reason}")
    return Comparison(
        config=config,
        workloads=plan.workloads,
        rows=rows,
        timings=tuple(o.timing for o in ordered if not o.refusal),
        refusals=refusals,
        policy_digests={policy: key[len(policy) + 1 :] for policy, key in keys.items() if key != policy},
    )
