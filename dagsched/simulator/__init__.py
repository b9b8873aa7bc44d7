"""Discrete-event simulator: compiled kernel, its Python stepping face, and an independent validator.

May import the data model and ``graph``; knows nothing of policies, features, learning or reports. Start reading in
``simulator.py``; ``kernel.py`` holds every compiled loop. ``dagsched/run_policy.py`` runs a policy on it.
"""

from dagsched.simulator.stepper import Simulator
from dagsched.simulator.validate import validate

__all__ = ["Simulator", "validate"]
