"""Runs every policy on every replay, in this process or in several, with the same result either way.

Jobs are plain values and :func:`run_job` a plain function, so that a pool of processes (or, later, of
machines) can run them. Each process computes on one thread.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dagsched.errors import ConfigError, DagschedError, PolicyError
from dagsched.evaluate.config import CompareConfig
from dagsched.evaluate.scenario import Stream, build_replay, stream_seed
from dagsched.processes import cores, serve
from dagsched.replay import Replay
from dagsched.workload import Workload

if TYPE_CHECKING:
    from dagsched.schedule import Schedule

_LONGEST_STEM = 80
_SIGNAL_SECONDS = 0.2
_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Job:
    """One replay and the policies that are to meet it.

    Attributes:
        workload: index into the setting's workloads.
        replay: number of the replay.
        policies: specs.
    """

    workload: int
    replay: int
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What one policy did on one replay.

    Attributes:
        workload, replay, policy: as in the job.
        row: cells of ``results.csv``; empty if the policy refused the replay.
        timing: cells of ``timings.csv``.
        refusal: why the policy does not apply to the replay, or empty.
    """

    workload: int
    replay: int
    policy: str
    row: dict[str, Value]
    timing: dict[str, Value]
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """All that jobs share; sent to each process once.

    Attributes:
        workloads: prepared (see ``scenario.prepare``).
        config: what to compute.
        policy_keys: of the policies with a file or checkpoint behind them, what :func:`policy_key` said at the start.
        schedules: folder for the schedules on request, else ``None``.
        keep: folder for the schedules of workload ``keep_workload``, replay 0, which the report draws.
    """

    workloads: tuple[Workload, ...]
    config: CompareConfig
    policy_keys: Mapping[str, str] = field(default_factory=dict)
    schedules: Path | None = None
    keep: Path | None = None
    keep_workload: int = 0


class PolicyCrashError(DagschedError):
    """A policy failed, or produced a schedule that the validator rejects, on one replay."""


def run_job(setting: Setting, job: Job) -> list[RunOutcome]:
    """Run the job's policies one after the other.

    Raises:
        PolicyCrashError: naming policy, workload and replay.
    """
    replay = _replay(setting, job.workload, job.replay)
    return [_run_policy(setting, job, replay, policy) for policy in job.policies]


@dataclass(slots=True)
class _Latest:
    """The replay built last in this process: the next job often wants the same one."""

    setting: Setting
    workload: int
    number: int
    replay: Replay


_latest: list[_Latest] = []


def _replay(setting: Setting, workload: int, number: int) -> Replay:
    for kept in _latest:
        if kept.setting is setting and (kept.workload, kept.number) == (workload, number):
            return kept.replay
    _latest.clear()
    replay = build_replay(setting.workloads[workload], setting.config, number)
    _latest.append(_Latest(setting, workload, number, replay))
    return replay


def _run_policy(setting: Setting, job: Job, replay: Replay, policy: str) -> RunOutcome:
    from dagsched.evaluate.columns import TIMING_METRICS
    from dagsched.evaluate.metrics import metrics
    from dagsched.run_policy import load_kernels, modes_of, simulate
    from dagsched.simulator.validate import validate

    config = setting.config
    workload = setting.workloads[job.workload]
    what = f"policy {policy!r} on workload {workload.name!r}, replay {job.replay}"
    seed = stream_seed(config.seed, Stream.POLICY, job.replay)
    is_own = ".py:" in policy or policy in config.own
    try:
        made = config.make(policy)
        if not is_own:
            load_kernels(policy, modes_of(made, replay))  # here, so that the seconds are those of scheduling alone
        began = time.perf_counter()
        schedule = simulate(replay, made, timings=True, policy_seed=seed)
        seconds = time.perf_counter() - began
    except PolicyError as error:
        if is_own:  # a user's own rule never refuses a replay, it fails
            raise PolicyCrashError(f"{what}: {error}") from None
        return RunOutcome(job.workload, job.replay, policy, {}, {}, str(error))
    except DagschedError as error:
        raise PolicyCrashError(f"{what}: {error}") from None
    except Exception as error:
        raise PolicyCrashError(f"{what}: failed with {type(error).__name__}: {_one_line(error)}") from error
    began_with = setting.policy_keys.get(policy, policy)
    if began_with != policy and config.key(policy) != began_with:
        raise PolicyCrashError(f"{what}: its file or checkpoint changed while the comparison ran; run it again")
    if config.validate:
        try:
            validate(schedule)
        except DagschedError as error:
            raise PolicyCrashError(f"{what}: the validator rejects the schedule: {error}") from None
    values = metrics(schedule)
    row: dict[str, Value] = {
        "workload": workload.name,
        "workflow_count": len(replay.workflows),
        "task_count": len(replay),
        "replay": job.replay,
        "policy": policy,
        "replay_digest": replay.digest,
        "valid": True if config.validate else None,
        "reproducible": bool(getattr(made, "reproducible", True)),
    }
    row |= {name: value for name, value in values.items() if name not in TIMING_METRICS}
    timing: dict[str, Value] = {"workload": workload.name, "replay": job.replay, "policy": policy}
    timing |= {name: values[name] for name in TIMING_METRICS} | {"seconds": seconds}
    timing["simulations"] = schedule.report.get("simulations")  # counted by planners; by the clock under milliseconds
    timing["search"] = schedule.report.get("search")
    _save_schedules(setting, job, policy, schedule)
    return RunOutcome(job.workload, job.replay, policy, row, timing)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or "no message"


