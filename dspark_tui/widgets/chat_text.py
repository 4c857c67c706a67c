"""What a chat's transcript says, line by line: prompts, answers, notes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from dspark_tui.glyphs import Glyphs
from dspark_tui.widgets.text_rows import Kind, Line, TextRows


class ChatText(TextRows):
    """Lines with a meaning. At most one answer is open, and text is only ever added to it."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._answering = False
        self._later: list[str] = []  # notes that wait for the open answer's end

    def add_user(self, text: str) -> None:
        self._gap()
        for number, line in enumerate(text.split("\n")):
            self.push(Kind.USER, line, "  " if number else f"{self._glyphs.prompt} ")

    def begin_answer(self) -> None:
        self._gap()
        self.push(Kind.ANSWER, "")
        self._answering = True

    def append(self, text: str) -> None:
        """Lengthen the open answer; opens one if there is none."""
        if not self._answering:
            self.begin_answer()
        first, *rest = text.split("\n")
        self.extend(first)
        for line in rest:
            self.push(Kind.ANSWER, line)

    def end_answer(self, footer: str, marked: str | None) -> None:
        """Close the answer without its trailing blank lines, then say what `note` held back."""
        while self._answering and self._ends_blank():
            self.pop()
        if marked:
            parts = (marked, footer) if footer else (marked,)
            self.push(Kind.MARKED, "   ".join(parts), f"{self._glyphs.stopped} ")
        elif footer:
            self.push(Kind.FOOTER, footer)
        self._answering = False
        for text in self._later:
            self.note(text)
        self._later.clear()

    def note(self, text: str) -> None:
        """A status line, below the answer if one is open."""
        if self._answering:
            self._later.append(text)
            return
        for line in text.split("\n"):
            self.push(Kind.NOTE, line, "  ")

    def clear(self) -> None:
        super().clear()
        self._later.clear()
        self._answering = False

    def last_answer(self) -> str:
        """Source text of the latest answer, "" if there is none."""
        answers = [list(lines) for kind, lines in self._by_kind() if kind is Kind.ANSWER]
        return "\n".join(line.source for line in answers[-1]) if answers else ""

    def source_text(self) -> str:
        """Source text of everything said, prompts quoted."""
        blocks = []
        for kind, lines in self._by_kind():
            quote = "> " if kind is Kind.USER else ""
            if kind in (Kind.USER, Kind.ANSWER):
                blocks.append("\n".join(quote + line.source for line in lines))
        return "\n\n".join(blocks)

    def _by_kind(self) -> Iterable[tuple[Kind, Iterable[Line]]]:
        return groupby(self.lines, key=lambda line: line.kind)

    def _gap(self) -> None:
        if self.lines and self.lines[-1].kind is not Kind.GAP:
            self.push(Kind.GAP, "")

    def _ends_blank(self) -> bool:
        return self.lines[-1].kind is Kind.ANSWER and not self.lines[-1].source.strip()
