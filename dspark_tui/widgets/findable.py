"""A transcript in which words can be found, one place after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

from msgspec import Struct
from textual.geometry import Offset
from textual.message import Message
from textual.selection import Selection

from dspark_tui.widgets.text_rows import Place
from dspark_tui.widgets.transcript import Transcript


class Found(Struct, frozen=True):
    """Which of the places with some words it is, counted from 1."""

    number: int
    count: int


class FindableTranscript(Transcript):
    """Selects what was found. It is what is selected that says where one is."""

    class FindEnded(Message):
        """What was found is selected no longer."""

    _found: Selection | None = None

    def find(self, words: str, step: int) -> Found | None:
        """Go to the next place with the words, or with step -1 to the one before, and select it.

        Goes on round the ends, from what is selected or else from the view. None if there is none.
        """
        places = self._places(words)
        if not places:
            return None
        at = self._next_of(places, step)
        self._following = False
        self._scroll_to_row(max(0, self._text.row(places[at]) - self.size.height // 3))
        self._select(places[at], places[at].after(len(words)))
        return Found(at + 1, len(places))

    def has(self, words: str) -> bool:
        return bool(self._places(words))

    def end_find(self) -> None:
        """Take back the selection, unless something else is selected since."""
        if self._found is not None:
            self.screen.clear_selection()

    def follow(self) -> None:
        self.end_find()
        super().follow()

    def toggle_thoughts(self) -> None:
        self.end_find()  # other lines will be where it is
        super().toggle_thoughts()

    def selection_updated(self, selection: Selection | None) -> None:
        super().selection_updated(selection)
        if self._found is not None and selection != self._found:
            self._found = None
            self.post_message(self.FindEnded())

    def _places(self, words: str) -> list[Place]:
        """All there are, also in what was said before the first line that is laid out."""
        self._text.recall(inf)
        self._settle()
        return self._text.places(words)

    def _next_of(self, places: Sequence[Place], step: int) -> int:
        """Which of them is next, after what is selected or from the edge of the view."""
        text, top = self._text, round(self.scroll_y)
        start = None if self._selection is None else self._selection.start
        if start is not None:
            here = text.place_at(start.y, start.x)
            at = bisect_right(places, here) if step > 0 else bisect_left(places, here) - 1
        elif step > 0:
            at = bisect_left(places, text.place(top))
        else:
            at = bisect_left(places, text.place_at(top + self.size.height, 0)) - 1
        return at % len(places)

    def _select(self, first: Place, last: Place) -> None:
        start, end = self._text.spot(first), self._text.spot(last)
        self._found = Selection(Offset(start.character, start.row), Offset(end.character, end.row))
        self.screen.selections = {self: self._found}

    def _rewrap(self, width: int) -> None:
        """What was found stays selected, wherever it is now."""
        ends = [end for end in self._found or () if end is not None]
        places = [self._text.place_at(end.y, end.x) for end in ends]
        super()._rewrap(width)
        if places:
            self._select(*places)
