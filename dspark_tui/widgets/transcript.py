"""A chat's text, drawn line by line: fast to append to, and never markup."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.scroll_view import ScrollView

from dspark_tui.glyphs import DEFAULT, Glyphs


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt or answer of a stored chat. role: "user" or "assistant"."""

    role: str
    text: str
    footer: str = ""
    marked: str | None = None


class Transcript(ScrollView):
    """Scrolls, follows the end while the reader is there, and stays put when they are not."""

    following: bool = True
    new_lines: int = 0

    def __init__(self, *, glyphs: Glyphs = DEFAULT, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs

    def add_user(self, text: str) -> None:
        """Show what the person sent."""

    def begin_answer(self) -> None:
        """Start an answer; `append` grows it."""

    def append(self, text: str) -> None:
        """Add text to the open answer. Merge pieces first: about ten calls a second."""

    def end_answer(self, footer: str = "", marked: str | None = None) -> None:
        """Close the answer. marked: why it is not whole, e.g. "stopped" or "interrupted"."""

    def note(self, text: str) -> None:
        """Add a dim status line."""

    def load(self, turns: Iterable[Turn]) -> None:
        """Replace everything with a stored chat."""

    def clear(self) -> None:
        """Remove everything."""

    def follow(self) -> None:
        """Go to the end and stay there."""

    def last_answer(self) -> str:
        """Source text of the latest answer, "" if there is none."""
        return ""

    def source_text(self) -> str:
        """Source text of the whole chat."""
        return ""
