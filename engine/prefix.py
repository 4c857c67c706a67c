"""What ended requests have read, kept for requests that begin with the same tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator

from engine.cache import BatchCache, CachedRow

Tokens = tuple[int, ...]

SHORTEST = 16
"""Tokens that are worth keeping, or waiting for: fewer are read as quickly as they are copied."""


def common(one: Tokens, other: Tokens) -> int:
    """How many tokens both begin with."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return bisect_left(range(length), True, key=lambda n: one[: n + 1] != other[: n + 1])


class PrefixCache:
    """Rows by the tokens they have read, the least recently used out when they take too much.

    An attention layer's row can be cut, so it serves every request it has any beginning in common
    with. A recurrent state, or a window that has moved on, can't: such a row serves requests that
    begin with all of it. Rows are kept at the ends of prompts and of answers, which is where later
    turns of a chat go on.
    """

    def __init__(self, shape: BatchCache, limit: int) -> None:
        """shape: a cache of the rows' kind, which may stay empty. limit: bytes."""
        self.limit = limit
        self.bytes = 0
        self._shape = shape
        self._rows: OrderedDict[Tokens, CachedRow] = OrderedDict()
        self._sorted: list[Tokens] = []

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, tokens: Tokens) -> CachedRow | None:
        """The longest beginning of `tokens` that is known, as views; None if there is none."""
        for key, shared in self._candidates(tokens):
            found = self._shape.cut(self._rows[key], shared) if shared >= SHORTEST else None
            if found is not None:
                self._rows.move_to_end(key)
                return found
        return None

    def keep(self, tokens: Tokens, row: CachedRow) -> None:
        """Copy a row that has read `tokens`, unless it is too short or too large, or known."""
        if len(tokens) < SHORTEST or row.bytes > self.limit:
            return
        known = self.find(tokens)
        if known is not None and known.length == len(tokens):
            return
        for shorter in list(self._beginnings(tokens)):
            if self._shape.cut(row, len(shorter)) is not None:
                self._drop(shorter)
        while self.bytes + row.bytes > self.limit:
            self._drop(next(iter(self._rows)))
        self._rows[tokens] = row.detach()
        insort(self._sorted, tokens)
        self.bytes += row.bytes

    def clear(self) -> None:
        self._rows.clear()
        self._sorted.clear()
        self.bytes = 0

    def _candidates(self, tokens: Tokens) -> Iterator[tuple[Tokens, int]]:
        """Kept rows and how many tokens they share with these, the most first.

        In sorted order, the keys next to where `tokens` would stand share the most with it. After
        those come the keys that are beginnings of it.
        """
        place = bisect_left(self._sorted, tokens)
        beside = [(key, common(key, tokens)) for key in self._sorted[max(place - 1, 0) : place + 1]]
        yield from sorted(beside, key=lambda pair: pair[1], reverse=True)
        for key in self._beginnings(tokens):
            yield key, len(key)

    def _beginnings(self, tokens: Tokens) -> Iterator[Tokens]:
        """The keys that `tokens` begins with, longest first."""
        while place := bisect_right(self._sorted, tokens):
            key = self._sorted[place - 1]
            shared = common(key, tokens)
            # A longer beginning would stand between this key and `tokens`.
            tokens = tokens[:shared]
            if shared == len(key):
                yield key
                tokens = tokens[:-1]

    def _drop(self, tokens: Tokens) -> None:
        self.bytes -= self._rows.pop(tokens).bytes
        del self._sorted[bisect_left(self._sorted, tokens)]
