"""What is kept of ended rows: the longest beginning is found, memory is bounded, cuts are right."""

from __future__ import annotations

from dataclasses import dataclass, field

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

import engine.prefix
from engine.cache import BatchCache, CachedRow
from engine.prefix import PrefixCache, Tokens, common

WINDOW, HEADS, DIM = 4, 2, 4
TOKEN_BYTES = 2 * HEADS * DIM * 4


@dataclass
class OneLayer:
    """All that BatchCache needs of a model with one layer."""

    kind: object
    layers: list[None] = field(default_factory=lambda: [None])

    def make_cache(self) -> list[object]:
        return [self.kind]


def row_of(tokens: Tokens, values: int = 1) -> CachedRow:
    """K and V that tell which tokens they belong to."""
    one = mx.broadcast_to(
        mx.array(tokens, dtype=mx.float32)[None, :, None], (HEADS, len(tokens), DIM)
    )
    return CachedRow(len(tokens), [[one, values * one]])


def attention(limit: int = 10**9) -> PrefixCache:
    return PrefixCache(BatchCache(OneLayer(KVCache())), limit)


@pytest.fixture(autouse=True)
def everything_is_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.prefix, "SHORTEST", 1)


short = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


@settings(max_examples=300)
@given(st.lists(short, max_size=12), short)
def test_the_longest_common_beginning_is_found(kept: list[Tokens], asked: Tokens) -> None:
    prefixes = attention()
    for tokens in kept:
        prefixes.keep(tokens, row_of(tokens))
    found = prefixes.find(asked)
    best = max((common(tokens, asked) for tokens in kept), default=0)
    assert (found.length if found else 0) == best
    if found is not None:
        assert found.layers[0][0][0, :, 0].tolist() == list(asked[:best])


@settings(max_examples=300)
@given(st.lists(short, max_size=12), short)
def test_of_rows_that_cannot_be_cut_the_longest_whole_one_is_found(
    kept: list[Tokens], asked: Tokens
) -> None:
    prefixes = PrefixCache(BatchCache(OneLayer(ArraysCache(1))), 10**9)
    for tokens in kept:
        prefixes.keep(tokens, CachedRow(len(tokens), [[mx.array(tokens)]]))
    found = prefixes.find(asked)
    best = max((len(t) for t in kept if asked[: len(t)] == t), default=0)
    assert (found.length if found else 0) == best
    if found is not None:
        assert found.layers[0][0].tolist() == list(asked[:best])


def test_a_window_can_be_cut_until_it_moves_on() -> None:
    prefixes = PrefixCache(BatchCache(OneLayer(RotatingKVCache(WINDOW))), 10**9)
    inside = tuple(range(WINDOW))
    prefixes.keep(inside, row_of(inside))
    found = prefixes.find((*inside[:2], 9))
    assert found is not None
    assert found.length == 2
    beyond = tuple(range(10, 12 + WINDOW))
    latest = row_of(beyond[-WINDOW:]).layers
    prefixes.keep(beyond, CachedRow(len(beyond), latest))
    assert prefixes.find((*beyond[:-1], 9)) is None
    found = prefixes.find((*beyond, 9))
    assert found is not None
    assert found.length == len(beyond)


def test_a_row_takes_the_place_of_what_it_begins_with() -> None:
    prefixes = attention()
    for tokens in ((1, 2), (1, 2, 3, 4), (1, 2, 3)):
        prefixes.keep(tokens, row_of(tokens))
    assert len(prefixes) == 1
    assert prefixes.bytes == 4 * TOKEN_BYTES


def test_memory_is_bounded_and_the_least_recently_used_goes_first() -> None:
    prefixes = attention(limit=10 * TOKEN_BYTES)
    for first in range(3):
        prefixes.keep((first, 8, 8), row_of((first, 8, 8)))
    assert prefixes.find((0, 8)) is not None
    prefixes.keep((7, 8, 8), row_of((7, 8, 8)))
    assert [prefixes.find((first, 8, 8)) is not None for first in (0, 1, 2, 7)] == [1, 0, 1, 1]
    prefixes.keep((9,) * 11, row_of((9,) * 11))
    assert prefixes.find((9,)) is None
    assert prefixes.bytes <= prefixes.limit


def test_two_hundred_rows_never_take_more_than_they_may() -> None:
    prefixes = attention(limit=1000 * TOKEN_BYTES)
    mx.clear_cache()  # or larger buffers of earlier tests are used again, and counted
    before = mx.get_active_memory()
    active = []
    for number in range(200):
        tokens = (number, *range(100))
        prefixes.keep(tokens, row_of(tokens))
        assert prefixes.bytes <= prefixes.limit
        active.append(mx.get_active_memory() - before)
    assert max(active) <= prefixes.limit + 2 * 101 * TOKEN_BYTES + 4096
    assert prefixes.find((0, 0)) is None
    assert prefixes.find((199, 0)) is not None


def test_kept_rows_hold_nothing_else_alive() -> None:
    prefixes = attention()
    big = mx.zeros((HEADS, 100_000, DIM))
    mx.eval(big)
    tokens = (1, 2, 3)
    prefixes.keep(tokens, CachedRow(3, [[big[:, :3], big[:, 5:8]]]))
    before = mx.get_active_memory()
    del big
    assert mx.get_active_memory() <= before - HEADS * 100_000 * DIM * 4 + 1024
