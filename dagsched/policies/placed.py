"""A policy under a placement rule of its own: ``critical-path:placement=least-loaded``."""

from __future__ import annotations

from dataclasses import dataclass

from dagsched.errors import PolicyError, closest
from dagsched.policies.base import Policy, Run
from dagsched.replay import PLACEMENTS
from dagsched.simulator.stepper import Simulator

OPTION = "placement"


@dataclass(frozen=True, slots=True)
class PlacedPolicy:
    """Another policy, whose tasks go where ``placement`` says."""

    name: str
    policy: Policy
    placement: str

    @property
    def reproducible(self) -> bool:
        """As the policy itself."""
        return self.policy.reproducible

    def begin(self, simulator: Simulator) -> Run:
        """See :class:`dagsched.policies.base.Policy`."""
        simulator.place_by(self.placement)
        return self.policy.begin(simulator)


def check_placement(spec: str, placement: str) -> None:
    """Raise :class:`PolicyError` for a rule that does not exist."""
    if placement not in PLACEMENTS:
        raise PolicyError(
            f"policy {spec!r}: placement is {placement!r}, expected one of {', '.join(PLACEMENTS)}; "
            f"{closest(placement, PLACEMENTS, 'see docs/semantics.md')}"
        )
