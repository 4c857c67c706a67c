"""A SlotKVCache is, row by row, what mlx-lm's own cache is; alone it takes the same path."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models.cache import ChunkedKVCache, KVCache, RotatingKVCache

import engine.cache.attention
from engine.cache import BatchCache, UnbatchableError
from engine.models.load import load

HEADS, DIM = 2, 4


@dataclass
class OneLayer:
    """All that BatchCache needs of a model."""

    kind: object = KVCache
    layers: list[None] = field(default_factory=lambda: [None])

    def make_cache(self) -> list[object]:
        return [self.kind() if self.kind is KVCache else self.kind]


def kv(rows: int, width: int) -> tuple[mx.array, mx.array]:
    return mx.random.normal((rows, HEADS, width, DIM)), mx.random.normal((rows, HEADS, width, DIM))


def written(cache: BatchCache, widths: list[int], references: list[KVCache]) -> None:
    """One forward's worth of K/V into every row, the real part also into each row's reference."""
    keys, values = kv(len(widths), max(widths))
    got_keys, got_values = cache.layers[0].update_and_fetch(keys, values)
    cache.rows.advance(widths)
    for row, (width, reference) in enumerate(zip(widths, references, strict=True)):
        want_keys, want_values = reference.update_and_fetch(
            keys[row : row + 1, :, :width], values[row : row + 1, :, :width]
        )
        length = cache.rows.lengths[row]
        assert mx.array_equal(got_keys[row, :, :length], want_keys[0])
        assert mx.array_equal(got_values[row, :, :length], want_values[0])


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 4)


def test_rows_of_unequal_widths_grow_join_and_leave() -> None:
    cache, references = BatchCache(OneLayer()), [KVCache(), KVCache(), KVCache()]
    for _ in references:
        cache.append_empty()
    written(cache, [3, 1, 7], references)
    written(cache, [1, 1, 1], references)

    other, joined = BatchCache(OneLayer()), KVCache()
    other.append_empty()
    written(other, [9], [joined])
    cache.append_from(other, 0)
    references.append(joined)
    written(cache, [1, 1, 1, 1], references)

    cache.remove(1)
    references[1] = references.pop()
    written(cache, [2, 1, 2], references)
    written(cache, [1, 1, 1], references)
    assert cache.rows.lengths == [reference.offset for reference in references]


def test_room_made_ahead_changes_nothing_but_capacity() -> None:
    cache, references = BatchCache(OneLayer()), [KVCache(), KVCache()]
    for _ in references:
        cache.append_empty()
    written(cache, [3, 2], references)
    cache.make_room(rows=1, tokens=30, layers=1)
    roomy = cache.layers[0].keys
    assert roomy is not None
    assert (roomy.shape[0], roomy.shape[2]) == (3, 32)
    written(cache, [1, 1], references)
    assert cache.layers[0].keys.shape == roomy.shape
    cache.make_room(rows=1, tokens=30, layers=1)
    assert cache.layers[0].keys.shape == roomy.shape


def test_tokens_not_advanced_over_are_overwritten() -> None:
    cache, references = BatchCache(OneLayer()), [KVCache(), KVCache()]
    for _ in references:
        cache.append_empty()
    written(cache, [5, 2], references)
    cache.layers[0].update_and_fetch(*kv(2, 3))  # three rejected drafts in both rows
    written(cache, [1, 1], references)


def test_a_lone_row_takes_the_unbatched_path() -> None:
    cache, reference = BatchCache(OneLayer()), KVCache()
    cache.append_empty()
    written(cache, [5], [reference])
    layer = cache.layers[0]
    assert layer.offset == 5
    assert isinstance(layer.offset, int)
    assert layer.make_mask(1) is None
    assert (
        layer.make_mask(3)
        == "causal"
        == reference.make_mask(3, return_array=False, window_size=None)
    )


def test_masks_of_several_rows_are_causal_from_each_rows_own_end() -> None:
    cache = BatchCache(OneLayer())
    for length in (0, 3):
        cache.append_empty()
        cache.rows.lengths[-1] = length
    mask = cache.layers[0].make_mask(2)
    assert mask.shape == (2, 1, 2, 5)
    assert mask[:, 0].astype(mx.int32).tolist() == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
        [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]],
    ]
    windowed = cache.layers[0].make_mask(2, window_size=2)
    assert windowed[1, 0].astype(mx.int32).tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]


def test_the_last_row_to_leave_gives_the_memory_back() -> None:
    cache = BatchCache(OneLayer())
    cache.append_empty()
    written(cache, [5], [KVCache()])
    assert cache.arrays()
    cache.remove(0)
    assert cache.arrays() == []


def test_a_cache_kind_without_a_batched_form_is_named() -> None:
    with pytest.raises(UnbatchableError, match=r"RotatingKVCache .* keeps its first 4 tokens"):
        BatchCache(OneLayer(kind=RotatingKVCache(max_size=8, keep=4)))
    with pytest.raises(UnbatchableError, match="ChunkedKVCache"):
        BatchCache(OneLayer(kind=ChunkedKVCache(8)))


def test_the_model_sees_an_ordinary_cache(tiny_folder: Path) -> None:
    model: nn.Module = load(tiny_folder, "tiny").model
    prompts = [[5, 6, 7, 8, 9], [10, 11]]
    cache = BatchCache(model)
    for _ in prompts:
        cache.append_empty()
    padded = mx.array([prompts[0], [*prompts[1], 0, 0, 0]])
    together = model(padded, cache=cache.layers)
    for row, prompt in enumerate(prompts):
        alone = model(mx.array([prompt]))
        assert mx.allclose(together[row, : len(prompt)], alone[0], atol=1e-4)


def test_buffers_shrink_when_a_long_row_leaves() -> None:
    cache, references = BatchCache(OneLayer()), [KVCache(), KVCache(), KVCache()]
    for _ in references:
        cache.append_empty()
    written(cache, [3, 40, 5], references)
    cache.remove(1)
    references[1] = references.pop()
    keys = cache.layers[0].keys
    assert (keys.shape[0], keys.shape[2]) == (2, 8)
    written(cache, [1, 2], references)


def test_a_row_can_be_cut_to_what_it_began_with() -> None:
    cache, reference = BatchCache(OneLayer()), KVCache()
    cache.append_empty()
    written(cache, [9], [reference])
    cut = cache.cut(cache.row(0), 6)
    assert cut is not None
    assert cut.length == 6
    assert mx.array_equal(cut.layers[0][0], reference.keys[0, :, :6])


def test_copying_stays_linear_however_long_an_answer_gets() -> None:
    cache = BatchCache(OneLayer())
    cache.append_empty()
    capacities = []
    for _ in range(3000):
        cache.layers[0].update_and_fetch(*kv(1, 1))
        cache.rows.advance([1])
        capacities.append(cache.layers[0].keys.shape[2])
    copied = sum(before for before, now in itertools.pairwise(capacities) if now > before)
    assert copied < 8 * 3000
    assert capacities[-1] < 1.25 * 3000
