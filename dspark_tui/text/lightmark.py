"""Light Markdown styling, one line at a time. Pure.

A line is prose, inside a code fence, or the fence itself; that is all the state there is. Nothing
is hidden or re-flowed: every character of the source is on screen, so a half-written line never
jumps, and what is selected is the source.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct


class Mark(StrEnum):
    """How a run of text is meant."""

    TEXT = "text"
    SIGN = "sign"  # Markdown's own signs: `#`, `**`, backticks, rules
    TITLE = "title"  # the largest heading
    HEADING = "heading"
    BULLET = "bullet"
    BOLD = "bold"
    EMPHASIS = "emphasis"
    STRIKE = "strike"
    LINK = "link"
    URL = "url"
    CODE = "code"
    FENCE = "fence"
    LANGUAGE = "language"  # of a code block
    KEYWORD = "keyword"
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    COMMENT = "comment"
    USER = "user"
    THOUGHT = "thought"
    NOTE = "note"
    FOOTER = "footer"
    MARKED = "marked"  # why an answer is not whole


class Run(Struct, frozen=True):
    """`line[start:end]` is drawn as `mark`. within: what else it is, e.g. bold in a heading."""

    start: int
    end: int
    mark: Mark
    within: tuple[Mark, ...] = ()


class Fence(Struct, frozen=True):
    """An open code fence. sign: the backticks or tildes that opened it."""

    sign: str

    def closed_by(self, line: str) -> bool:
        text = line.strip()
        return len(text) >= len(self.sign) and not text.strip(self.sign[0])


_FENCE = re.compile(r" {0,3}(`{3,}(?!.*`)|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?: +|$)")
_BULLET = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])(?: +|$)")
_INLINE = re.compile(
    r"(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|\*\*(?=\S)(?P<bold>.+?)(?<=\S)\*\*"
    r"|(?<![\w*])\*(?=[^\s*])(?P<emphasis>[^*]+?)(?<=\S)\*(?![\w*])"
)
"""Underscores mean nothing here: `__init__` is a name far more often than an emphasis."""


def fence_after(line: str, fence: Fence | None) -> Fence | None:
    """The fence that is open after `line`, given the one open before it."""
    if fence is not None:
        return None if fence.closed_by(line) else fence
    opening = _FENCE.match(line)
    return Fence(opening.group(1)) if opening else None


def hang(line: str, fence: Fence | None) -> int:
    """Columns by which later rows of a wrapped line are indented: a list item's text."""
    bullet = None if fence else _BULLET.match(line)
    return bullet.end() if bullet else 0


def runs(line: str, fence: Fence | None) -> list[Run]:
    """How to draw a line, given the fence open before it; the runs cover it without gaps."""
    if fence is not None or _FENCE.match(line):
        return [Run(0, len(line), Mark.FENCE)]
    if heading := _HEADING.match(line):
        return [
            Run(0, heading.end(), Mark.SIGN),
            Run(heading.end(), len(line), Mark.HEADING),
        ]
    bullet = _BULLET.match(line)
    start = bullet.end() if bullet else 0
    head = [Run(0, start, Mark.BULLET)] if bullet else []
    return head + _inline(line, start)


def _inline(line: str, start: int) -> list[Run]:
    found: list[Run] = []
    for match in _INLINE.finditer(line, start):
        mark = Mark(match.lastgroup or Mark.TEXT)
        found += [
            Run(start, match.start(), Mark.TEXT),
            Run(match.start(), match.start(mark), Mark.SIGN),
            Run(match.start(mark), match.end(mark), mark),
            Run(match.end(mark), match.end(), Mark.SIGN),
        ]
        start = match.end()
    found.append(Run(start, len(line), Mark.TEXT))
    return [run for run in found if run.end > run.start]
