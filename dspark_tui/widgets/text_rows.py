"""A chat's source lines and the terminal rows they wrap to. Pure.

Only the last line ever grows, so an append wraps one line, however long the chat is.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from dspark_tui.foreign import drawable
from dspark_tui.widgets.lightmark import Fence, Mark, Run, fence_after, hang, runs
from dspark_tui.wrap import wrap


class Kind(StrEnum):
    USER = "user"
    ANSWER = "answer"
    NOTE = "note"
    FOOTER = "footer"
    MARKED = "marked"
    GAP = "gap"


class Place(NamedTuple):
    """A character of a line's drawn text. It names the same text whatever the width."""

    line: int
    offset: int


@dataclass(slots=True)
class Line:
    """One line of source text. prefix: chrome drawn before it. fence: the one open before it."""

    kind: Kind
    source: str
    prefix: str = ""
    fence: Fence | None = None
    drawn: str = field(init=False)
    hang: int = field(init=False)
    rows: list[tuple[int, int]] = field(init=False)

    def lay_out(self, width: int) -> None:
        """Work out what is drawn in rows of `width` cells."""
        text = drawable(self.source.removesuffix("\r"))
        self.drawn = self.prefix + text
        self.hang = len(self.prefix)
        if self.kind is Kind.ANSWER:
            self.hang = hang(text, self.fence)
        self.rows = wrap(self.drawn, width, self.hang)

    def source_between(self, start: int, end: int | None) -> str:
        """Source text under drawn[start:end]; where it is drawn otherwise, as it is drawn."""
        text = self.drawn[len(self.prefix) :]
        if len(text) == len(self.source):
            text = self.source
        chrome = len(self.prefix)
        return text[max(0, start - chrome) : None if end is None else max(0, end - chrome)]

    @property
    def runs(self) -> list[Run]:
        """The drawn text with its meaning."""
        if self.kind is Kind.ANSWER:
            return runs(self.drawn, self.fence)
        chrome = len(self.prefix)
        mark = Mark.TEXT if self.kind is Kind.GAP else Mark(self.kind)
        return [Run(0, chrome, Mark.SIGN), Run(chrome, len(self.drawn), mark)]


class TextRows:
    """Lines, their rows at the current width, and the way between the two."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.width = 1
        self._starts: list[int] = []  # first row of each line
        self._changed_from = 0

    @property
    def height(self) -> int:
        """Rows altogether."""
        return self._starts[-1] + len(self.lines[-1].rows) if self.lines else 0

    def push(self, kind: Kind, source: str, prefix: str = "") -> None:
        """Add a line."""
        last = self.lines[-1] if self.lines else None
        fence = None
        if kind is Kind.ANSWER and last is not None and last.kind is Kind.ANSWER:
            fence = fence_after(last.source, last.fence)
        line = Line(kind, source, prefix, fence)
        line.lay_out(self.width)
        self._starts.append(self.height)
        self.lines.append(line)
        self._touch()

    def extend(self, text: str) -> None:
        """Lengthen the last line."""
        self.lines[-1].source += text
        self.lines[-1].lay_out(self.width)
        self._touch()

    def pop(self) -> None:
        """Remove the last line."""
        self._touch()
        self.lines.pop()
        self._starts.pop()

    def clear(self) -> None:
        self.lines.clear()
        self._starts.clear()
        self._changed_from = 0

    def take_changes(self) -> int:
        """The first line that changed since the last call; none before it did."""
        first, self._changed_from = self._changed_from, len(self.lines)
        return first

    def rewrap(self, width: int) -> None:
        """Wrap everything for rows of `width` cells."""
        self.width = width
        row, self._starts = 0, []
        for line in self.lines:
            line.lay_out(width)
            self._starts.append(row)
            row += len(line.rows)

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

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """Source text from one (row, character) up to another: no chrome, no soft line breaks."""
        first, last = self._place_at(*start), self._place_at(*end)
        if first.line == last.line:
            return self.lines[first.line].source_between(first.offset, last.offset)
        whole = [line.source for line in self.lines[first.line + 1 : last.line]]
        head = self.lines[first.line].source_between(first.offset, None)
        return "\n".join([head, *whole, self.lines[last.line].source_between(0, last.offset)])

    def _place_at(self, row: int, character: int) -> Place:
        """The place under a character of a row as it is drawn; the end for rows below the text."""
        if row >= self.height:
            return Place(len(self.lines) - 1, len(self.lines[-1].drawn))
        number, part = self.find(row)
        line = self.lines[number]
        start, end = line.rows[part]
        return Place(number, min(end, start + max(0, character - (line.hang if part else 0))))

    def _touch(self) -> None:
        self._changed_from = min(self._changed_from, len(self.lines) - 1)
