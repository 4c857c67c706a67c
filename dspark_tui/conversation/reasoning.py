"""Reasoning told from the answer, by the tags that models write it between. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

OPEN, CLOSE = "<think>", "</think>"
LINE_CLOSE = f"\n{CLOSE}"


class Part(StrEnum):
    ANSWER = "answer"
    THOUGHT = "thought"


class Piece(Struct, frozen=True):
    """Some text of a part. recalls: all text before it was a thought, too: some templates open the
    tag in the prompt, so that only its end is seen."""

    part: Part
    text: str
    recalls: bool = False


class Splitter(Struct):
    """Takes an answer's text as it comes. part: where it is now, None before the first character.
    thought: there has been a thought, or there is one.

    Text that may be half of a tag is held back until `flush`, blanks at a part's start are dropped
    beside a tag.
    """

    part: Part | None = None
    thought: bool = False
    _held: str = ""
    _trims: bool = False
    _begins_line: bool = False

    def push(self, text: str) -> list[Piece]:
        """The pieces that are certain now."""
        self._held += text
        pieces: list[Piece] = []
        while self._held and self._step(pieces):
            pass
        return pieces

    def flush(self) -> list[Piece]:
        """What is held back, once nothing follows it."""
        pieces: list[Piece] = []
        self._give(pieces, self._held)
        self._held = ""
        return pieces

    def _step(self, pieces: list[Piece]) -> bool:
        """Go on by one part at most; false when more text is needed."""
        match self.part:
            case None:
                return self._start()
            case Part.THOUGHT:
                return self._until(CLOSE, pieces)
        if self.thought:  # only the first thought is one: from here on, tags are talked about
            self._give(pieces, self._held)
            self._held = ""
            return False
        return self._until(LINE_CLOSE, pieces)

    def _start(self) -> bool:
        start = self._held.lstrip()
        if start.startswith(OPEN):
            self._enter(Part.THOUGHT, start.removeprefix(OPEN))
            return True
        if OPEN.startswith(start):
            return False
        self.part, self._begins_line = Part.ANSWER, True
        return True

    def _until(self, tag: str, pieces: list[Piece]) -> bool:
        """Give out what comes before `tag`, or all but what may be its first half."""
        given = int(self._begins_line)  # the line end before it, which the tag may need
        text = "\n" * given + self._held
        before, found, after = text.partition(tag)
        if found:
            recalls = self.part is Part.ANSWER
            self._give(pieces, before[given:], recalls)
            self._enter(Part.ANSWER, after)
            return True
        kept = _half_of(tag, text)
        self._begins_line = tag is LINE_CLOSE and kept > 0
        end = len(text) - kept + self._begins_line
        self._give(pieces, text[given:end])
        self._held = text[end:]
        return False

    def _enter(self, part: Part, rest: str) -> None:
        self.part, self.thought, self._held, self._trims = part, True, rest, True
        self._begins_line = False

    def _give(self, pieces: list[Piece], text: str, recalls: bool = False) -> None:
        if self._trims:
            text = text.lstrip("\n")
        if text or recalls:
            self._trims = False
            part = Part.THOUGHT if recalls else self.part or Part.ANSWER
            pieces.append(Piece(part, text, recalls))


def _half_of(tag: str, text: str) -> int:
    """How many characters at the end of `text` may be the start of `tag`."""
    lengths = range(min(len(tag) - 1, len(text)), 0, -1)
    return next((length for length in lengths if tag.startswith(text[-length:])), 0)


def answer_of(text: str) -> str:
    """The text without its reasoning."""
    if CLOSE not in text and OPEN not in text:
        return text
    splitter, answer = Splitter(), ""
    for piece in [*splitter.push(text), *splitter.flush()]:
        answer = "" if piece.recalls else answer + piece.text * (piece.part is Part.ANSWER)
    return answer
