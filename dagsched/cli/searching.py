"""Shows how a planner's search over whole schedules gets on, and what it found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagsched.policies.base import Policy
    from dagsched.search.plan_search import SearchProgress


@contextmanager
def searching(policy: Policy) -> Iterator[Policy]:
    """The policy, with a live line on stderr while it searches; any other policy as it is."""
    from rich.live import Live
    from rich.text import Text

    from dagsched.cli.console import notes
    from dagsched.search.mcts import MctsPolicy

    console = notes()
    if not isinstance(policy, MctsPolicy) or not console.is_terminal:
        yield policy
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield replace(policy, improved=lambda progress: live.update(Text(describe(progress)), refresh=True))


def describe(progress: SearchProgress) -> str:
    """One line: incumbent, lower bound, gap, schedules and time."""
    text = f"incumbent {progress.value:,.6g} s"
    if progress.bound > 0:
        text += f", lower bound {progress.bound:,.6g} s, gap {100 * (progress.value / progress.bound - 1):.2f}%"
    return f"{text}; {progress.schedules:,} schedules in {progress.elapsed:.1f} s"


def print_search(policy: Policy, report: Mapping[str, Any]) -> None:
    """What a planner's run says: the schedules that it found, or how it decided step by step."""
    from dagsched.cli.console import output
    from dagsched.search.mcts import MctsPolicy

    if report.get("chosen"):
        looks = f", after {len(report['reviews'])} looks back" if "reviews" in report else ""
        output().print(f"Decided by {report['chosen']} in the end{looks}.", markup=False, soft_wrap=True)
    if not isinstance(policy, MctsPolicy) or not report.get("search"):
        return
    found = report.get("plan")
    if found is None:
        what = "list (a plan decoded anew at every event)" if report["search"] == "list" else report["search"]
        output().print(
            f"Search: {what}, decision by decision, {report['simulations']:,} simulations.",
            markup=False,
            soft_wrap=True,
        )
        return
    bound = f", lower bound {found.bound:,.6g} s" if found.bound > -math.inf else ""
    gap = f", gap {100 * (found.value / found.bound - 1):.2f}%" if found.bound > 0 else ""
    ended = " Optimal." if found.optimal else " Interrupted: this is the best so far." if found.interrupted else ""
    output().print(
        f"Search: {found.first:,.6g} s by {found.source}, then {found.value:,.6g} s after {found.schedules:,} "
        f"schedules in {found.seconds:.1f} s{bound}{gap}.{ended}",
        markup=False,
        soft_wrap=True,
    )
    if found.workers < policy.options.workers:
        output().print(
            f"Workers: {found.workers} instead of {policy.options.workers}, one for each core.", soft_wrap=True
        )
    if found.left_out:
        output().print(
            f"Rolled out: {', '.join(found.rolled_out)}. Left out for lack of time: {', '.join(found.left_out)}.",
            markup=False,
            soft_wrap=True,
        )
