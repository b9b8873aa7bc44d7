"""``auto``: the policy that is not clearly worse than the best plain rule, wherever it runs.

A batch gets the best of what the planner would begin with. In a stream the recent past is replayed under each candidate
from time to time (``past.py``), and the policy changes where that shows a difference (``stream.py``).
"""
