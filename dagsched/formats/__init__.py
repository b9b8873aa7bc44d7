"""Readers, one per file format, behind :func:`load`, which recognises the format from the content.

May import the data model (workflow, workload, cluster, errors) and nothing else of dagsched. Start with
``loading.py``, then ``registry.py``; each reader is one file that ends in ``READER = Reader(...)``.
"""

from __future__ import annotations

from dagsched.formats.known import KnownMakespan, known_makespan
from dagsched.formats.loading import Scan, Skipped, load, scan, workload_of
from dagsched.formats.own_writer import save
from dagsched.formats.registry import readers
from dagsched.formats.wfformat_writer import save_wfformat

__all__ = [
    "KnownMakespan",
    "Scan",
    "Skipped",
    "known_makespan",
    "load",
    "readers",
    "save",
    "save_wfformat",
    "scan",
    "workload_of",
]
