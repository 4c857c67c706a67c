"""Read prompts in slices, several short ones together, apart from the rows that decode."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import mlx.core as mx

from engine.cache import CachePlan, RowCache
from engine.row import Row


@dataclass(slots=True)
class Group:
    """Rows read in one forward: one long prompt over several slices, or short ones in one."""

    rows: list[Row]
    cache: RowCache


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
        self._waiting: deque[Row] = deque()
        self._group: Group | None = None

    def __len__(self) -> int:
        """Rows whose prompts are not fully read."""
        return len(self._waiting) + (len(self._group.rows) if self._group else 0)

    def add(self, row: Row) -> None:
        self._waiting.append(row)

    def remove(self, row: Row) -> None:
        """Forget a row that was cancelled before its prompt was read."""
        if row in self._waiting:
            self._waiting.remove(row)
        elif self._group is not None and row in self._group.rows:
            self._group = None

    def read(self, budget: int) -> Slice:
        """One forward over at most `budget` prompt tokens (at least one of the oldest row)."""
        group = self._group or self._form(budget)
        width = min(budget, max(row.unread for row in group.rows))
        widths = [min(width, row.unread) for row in group.rows]
        if width > 0:
            self._forward(group, widths, width)
        for row, count in zip(group.rows, widths, strict=True):
            row.read += count
        done = all(row.unread == 0 for row in group.rows)
        self._group = None if done else group
        return Slice(group.rows, width * len(group.rows), group if done else None)

    def _form(self, budget: int) -> Group:
        """The oldest row, and those after it while all of them fit into one slice together; where
        a forward takes no padding, only those with as much to read."""
        rows = [self._waiting.popleft()]
        width = max(rows[0].unread, 1)
        while self._waiting and width <= budget:
            if not self._caches.ragged and self._waiting[0].unread != rows[0].unread:
                break
            width = max(width, self._waiting[0].unread)
            if width * (len(rows) + 1) > budget:
                break
            rows.append(self._waiting.popleft())
        cache = self._caches.new()
        for _ in rows:
            cache.append_empty()
        return Group(rows, cache)

    def _forward(self, group: Group, widths: list[int], width: int) -> None:
        prompts = [
            row.request.prompt[row.read : row.read + count]
            for row, count in zip(group.rows, widths, strict=True)
        ]
        padded = [list(prompt) + [0] * (width - len(prompt)) for prompt in prompts]
        group.cache.rows.expect(widths)
        self._caches.model(mx.array(padded, dtype=mx.uint32), cache=group.cache.layers)
        mx.eval(group.cache.arrays())
        group.cache.rows.advance(widths)
