"""Every family's rows have their solo tokens, whatever joins, leaves or is read beside them.

Which kinds of cache a family keeps decides what may go wrong: padding in a recurrent state, a ring
overwritten too early, a neighbour's K and V.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.cache.attention
from engine.cache import BatchCache, plan_for
from engine.models.kv import own_caches
from engine.models.load import LoadedModel, load
from engine.scheduler import PrefillBudget
from engine.types import FinishReason, SamplingParams
from tests.engine.conftest import Harness
from tests.schedules import Job, check, jobs, run
from tests.tiny_families import CONFIGS, WINDOW, tiny_family

LET_PADDING_IN = {"mamba", "jamba", "nemotron_h"}
"""mlx-lm's code of these doesn't look at which tokens of a forward are padding."""

ALONE = {"llama4": "ChunkedKVCache", "internlm3": "different positions"}
NOT_QUANTIZABLE = {
    "mamba2": "keeps no K and V",
    "gemma3_text": "RotatingKVCache, which can't be quantized",
    "deepseek_v3": "can't use quantized K and V",
}
TOGETHER = sorted(CONFIGS.keys() - ALONE.keys())
RAGGED = sorted(CONFIGS.keys() - ALONE.keys() - LET_PADDING_IN)

Load = Callable[..., LoadedModel]
few = settings(
    max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
schedules = st.lists(jobs, min_size=3, max_size=6)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Load a tiny model of a family, quantizing its K and V: `family("lfm2", 8)`."""

    @cache
    def loaded(name: str, kv_bits: int | None = None) -> LoadedModel:
        overrides = {"head_dim": 64, "hidden_size": 256} if kv_bits else {}
        folder = tiny_family(tmp_path_factory.mktemp(name), name, **overrides)
        return load(folder, name, kv_bits=kv_bits)

    return loaded


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 8)


@pytest.mark.parametrize("name", CONFIGS)
@few
@given(schedule=schedules, slice_tokens=st.sampled_from([3, 40, 4096]))
def test_any_schedule_gives_each_row_its_solo_tokens(
    small_buffers: None,
    monkeypatch: pytest.MonkeyPatch,
    family: Load,
    name: str,
    schedule: list[Job],
    slice_tokens: int,
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: slice_tokens)
    model = family(name)
    check(model, schedule, run(model, schedule, slots=3))


