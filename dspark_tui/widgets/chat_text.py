"""What a chat's transcript says: prompts, answers with their reasoning, notes. Pure.

A day's talk is longer than what is worth laying out: its beginning waits as source text.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from math import inf

from msgspec import Struct

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.conversation.bookmark import Bookmark
from dspark_tui.conversation.reasoning import CLOSE, OPEN, Piece, Splitter
from dspark_tui.text.counted import counted
from dspark_tui.text.lightmark import Mark, Run
from dspark_tui.text.lines import Kind, Line, PlainLine, SetLine
from dspark_tui.widgets.text_rows import Change, Place, TextRows

ROWS_KEPT = 1_000
"""Laid out for each chat once its reader is at the end; twice as many until then."""


class Passage(Struct, frozen=True):
    """Lines of one kind that follow each other, as source text; packed, since a day has many."""

    kind: Kind
    packed: bytes

    @classmethod
    def of(cls, kind: Kind, source: str) -> Passage:
        return cls(kind, zlib.compress(source.encode("utf-8", "surrogatepass"), 1))

    @property
    def source(self) -> str:
        return zlib.decompress(self.packed).decode("utf-8", "surrogatepass")


class Draft(Struct, frozen=True):
    """A finished answer that still looks as it was streamed. first: its first line."""

    first: Line
    count: int
    source: str


class ChatText(TextRows):
    """Lines with a meaning. At most one answer is open, and text is only ever added to it.

    earlier: what was said before the first line. unfolds: thoughts are shown whole.
    """

    def __init__(self, glyphs: Glyphs, thought_key: str = "") -> None:
        """thought_key: how the key is called that shows thoughts whole; "" if there is none."""
        super().__init__()
        self.earlier: list[Passage] = []
        self.unfolds = False
        self._glyphs = glyphs
        self._thought_key = thought_key
        self._answering = False
        self._splitter = Splitter()
        self._later: list[str] = []  # notes that wait for the open answer's end

    def add_user(self, text: str) -> None:
        self._gap()
        self._say(Kind.USER, text)

    def begin_answer(self) -> None:
        self._gap()
        self.push(Kind.ANSWER, "")
        self._answering, self._splitter = True, Splitter()

    def append(self, text: str) -> None:
        """Lengthen the open answer; opens one if there is none."""
        if not self._answering:
            self.begin_answer()
        for piece in self._splitter.push(text):
            self._take(piece)

    def end_answer(self, footer: str, marked: str) -> None:
        """Close the answer without its trailing blank lines, then say what `note` held back."""
        for piece in self._splitter.flush() if self._answering else ():
            self._take(piece)
        while self._answering and self._ends_blank():
            self.pop()
        self._end_thought()
        self._answering, self._splitter = False, Splitter()
        self.sign(footer, marked)
        for text in self._later:
            self.note(text)
        self._later.clear()

    def sign(self, footer: str, marked: str) -> None:
        """Say below the latest answer how it ended, in place of the notes there."""
        while self.lines and self.lines[-1].kind is Kind.NOTE:
            self.pop()
        if words := "   ".join(filter(None, (marked, footer))):
            self._say(Kind.MARKED if marked else Kind.FOOTER, words)

    def note(self, text: str) -> None:
        """A status line, below the answer if one is open."""
        if self._answering:
            self._later.append(text)
        else:
            self._say(Kind.NOTE, text)

    def clear(self) -> None:
        super().clear()
        self.earlier.clear()
        self._later.clear()
        self._answering, self._splitter = False, Splitter()

    def last_answer(self) -> str:
        """Source text of the latest answer without its reasoning; "" while it is only that.

        A prompt with no answer at all, which was stopped before one began, is passed over.
        """
        for kind, lines in reversed(list(self._groups())):
            if kind is Kind.ANSWER:
                return _source(lines)
            if kind is Kind.THOUGHT:  # an earlier answer would be taken for this one's
                break
        return ""

    def source_text(self) -> str:
        """Source text of everything said, prompts quoted, reasoning between its tags."""
        blocks = []
        earlier = ((passage.kind, passage.source) for passage in self.earlier)
        for kind, source in chain(earlier, self._sources()):
            match kind:
                case Kind.USER:
                    blocks.append("\n".join(f"> {line}" for line in source.split("\n")))
                case Kind.THOUGHT:
                    blocks.append(f"{OPEN}\n{source}\n{CLOSE}")
                case Kind.ANSWER:
                    blocks.append(source)
        return "\n\n".join(blocks)

    @property
    def bookmark(self) -> Bookmark:
        """Where the top of the view is."""
        starts = self._prompts()
        nth = max(0, bisect_right(starts, self.top.line) - 1)
        first = starts[nth] if starts else 0
        line = sum(map(_length, self.lines[first : self.top.line]))
        return Bookmark(self._earlier_prompts + nth, line, self.top.offset)

    def return_to(self, bookmark: Bookmark) -> None:
        """Put the top of the view there."""
        if bookmark.turn < self._earlier_prompts:
            self.recall(inf)
        starts = self._prompts() or [0]
        number = starts[min(bookmark.turn - self._earlier_prompts, len(starts) - 1)]
        left = bookmark.line
        while number + 1 < len(self.lines) and left >= _length(self.lines[number]):
            left -= _length(self.lines[number])
            number += 1
        self.top = Place(number, bookmark.character)

    def drafts(self) -> list[Draft]:
        """Finished answers that may be set in type now, the latest first."""
        found = [
            Draft(lines[0], len(lines), _source(lines))
            for kind, lines in self._groups()
            if kind is Kind.ANSWER and isinstance(lines[0], PlainLine)
        ]
        if self._answering and found and self.lines[-1].kind is Kind.ANSWER:
            found.pop()
        return found[::-1]

    def set_in_type(self, finished: Iterable[tuple[Draft, Sequence[Line]]]) -> None:
        """Show the drafts by these lines, laid out already; those that are gone are left out."""
        lines_of = {id(draft.first): (draft, lines) for draft, lines in finished}
        changes = []
        for number, line in enumerate(self.lines):
            if id(line) in lines_of:
                draft, lines = lines_of[id(line)]
                changes.append(Change(number, number + draft.count, lines))
        self.replace(changes)

    def toggle_thoughts(self) -> None:
        """Show all thoughts whole, or fold them all; the one being written is always shown."""
        self.unfolds = not self.unfolds
        changes, at = [], 0
        for kind, lines in self._groups():
            end = at + len(lines)
            if kind is Kind.THOUGHT and not (self._answering and end == len(self.lines)):
                first = at - 1 if at and self.lines[at - 1].kind is Kind.FOLD else at
                changes.append(Change(first, end, self._thought(_source(lines))))
            at = end
        self.replace(changes)

    def forget(self) -> None:
        """Keep only the end laid out, from a prompt on."""
        if self.height < 2 * ROWS_KEPT:
            return
        line, _ = self.find(self.height - ROWS_KEPT)
        while line < len(self.lines) and self.lines[line].kind is not Kind.USER:
            line += 1
        if line < len(self.lines):
            self.earlier += [Passage.of(*said) for said in self._sources(line)]
            self.replace([Change(0, line, ())])

    def recall(self, rows: float) -> None:
        """Lay out again what was said before the first line, about so many rows of it."""
        if not self.earlier:
            return
        at, rows_left = len(self.earlier), rows
        while at and (rows_left > 0 or self.earlier[at].kind is not Kind.USER):
            at -= 1
            source = self.earlier[at].source
            rows_left -= len(source) // self.width + source.count("\n") + 1
        before = ChatText(self._glyphs, self._thought_key)
        before.width, before.unfolds = self.width, self.unfolds
        for passage in self.earlier[at:]:
            before._say_again(passage)
        before._gap()
        del self.earlier[at:]
        self.replace([Change(0, 0, before.lines)])

    @property
    def _earlier_prompts(self) -> int:
        """Prompts before the first line."""
        return sum(passage.kind is Kind.USER for passage in self.earlier)

    def _prompts(self) -> list[int]:
        """The first line of each prompt that is laid out."""
        kinds = [line.kind for line in self.lines]
        return [
            number
            for number, (before, kind) in enumerate(pairwise([Kind.GAP, *kinds]))
            if kind is Kind.USER and before is not kind
        ]

    def _take(self, piece: Piece) -> None:
        text, kind = piece.text, Kind(piece.part)
        if piece.recalls:
            text = "\n".join(line.source for line in self._take_back()) + text
        if not self.lines or self.lines[-1].kind is not kind:
            if kind is Kind.THOUGHT:
                self._begin_thought()
            else:
                self._end_thought()
                self._gap()
                self.push(kind, "")
        first, *rest = text.split("\n")
        self.extend(first)
        for line in rest:
            self.push(kind, line, self._prefix(kind, 1))

    def _take_back(self) -> list[Line]:
        """Remove what is there of the open answer."""
        taken = []
        while self.lines and self.lines[-1].kind is Kind.ANSWER:
            taken.append(self.lines[-1])
            self.pop()
        return taken[::-1]

    def _begin_thought(self) -> None:
        self._take_back()  # the empty line an answer begins with
        self.add(self._chrome(Kind.FOLD, "", f"{self._glyphs.unfolded} thinking"))
        self.push(Kind.THOUGHT, "", self._prefix(Kind.THOUGHT, 0))

    def _end_thought(self) -> None:
        """Fold the thought that was being written, unless thoughts are to be seen."""
        end = at = len(self.lines)
        while at and self.lines[at - 1].kind is Kind.THOUGHT:
            at -= 1
        if at < end:
            source = _source(self.lines[at:end]).rstrip("\n")
            self.replace([Change(at - 1, end, self._thought(source))])

    def _thought(self, source: str) -> list[Line]:
        """The lines of a finished thought, laid out."""
        words = counted(len(source.split()), "word")
        glyph = self._glyphs.unfolded if self.unfolds else self._glyphs.folded
        verb = "folds" if self.unfolds else "shows"
        hint = f"   {self._thought_key} {verb} it" if self._thought_key else ""
        head = f"{glyph} thought, {words}{hint}"
        if not self.unfolds:
            return [self._chrome(Kind.THOUGHT, source, head)]
        whole = TextRows()
        whole.width = self.width
        whole.add(self._chrome(Kind.FOLD, "", head))
        for number, line in enumerate(source.split("\n")):
            whole.push(Kind.THOUGHT, line, self._prefix(Kind.THOUGHT, number))
        return whole.lines

    def _chrome(self, kind: Kind, source: str, text: str) -> Line:
        line = SetLine(kind, source, text, (Run(0, len(text), Mark.NOTE),), "")
        line.lay_out(self.width)
        return line

    def _say(self, kind: Kind, text: str) -> None:
        for number, line in enumerate(text.split("\n")):
            self.push(kind, line, self._prefix(kind, number))

    def _say_again(self, passage: Passage) -> None:
        if passage.kind in (Kind.USER, Kind.THOUGHT, Kind.ANSWER):
            self._gap()
        if passage.kind is Kind.THOUGHT:
            for line in self._thought(passage.source):
                self.add(line)
        else:
            self._say(passage.kind, passage.source)

    def _prefix(self, kind: Kind, number: int) -> str:
        """The chrome before a passage's line, counted from 0."""
        match kind:
            case Kind.USER if number == 0:
                return f"{self._glyphs.prompt} "
            case Kind.USER | Kind.NOTE | Kind.THOUGHT:
                return "  "
        return ""

    def _groups(self, last: int | None = None) -> Iterator[tuple[Kind, list[Line]]]:
        for kind, lines in groupby(self.lines[:last], key=lambda line: line.kind):
            yield kind, list(lines)

    def _sources(self, last: int | None = None) -> Iterator[tuple[Kind, str]]:
        """What the lines say, without what only frames it."""
        for kind, lines in self._groups(last):
            if kind not in (Kind.GAP, Kind.FOLD):
                yield kind, _source(lines)

    def _gap(self) -> None:
        if self.lines and self.lines[-1].kind is not Kind.GAP:
            self.push(Kind.GAP, "")

    def _ends_blank(self) -> bool:
        last = self.lines[-1] if self.lines else None
        return last is not None and last.kind is Kind.ANSWER and not last.source.strip()


def _length(line: Line) -> int:
    """Lines of source; none of it is what says how the turn is shown, which comes and goes."""
    return 0 if line.kind in (Kind.FOLD, Kind.NOTE) else line.source.count("\n") + 1


def _source(lines: Iterable[Line]) -> str:
    return "\n".join(line.source for line in lines)
