"""K and V of a full-attention layer: one buffer for all rows, each row at its own length.

mlx-lm's batch caches pad every row to the longest and copy all rows' K/V whenever one joins or
leaves. Here rows are left-aligned in a shared buffer: joining copies one row in, leaving moves the
last row into the hole, and rolling back means not advancing a length.

A batch of one row takes the same path as mlx-lm's own `KVCache` (integer offset, slice write, no
mask), so a lone request costs what it costs unbatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import create_attention_mask

from engine.cache.protocols import Content, LayerMemory
from engine.cache.rows import RowLengths

LENGTH_STEP = 256
"""Buffers grow by at least this many tokens."""


class SlotBuffers:
    """Arrays [row capacity, kv heads, token capacity, any], written at each row's own length.

    Zeros until written (masked garbage may be anything finite: a NaN would leak through the
    softmax). Both capacities go in steps that depend on nothing but the rows (`row_step`,
    `token_step`); rows beyond `len(rows)` are scratch.
    """

    def __init__(self, rows: RowLengths) -> None:
        self.rows = rows
        self.buffers: list[mx.array] = []
        self._end = 0

    @property
    def offset(self) -> int | mx.array:
        return self.rows.offset

    def content(self, row: int, length: int) -> Content:
        return [buffer[row, :, :length] for buffer in self.buffers]

    def cut(self, content: Content, length: int, to: int) -> Content | None:
        return [array[:, :to] for array in content]

    def append(self, content: Content, length: int) -> None:
        new = len(self.rows)
        like = [array[None] for array in content] or self.buffers
        self._reserve(new + 1, max(self.rows.longest, length), like)
        if content:
            self.put(new, content, length)

    def put(self, row: int, content: Content, length: int) -> None:
        for buffer, array in zip(self.buffers, content, strict=True):
            buffer[row, :, :length] = array

    def pop(self) -> None:
        """Nothing to do: what lies beyond the rows is scratch."""

    def clear(self) -> None:
        self.buffers = []

    def shrink(self) -> None:
        if not self.buffers:
            return
        have_rows, _, have_tokens, _ = self.buffers[0].shape
        rows = min(row_step(len(self.rows)), have_rows)
        tokens = min(token_step(self.rows.longest + 1), have_tokens)
        if 2 * rows <= have_rows or 2 * tokens <= have_tokens:
            self.buffers = [mx.contiguous(buffer[:rows, :, :tokens]) for buffer in self.buffers]

    def make_room(self, rows: int, tokens: int) -> bool:
        before = self.buffers
        self._reserve(rows, max(tokens, self.rows.longest), before)
        return any(new is not old for new, old in zip(self.buffers, before, strict=True))

    def arrays(self) -> list[mx.array]:
        return self.buffers

    def memory(self) -> LayerMemory:
        if not self.buffers:
            return LayerMemory()
        places = self.buffers[0].shape[0] * self.buffers[0].shape[2]
        return LayerMemory(per_token=sum(buffer.nbytes for buffer in self.buffers) // places)

    def snapshot(self) -> list[Any] | None:
        return None

    def restore(self, snapshot: list[Any], rows: Sequence[bool] | None = None) -> None:
        raise NotImplementedError("not advancing the row lengths undoes a forward")

    def _store(self, new: list[mx.array]) -> list[mx.array]:
        """Write [rows, kv heads, width, any] behind each row; all rows up to the longest's end."""
        rows, _, width, _ = new[0].shape
        self._end = self.rows.longest + width
        self._reserve(rows, self._end, new)
        self.buffers = [
            self._write(buffer, array) for buffer, array in zip(self.buffers, new, strict=True)
        ]
        return self._stored()

    def _stored(self) -> list[mx.array]:
        return [buffer[: len(self.rows), :, : self._end] for buffer in self.buffers]

    def _write(self, buffer: mx.array, new: mx.array) -> mx.array:
        rows, _, width, _ = new.shape
        if rows == 1:
            self._write_row(buffer, new, self.rows.lengths[0])
            return buffer
        index = self._columns(self.rows.offsets[:, None] + mx.arange(width))
        spare = buffer.shape[0] - rows
        if spare:
            index = mx.pad(index, [(0, spare), (0, 0)])
            new = mx.pad(new, [(0, spare), (0, 0), (0, 0), (0, 0)])
        return mx.put_along_axis(buffer, index[:, None, :, None], new, axis=2)

    def _write_row(self, buffer: mx.array, new: mx.array, start: int) -> None:
        """Write [1, kv heads, width, any] into the first row from position `start` on."""
        buffer[:1, :, start : start + new.shape[2]] = new

    def _columns(self, positions: mx.array) -> mx.array:
        """Where in a row's buffer the tokens at these positions lie."""
        return positions

    def _reserve(self, rows: int, tokens: int, like: list[mx.array]) -> None:
        """Room for `rows` rows of `tokens` tokens, those that are there included; heads, sizes and
        types come from `like`."""
        have: Sequence[mx.array | None] = self.buffers or [None] * len(like)
        self.buffers = [
            _grown(buffer, rows, tokens, array) for buffer, array in zip(have, like, strict=True)
        ]


