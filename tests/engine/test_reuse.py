"""Whatever was reused, an answer is the one its request would get alone."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.cache.attention
import engine.prefix
import engine.reading
import engine.scheduler
from engine.events import Admitted, Preempted
from engine.models.load import LoadedModel, load
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.types import SamplingParams
from tests.engine.stepped import Stepped
from tests.schedules import Job, check, solo
from tests.tiny_families import tiny_family

CUTTABLE = ("llama", "qwen3_moe", "deepseek_v3")
BOUNDED = ("gemma3_text", "gpt_oss", "lfm2", "qwen3_next", "mamba2", "jamba")
"""Families with windows that are long past, or states; jamba takes no padding."""
ALONE = "llama4"
PROMPT = tuple(range(20, 70))
GREEDY = SamplingParams()

Load = Callable[..., LoadedModel]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Load:
    loaded: dict[tuple[str, int | None], LoadedModel] = {}

    def of(name: str, kv_bits: int | None = None) -> LoadedModel:
        if (name, kv_bits) not in loaded:
            overrides = {"head_dim": 64, "hidden_size": 256} if kv_bits else {}
            folder = tiny_family(tmp_path_factory.mktemp(name), name, **overrides)
            loaded[name, kv_bits] = load(folder, name, kv_bits=kv_bits)
        return loaded[name, kv_bits]

    return of


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small buffers and slices, so that short rows meet every growth and boundary."""
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 8)
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 16)


def is_solo(model: LoadedModel, row: Row) -> bool:
    request = row.request
    expected = solo(model, request.prompt, request.max_tokens, request.sampling)
    return tuple(row.tokens) == expected[: len(row.tokens)] and bool(row.tokens)


@pytest.mark.parametrize("name", [*CUTTABLE, *BOUNDED])
def test_the_next_turn_of_a_chat_reads_only_what_is_new(family: Load, name: str) -> None:
    model = family(name)
    stepped = Stepped(model)
    first = stepped.ask(PROMPT)
    stepped.finish()
    second = stepped.ask((*first.history, 7, 8, 9))
    stepped.finish()
    assert second.cached == first.length - 1  # its last token was never read
    assert stepped.read == len(PROMPT) - 1 + 3
    assert is_solo(model, second)


@pytest.mark.parametrize("name", [*CUTTABLE, *BOUNDED])
def test_the_same_prompt_again_reads_nothing_and_answers_the_same(family: Load, name: str) -> None:
    model = family(name)
    stepped = Stepped(model)
    rows = []
    for prompt in (PROMPT, PROMPT, PROMPT):
        rows.append(stepped.ask(prompt))
        stepped.finish()
    assert [row.cached for row in rows] == [0, len(PROMPT) - 1, len(PROMPT) - 1]
    assert stepped.read == len(PROMPT) - 1
    assert all(is_solo(model, row) for row in rows)


@pytest.mark.parametrize("name", [*CUTTABLE, *BOUNDED])
def test_a_prompt_known_to_its_last_token_is_answered_as_any_other(family: Load, name: str) -> None:
    """Prompt and answer sent back as they are, then the prompt again: nothing is left to read."""
    model = family(name)
    stepped = Stepped(model)
    first = stepped.ask(PROMPT, max_tokens=3)
    stepped.finish()
    both = stepped.ask(first.history)
    stepped.finish()
    again = stepped.ask(PROMPT, max_tokens=3)
    stepped.finish()
    assert stepped.read == len(PROMPT) - 1
    assert is_solo(model, both)
    assert again.tokens == first.tokens


@pytest.mark.parametrize("name", CUTTABLE)
def test_any_common_beginning_is_reused_where_rows_can_be_cut(family: Load, name: str) -> None:
    model = family(name)
    stepped = Stepped(model)
    stepped.ask(PROMPT)
    stepped.finish()
    other = stepped.ask((*PROMPT[:30], 9, 9, 9))
    stepped.finish()
    assert other.cached == 30
    assert is_solo(model, other)


