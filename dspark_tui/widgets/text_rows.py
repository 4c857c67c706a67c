"""A chat's lines and the terminal rows they wrap to. Pure.

Text only ever grows at the end, so an append wraps one line, however long the chat is. A stretch of
lines can be replaced by another way to show the same source; what the reader sees stays in place.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from dspark_tui.text.lightmark import fence_after
from dspark_tui.text.lines import Kind, Line, PlainLine

USUAL_WIDTH = 80
"""Cells, until the real width is known: what is said by then may be long, and is wrapped again."""


class Place(NamedTuple):
    """A character of a line's drawn text. It names the same text whatever the width."""

    line: int
    offset: int

    def after(self, characters: int) -> Place:
        return Place(self.line, self.offset + characters)


class Spot(NamedTuple):
    """A character as it is drawn: its row, and its place in that row's text."""

    row: int
    character: int


class Change(Struct, frozen=True):
    """`lines[first:last]` become `lines`."""

    first: int
    last: int
    lines: Sequence[Line]


class TextRows:
    """Lines, their rows at the current width, and the way between the two.

    top: what the reader last scrolled to. read: the last row they have seen.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.width = USUAL_WIDTH
        self.top = self.read = Place(0, 0)
        self._starts: list[int] = []  # first row of each line
        self._changed_from = 0

    @property
    def height(self) -> int:
        """Rows altogether."""
        return self._starts[-1] + len(self.lines[-1].rows) if self.lines else 0

    @property
    def end(self) -> Place:
        """Where the text ends."""
        return Place(len(self.lines) - 1, len(self.lines[-1].drawn)) if self.lines else Place(0, 0)

    def see(self, row: int) -> None:
        """Everything down to this row has been seen."""
        self.read = max(self.read, self.end if row >= self.height - 1 else self.place(row))

    def push(self, kind: Kind, source: str, prefix: str = "") -> None:
        """Add a line."""
        last = self.lines[-1] if self.lines else None
        fence = None
        if kind is Kind.ANSWER and isinstance(last, PlainLine) and last.kind is kind:
            fence = fence_after(last.source, last.fence)
        self.add(PlainLine(kind, source, prefix, fence))

    def add(self, line: Line) -> None:
        line.lay_out(self.width)
        self._starts.append(self.height)
        self.lines.append(line)
        self._touch(len(self.lines) - 1)

    def extend(self, text: str) -> None:
        """Lengthen the last line."""
        self.lines[-1].source += text
        self.lines[-1].lay_out(self.width)
        self._touch(len(self.lines) - 1)

    def pop(self) -> None:
        """Remove the last line."""
        self._touch(len(self.lines) - 1)
        self.lines.pop()
        self._starts.pop()

    def clear(self) -> None:
        self.lines.clear()
        self._starts.clear()
        self._changed_from = 0
        self.top = self.read = Place(0, 0)

    def replace(self, changes: Iterable[Change]) -> None:
        """Show stretches of lines in another way; they come in order and don't overlap.

        The new lines must have been laid out for this width.
        """
        lines: list[Line] = []
        top, read, done = self.top, self.read, 0
        all_read = read >= self.end
        for change in changes:
            lines += self.lines[done : change.first]
            top, read = (
                self._moved(place, now, change, len(lines))
                for place, now in ((self.top, top), (self.read, read))
            )
            lines += change.lines
            self._touch(change.first)
            done = change.last
        lines += self.lines[done:]
        self.lines, self.top = lines, top
        self.read = self.end if all_read else read
        self._count()

    def take_changes(self) -> int:
        """The first line that changed since the last call; none before it did."""
        first, self._changed_from = self._changed_from, len(self.lines)
        return first

    def rewrap(self, width: int) -> None:
        """Wrap everything for rows of `width` cells."""
        all_read = self.read >= self.end
        self.width = width
        for line in self.lines:
            line.lay_out(width)
        self._count()
        if all_read:
            self.read = self.end

    def find(self, row: int) -> tuple[int, int]:
        """The line a row belongs to, and which of that line's rows it is."""
        line = bisect_right(self._starts, row) - 1
        return line, row - self._starts[line]

    def place(self, row: int) -> Place:
        """Where a row's text starts. Rows outside the text count as its first or last."""
        if not self.lines:
            return Place(0, 0)
        line, part = self.find(min(max(0, row), self.height - 1))
        return Place(line, self.lines[line].rows[part][0])

    def row(self, place: Place) -> int:
        """The row that shows a place."""
        if place.line >= len(self.lines):
            return max(0, self.height - 1)
        starts = [start for start, _ in self.lines[place.line].rows]
        return self._starts[place.line] + max(0, bisect_right(starts, place.offset) - 1)

    def spot(self, place: Place) -> Spot:
        """Where a place is drawn."""
        row = self.row(place)
        line = self.lines[place.line]
        part = row - self._starts[place.line]
        hang = len(line.hang) if part else 0
        return Spot(row, place.offset - line.rows[part][0] + hang)

    def places(self, words: str) -> list[Place]:
        """Where the words are, upper or lower case, in order."""
        found = re.compile(re.escape(words), re.IGNORECASE).finditer
        return [
            Place(number, match.start())
            for number, line in enumerate(self.lines)
            for match in found(line.drawn)
        ]

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """Source text from one (row, character) up to another: no chrome, no soft line breaks."""
        first, last = self.place_at(*start), self.place_at(*end)
        if first.line == last.line:
            return self.lines[first.line].source_between(first.offset, last.offset)
        whole = [line.source for line in self.lines[first.line + 1 : last.line]]
        head = self.lines[first.line].source_between(first.offset, None)
        return "\n".join([head, *whole, self.lines[last.line].source_between(0, last.offset)])

    def place_at(self, row: int, character: int) -> Place:
        """The place under a character of a row as it is drawn; the end for rows below the text."""
        if row >= self.height:
            return self.end
        number, part = self.find(row)
        line = self.lines[number]
        start, end = line.rows[part]
        return Place(number, min(end, start + max(0, character - (len(line.hang) if part else 0))))

    def _moved(self, place: Place, now: Place, change: Change, first: int) -> Place:
        """Where a place is after a change whose lines start at `first`. now: after earlier ones."""
        if place.line < change.first:
            return now
        if place.line >= change.last:
            return Place(place.line + first + len(change.lines) - change.last, place.offset)
        newlines = sum(
            line.source.count("\n") + 1 for line in self.lines[change.first : place.line]
        )
        for number, line in enumerate(change.lines):
            newlines -= line.source.count("\n") + 1
            if newlines < 0:
                return Place(first + number, min(place.offset, len(line.drawn)))
        return Place(first + max(0, len(change.lines) - 1), 0)

    def _count(self) -> None:
        row, self._starts = 0, []
        for line in self.lines:
            self._starts.append(row)
            row += len(line.rows)

    def _touch(self, line: int) -> None:
        self._changed_from = min(self._changed_from, line)