class SlotKVCache(SlotBuffers):
    """`KVCache` for many rows."""

    @property
    def keys(self) -> mx.array | None:
        return self.buffers[0] if self.buffers else None

    @keys.setter
    def keys(self, keys: mx.array) -> None:
        self.buffers[0] = keys  # models tie other work to the buffer with mx.depends

    @property
    def values(self) -> mx.array | None:
        return self.buffers[1] if self.buffers else None

    @values.setter
    def values(self, values: mx.array) -> None:
        self.buffers[1] = values

    def make_mask(
        self, width: int, return_array: bool = False, window_size: int | None = None
    ) -> Any:
        """Causal mask for `width` new tokens in every row: None, "causal", or bool
        [rows, 1, width, longest + width]."""
        if len(self.rows) == 1:
            return create_attention_mask(width, self.rows.lengths[0], return_array, window_size)
        query = self.rows.offsets[:, None] + mx.arange(width)
        query = query[:, None, :, None]
        key = mx.arange(self.rows.longest + width)
        mask = key <= query
        return mask if window_size is None else mask & (key > query - window_size)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Write [rows, kv heads, width, head dim] after each row's length; all rows' K and V up to
        the longest row's new end."""
        self._store([keys, values])
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Any, Any]:
        """What the latest update returned, for the layers that share this one's K and V."""
        keys, values = self._stored()
        return keys, values


def _grown(buffer: mx.array | None, rows: int, tokens: int, like: mx.array) -> mx.array:
    """`buffer` with room for `rows` rows of `tokens` tokens; heads and dtype come from `like`.

    Where it has to be copied, room that is no longer needed goes: no buffer is ever larger than
    rows that were there at one time needed.
    """
    if buffer is not None and rows <= buffer.shape[0] and tokens <= buffer.shape[2]:
        return buffer
    shape = (row_step(rows), like.shape[1], token_step(tokens), like.shape[3])
    grown = mx.zeros(shape, dtype=like.dtype)
    if buffer is not None:
        kept = buffer[: shape[0], :, : shape[2]]
        grown[: kept.shape[0], :, : kept.shape[2]] = kept
    return grown


def row_step(rows: int) -> int:
    """The row capacity for so many rows: 1, 2, 3, 4, 6, 8, 12, 16, ..."""
    step = 1 << max(rows.bit_length() - 2, 0)
    return -(-rows // step) * step


def token_step(tokens: int) -> int:
    """The token capacity for so many tokens.

    Steps grow with the length, so that all copying over a long answer stays linear in it.
    """
    step = max(LENGTH_STEP, 1 << max(tokens.bit_length() - 3, 0))
    return -(-tokens // step) * step