@pytest.mark.parametrize("name", BOUNDED)
def test_only_boundaries_are_reused_where_they_cannot(family: Load, name: str) -> None:
    model = family(name)
    stepped = Stepped(model)
    first = stepped.ask(PROMPT)
    stepped.finish()
    inside = stepped.ask((*PROMPT[:30], 9, 9, 9))
    edited = stepped.ask((*PROMPT, first.tokens[0], 9, 9))  # the answer was changed
    stepped.finish()
    assert inside.cached == 0
    assert edited.cached == len(PROMPT) - 1
    assert is_solo(model, inside)
    assert is_solo(model, edited)


@pytest.mark.parametrize("name", [*CUTTABLE, *BOUNDED])
def test_repeats_and_newcomers_are_read_together(
    family: Load, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 4096)
    model = family(name)
    stepped = Stepped(model)
    prompts = [tuple(range(start, start + 20 + start)) for start in (3, 8, 13)]
    first = [stepped.ask(prompt) for prompt in prompts]
    stepped.finish()
    again = [stepped.ask(prompt) for prompt in prompts[:2]]
    new = [stepped.ask(tuple(range(100 + n, 130))) for n in range(3)]
    stepped.finish()
    assert [row.cached for row in again] == [len(prompt) - 1 for prompt in prompts[:2]]
    assert all(is_solo(model, row) for row in (*first, *again, *new))


def test_a_broadcast_is_read_once_and_each_pane_gets_its_own_answer(family: Load) -> None:
    model = family("llama")
    stepped = Stepped(model)
    prompt = tuple(3 + n % 300 for n in range(450))
    rows = [
        stepped.ask(prompt, sampling=SamplingParams(temperature=1.0, seed=seed))
        for seed in range(8)
    ]
    stepped.finish()
    assert stepped.read <= 1.2 * len(prompt)
    assert [row.cached for row in rows] == [0, *[len(prompt) - 1] * 7]
    admitted = [event.cached_tokens for event in stepped.events if isinstance(event, Admitted)]
    assert admitted == [row.cached for row in rows]
    assert all(is_solo(model, row) for row in rows)
    assert len({tuple(row.tokens) for row in rows}) > 1


@pytest.mark.parametrize("bits", [8, 4])
def test_quantized_rows_are_reused_exactly(family: Load, bits: int) -> None:
    model = family("llama", bits)
    stepped = Stepped(model)
    first = stepped.ask(PROMPT)
    stepped.finish()
    rows = [
        stepped.ask((*first.history, 7)),
        stepped.ask((*PROMPT[:30], 9, 9)),
        stepped.ask(PROMPT),
    ]
    stepped.finish()
    assert [row.cached for row in rows] == [first.length - 1, 30, len(PROMPT) - 1]
    for row in rows:
        fresh = Stepped(model, prefix_cache=0)
        lone = fresh.ask(row.request.prompt)
        fresh.finish()
        assert row.tokens == lone.tokens


def test_nothing_is_kept_when_it_is_off_and_everything_is_bounded(family: Load) -> None:
    model = family("llama")
    off, small = Stepped(model, prefix_cache=0), Stepped(model, prefix_cache=50_000)
    for stepped in (off, small):
        for n in range(12):
            stepped.ask((*range(n, n + 40), 7))
            stepped.finish()
    assert off.kept == 0
    assert 0 < small.kept <= 50_000
    again = off.ask((*range(40), 7))
    off.finish()
    assert again.cached == 0


def test_two_hundred_prompts_leave_memory_level_and_the_oldest_go(
    family: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 4096)
    limit = 400_000
    stepped = Stepped(family("llama"), prefix_cache=limit)
    prompts = [(3 + n, *range(3, 103)) for n in range(200)]
    active = []
    for prompt in prompts:
        stepped.ask(prompt, max_tokens=1)
        stepped.finish()
        assert stepped.kept <= limit
        active.append(mx.get_active_memory())
    assert max(active[100:]) <= max(active[50:100]) + 64 * 1024
    oldest, latest = stepped.ask(prompts[0]), stepped.ask(prompts[-1])
    stepped.finish()
    assert (oldest.cached, latest.cached) == (0, 100)


