"""Read prompts in slices, several short ones together, apart from the rows that decode.

What several prompts begin with is read once: one question to several panes, several answers to one
question, different questions after one system prompt. And what is known from rows that run or have
ended is copied instead of read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.cache import BatchCache, CachedRow, CachePlan, RowCache
from engine.prefix import Tokens
from engine.prompt_scores import AT_ONCE
from engine.reading import Reading
from engine.row import Row

Known = Callable[[Tokens], CachedRow | None]
"""The longest beginning of these tokens that can be copied from somewhere, as views."""


@dataclass(slots=True)
class Group:
    """Readings that share forwards. Row i of the cache belongs to `readings[i]`."""

    readings: list[Reading]
    cache: RowCache

    @property
    def joining(self) -> list[Row]:
        """The rows that are ready when it is read, those of one reading in sequence."""
        return [row for reading in self.readings for row in reading.rows]

    @property
    def waiting(self) -> list[Row]:
        """All rows that any of it is read for."""
        return [row for reading in self.readings for row in reading.waiting]

    @property
    def scored(self) -> bool:
        """Whether the logits of any of it are wanted."""
        return any(reading.scored for reading in self.readings)


@dataclass(frozen=True, slots=True)
class Slice:
    """What one forward read. rows: for whom. tokens: padding included, since it costs the same.
    ready: the group that is now read completely, to be moved into the batch."""

    rows: list[Row]
    tokens: int
    ready: Group | None


class PromptReader:
    """Admitted rows whose prompts are not fully read yet, oldest first.

    The last prompt token is left to the row's first decode step, which picks the first token; so
    no logits are computed here (MLX is lazy: only the K/V writes are evaluated), but for rows that
    want to know their prompt's log-probabilities.
    """

    def __init__(self, caches: CachePlan, known: Known) -> None:
        self._caches = caches
        self._known = known
        self._waiting: deque[Reading] = deque()
        self._group: Group | None = None

    def __len__(self) -> int:
        """Rows whose prompts are not fully read."""
        return sum(1 for reading in self._readings() for _ in reading.waiting)

    def add(self, row: Row) -> None:
        """Let a row wait for its tokens; `row.cached` says how many are not read for its sake."""
        tokens = row.history[:-1]
        if row.prompt_scores is not None:
            self._add_scored(row, tokens)
            return
        known = self._known(tokens)
        length = known.length if known else 0
        reading = max(self._readings(), key=lambda each: each.shares(tokens), default=None)
        shared = reading.shares(tokens) if reading else 0
        if reading is not None and (shared > length or reading.tokens == tokens):
            row.cached = shared
            reading.add(row, tokens)
        else:
            row.read = row.cached = length
            self._waiting.append(Reading(tokens, length, [row]))

    def _add_scored(self, row: Row, tokens: Tokens) -> None:
        """All its tokens are run, whatever is known of them; only with a reading of just these that
        has not begun can it share."""
        for reading in self._readings():
            if reading.scored and reading.read == 0 and reading.tokens == tokens:
                row.cached = len(tokens)
                reading.add(row, tokens)
                return
        self._waiting.append(Reading(tokens, 0, [row]))

    def remove(self, row: Row) -> None:
        """Forget a row that was cancelled before its prompt was read."""
        reading = next((each for each in self._readings() if each.remove(row)), None)
        if reading is None or any(reading.waiting):
            return
        if reading in self._waiting:
            self._waiting.remove(reading)
        elif self._group is not None and not self._group.waiting:
            self._group = None

    def read(self, budget: int) -> Slice:
        """One forward over at most `budget` tokens (at least one of the oldest reading)."""
        group = self._group or self._form(budget)
        readings = group.readings
        budget = min(budget, AT_ONCE) if group.scored else budget
        width = min(budget, max(reading.unread for reading in readings))
        widths = [min(width, reading.unread) for reading in readings]
        if width > 0:
            self._forward(group, widths, width)
        for reading, count in zip(readings, widths, strict=True):
            reading.advance(count)
        rows = group.waiting
        done = all(reading.unread == 0 for reading in readings)
        self._group = None if done else group
        if done:
            self._branch_off(group)
        return Slice(rows, width * len(readings), group if done else None)

    def _readings(self) -> Iterator[Reading]:
        if self._group is not None:
            yield from self._group.readings
        yield from self._waiting

    def _form(self, budget: int) -> Group:
        """The oldest reading, and those after it while all of them fit into one slice together;
        where a forward takes no padding, only those with as much to read."""
        readings: list[Reading] = []
        width = 1
        while self._waiting:
            reading = self._waiting[0]
            base = reading.base
            if reading.scored:
                budget = min(budget, AT_ONCE)
            elif base is None:
                base = self._known(reading.tokens)
            unread = len(reading.tokens) - (base.length if base else 0)
            width = max(width, unread)
            uneven = not self._caches.ragged and readings and unread != readings[0].unread
            if readings and (uneven or width * (len(readings) + 1) > budget):
                break
            reading.begin(base)
            readings.append(self._waiting.popleft())
        return Group(readings, self._filled(readings))

    def _filled(self, readings: Sequence[Reading]) -> RowCache:
        """A cache with a row for each reading, which holds what is known of it."""
        cache = self._caches.new()
        for reading in readings:
            if reading.base is None:
                cache.append_empty()
            else:
                assert isinstance(cache, BatchCache), "only rows of a batch are kept"
                cache.append(reading.base)
                reading.base = None
        # What was copied from is written to by the next step, in place once nobody waits to read.
        mx.eval(cache.arrays())
        return cache

    def _branch_off(self, group: Group) -> None:
        """What has read its first part is next in line for the rest."""
        branches = []
        for index, reading in enumerate(group.readings):
            for branch in reading.branches:
                assert isinstance(group.cache, BatchCache), "a row that runs alone shares nothing"
                branch.base = group.cache.row(index)
                branches.append(branch)
        self._waiting.extendleft(reversed(branches))

    def _forward(self, group: Group, widths: list[int], width: int) -> None:
        pieces = [
            reading.tokens[reading.read : reading.read + count]
            for reading, count in zip(group.readings, widths, strict=True)
        ]
        padded = [list(piece) + [0] * (width - len(piece)) for piece in pieces]
        group.cache.rows.expect(widths)
        logits = self._caches.forward(mx.array(padded, dtype=mx.uint32), group.cache)
        for place, (reading, count) in enumerate(zip(group.readings, widths, strict=True)):
            for row in reading.waiting:
                if row.prompt_scores is not None:
                    row.prompt_scores.take(logits[place, :count], reading.read)
        mx.eval(group.cache.arrays())
        group.cache.rows.advance(widths)
