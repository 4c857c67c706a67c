"""K and V of a sliding-window layer: each row a ring in a shared buffer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import create_attention_mask

from engine.cache.attention import SlotKVCache, token_step
from engine.cache.protocols import Content, LayerMemory
from engine.cache.rows import RowLengths


class SlotRotatingKVCache(SlotKVCache):
    """`RotatingKVCache` (without attention sinks) for many rows.

    The token at position p lies in column p % period. The period is at least the window and one
    less than the widest forward more: then no token of a forward, padding and rejected drafts
    included, overwrites one that a later token still sees, and not advancing undoes all of it here
    too. mlx-lm's batched ring keeps one write position for all rows and copies them into order
    whenever their positions differ.
    """

    def __init__(self, rows: RowLengths, window: int) -> None:
        super().__init__(rows)
        self.window = window
        self.period = window

    def make_mask(
        self, width: int, return_array: bool = False, window_size: int | None = None
    ) -> Any:
        """As `SlotKVCache.make_mask`, over the columns `update_and_fetch` will return."""
        self._widen(width)
        end = self.rows.longest + width
        window = min(window_size or self.window, self.window)
        if len(self.rows) == 1:
            if end <= window:
                return create_attention_mask(width, end - width, return_array, None)
            if width == 1 and end >= self.period == window:
                return None  # every column is in the window
        query = self.rows.offsets[:, None] + mx.arange(width)
        newest = query[:, -1:]
        columns = mx.arange(min(end, self.period))
        key = newest - (newest - columns) % self.period
        query, key = query[:, None, :, None], key[:, None, None, :]
        return (key >= 0) & (key <= query) & (key > query - window)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        self._widen(keys.shape[2])
        return super().update_and_fetch(keys, values)

    def content(self, row: int, length: int) -> Content:
        """The latest tokens in their order, as many as later ones can see."""
        spans = self._spans(max(length - self.window, 0), length)
        return [
            mx.concatenate([buffer[row, :, low:high] for low, high in spans], axis=1)
            for buffer in self.buffers
        ]

    def cut(self, content: Content, length: int, to: int) -> Content | None:
        # Beyond the window, what an earlier token saw is gone.
        uncut = to == length or length <= self.window
        return super().cut(content, length, to) if uncut else None

    def memory(self) -> LayerMemory:
        return replace(super().memory(), most=token_step(self.window + 1))

    def put(self, row: int, content: Content, length: int) -> None:
        for buffer, array in zip(self.buffers, content, strict=True):
            kept = min(array.shape[1], self.period)
            read = array.shape[1] - kept
            for low, high in self._spans(length - kept, length):
                buffer[row, :, low:high] = array[:, read : read + high - low]
                read += high - low

    def _widen(self, width: int) -> None:
        """Make the period long enough for a forward of `width` tokens."""
        needed = self.window + width - 1
        if needed <= self.period:
            return
        lengths, rows = self.rows.lengths, range(len(self.rows))
        wrapped = bool(self.buffers) and self.rows.longest > self.period
        contents = [self.content(row, lengths[row]) for row in rows] if wrapped else []
        self.period = token_step(needed)
        if contents:
            self.buffers = [mx.zeros_like(buffer) for buffer in self.buffers]
            self._reserve(len(rows), self.rows.longest, self.buffers)
            for row, content in enumerate(contents):
                self.put(row, content, lengths[row])

    def _spans(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The columns of positions [start, stop), at most a period of them, as one or two runs."""
        if start == stop:
            return [(0, 0)]
        low, high = start % self.period, (stop - 1) % self.period + 1
        return [(low, high)] if low < high else [(low, self.period), (0, high)]

    def _write_row(self, buffer: mx.array, new: mx.array, start: int) -> None:
        read = 0
        for low, high in self._spans(start, start + new.shape[2]):
            buffer[:1, :, low:high] = new[:, :, read : read + high - low]
            read += high - low

    def _columns(self, positions: mx.array) -> mx.array:
        return positions % self.period

    def _stored(self) -> list[mx.array]:
        end = min(self._end, self.period)
        return [buffer[: len(self.rows), :, :end] for buffer in self.buffers]

    def _reserve(self, rows: int, tokens: int, like: list[mx.array]) -> None:
        super()._reserve(rows, min(tokens, self.period), like)
