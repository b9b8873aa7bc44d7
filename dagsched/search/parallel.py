"""Several searches at once, each in a process of its own; the best by value, then by number of the worker."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection, wait

from dagsched.errors import PolicyError
from dagsched.processes import check_spawnable, serve
from dagsched.search.plan_search import (
    REPORT_SECONDS,
    Improved,
    PlanResult,
    PlanTask,
    SearchProgress,
    merged,
    run_search,
)

LATE_SECONDS = 0.2
"""How long after the deadline results are waited for: a worker that is not up by then has found nothing."""


def run_workers(
    task: PlanTask, workers: int, improved: Improved | None = None, pressed: Callable[[], bool] = lambda: False
) -> PlanResult:
    """Run ``task`` here as worker 0 and in ``workers`` - 1 spawned processes with streams of their own.

    Worker 0 does what a single worker does with the same budget, so the result is never worse. Others begin when their
    process is up; a budget of seconds counts from there, and they are waited for, but not beyond a deadline. Ctrl-C
    (``pressed``) stops all; what an interrupted process has found by then is kept.

    Raises:
        ConfigError: in a script without the guard that processes need.
        PolicyError: if a worker process fails.
    """
    check_spawnable("workers")
    context = multiprocessing.get_context("spawn")
    began = time.monotonic()
    links: list[Connection] = []
    processes = []
    try:
        for worker in range(1, workers):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, replace(task, worker=worker)), daemon=True)
            process.start()
            there.close()
            links.append(here)
            processes.append(process)
        results = [run_search(task, improved, pressed)]
        if results[0].interrupted or results[0].optimal:
            _stop(links)
        results += _collect(links, results[0], began, improved, pressed, task.deadline)
    finally:
        for process in processes:
            process.join(5 if time.monotonic() < task.deadline else 0)
            if process.is_alive():
                process.kill()
    return merged(results, time.monotonic() - began)


def _stop(links: list[Connection]) -> None:
    for link in links:
        try:
            link.send("stop")
        except OSError:
            continue


def _collect(
    links: list[Connection],
    first: PlanResult,
    began: float,
    improved: Improved | None,
    pressed: Callable[[], bool],
    deadline: float,
) -> list[PlanResult]:
    """The other workers' results in their order, of those that have one in time."""
    found: dict[int, PlanResult] = {}
    waiting = dict(enumerate(links))
    best, told = first, False
    while waiting and time.monotonic() < deadline + LATE_SECONDS:
        try:
            patience = min(REPORT_SECONDS, max(0.0, deadline + LATE_SECONDS - time.monotonic()))
            for link in wait(list(waiting.values()), patience):
                worker = next(number for number, other in waiting.items() if other is link)
                found[worker] = _receive(waiting.pop(worker), worker + 1)
                best = min(best, found[worker], key=lambda result: result.value)
            if improved is not None and waiting:
                done = first.schedules + sum(result.schedules for result in found.values())
                improved(SearchProgress(time.monotonic() - began, done, best.value, best.bound))
        except KeyboardInterrupt:
            _stop(list(waiting.values()))
            improved = None
        if pressed() and not told:
            told = True
            _stop(list(waiting.values()))
    return [found[worker] for worker in sorted(found)]


def _receive(link: Connection, worker: int) -> PlanResult:
    try:
        message = link.recv()
    except EOFError:
        raise PolicyError(f"plan: worker {worker} ended without a result") from None
    if isinstance(message, Exception):
        raise PolicyError(f"plan: worker {worker} failed: {message}") from None
    assert isinstance(message, PlanResult)
    return message


def _work(link: Connection, task: PlanTask) -> None:
    """The body of a worker process: Ctrl-C in the terminal reaches it as a message from the first process."""
    serve()

    def listen(progress: SearchProgress) -> None:  # noqa: ARG001
        if link.poll():
            raise KeyboardInterrupt

    try:
        link.send(replace(run_search(task, listen), ended=None))
    except Exception as error:  # whatever it is, the first process must hear of it
        link.send(error)
