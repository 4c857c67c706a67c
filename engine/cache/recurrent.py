"""The fixed-size state of a recurrent layer (gated delta, convolution, Mamba), one per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache

from engine.cache.protocols import Content, LayerMemory
from engine.cache.rows import RowLengths


class SlotArraysCache(ArraysCache):  # some models ask for the class
    """`ArraysCache` whose rows join and leave, and whose padding is the batch's.

    A state is one array [rows, any...] or None before the first forward. It holds everything its
    row has read: a forward can't be undone by not advancing, but putting the arrays of before back
    costs nothing, since a forward replaces them and never writes into them.

    Right padding must not enter a state. A model that honours `lengths` and the mask keeps it out;
    mlx-lm has some that look at neither, so whether prompts of unequal length may be read together
    is tried when the model is loaded (`engine.cache.plan`), not assumed.
    """

    left_padding = None

    def __init__(self, rows: RowLengths, size: int) -> None:
        self._rows = rows
        self.cache: list[mx.array | None] = [None] * size

    @property
    def lengths(self) -> mx.array | None:
        """int32 [rows]: tokens of the coming forward that count, None when all do."""
        real = self._rows.real
        return None if real is None else mx.array(real, dtype=mx.int32)

    def make_mask(self, width: int) -> mx.array | None:
        """bool [rows, width], or None when there is no padding."""
        lengths = self.lengths
        return None if lengths is None else mx.arange(width) < lengths[:, None]

    def advance(self, width: int) -> None:
        """The batch counts the rows' tokens, once for all layers."""

    def content(self, row: int, length: int) -> Content:
        return [state[row] for state in self.arrays()]

    def cut(self, content: Content, length: int, to: int) -> Content | None:
        return content if to == length else None

    def append(self, content: Content, length: int) -> None:
        if not content and not self.arrays():
            return
        have = self.arrays() or [_blank(array, len(self._rows)) for array in content]
        new = [array[None] for array in content] or [_blank(state[0], 1) for state in have]
        self.cache = [mx.concatenate([*pair]) for pair in zip(have, new, strict=True)]

    def put(self, row: int, content: Content, length: int) -> None:
        for state, array in zip(self.arrays(), content, strict=True):
            state[row] = array

    def pop(self) -> None:
        self.cache = [None if state is None else state[:-1] for state in self.cache]

    def clear(self) -> None:
        self.cache = [None] * len(self.cache)

    def shrink(self) -> None:
        """Nothing to do: there is never a row too many."""

    def make_room(self, rows: int, tokens: int) -> bool:
        return False

    def arrays(self) -> list[mx.array]:
        return [state for state in self.cache if state is not None]

    def memory(self) -> LayerMemory:
        return LayerMemory(fixed=sum(state.nbytes // len(state) for state in self.arrays()))

    def snapshot(self) -> list[Any] | None:
        return list(self.cache)

    def restore(self, snapshot: list[Any], rows: Sequence[bool] | None = None) -> None:
        pairs = zip(self.cache, snapshot, strict=True)
        self.cache = list(snapshot) if rows is None else [_mixed(*pair, rows) for pair in pairs]


def _mixed(
    after: mx.array | None, before: mx.array | None, restored: Sequence[bool]
) -> mx.array | None:
    """The state `before` in the rows to be restored, elsewhere the one `after`."""
    if after is None:
        return before
    old = mx.zeros_like(after) if before is None else before
    return mx.where(mx.array(list(restored)).reshape(-1, *[1] * (after.ndim - 1)), old, after)


def _blank(like: mx.array, rows: int) -> mx.array:
    """[rows, *like.shape] of zeros: what models start from where there is no state."""
    return mx.zeros((rows, *like.shape), dtype=like.dtype)
