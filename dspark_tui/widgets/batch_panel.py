"""The live batch: lanes on one time axis, slots, running width, honest numbers. One widget."""

from __future__ import annotations

from enum import StrEnum

from textual.reactive import reactive
from textual.widget import Widget

from dspark_tui.glyphs import DEFAULT, Glyphs
from dspark_tui.live import LiveState


class Mode(StrEnum):
    """How tall the panel is."""

    OFF = "off"
    SMALL = "small"  # 5 lines, no border
    MEDIUM = "medium"  # 11 lines
    LARGE = "large"  # 15 lines
    FULL = "full"  # all there is

    @property
    def next(self) -> Mode:
        modes = list(Mode)
        return modes[(modes.index(self) + 1) % len(modes)]


class BatchPanel(Widget):
    """Draws a LiveState. Nothing is redrawn unless `show` brings something new."""

    mode: reactive[Mode] = reactive(Mode.MEDIUM)

    def __init__(self, *, glyphs: Glyphs = DEFAULT, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs

    def show(self, state: LiveState, now: float) -> None:
        """Draw `state` as of engine time `now`. Call it a few times a second."""
