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


class Promises:
    """How much of what drafts promised came true lately.

    Bad news is learnt at every draft and forgotten slowly without any, so a drafter that is wrong
    is tried again, but seldom.
    """

    KEPT_BY_A_DRAFT, KEPT_WITHOUT = 0.95, 0.998
    BELIEF = 4.0
    """Tokens' worth of belief in what is thought beforehand."""

    def __init__(self) -> None:
        self._promised = self._came = 0.0

    def add(self, promised: float, came: float) -> None:
        """A draft was checked of which so many tokens should have been right, and were."""
        self._fade(self.KEPT_BY_A_DRAFT)
        self._promised += promised
        self._came += came

    def rest(self) -> None:
        """A step without a draft."""
        self._fade(self.KEPT_WITHOUT)

    def trust(self, before: float = 1.0) -> float:
        """The share of a promise to count on, at most all. before: what else is known of it."""
        share = (self._came + self.BELIEF * before) / (self._promised + self.BELIEF)
        return min(share, 1.0)

    def _fade(self, kept: float) -> None:
        self._promised *= kept
        self._came *= kept


class Faded:
    """A sum over the latest observations: each further one leaves `keep` of those before."""

    def __init__(self, keep: float) -> None:
        self.total = 0.0
        self._keep = keep

    def add(self, observed: float) -> None:
        self.total = self.total * self._keep + observed
