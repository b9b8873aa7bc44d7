"""The exceptions dagsched raises for anything a user can mend.

Every message is one line that says what was wrong, where (file, workflow, task, field) and what to do.
The command line prints it and exits with 2; a traceback from any other exception is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_CHARACTERS = 2000


def closest(name: object, known: Iterable[str], otherwise: str) -> str:
    """The end of a message about an unknown name: the closest known one, or what else to say."""
    close = get_close_matches(str(name), list(known), 1)
    return f"did you mean {close[0]!r}?" if close else otherwise


class DagschedError(Exception):
    """Base of all errors a user can mend; a message that quotes endless names of a file is cut in the middle."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= _MOST_CHARACTERS else f"{text[:1000]} ... {text[-500:]}"


class InvalidWorkflowError(DagschedError):
    """A workflow or task breaks a rule of the data model."""


class InvalidClusterError(DagschedError):
    """A cluster description is inconsistent."""


class InvalidReplayError(DagschedError):
    """Workload and cluster do not go together (for example, a task fits no node)."""


class InvalidScheduleError(DagschedError):
    """The validator found a violated constraint; ``reason`` is a short stable code."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class FormatError(DagschedError):
    """A file cannot be read as the format it claims to be."""


class PolicyError(DagschedError):
    """An unknown or misused scheduling policy."""


class ConfigError(DagschedError):
    """A wrong option, config key or output location."""


class CheckpointError(DagschedError):
    """A checkpoint is damaged, foreign, or made for other features."""
