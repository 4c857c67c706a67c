"""Whether a drafter that takes time is asked at all."""

from __future__ import annotations

from engine.drafters.cost import MARGIN, Choice
from engine.drafters.estimate import Estimate

STEPS, TRIES = 64, 4
"""Plain steps of rest for a drafter that doesn't earn its own time, and how many proposals it has
afterwards to show better."""


class Rest:
    def __init__(self) -> None:
        self._steps = 0
        self._begin()

    def __bool__(self) -> bool:
        """Whether it rests."""
        return self._steps > 0

    def step(self) -> None:
        """A plain step went by."""
        self._steps = max(self._steps - 1, 0)

    def weigh(self, choice: Choice, spent: float) -> None:
        """It proposed what led to this choice. spent: the time it took, in plain forwards."""
        forwards = choice.gain / choice.speed + spent
        self._worth.add(choice.gain / forwards / choice.plain)
        self._tries -= 1
        if self._tries <= 0 and self._worth.value < 1 / MARGIN:
            self._steps = STEPS
            self._begin()

    def _begin(self) -> None:
        self._tries, self._worth = TRIES, Estimate(1.0)
