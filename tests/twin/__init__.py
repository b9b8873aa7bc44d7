"""A slow, obvious twin of the simulator and of every rule, and random replays to compare the two on."""

from tests.twin.compare import assert_same, kernel_schedule
from tests.twin.machine import WAIT, Machine
from tests.twin.replays import Dice, HypothesisDice, NumpyDice, draw_replay
from tests.twin.rules import RULE_NAMES, run_twin

__all__ = [
    "RULE_NAMES",
    "WAIT",
    "Dice",
    "HypothesisDice",
    "Machine",
    "NumpyDice",
    "assert_same",
    "draw_replay",
    "kernel_schedule",
    "run_twin",
]
