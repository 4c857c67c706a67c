"""One K/V buffer per layer for all rows of a batch, each row at its own length.

mlx-lm's batch caches pad every row to the longest and copy all rows' K/V whenever one joins or
leaves. Here rows are left-aligned in a shared buffer: joining copies one row in, leaving moves the
last row into the hole, and rolling back means not advancing a length. To a model a `SlotKVCache`
is an ordinary mlx-lm cache: `offset`, `update_and_fetch`, `make_mask`.

A batch of one row takes the same path as mlx-lm's own `KVCache` (integer offset, slice write, no
mask), so a lone request costs what it costs unbatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, create_attention_mask, make_prompt_cache

LENGTH_STEP = 256
"""Buffers grow to a multiple of this many tokens."""


class UnbatchableError(Exception):
    """A layer's cache kind has no batched form here; the message names it."""


class RowLengths:
    """Tokens held by each row, shared by all layers' caches, and what one forward derives from it.

    Layers only write and read; the batch advances the lengths once after the forward. So tokens
    that should not count (padding, rejected drafts) are simply not advanced over.
    """

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self._offsets: mx.array | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def longest(self) -> int:
        return max(self.lengths, default=0)

    @property
    def offset(self) -> int | mx.array:
        """Where the next token of each row goes: an int for one row, else int32 [rows]."""
        return self.lengths[0] if len(self.lengths) == 1 else self.offsets

    @property
    def offsets(self) -> mx.array:
        """int32 [rows]."""
        if self._offsets is None:
            self._offsets = mx.array(self.lengths, dtype=mx.int32)
        return self._offsets

    def append(self, length: int) -> None:
        self.lengths.append(length)
        self._offsets = None

    def remove(self, row: int) -> None:
        """Drop `row`; the last row takes its place."""
        self.lengths[row] = self.lengths[-1]
        self.lengths.pop()
        self._offsets = None

    def advance(self, widths: Sequence[int]) -> None:
        self.lengths = [length + width for length, width in zip(self.lengths, widths, strict=True)]
        self._offsets = None


class SlotKVCache:
    """One layer's K and V for all rows.

    keys, values: [row capacity, kv heads, token capacity, head dim], zeros until written (masked
    garbage may be anything finite: a NaN would leak through the softmax). Row capacity and token
    capacity grow in steps; rows beyond `len(rows)` are scratch.
    """

    def __init__(self, rows: RowLengths) -> None:
        self._rows = rows
        self.keys: mx.array | None = None
        self.values: mx.array | None = None

    @property
    def offset(self) -> int | mx.array:
        return self._rows.offset

    def make_mask(
        self, width: int, return_array: bool = False, window_size: int | None = None
    ) -> Any:
        """Causal mask for `width` new tokens in every row: None, "causal", or bool
        [rows, 1, width, longest + width]."""
        if len(self._rows) == 1:
            offset = self._rows.lengths[0]
            return create_attention_mask(width, offset, return_array, window_size)
        query = self._rows.offsets[:, None] + mx.arange(width)
        query = query[:, None, :, None]
        key = mx.arange(self._rows.longest + width)
        mask = key <= query
        return mask if window_size is None else mask & (key > query - window_size)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write [rows, kv heads, width, head dim] after each row's length; return all rows' K and V
        up to the longest row's new end."""
        rows, _, width, _ = keys.shape
        end = self._rows.longest + width
        self._reserve(rows, end, keys, values)
        self.keys = self._write(self.keys, keys)
        self.values = self._write(self.values, values)
        return self.keys[:rows, :, :end], self.values[:rows, :, :end]

    def make_room(self, rows: int, tokens: int) -> bool:
        """Grow for what is about to join; whether there was anything to do."""
        if self.keys is None or self.values is None:
            return False
        before = self.keys
        self._reserve(rows, tokens, self.keys, self.values)
        return self.keys is not before

    def append_from(self, source: SlotKVCache, row: int, length: int) -> None:
        """Copy the first `length` tokens of a row of another cache behind the last row here."""
        if source.keys is None or source.values is None:
            return
        new = len(self._rows)
        self._reserve(new + 1, max(self._rows.longest, length), source.keys, source.values)
        if length and self.keys is not None and self.values is not None:
            self.keys[new, :, :length] = source.keys[row, :, :length]
            self.values[new, :, :length] = source.values[row, :, :length]

    def copy_of(self, row: int, length: int) -> list[mx.array]:
        """K and V of a row's first `length` tokens in memory of their own, once evaluated."""
        return [
            mx.contiguous(b[row, :, :length]) for b in (self.keys, self.values) if b is not None
        ]

    def put(self, row: int, content: list[mx.array]) -> None:
        """Write what `copy_of` gave over the beginning of a row."""
        length = content[0].shape[1]
        assert self.keys is not None
        assert self.values is not None
        self.keys[row, :, :length], self.values[row, :, :length] = content

    def clear(self) -> None:
        """Give the buffers back."""
        self.keys = self.values = None

    def _write(self, buffer: mx.array | None, new: mx.array) -> mx.array:
        assert buffer is not None
        rows, _, width, _ = new.shape
        if rows == 1:
            start = self._rows.lengths[0]
            buffer[:1, :, start : start + width] = new
            return buffer
        index = self._rows.offsets[:, None] + mx.arange(width)
        spare = buffer.shape[0] - rows
        if spare:
            index = mx.pad(index, [(0, spare), (0, 0)])
            new = mx.pad(new, [(0, spare), (0, 0), (0, 0), (0, 0)])
        return mx.put_along_axis(buffer, index[:, None, :, None], new, axis=2)

    def _reserve(self, rows: int, tokens: int, like_keys: mx.array, like_values: mx.array) -> None:
        self.keys = _grown(self.keys, rows, tokens, like_keys)
        self.values = _grown(self.values, rows, tokens, like_values)


