"""Several searches at once, each in a process of its own; the best by value, then by number of the worker."""

from __future__ import annotations

import multiprocessing
import signal
import time
from dataclasses import replace
from multiprocessing.connection import Connection, wait

from dagsched.errors import PolicyError
from dagsched.search.plan import REPORT_SECONDS, Improved, PlanResult, PlanTask, Progress, merged, run_search


def run_workers(task: PlanTask, workers: int, improved: Improved | None = None) -> PlanResult:
    """Run ``task`` here as worker 0 and in ``workers`` - 1 spawned processes with streams of their own.

    Worker 0 does what a single worker does with the same budget, so the result is never worse. Others begin when their
    process is up; a time budget counts from there, and they are waited for. Ctrl-C stops all; what an interrupted
    process has found by then is kept.

    Raises:
        PolicyError: if a worker process fails.
    """
    context = multiprocessing.get_context("spawn")
    began = time.perf_counter()
    links: list[Connection] = []
    processes = []
    for worker in range(1, workers):
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, replace(task, worker=worker)), daemon=True)
        process.start()
        there.close()
        links.append(here)
        processes.append(process)
    try:
        results = [run_search(task, improved)]
        if results[0].interrupted or results[0].optimal:
            _stop(links)
        results += _collect(links, results[0], began, improved)
    finally:
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.terminate()
    return merged(results, time.perf_counter() - began)


def _stop(links: list[Connection]) -> None:
    for link in links:
        try:
            link.send("stop")
        except OSError:
            continue


def _collect(links: list[Connection], first: PlanResult, began: float, improved: Improved | None) -> list[PlanResult]:
    """The other workers' results in their order."""
    found: dict[int, PlanResult] = {}
    waiting = dict(enumerate(links))
    best = first
    while waiting:
        try:
            for link in wait(list(waiting.values()), REPORT_SECONDS):
                worker = next(number for number, other in waiting.items() if other is link)
                found[worker] = _receive(waiting.pop(worker), worker + 1)
                best = min(best, found[worker], key=lambda result: result.value)
            if improved is not None and waiting:
                done = first.schedules + sum(result.schedules for result in found.values())
                improved(Progress(time.perf_counter() - began, done, best.value, best.bound))
        except KeyboardInterrupt:
            _stop(list(waiting.values()))
            improved = None
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def listen(progress: Progress) -> None:  # noqa: ARG001
        if link.poll():
            raise KeyboardInterrupt

    try:
        link.send(run_search(task, listen))
    except Exception as error:  # whatever it is, the first process must hear of it
        link.send(error)
