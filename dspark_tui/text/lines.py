"""What one line of a chat is: its source, what is drawn of it, and the rows that takes. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from dspark_tui.text.foreign import drawable
from dspark_tui.text.lightmark import Fence, Mark, Run, hang, runs
from dspark_tui.text.wrap import fitting_hang, wrap, wrap_values


class Kind(StrEnum):
    USER = "user"
    ANSWER = "answer"
    FOLD = "fold"  # the line above a thought that is shown whole
    THOUGHT = "thought"
    NOTE = "note"
    FOOTER = "footer"
    MARKED = "marked"
    GAP = "gap"


class Layout(Struct, kw_only=True, eq=False):
    """`drawn[start:end]` is on each of `rows`, on later ones after `hang`."""

    drawn: str = ""
    hang: str = ""
    rows: list[tuple[int, int]] = field(default_factory=list)


class Line(Layout):
    """source: the text behind it, several lines of it where they are drawn as one."""

    kind: Kind
    source: str

    def lay_out(self, width: int) -> None:
        """Work out what is drawn in rows of `width` cells."""
        raise NotImplementedError

    @property
    def runs(self) -> list[Run]:
        """The drawn text with its meaning, without gaps."""
        raise NotImplementedError

    @property
    def filler(self) -> Mark:
        """What a row is filled up with."""
        return Mark.TEXT

    def source_between(self, start: int, end: int | None) -> str:
        """What is copied of drawn[start:end]: source text where both are the same."""
        return self.drawn[start:end]


class PlainLine(Line):
    """A line as it was written. prefix: chrome drawn before it. fence: the one open before it."""

    prefix: str = ""
    fence: Fence | None = None

    def lay_out(self, width: int) -> None:
        text = drawable(self.source.removesuffix("\r"))
        self.drawn = self.prefix + text
        cells = len(self.prefix)
        if self.kind is Kind.ANSWER:
            cells = hang(text, self.fence)
        self.hang = " " * fitting_hang(cells, width)
        figures = self.kind in (Kind.FOOTER, Kind.MARKED)
        self.rows = (wrap_values if figures else wrap)(self.drawn, width, cells)

    def source_between(self, start: int, end: int | None) -> str:
        text = self.drawn[len(self.prefix) :]
        if len(text) == len(self.source):
            text = self.source
        chrome = len(self.prefix)
        return text[max(0, start - chrome) : None if end is None else max(0, end - chrome)]

    @property
    def runs(self) -> list[Run]:
        if self.kind is Kind.ANSWER:
            return runs(self.drawn, self.fence)
        chrome = len(self.prefix)
        mark = Mark.TEXT if self.kind is Kind.GAP else Mark(self.kind)
        return [Run(0, chrome, Mark.SIGN), Run(chrome, len(self.drawn), mark)]

    @property
    def filler(self) -> Mark:
        found = self.runs if self.kind is Kind.ANSWER else []
        return Mark.FENCE if found and found[0].mark is Mark.FENCE else Mark.TEXT


class SetLine(Line):
    """A line set in type: text and runs that differ from the source, wrapped like any other.

    indent: what later rows start with, drawn as a sign. fill: what a row is filled up with.
    """

    text: str
    marks: tuple[Run, ...]
    indent: str
    fill: Mark = Mark.TEXT

    def lay_out(self, width: int) -> None:
        self.drawn = self.text
        self.hang = self.indent[: fitting_hang(len(self.indent), width)]
        self.rows = wrap(self.text, width, len(self.indent))

    @property
    def runs(self) -> list[Run]:
        return list(self.marks)

    @property
    def filler(self) -> Mark:
        return self.fill


class RuleLine(Line):
    """A line across, however wide. before: what it stands in."""

    before: str

    def lay_out(self, width: int) -> None:
        self.hang = ""
        self.drawn = self.before + "─" * max(1, width - len(self.before))
        self.rows = [(0, len(self.drawn))]

    @property
    def runs(self) -> list[Run]:
        return [Run(0, len(self.drawn), Mark.SIGN)]
