"""The HTML report of a comparison: :func:`build_report` gathers the numbers, :func:`render_report` the page.

``data.py`` says what is shown, ``build.py`` computes it, ``page.py`` puts it together, ``tables.py``, ``charts.py``,
``search_part.py`` and ``gantt_svg.py`` are its parts, ``style.py`` the look.
May import the rest of ``evaluate``; knows nothing of the simulator.
"""

from __future__ import annotations

from dagsched.evaluate.report.build import build_report
from dagsched.evaluate.report.data import ReportData
from dagsched.evaluate.report.page import render_report

__all__ = ["ReportData", "build_report", "render_report"]
