"""How drafts fare over the latest steps, for people."""

from __future__ import annotations

import time

from engine.drafters.cost import Choice
from engine.drafters.estimate import Faded
from engine.events import Speculation

TELL_SECONDS = 0.5
"""How often it is told at most."""

RESTING = "proposing takes longer than it saves"

FADE = 0.98
"""How much of the figures each further step leaves."""


class Figures:
    def __init__(self, drafter: str) -> None:
        self._forwards, self._tokens = Faded(FADE), Faded(FADE)
        self._drafted, self._accepted = Faded(FADE), Faded(FADE)
        self._told = Speculation(0.0, drafter)

    def forward(self, rows: int, tokens: int) -> None:
        """A forward, with drafts or without, brought its rows so many tokens."""
        self._forwards.add(rows)
        self._tokens.add(tokens)

    def checked(self, drafted: int, accepted: int) -> None:
        self._drafted.add(drafted)
        self._accepted.add(accepted)

    def news(self, choice: Choice | None, rows: int, resting: bool) -> Speculation | None:
        """What to tell, now and then, if it changed. choice: of the latest step."""
        now = time.monotonic()
        if choice is None or now - self._told.time < TELL_SECONDS:
            return None
        news = Speculation(
            time=now,
            drafter=self._told.drafter,
            length=choice.length,
            acceptance=self._acceptance(),
            tokens_per_forward=round(self._tokens.total / self._forwards.total, 2),
            why=RESTING if resting else _why(choice, rows),
        )
        if news == self._told:
            return None
        self._told = news
        return news

    def _acceptance(self) -> float | None:
        drafted = self._drafted.total
        return round(self._accepted.total / drafted, 2) if drafted else None


def _why(choice: Choice, rows: int) -> str:
    if choice.length:
        return ""
    if choice.refused is None:
        return "nothing to propose"
    width, cost = choice.refused
    return f"verify {width} wide costs {cost:.1f}x at {rows} {'row' if rows == 1 else 'rows'}"
