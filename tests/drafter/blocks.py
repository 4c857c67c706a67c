"""A training step's context: one sample's, seen by many blocks that each start somewhere in it."""

from __future__ import annotations

import mlx.core as mx

from engine.cache.attention import SlotKVCache
from engine.cache.rows import RowLengths


class Blocks(SlotKVCache):
    """Stands for the K and V of as many rows as there are blocks, without copies of its own.

    Each row has read the sample up to its block. A block's keys take the places a row's next tokens
    would, as they do when drafting; so training runs the drafter's own code.
    """

    def __init__(self, rows: RowLengths, keys: mx.array, values: mx.array) -> None:
        """keys, values: [1, kv heads, tokens, head dim], of the whole sample."""
        super().__init__(rows)
        self._whole = [keys, values]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        width, end = keys.shape[2], self.rows.longest + keys.shape[2]
        places = (self.rows.offsets[:, None] + mx.arange(width))[:, None, :, None]
        written = []
        for whole, new in zip(self._whole, (keys, values), strict=True):
            longer = mx.pad(whole, [(0, 0), (0, 0), (0, width), (0, 0)])[:, :, :end]
            rows = mx.broadcast_to(longer, (len(self.rows), *longer.shape[1:]))
            written.append(mx.put_along_axis(rows, places, new, axis=2))
        return written[0], written[1]