def _grown(buffer: mx.array | None, rows: int, tokens: int, like: mx.array) -> mx.array:
    """`buffer` with room for `rows` rows of `tokens` tokens; heads and dtype come from `like`."""
    have_rows, have_tokens = (0, 0) if buffer is None else (buffer.shape[0], buffer.shape[2])
    if rows <= have_rows and tokens <= have_tokens and buffer is not None:
        return buffer
    if tokens > have_tokens:
        # A quarter more than asked keeps the copying linear over a long answer.
        tokens = _token_step(max(tokens, have_tokens + have_tokens // 4))
    shape = (
        _row_step(max(rows, have_rows)),
        like.shape[1],
        max(tokens, have_tokens),
        like.shape[3],
    )
    grown = mx.zeros(shape, dtype=like.dtype)
    if buffer is not None:
        grown[:have_rows, :, :have_tokens] = buffer
    return grown


def _row_step(rows: int) -> int:
    return 1 << (rows - 1).bit_length()


def _token_step(tokens: int) -> int:
    return -(-tokens // LENGTH_STEP) * LENGTH_STEP


class BatchCache:
    """All layers' caches of one batch, rows in the batch's order."""

    def __init__(self, model: Any) -> None:
        """Raises UnbatchableError when the model asks for a cache kind with no batched form."""
        for cache in make_prompt_cache(model):
            if type(cache) is not KVCache:
                raise UnbatchableError(
                    f"this model keeps a {type(cache).__name__}, which can't be batched here; "
                    "use a model with full attention in every layer"
                )
        self.rows = RowLengths()
        self.layers = [SlotKVCache(self.rows) for _ in model.layers]

    def append(self) -> None:
        """Add an empty row."""
        self.rows.append(0)

    def make_room(self, rows: int, tokens: int, layers: int) -> None:
        """Grow at most `layers` layers, so that a join later finds room in all of them.

        Growing them all in the step after a long prompt joined would pause every row for as long
        as several steps.
        """
        for layer in self.layers:
            layers -= layer.make_room(len(self.rows) + rows, tokens)
            if layers <= 0:
                return

    def append_from(self, source: BatchCache, row: int) -> None:
        """Add a copy of a row of another batch's cache."""
        length = source.rows.lengths[row]
        for mine, theirs in zip(self.layers, source.layers, strict=True):
            mine.append_from(theirs, row, length)
        self.rows.append(length)

    def remove(self, row: int) -> None:
        """Drop a row; the last row takes its place. The last row to go frees the buffers."""
        last = len(self.rows) - 1
        if last == 0:
            for layer in self.layers:
                layer.clear()
        elif row != last:
            self._move(last, row)
        self.rows.remove(row)

    def _move(self, source: int, target: int) -> None:
        length = self.rows.lengths[source]
        moved = [layer.copy_of(source, length) for layer in self.layers]
        # Evaluated first, so that nothing views the buffers when they are written: each write is
        # then done in place instead of on a copy of the whole buffer.
        mx.eval(moved)
        for layer, content in zip(self.layers, moved, strict=True):
            if content:
                layer.put(target, content)

    def arrays(self) -> list[mx.array]:
        """Every buffer, for evaluation."""
        return [
            array
            for layer in self.layers
            for array in (layer.keys, layer.values)
            if array is not None
        ]