def _save_schedules(setting: Setting, job: Job, policy: str, schedule: Schedule) -> None:
    from dagsched.schedule_io import save_schedule

    if setting.keep is not None and job.workload == setting.keep_workload and job.replay == 0:
        save_schedule(schedule, _kept_path(setting.keep, policy))
    if setting.schedules is not None:
        save_schedule(schedule, setting.schedules / schedule_name(setting, job, policy))


def schedule_name(setting: Setting, job: Job, policy: str) -> str:
    """File name of a saved schedule; letters that file systems dislike become underscores.

    A name that this or the cut to 80 bytes changes ends in a hash of the true one, so that no two are the same.
    """
    stem = f"{setting.workloads[job.workload].name}-r{job.replay}-{policy}"
    safe = "".join(letter if letter.isalnum() or letter in "-_.+=#" else "_" for letter in stem)
    safe = safe.encode()[:_LONGEST_STEM].decode(errors="ignore")
    if safe != stem:
        safe += f"-{hashlib.sha256(stem.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"{safe}.json"


def _kept_path(folder: Path, policy: str) -> Path:
    return folder / f"schedule-{hashlib.sha256(policy.encode()).hexdigest()[:16]}.json"


def kept_schedule(folder: Path, policy: str, replay: Replay) -> Schedule | None:
    """The schedule of the drawn workload that a job stored for the report, or ``None``."""
    from dagsched.schedule_io import load_schedule

    path = _kept_path(folder, policy)
    return load_schedule(path, replay) if path.exists() else None


def split(jobs: Sequence[Job], processes: int) -> list[Job]:
    """One job per replay, or per replay and policy if there are too few replays to keep the processes busy."""
    if len(jobs) >= 4 * processes:
        return list(jobs)
    return [Job(job.workload, job.replay, (policy,)) for job in jobs for policy in job.policies]


def run_jobs(setting: Setting, jobs: Sequence[Job], processes: int) -> Iterator[list[RunOutcome]]:
    """Outcomes job by job, in the order in which they finish.

    Raises:
        PolicyCrashError: the first one met; the other processes are stopped.
        ConfigError: if a process is killed (out of memory, mostly).
    """
    if processes == 1 or len(jobs) <= 1:
        for job in jobs:
            yield run_job(setting, job)
        return
    yield from _run_parallel(setting, jobs, processes)


def _run_parallel(setting: Setting, jobs: Sequence[Job], processes: int) -> Iterator[list[RunOutcome]]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    before = {child.pid for child in multiprocessing.active_children()}
    with _one_thread_each():
        pool = ProcessPoolExecutor(
            min(processes, len(jobs)), multiprocessing.get_context("spawn"), _start_worker, (setting,)
        )
        futures = [pool.submit(_work, job) for job in jobs]
    finished = False
    try:
        for future in as_completed(futures):
            yield future.result()
        finished = True
    except BrokenProcessPool:
        time.sleep(_SIGNAL_SECONDS)  # what ended a worker may be on its way to this process, too: SIGTERM to a group
        raise ConfigError(
            "a worker process was killed, most likely for lack of memory; run again (finished runs are kept) "
            "with fewer --jobs"
        ) from None
    finally:
        pool.shutdown(wait=finished, cancel_futures=True)
        if not finished:
            for child in multiprocessing.active_children():
                if child.pid not in before:
                    child.kill()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started inside compute on one thread; more would only fight over the cores."""
    saved = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_setting: list[Setting] = []


def _start_worker(setting: Setting) -> None:
    serve()
    _setting[:] = [setting]


def _work(job: Job) -> list[RunOutcome]:
    return run_job(_setting[0], job)


@lru_cache(maxsize=1)
def default_jobs() -> int:
    """Processes to use when none are asked for: the cores this process may run on, at most 8."""
    return min(8, cores())


RunProgress = Callable[[int, int], None]
"""Called with (finished runs, all runs)."""
