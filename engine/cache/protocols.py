"""What the batch asks of its cache, and the cache of each layer's, whatever their kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx

from engine.cache.rows import RowLengths

Content = list[mx.array]
"""One layer's share of one row: arrays without a row axis, of any number."""


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """Bytes one row takes in one layer. fixed: however long it is. per_token: for each token it
    has room for, of which the layer keeps at most `most`."""

    fixed: int = 0
    per_token: int = 0
    most: int | None = None


class LayerCache(Protocol):
    """One layer's state for all rows, in the batch's order.

    To the model it is an ordinary mlx-lm cache. The batch moves rows between caches of one kind by
    taking a row's content out of one and appending or putting it into another.
    """

    def content(self, row: int, length: int) -> Content:
        """A row that holds `length` tokens, as views of this cache's arrays."""

    def cut(self, content: Content, length: int, to: int) -> Content | None:
        """What a row of `length` tokens held when it had the first `to` of them, as views; None
        where that can't be had back."""

    def append(self, content: Content, length: int) -> None:
        """Add a row behind the last one. Empty content: a row that has read nothing."""

    def put(self, row: int, content: Content, length: int) -> None:
        """Write over a row; the content must be evaluated where it came out of this cache."""

    def pop(self) -> None:
        """Drop the last row."""

    def clear(self) -> None:
        """Give the arrays back."""

    def shrink(self) -> None:
        """Give room back, where the rows that stay leave half of it or more unused."""

    def make_room(self, rows: int, tokens: int) -> bool:
        """Grow for what is about to join; whether there was anything to do."""

    def arrays(self) -> Sequence[mx.array]:
        """For evaluation."""

    def memory(self) -> LayerMemory:
        """What a row takes, once there is one that has read something."""

    def snapshot(self) -> list[Any] | None:
        """What a forward replaces and not advancing doesn't undo; None where it undoes all."""

    def restore(self, snapshot: list[Any], rows: Sequence[bool] | None = None) -> None:
        """Undo every forward since `snapshot()`, for the marked rows or all; no row may have joined
        or left."""


class RowCache(Protocol):
    """All layers' state for the rows that share a forward.

    layers: what the model is given as its cache. context: a drafter's layers beside those. rows:
    how long each row is; whoever runs the model tells it the widths of a forward before
    (`rows.expect`, where they differ) and after (`rows.advance`).
    """

    rows: RowLengths
    layers: list[Any]
    context: list[LayerCache]

    def append_empty(self) -> None:
        """Add a row that has read nothing."""

    def append_from(self, source: Any, row: int) -> None:
        """Add a row of another cache of this kind."""

    def remove(self, row: int) -> None:
        """Drop a row; the last row takes its place. The last row to go frees the buffers."""

    def make_room(self, rows: int, tokens: int, layers: int) -> None:
        """Grow at most `layers` layers, so that a join later finds room in all of them.

        Growing them all in the step after a long prompt joined would pause every row for as long
        as several steps.
        """

    def arrays(self) -> Sequence[mx.array]:
        """Every buffer, for evaluation."""


class Reader(Protocol):
    """Reads along with a model, as a drafter does, into layers of its own beside the model's."""

    name: str

    def context(self, rows: RowLengths) -> list[LayerCache]:
        """Its layers, empty, for a new cache whose rows have these lengths."""

    def read(self, target: Any, tokens: mx.array, cache: RowCache) -> mx.array:
        """The target's logits [rows, width, vocabulary] after tokens [rows, width] behind each
        row's length, its own layers written at the same places."""
