"""Rings and states are, row by row, what mlx-lm's own caches are, in batches that change."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import mlx.core as mx
import pytest
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

import engine.cache.attention
from engine.cache import BatchCache
from engine.cache.attention import SlotKVCache
from engine.cache.recurrent import SlotArraysCache
from engine.cache.rows import RowLengths

WINDOW, HEADS, DIM = 6, 2, 4


@dataclass
class OneLayer:
    """All that BatchCache needs of a model with one layer."""

    kind: object
    layers: list[None] = field(default_factory=lambda: [None])

    def make_cache(self) -> list[object]:
        return [self.kind]


class Rings:
    """A batch of rings beside one of mlx-lm's rings per row, given the same K and V."""

    def __init__(self) -> None:
        self.cache = BatchCache(OneLayer(RotatingKVCache(WINDOW)))
        self.references: list[RotatingKVCache] = []

    def append_empty(self) -> None:
        self.cache.append_empty()
        self.references.append(RotatingKVCache(WINDOW))

    def join(self, width: int) -> None:
        """A row that read `width` tokens elsewhere."""
        other = Rings()
        other.append_empty()
        other.forward([width])
        self.cache.append_from(other.cache, 0)
        self.references += other.references

    def leave(self, row: int) -> None:
        self.cache.remove(row)
        self.references[row] = self.references[-1]
        self.references.pop()

    def forward(self, widths: list[int]) -> None:
        """Read so many tokens in each row, right-padded; every real token attends to the same."""
        layer, width = self.cache.layers[0], max(widths)
        queries, keys, values = (
            mx.random.normal((len(widths), HEADS, width, DIM)) for _ in range(3)
        )
        mask = layer.make_mask(width, window_size=WINDOW)
        stored = layer.update_and_fetch(keys, values)
        got = scaled_dot_product_attention(queries, *stored, layer, DIM**-0.5, mask)
        self.cache.rows.advance(widths)
        for row, (count, reference) in enumerate(zip(widths, self.references, strict=True)):
            q, k, v = (array[row : row + 1, :, :count] for array in (queries, keys, values))
            if count:
                mask = reference.make_mask(count, window_size=WINDOW)
                stored = reference.update_and_fetch(k, v)
                want = scaled_dot_product_attention(q, *stored, reference, DIM**-0.5, mask)
                assert mx.allclose(got[row : row + 1, :, :count], want, atol=1e-5)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 4)


@pytest.mark.parametrize("kind", [KVCache(), RotatingKVCache(64)], ids=["full", "ring"])
def test_leaving_copies_one_row_and_not_the_buffer(kind: object) -> None:
    rows, cache = 8, BatchCache(OneLayer(kind))
    for _ in range(rows):
        cache.append_empty()
    tokens = mx.random.normal((rows, HEADS, 60, 64))
    mx.eval(cache.layers[0].update_and_fetch(tokens, tokens))
    cache.rows.advance([60] * rows)
    mx.eval(cache.arrays())
    size = sum(array.nbytes for array in cache.arrays())
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    cache.remove(2)
    mx.eval(cache.arrays())
    assert mx.get_peak_memory() - before < 2 * size / rows


@pytest.mark.parametrize("seed", range(6))
def test_rings_of_rows_that_join_and_leave(seed: int) -> None:
    chance, rings = random.Random(seed), Rings()
    for _ in range(40):
        rows = len(rings.references)
        match chance.choice(["join", "leave", "decode", "decode", "pad", "wide"]):
            case "join" if rows < 5:
                rings.join(chance.choice([1, 3, WINDOW, 2 * WINDOW, 5 * WINDOW]))
            case "leave" if rows:
                rings.leave(chance.randrange(rows))
            case "decode" if rows:
                for _ in range(chance.choice([1, WINDOW])):
                    rings.forward([1] * rows)
            case "pad" if rows:
                rings.forward([chance.randrange(1, 5) for _ in range(rows)])
            case "wide" if rows:
                rings.forward([chance.randrange(1, 3 * WINDOW) for _ in range(rows)])


def test_a_ring_needs_no_more_than_its_window_and_a_forward() -> None:
    rings = Rings()
    rings.append_empty()
    for _ in range(10 * WINDOW):
        rings.forward([1])
    layer = rings.cache.layers[0]
    assert layer.period == WINDOW
    assert layer.keys.shape[2] < WINDOW + engine.cache.attention.LENGTH_STEP


def test_a_lone_ring_that_is_full_takes_the_unbatched_path() -> None:
    rings = Rings()
    rings.append_empty()
    layer = rings.cache.layers[0]
    for _ in range(WINDOW + 2):
        assert layer.make_mask(1) is None
        rings.forward([1])


def test_a_lone_ring_within_its_window_is_read_without_a_mask() -> None:
    cache = BatchCache(OneLayer(RotatingKVCache(WINDOW)))
    cache.append_empty()
    assert cache.layers[0].make_mask(WINDOW) == "causal"


def test_several_caches_of_a_layer_are_seen_as_the_model_expects_them() -> None:
    cache = BatchCache(OneLayer(CacheList(ArraysCache(size=2), KVCache())))
    state, attention = cache.layers[0]
    assert isinstance(state, SlotArraysCache)
    assert isinstance(attention, SlotKVCache)
    assert cache.recurrent


def states(rows: int) -> tuple[RowLengths, SlotArraysCache]:
    """A cache whose row i holds states full of i + 1."""
    lengths = RowLengths()
    cache = SlotArraysCache(lengths, 2)
    for _ in range(rows):
        lengths.append(1)
    filled = mx.arange(1, rows + 1).astype(mx.float32)
    cache[0] = mx.broadcast_to(filled[:, None], (rows, 3))
    cache[1] = mx.broadcast_to(filled[:, None, None], (rows, 2, 2))
    return lengths, cache


def test_states_join_and_leave_row_by_row() -> None:
    lengths, cache = states(3)
    _, other = states(2)
    cache.append(other.content(1, 1), 1)
    lengths.append(1)
    cache.put(0, [array + 0 for array in cache.content(3, 1)], 1)
    cache.pop()
    lengths.remove(0)
    assert cache[0][:, 0].tolist() == [2.0, 2.0, 3.0]
    assert cache[1][:, 0, 0].tolist() == [2.0, 2.0, 3.0]


def test_a_row_without_state_starts_from_zeros_beside_others() -> None:
    lengths, cache = states(1)
    cache.append([], 0)
    lengths.append(0)
    assert cache[0].tolist() == [[1.0] * 3, [0.0] * 3]
    lengths, empty = RowLengths(), SlotArraysCache(RowLengths(), 2)
    empty.append([], 0)
    assert empty[0] is None


def test_states_see_padding_only_where_there_is_any() -> None:
    lengths, cache = states(2)
    lengths.expect([3, 3])
    assert cache.lengths is None
    assert cache.make_mask(3) is None
    lengths.expect([3, 1])
    assert cache.lengths.tolist() == [3, 1]
    assert cache.make_mask(3).tolist() == [[True, True, True], [True, False, False]]
    lengths.advance([3, 1])
    assert cache.lengths is None
