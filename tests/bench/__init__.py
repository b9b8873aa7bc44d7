"""Speed and quality figures with targets: ``make bench``, or ``python -m tests.bench --only NAME``.

One module per subject with a function ``measure() -> list[Figure]``; ``__main__`` runs them and writes
``runs/bench/bench.json`` with one flat key per figure.
"""
