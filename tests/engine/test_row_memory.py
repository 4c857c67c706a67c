"""What rows are said to take is what their buffers take."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from engine.cache import BatchCache, CachePlan
from engine.cache.memory import measure
from engine.models.load import load
from engine.types import KvUse
from tests.engine.stepped import Stepped
from tests.tiny_families import tiny_family

FULL, WINDOWED, RECURRENT = "llama", "gemma3_text", "mamba2"


@pytest.mark.parametrize("family", [FULL, WINDOWED, RECURRENT, "lfm2", "gpt_oss"])
@pytest.mark.parametrize("prompts", [[300], [20, 700, 5], [1] * 5])
def test_the_charge_is_what_the_buffers_take(
    tmp_path: Path, family: str, prompts: list[int]
) -> None:
    model = load(tiny_family(tmp_path, family), family).model
    memory = measure(CachePlan(model))
    cache = BatchCache(model)
    for length in prompts:
        lone = BatchCache(model)
        lone.append_empty()
        model(mx.array([[5] * length]), cache=lone.layers)
        lone.rows.advance([length])
        cache.append_from(lone, 0)
    model(mx.array([[5]] * len(prompts)), cache=cache.layers)
    taken = sum(array.nbytes for array in cache.arrays())
    charged = memory.bytes(len(prompts), max(prompts) + 1)
    assert taken <= charged
    if family == FULL:
        assert taken == charged


def test_a_window_and_a_state_do_not_grow(tmp_path: Path) -> None:
    growth = {}
    for family in (FULL, WINDOWED, RECURRENT):
        memory = measure(CachePlan(load(tiny_family(tmp_path / family, family), family).model))
        growth[family] = memory.bytes(1, 8192) / memory.bytes(1, 256)
    assert growth[FULL] == 32
    assert 1 < growth[WINDOWED] < 32
    assert growth[RECURRENT] == 1


def test_the_longest_row_is_the_longest_that_fits(tmp_path: Path) -> None:
    memory = measure(CachePlan(load(tiny_family(tmp_path, FULL), FULL).model))
    budget = 5 * memory.bytes(1, 256)
    longest = memory.longest(budget, limit=10**6)
    assert memory.bytes(1, longest) <= budget < memory.bytes(1, longest + 1)
    assert memory.longest(budget, limit=300) == 300
    assert memory.longest(budget=0, limit=300) == 0


def test_what_is_told_of_its_use_is_what_the_running_rows_hold(tmp_path: Path) -> None:
    stepped = Stepped(load(tiny_family(tmp_path, FULL), FULL), kv_budget=10**7)
    loop = stepped.loop
    assert loop.kv_use == KvUse()
    for prompt in ((5,) * 300, (6, 7, 8)):
        stepped.ask(prompt, 40)
    while len(loop._batch.rows) < 2:
        stepped.turn()
    loop._settle()
    assert loop.kv_use.tokens == sum(loop._batch._cache.rows.lengths)
    assert loop.kv_use.share == pytest.approx(stepped.taken() / loop._memory.budget)
    assert 0 < loop.kv_use.share < 1
    stepped.finish()
    assert loop.kv_use == KvUse()
