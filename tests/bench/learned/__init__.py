"""The figures of ``docs/results.md`` and ``docs/experiments``: ``python -m tests.bench.learned NAME...`` prints rows.

Every difference is paired by replay, with the 95% interval of ``dagsched.evaluate.statistics``. Start at ``__main__``;
``batches`` and ``streams`` compare policies, ``arms`` reads the run folders of several trainings, ``speed`` times.
"""
