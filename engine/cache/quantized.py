"""K and V of a full-attention layer, quantized as they are written."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from engine.cache.attention import SlotKVCache
from engine.cache.rows import RowLengths
from engine.models.kv import GROUP_SIZE


class SlotQuantizedKVCache(SlotKVCache):
    """`QuantizedKVCache` for many rows: packed values, scales and biases, of keys and of values.

    mlx-lm's attention knows a quantized cache by its `bits` and multiplies with it as it is.
    """

    def __init__(self, rows: RowLengths, bits: int) -> None:
        super().__init__(rows)
        self.bits = bits
        self.group_size = GROUP_SIZE

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """As `SlotKVCache`, but returns two triples (packed, scales, biases)."""
        parts = [mx.quantize(array, self.group_size, self.bits) for array in (keys, values)]
        self._store([part for triple in parts for part in triple])
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Any, Any]:
        stored = self._stored()
        return tuple(stored[:3]), tuple(stored[3:])