@pytest.mark.parametrize("name", ["qwen3_next", "mamba2", "jamba"])
def test_a_neighbours_longer_last_slice_leaves_a_state_alone(
    monkeypatch: pytest.MonkeyPatch, family: Load, name: str
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 64)
    lengths = (7, 30, 300)
    # None begins like another, or what they share would be read once instead of side by side.
    prompts = [tuple(5 + (length + n * 7) % 300 for n in range(length)) for length in lengths]
    schedule = [Job(prompt, 12, SamplingParams(), 0, None) for prompt in prompts]
    check(family(name), schedule, run(family(name), schedule, slots=3))


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("name", ["llama", "qwen3_next"])
@few
@given(schedule=schedules)
def test_rows_with_quantized_kv_have_the_tokens_of_a_lone_quantized_row(
    small_buffers: None, family: Load, name: str, bits: int, schedule: list[Job]
) -> None:
    model = family(name, bits)
    assert model.kv_bits == bits
    values = 2 * 2 * 64  # keys and values, two heads; a scale and a bias for 64 of them
    layers = {"llama": 2, "qwen3_next": 1}[name]
    assert model.info.kv_bytes_per_token == layers * (values * bits // 8 + values // 64 * 8)
    check(model, schedule, run(model, schedule, slots=3))


@pytest.mark.parametrize("name", CONFIGS)
def test_what_a_family_can_do_is_found_out_by_trying(family: Load, name: str) -> None:
    plan = plan_for(family(name).model)
    assert plan.ragged == (name in RAGGED)
    assert (ALONE.get(name, "") in plan.alone) == (plan.alone != "" or name in TOGETHER)
    capability = plan.capability(8)
    assert capability.requested == "8 slots"
    assert capability.effective == ("1 slot" if name in ALONE else "8 slots")
    assert plan.alone in capability.why


@pytest.mark.parametrize("name", NOT_QUANTIZABLE)
def test_kv_that_cannot_be_quantized_is_refused_by_name(family: Load, name: str) -> None:
    model = family(name, 8)
    assert model.kv_bits is None
    refusal = next(c for c in model.capabilities if c.feature == "quantized KV")
    assert (refusal.requested, refusal.effective) == ("8-bit", "off")
    assert NOT_QUANTIZABLE[name] in refusal.why


@pytest.mark.parametrize("name", RAGGED)
def test_rows_take_back_unequal_numbers_of_tokens(
    small_buffers: None, family: Load, name: str
) -> None:
    """As a verify step does: all rows read as many drafts, each row keeps as many as it likes."""
    model = family(name).model
    rows = [[5, 6, 7], [8], list(range(10, 10 + WINDOW + 3))]
    rolled = BatchCache(model)
    for _ in rows:
        rolled.append_empty()
    read(model, rolled, rows)
    for drafts, kept in (
        ([9, 4, 3, 8, 7], (1, 5, 2)),
        ([3, 3, 5], (3, 1, 2)),
        ([6] * 4, (4, 4, 1)),
    ):
        before = rolled.snapshot()
        model(mx.array([drafts] * len(rows)), cache=rolled.layers)
        if rolled.recurrent:
            rolled.restore(before)
            read(model, rolled, [drafts[:count] for count in kept])
        else:
            rolled.rows.advance(kept)
        rows = [row + drafts[:count] for row, count in zip(rows, kept, strict=True)]
    got = model(mx.array([[2]] * len(rows)), cache=rolled.layers)[:, -1]
    for row, logits in zip(rows, got, strict=True):
        alone = model(mx.array([[*row, 2]]), cache=own_caches(model))[0, -1]
        assert mx.allclose(logits, alone, atol=1e-3)


@pytest.mark.parametrize("name", TOGETHER)
def test_a_row_kept_apart_goes_on_where_it_was(
    small_buffers: None, family: Load, name: str
) -> None:
    model = family(name).model
    prompt = list(range(10, 10 + WINDOW + 3))
    cache = BatchCache(model)
    cache.append_empty()
    read(model, cache, [prompt])
    kept = cache.row(0).detach()
    read(model, cache, [[7, 7, 7]])
    cache.append(kept)
    got = model(mx.array([[2], [2]]), cache=cache.layers)[:, -1]
    for row, logits in zip(([*prompt, 7, 7, 7], prompt), got, strict=True):
        alone = model(mx.array([[*row, 2]]), cache=own_caches(model))[0, -1]
        assert mx.allclose(logits, alone, atol=1e-3)


@pytest.mark.parametrize("name", ALONE)
def test_what_cannot_be_batched_is_served_one_at_a_time(
    start: Callable[..., Harness], tmp_path: Path, name: str
) -> None:
    harness = start(folder=tiny_family(tmp_path, name), max_batch=4)
    state = harness.engine.snapshot()
    assert state.slots == 1
    batching = next(c for c in state.capabilities if c.feature == "batching")
    assert (batching.requested, batching.effective, batching.refused) == ("4 slots", "1 slot", True)
    assert ALONE[name] in batching.why
    clients = [harness.ask(prompt=(5, 6, 7 + n), max_tokens=6) for n in range(3)]
    assert {client.wait().reason for client in clients} == {FinishReason.LENGTH}
    lone = start(folder=tmp_path, max_batch=1).ask(prompt=(5, 6, 9), max_tokens=6)
    lone.wait()
    assert clients[2].text == lone.text


def read(model: nn.Module, cache: BatchCache, rows: list[list[int]]) -> None:
    """One right-padded forward over all rows."""
    widths = [len(row) for row in rows]
    padded = [row + [0] * (max(widths) - len(row)) for row in rows]
    cache.rows.expect(widths)
    model(mx.array(padded), cache=cache.layers)
    cache.rows.advance(widths)
