"""How an answer ended: one word and one mark for it, wherever it is told. Pure."""

from __future__ import annotations

from enum import StrEnum

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.cell import Cell

BY_ANOTHER_CLIENT = "another client of the engine stopped it"
"""The reason of an answer that was stopped elsewhere."""


class Ending(StrEnum):
    """The word for it. An engine knows neither ELSEWHERE nor INTERRUPTED: who cancelled a request
    and whose connection broke are known to the one who asked."""

    DONE = "done"
    LENGTH = "token limit"
    STOPPED = "stopped"
    ELSEWHERE = "stopped elsewhere"
    INTERRUPTED = "interrupted"  # the engine, the connection or the workbench went away
    FAILED = "failed"

    @property
    def cell(self) -> Cell:
        """Its sign in a lane, which stands for it everywhere."""
        return CELLS[self]

    @property
    def troubled(self) -> bool:
        """Did something go wrong?"""
        return self.cell is Cell.FAILED

    def sign(self, glyphs: Glyphs) -> str:
        return str(getattr(glyphs, self.cell))

    def marked(self, glyphs: Glyphs) -> str:
        """Mark and word, e.g. "✗ stopped"."""
        return f"{self.sign(glyphs)} {self}"

    def below(self, figures: str, glyphs: Glyphs) -> tuple[str, str]:
        """What stands below an answer: its figures, and a warning where it isn't whole."""
        if self is Ending.DONE:
            return figures, ""
        if self is Ending.LENGTH:
            return "   ".join(filter(None, (self.marked(glyphs), figures))), ""
        return figures, self.marked(glyphs)


CELLS = {
    Ending.DONE: Cell.DONE,
    Ending.LENGTH: Cell.LENGTH,
    Ending.STOPPED: Cell.STOPPED,
    Ending.ELSEWHERE: Cell.STOPPED,
    Ending.INTERRUPTED: Cell.FAILED,
    Ending.FAILED: Cell.FAILED,
}
REASONS = {
    "length": Ending.LENGTH,
    "cancelled": Ending.STOPPED,
    "error": Ending.FAILED,
}


def ending_by(reason: str) -> Ending:
    """What a finish reason says, OpenAI's or the engine's; whatever else a server says is DONE."""
    return REASONS.get(reason, Ending.DONE)
