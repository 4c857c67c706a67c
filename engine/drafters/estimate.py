"""Shares and sums that are learnt as it goes and forget slowly."""

from __future__ import annotations


class Estimate:
    """How often something happens. Starts as `prior`, worth `weight` observations."""

    SLOWEST = 0.02
    """Weight of a new observation once there are many."""

    def __init__(self, prior: float, weight: int = 8) -> None:
        self.value = prior
        self._seen = weight

    def add(self, observed: float) -> None:
        self._seen += 1
        self.value += max(1 / self._seen, self.SLOWEST) * (observed - self.value)


class Faded:
    """A sum over the latest observations: each further one leaves `keep` of those before."""

    def __init__(self, keep: float) -> None:
        self.total = 0.0
        self._keep = keep

    def add(self, observed: float) -> None:
        self.total = self.total * self._keep + observed
