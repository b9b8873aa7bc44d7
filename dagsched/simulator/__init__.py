"""Discrete-event simulator: compiled kernel, its Python stepping face, and an independent validator.

May import the data model and ``graph``; knows nothing of features, learning or reports. Start reading in
``simulate.py``, then ``simulator.py``; ``kernel.py`` holds every compiled loop.
"""

from dagsched.simulator.simulate import simulate, warmup
from dagsched.simulator.simulator import Simulator
from dagsched.simulator.validate import validate

__all__ = ["Simulator", "simulate", "validate", "warmup"]