def test_a_model_whose_rows_run_alone_says_that_it_reuses_nothing(family: Load) -> None:
    stepped = Stepped(family(ALONE))
    assert stepped.loop._memory.capability().effective == "off"
    rows = []
    for _ in range(2):
        rows.append(stepped.ask(PROMPT))
        stepped.finish()
    assert rows[1].cached == 0
    assert rows[0].tokens == rows[1].tokens
    asked = Stepped(family(ALONE), prefix_cache=10**6).loop._memory.capability()
    assert asked.refused


@pytest.mark.parametrize("name", [*CUTTABLE[:2], *BOUNDED])
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_schedule_of_related_prompts_is_answered_as_alone(
    family: Load, monkeypatch: pytest.MonkeyPatch, name: str, data: st.DataObject
) -> None:
    for module in (engine.prefix, engine.reading):
        monkeypatch.setattr(module, "SHORTEST", 2)
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: data.draw(st.sampled_from([3, 64])))
    model = family(name)
    stepped = Stepped(model, slots=3)
    rows: list[Row] = []
    jobs: list[Job] = []
    for _ in range(data.draw(st.integers(4, 9))):
        old = data.draw(st.sampled_from([PROMPT[:12], *[row.history for row in rows]]))
        prompt = (*old[: data.draw(st.integers(1, 30))], *data.draw(st.sampled_from([(), (7, 8)])))
        rows.append(stepped.ask(prompt, data.draw(st.integers(1, 8))))
        jobs.append(Job(prompt, rows[-1].request.max_tokens, GREEDY, 0, None))
        stepped.turn(data.draw(st.integers(0, 6)))
        if data.draw(st.integers(0, 4)) == 0:
            stepped.loop.cancel(rows[-1].request.id)
            jobs[-1] = Job(prompt, rows[-1].request.max_tokens, GREEDY, 0, 0)
    stepped.finish()
    check(model, jobs, rows)


@pytest.mark.parametrize("name", ["llama", "lfm2", "gemma3_text"])
@pytest.mark.parametrize("kept", [0, 10**9])
def test_rows_that_outgrow_their_memory_take_turns(
    family: Load, monkeypatch: pytest.MonkeyPatch, name: str, kept: int
) -> None:
    """Four rows of 100 tokens where two fit: memory is never exceeded, and no answer suffers."""
    monkeypatch.setattr(engine.scheduler, "GROWTH", 8)
    monkeypatch.setattr(engine.scheduler, "LOOKAHEAD", 2)
    model = family(name)
    budget = Stepped(model).loop._memory.cost(2, 110)
    # Half of the memory is for ended rows, where those are kept.
    stepped = Stepped(model, slots=4, kv_budget=2 * budget if kept else budget, prefix_cache=kept)
    rows = [stepped.ask((5 + n, 6, 7), max_tokens=97) for n in range(4)]
    while not stepped.loop.idle:
        stepped.turn()
        assert stepped.taken() <= stepped.loop._memory.budget
    preempted = [event for event in stepped.events if isinstance(event, Preempted)]
    assert preempted
    assert all(event.request != "r1" for event in preempted)
    assert [len(row.tokens) for row in rows] == [97] * 4
    assert all(is_solo(model, row) for row in rows)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_copied_row_and_a_fresh_one_are_read_together(family: Load, name: str) -> None:
    model = family(name)
    stepped = Stepped(model)
    first = stepped.ask(PROMPT)
    stepped.finish()
    rows = [stepped.ask((*first.history, 7, 8, 9)), stepped.ask((3, 4, 5, 6))]
    stepped.finish()
    assert [row.cached for row in rows] == [first.length - 1, 0]
    assert all(is_solo(model, row) for row in rows)
