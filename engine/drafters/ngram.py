"""Drafts looked up in the row's own text: what followed the same few tokens before.

No model and no memory beyond an index. It pays where answers repeat what they were given: edits,
code, extraction, quotes. Every token of a row is looked at once, when it comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from engine.cache.protocols import RowCache
from engine.drafters.base import NONE, Draft, Drafter
from engine.drafters.estimate import Estimate
from engine.row import Row

SHORTEST = 3
"""Tokens that have to agree for a place to be followed. Two agree by accident all the time."""

LONGEST = 24
LEVELS = ((3, 0.35), (4, 0.5), (6, 0.65), (9, 0.8), (16, 0.9), (32, 0.95))
"""(tokens that agree, how likely the next one does too before any was seen), by level."""


class NgramDrafter(Drafter):
    """Chances are learnt from every token that comes, drafted or not: each row always knows what it
    would have proposed. The longer two places agree, the better the next token does."""

    name = "ngram"
    longest = LONGEST
    free = True

    def __init__(self) -> None:
        self._texts: dict[Row, FollowedText] = {}
        self._chances = [Estimate(prior) for _, prior in LEVELS]

    def propose(self, rows: Sequence[Row], limits: Sequence[int], cache: RowCache) -> list[Draft]:
        return self.outlook(rows, limits)

    def outlook(self, rows: Sequence[Row], limits: Sequence[int]) -> list[Draft]:
        return [self._draft(row, limit) for row, limit in zip(rows, limits, strict=True)]

    def leave(self, row: Row) -> None:
        self._texts.pop(row, None)

    def _draft(self, row: Row, limit: int) -> Draft:
        text = self._texts.get(row)
        if text is None:
            text = self._texts[row] = FollowedText(row.request.prompt)
        text.extend(row.after(len(text)), self._learn)
        tokens = text.ahead(limit)
        agreeing = range(text.agreeing, text.agreeing + len(tokens))
        return Draft(tokens, [self._chances[_level(n)].value for n in agreeing]) if tokens else NONE

    def _learn(self, agreeing: int, right: bool) -> None:
        self._chances[_level(agreeing)].add(right)


class FollowedText:
    """A growing text and the earlier place in it that reads like its end.

    agreeing: how many tokens before that place and before the end are the same, 0 for no place.
    """

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.agreeing = 0
        self._tokens: list[int] = []
        self._place = 0
        self._ends: dict[tuple[int, ...], int] = {}
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(
        self, tokens: Iterable[int], learn: Callable[[int, bool], None] = lambda *_: None
    ) -> None:
        """learn: told for each token that was foreseen, how many agreed and whether it came."""
        for token in tokens:
            if self.agreeing:
                right = self._tokens[self._place] == token
                learn(self.agreeing, right)
                self._place += 1
                self.agreeing = self.agreeing + 1 if right else 0
            self._tokens.append(token)
            self._note_end()

    def ahead(self, count: int) -> list[int]:
        """Up to `count` tokens that follow if the text goes on as it did at the place. Where that
        runs into the end, the text is taken to repeat itself."""
        if not self.agreeing:
            return []
        tokens: list[int] = []
        known = self._tokens[self._place : self._place + count]
        while len(tokens) < count:
            tokens += known[: count - len(tokens)]
        return tokens

    def _note_end(self) -> None:
        """Remember what ends here; look for where it ended before unless a place is followed."""
        end = tuple(self._tokens[-SHORTEST:])
        if len(end) < SHORTEST:
            return
        here = len(self._tokens)
        before = self._ends.get(end)
        self._ends[end] = here
        if not self.agreeing and before is not None:
            self._place, self.agreeing = before, self._agreement(before, here)

    def _agreement(self, before: int, here: int) -> int:
        """How many tokens before the two places are the same, as far as it matters."""
        most = min(before, LEVELS[-1][0])
        same = SHORTEST
        while same < most and self._tokens[before - same - 1] == self._tokens[here - same - 1]:
            same += 1
        return same


def _level(agreeing: int) -> int:
    return bisect_right(LEVELS, agreeing, key=itemgetter(0)) - 1
