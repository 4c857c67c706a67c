"""Two answers set against each other word by word. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

_SIGNS = (
    r"!-/:-@\[-`{-~\u00a1-\u00bf\u2010-\u2027\u2030-\u205e"
    r"\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_ALONE = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Characters of scripts that put no blanks between words: each counts as one."""
_LETTERS = rf"[^\s{_SIGNS}{_ALONE}]+"
_TOKEN = re.compile(rf"(?P<word>[{_ALONE}]|{_LETTERS}(?:['\u2019]{_LETTERS})*)|\n|\S")


class Hunk(Struct, frozen=True):
    """A stretch of both texts. same: their words are equal, though the blanks may differ."""

    same: bool
    left: str
    right: str


class Counts(Struct, frozen=True):
    """Words both texts have in the same order, and those only the left or the right one has."""

    same: int
    removed: int
    added: int

    @property
    def similarity(self) -> float:
        """Share of all words that are common, 0 to 1; two texts without words are alike."""
        every = 2 * self.same + self.removed + self.added
        return 2 * self.same / every if every else 1.0


class Diff(Struct, frozen=True):
    """The hunks give both texts back, character by character, but for one of nothing but blanks."""

    hunks: tuple[Hunk, ...]
    counts: Counts


def compare(left: str, right: str) -> Diff:
    """The difference of two texts in words. Seconds for 30,000 words each: not for the UI thread.

    Blanks are not compared, line ends are. Words are what stands between blanks and signs.
    """
    before, after = _Words(left), _Words(right)
    # common words start no match in long texts, or the time would be quadratic
    blocks = SequenceMatcher(None, before.texts, after.texts).get_matching_blocks()
    hunks: list[Hunk] = []
    i = j = same = 0
    for block in blocks:
        hunks += _hunk(False, before.between(i, block.a), after.between(j, block.b))
        i, j = block.a + block.size, block.b + block.size
        hunks += _hunk(True, before.between(block.a, i), after.between(block.b, j))
        same += before.count(block.a, i)
    removed, added = before.count(0, i) - same, after.count(0, j) - same
    return Diff(tuple(_joined(hunks)), Counts(same, removed, added))


@lru_cache(maxsize=16)
def words(text: str) -> int:
    """How many words a text has, counted as `compare` does."""
    return sum(match.lastgroup == "word" for match in _TOKEN.finditer(text))


class _Words:
    """A text's tokens: words, signs and line ends. The blanks after a token belong to it."""

    def __init__(self, text: str) -> None:
        matches = list(_TOKEN.finditer(text))
        self.texts = [match.group() for match in matches]
        self._text = text
        self._starts = [0, *(match.start() for match in matches[1:]), len(text)]
        self._words = [match.lastgroup == "word" for match in matches]

    def between(self, first: int, end: int) -> str:
        """Tokens `first` to `end` as they were written."""
        return self._text[self._starts[first] : self._starts[end]]

    def count(self, first: int, end: int) -> int:
        return sum(self._words[first:end])


def _hunk(same: bool, left: str, right: str) -> list[Hunk]:
    return [Hunk(same, left, right)] if left or right else []


def _joined(hunks: list[Hunk]) -> Iterator[Hunk]:
    """Changes that only signs hold apart become one: a lone comma in common helps no reader."""
    held: Hunk | None = None
    for hunk, following in pairwise([*hunks, None]):
        assert hunk is not None
        island = held is not None and hunk.same and following is not None and _only_signs(hunk)
        if held is not None and (island or not hunk.same):
            held = Hunk(False, held.left + hunk.left, held.right + hunk.right)
        elif hunk.same:
            if held is not None:
                yield held
                held = None
            yield hunk
        else:
            held = hunk
    if held is not None:
        yield held


def _only_signs(hunk: Hunk) -> bool:
    return "\n" not in hunk.left and not words(hunk.left)
