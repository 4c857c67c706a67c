"""One row in mlx-lm's own caches, for a model whose rows can't share a forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from engine.cache.protocols import LayerCache
from engine.cache.rows import RowLengths


class SoloCache:
    """A `RowCache` of one row at most, which is never copied, only handed over."""

    def __init__(self, make: Callable[[], list[Any]]) -> None:
        """make: gives a fresh mlx-lm cache for every layer."""
        self.rows = RowLengths()
        self.layers = make()
        self.context: list[LayerCache] = []
        self._make = make

    def append_empty(self) -> None:
        self.rows.append(0)

    def append_from(self, source: SoloCache, row: int) -> None:
        """Take over the row of another cache, which has no further use of it."""
        self.layers = source.layers
        self.rows.append(source.rows.lengths[row])

    def remove(self, row: int) -> None:
        self.layers = self._make()
        self.rows.remove(row)

    def make_room(self, rows: int, tokens: int, layers: int) -> None:
        """Nothing is ever copied in."""

    def arrays(self) -> list[mx.array]:
        leaves = (leaf for _, leaf in tree_flatten([layer.state for layer in self.layers]))
        return [leaf for leaf in leaves if isinstance(leaf, mx.array)]
