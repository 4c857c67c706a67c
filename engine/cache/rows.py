"""How many tokens each row of a batch holds, shared by the caches of all layers."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx


class RowLengths:
    """Tokens held by each row, and what one forward derives from them.

    Layers only write and read; the batch advances the lengths once after the forward. So tokens
    that should not count (padding, rejected drafts) are simply not advanced over.

    real: how many leading tokens of each row count in the coming forward; None when all do.
    """

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.real: list[int] | None = None
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

    def expect(self, widths: Sequence[int]) -> None:
        """The coming forward is as wide as the widest of these; the rest is right padding."""
        padded = min(widths) < max(widths)
        self.real = list(widths) if padded else None

    def advance(self, widths: Sequence[int]) -> None:
        """Count each row's first `widths[row]` tokens of the forward that was built."""
        self.lengths = [length + width for length, width in zip(self.lengths, widths, strict=True)]
        self.real = None
        self._offsets = None
