"""Read prompts in slices, several short ones together, apart from the rows that decode.

Equal prompts are read once: several answers to one question (`n`), or one question to several
panes, wait for the same reading, and each row gets its copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import mlx.core as mx

from engine.cache import CachePlan, RowCache
from engine.row import Row


@dataclass(slots=True, eq=False)
class Reading:
    """One prompt, and the rows that wait for it."""

    rows: list[Row]

    @property
    def prompt(self) -> tuple[int, ...]:
        return self.rows[0].request.prompt

    @property
    def read(self) -> int:
        return self.rows[0].read

    @property
    def unread(self) -> int:
        return self.rows[0].unread

    def add(self, row: Row) -> None:
        """Let a row with the same prompt wait too; none of it is read for this row's sake."""
        row.read = self.read
        row.cached = len(self.prompt) - 1
        self.rows.append(row)

    def remove(self, row: Row) -> None:
        """Forget a row; what is read for one row's sake is read for another's from now on."""
        first = self.rows[0]
        self.rows.remove(row)
        if row is first and self.rows:
            self.rows[0].cached = first.cached

    def advance(self, tokens: int) -> None:
        for row in self.rows:
            row.read += tokens


@dataclass(slots=True)
class Group:
    """Prompts read in one forward: a long one over several slices, or short ones in one."""

    readings: list[Reading]
    cache: RowCache

    @property
    def rows(self) -> list[Row]:
        """All that wait, those of one reading in sequence."""
        return [row for reading in self.readings for row in reading.rows]


@dataclass(frozen=True, slots=True)
class Slice:
    """What one forward read. tokens: padding included, since it costs the same.
    ready: the group whose prompts are now read completely, to be moved into the batch."""

    rows: list[Row]
    tokens: int
    ready: Group | None


class PromptReader:
    """Admitted rows whose prompts are not fully read yet, oldest first.

    The last prompt token is left to the row's first decode step, which picks the first token; so
    no logits are ever computed here (MLX is lazy: only the K/V writes are evaluated).
    """

    def __init__(self, caches: CachePlan) -> None:
        self._caches = caches
        self._waiting: deque[Reading] = deque()
        self._group: Group | None = None

    def __len__(self) -> int:
        """Rows whose prompts are not fully read."""
        return sum(len(reading.rows) for reading in self._readings())

    def add(self, row: Row) -> None:
        for reading in self._readings():
            if reading.prompt == row.request.prompt:
                reading.add(row)
                return
        self._waiting.append(Reading([row]))

    def remove(self, row: Row) -> None:
        """Forget a row that was cancelled before its prompt was read."""
        reading = next((each for each in self._readings() if row in each.rows), None)
        if reading is None:
            return
        reading.remove(row)
        if reading.rows:
            return
        if reading in self._waiting:
            self._waiting.remove(reading)
        else:
            self._group = None

    def read(self, budget: int) -> Slice:
        """One forward over at most `budget` prompt tokens (at least one of the oldest row)."""
        group = self._group or self._form(budget)
        readings = group.readings
        width = min(budget, max(reading.unread for reading in readings))
        widths = [min(width, reading.unread) for reading in readings]
        if width > 0:
            self._forward(group, widths, width)
        for reading, count in zip(readings, widths, strict=True):
            reading.advance(count)
        done = all(reading.unread == 0 for reading in readings)
        self._group = None if done else group
        return Slice(group.rows, width * len(readings), group if done else None)

    def _readings(self) -> Iterator[Reading]:
        if self._group is not None:
            yield from self._group.readings
        yield from self._waiting

    def _form(self, budget: int) -> Group:
        """The oldest prompt, and those after it while all of them fit into one slice together;
        where a forward takes no padding, only those with as much to read."""
        readings = [self._waiting.popleft()]
        width = max(readings[0].unread, 1)
        while self._waiting and width <= budget:
            if not self._caches.ragged and self._waiting[0].unread != readings[0].unread:
                break
            width = max(width, self._waiting[0].unread)
            if width * (len(readings) + 1) > budget:
                break
            readings.append(self._waiting.popleft())
        cache = self._caches.new()
        for _ in readings:
            cache.append_empty()
        return Group(readings, cache)

    def _forward(self, group: Group, widths: list[int], width: int) -> None:
        prompts = [
            reading.prompt[reading.read : reading.read + count]
            for reading, count in zip(group.readings, widths, strict=True)
        ]
        padded = [list(prompt) + [0] * (width - len(prompt)) for prompt in prompts]
        group.cache.rows.expect(widths)
        self._caches.forward(mx.array(padded, dtype=mx.uint32), group.cache)
        mx.eval(group.cache.arrays())
        group.cache.rows.advance(widths)
