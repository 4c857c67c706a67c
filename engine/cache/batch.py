"""The caches of all layers for the rows of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache

from engine.cache.attention import SlotKVCache
from engine.cache.protocols import Content, LayerCache, LayerMemory, Reader
from engine.cache.quantized import SlotQuantizedKVCache
from engine.cache.recurrent import SlotArraysCache
from engine.cache.rows import RowLengths
from engine.cache.sliding import SlotRotatingKVCache


class UnbatchableError(Exception):
    """A layer's cache kind has no batched form here; the message names it."""


@dataclass(frozen=True, slots=True)
class CachedRow:
    """What all layers hold of one row. length: tokens. layers: in the cache's own order.

    The arrays are views of the cache they came from until `detach` gives them memory of their own.
    """

    length: int
    layers: list[Content]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for content in self.layers for array in content)

    def detach(self) -> CachedRow:
        """An evaluated copy, which keeps nothing else alive."""
        layers = [[mx.contiguous(array) for array in content] for content in self.layers]
        mx.eval(layers)
        return CachedRow(self.length, layers)


class BatchCache:
    """A `RowCache` whose rows share buffers.

    After a forward each row may be advanced by less than was read. Attention layers need no more
    than that. A model with recurrent ones needs `snapshot` before the forward and `restore` of the
    rows that are not advanced by all of it: they read the tokens that count once more, which takes
    a plan that is `ragged` where the rows count unequal numbers.
    """

    def __init__(
        self, model: Any, kv_bits: int | None = None, drafter: Reader | None = None
    ) -> None:
        """Raises UnbatchableError when the model asks for a cache kind with no batched form.

        drafter: whose layers (`context`) are kept beside the model's.
        """
        self.rows = RowLengths()
        self._leaves: list[LayerCache] = []
        self.layers = [self._batched(cache, kv_bits) for cache in make_prompt_cache(model)]
        self.context = drafter.context(self.rows) if drafter else []
        self._leaves += self.context

    @property
    def cuttable(self) -> bool:
        """Whether every prefix of a row can be had back from it, however long it is."""
        return all(type(leaf) in (SlotKVCache, SlotQuantizedKVCache) for leaf in self._leaves)

    @property
    def recurrent(self) -> bool:
        """Whether taking tokens back needs a snapshot."""
        return any(leaf.snapshot() is not None for leaf in self._leaves)

    def append_empty(self) -> None:
        self.append(CachedRow(0, [[] for _ in self._leaves]))

    def append(self, row: CachedRow) -> None:
        """Add a copy of a row behind the last one."""
        for leaf, content in zip(self._leaves, row.layers, strict=True):
            leaf.append(content, row.length)
        self.rows.append(row.length)

    def append_from(self, source: BatchCache, row: int) -> None:
        self.append(source.row(row))

    def row(self, index: int) -> CachedRow:
        """What the layers hold of a row, as views."""
        length = self.rows.lengths[index]
        return CachedRow(length, [leaf.content(index, length) for leaf in self._leaves])

    def cut(self, row: CachedRow, to: int) -> CachedRow | None:
        """The first `to` tokens of a row, as views; None where a layer can't go back to them."""
        layers = []
        for leaf, content in zip(self._leaves, row.layers, strict=True):
            if (kept := leaf.cut(content, row.length, to)) is None:
                return None
            layers.append(kept)
        return CachedRow(to, layers)

    def remove(self, row: int) -> None:
        last = len(self.rows) - 1
        if row != last:
            # Detached first, so that nothing views the buffers when they are written: each write
            # is then done in place instead of on a copy of the whole buffer.
            moved = self.row(last).detach()
            for leaf, content in zip(self._leaves, moved.layers, strict=True):
                leaf.put(row, content, moved.length)
        for leaf in self._leaves:
            if last:
                leaf.pop()
            else:
                leaf.clear()
        self.rows.remove(row)
        for leaf in self._leaves:
            leaf.shrink()

    def make_room(self, rows: int, tokens: int, layers: int) -> None:
        for leaf in self._leaves:
            layers -= leaf.make_room(len(self.rows) + rows, tokens)
            if layers <= 0:
                return

    def snapshot(self) -> list[Any]:
        """What `restore` needs; references only, nothing is copied."""
        return [leaf.snapshot() for leaf in self._leaves]

    def restore(self, snapshot: list[Any], rows: Sequence[bool] | None = None) -> None:
        """Undo every forward since the snapshot, for the marked rows or all; none of them may have
        been advanced."""
        for leaf, before in zip(self._leaves, snapshot, strict=True):
            if before is not None:
                leaf.restore(before, rows)

    def memory(self) -> list[LayerMemory]:
        """What a row takes in each layer, once there is one that has read something."""
        return [leaf.memory() for leaf in self._leaves]

    def arrays(self) -> Sequence[mx.array]:
        return [array for leaf in self._leaves for array in leaf.arrays()]

    def _batched(self, cache: Any, kv_bits: int | None) -> Any:
        """The batched form of one of mlx-lm's caches; a tuple where a layer has several."""
        if type(cache) is CacheList:
            return tuple(self._batched(child, kv_bits) for child in cache.caches)
        leaf = _leaf(cache, self.rows, kv_bits)
        self._leaves.append(leaf)
        return leaf


def _leaf(cache: Any, rows: RowLengths, kv_bits: int | None) -> LayerCache:
    """Chosen by the kind of cache, never by the model's name."""
    kind = type(cache)
    if kind is KVCache:
        return SlotQuantizedKVCache(rows, kv_bits) if kv_bits else SlotKVCache(rows)
    if kind is RotatingKVCache and not cache.keep:
        return SlotRotatingKVCache(rows, cache.max_size)
    if kind is ArraysCache:
        return SlotArraysCache(rows, len(cache.cache))
    sinks = f" that always keeps its first {cache.keep} tokens" if kind is RotatingKVCache else ""
    raise UnbatchableError(f"the model keeps a {kind.__name__}{sinks}, which has no batched form")
