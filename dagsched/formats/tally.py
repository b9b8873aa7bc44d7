"""Counting what a reader leaves out or reads by a rule, by the text that says why."""

from __future__ import annotations

from dataclasses import dataclass, field

from dagsched.workload import Assumption, Rejects


@dataclass
class Tally:
    """How often each reason occurred, and its first example, in order of appearance."""

    found: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, reason: str, example: str) -> None:
        """Count one more; the example is kept if it is the first of its reason."""
        count, first = self.found.get(reason, (0, example))
        self.found[reason] = (count + 1, first)

    def rejects(self) -> tuple[Rejects, ...]:
        """As records left out."""
        return tuple(Rejects(reason, count, example) for reason, (count, example) in self.found.items())

    def assumed(self) -> tuple[Assumption, ...]:
        """As values read by a rule."""
        return tuple(Assumption(reason, count, example) for reason, (count, example) in self.found.items())
