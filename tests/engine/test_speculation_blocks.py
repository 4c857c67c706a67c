"""What one block of drafts gives its row, and what is left of it where the answer ends inside."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from engine.batch import Batch
from engine.row import Row
from engine.speculation import MOST_UNREAD
from engine.step import Verify
from engine.types import FinishReason, GenerationRequest, SamplingParams
from tests.engine.guesses import (
    GREEDY,
    PROMPT,
    Answer,
    Family,
    Guesses,
    Speculate,
    answers,
    draft_with,
    family_in,
)
from tests.engine.stepped import Stepped
from tests.schedules import Job, check, run, solo


@dataclass(frozen=True, slots=True)
class Block:
    """One row's part of a verify step. left: tokens it could take before. unread: that it then has
    not read, its newest included."""

    drafted: int
    gained: int
    left: int
    unread: int


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return family_in(tmp_path_factory)


@pytest.fixture
def speculate(monkeypatch: pytest.MonkeyPatch) -> Speculate:
    return partial(draft_with, monkeypatch)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[Block]:
    """All that are verified."""
    seen: list[Block] = []
    keep = Batch.keep

    def noted(batch: Batch, step: Verify, taken: Sequence[int]) -> None:
        keep(batch, step, taken)
        lengths = batch._cache.rows.lengths
        for row, draft, count, read in zip(step.rows, step.drafts, taken, lengths, strict=True):
            seen.append(Block(len(draft), count, row.left + count, row.length - read))

    monkeypatch.setattr(Batch, "keep", noted)
    return seen


@pytest.mark.parametrize("cap", range(1, 7))
@pytest.mark.parametrize("name", ["llama", "qwen3_next"])
def test_an_oracle_s_block_brings_all_of_it_and_one_more_an_adversary_s_one(
    speculate: Speculate, family: Family, blocks: list[Block], name: str, cap: int
) -> None:
    model = family(name)
    schedule = [Job((9, 8, 7 + n), 20, GREEDY, 0, None) for n in range(3)]
    expected = answers(model, schedule)
    speculate(Guesses(expected, 1.0, whole=True), cap)
    check(model, schedule, run(model, schedule, slots=3))
    for block in blocks:
        assert block.drafted == min(cap, block.left - 1)
        assert (block.gained, block.unread) == (block.drafted + 1, 1)
    assert sum(block.gained for block in blocks) == 3 * 20
    blocks.clear()

    speculate(Guesses(expected, 0.0, whole=True), cap)
    check(model, schedule, run(model, schedule, slots=3))
    assert any(block.drafted for block in blocks)
    assert all(block.gained == 1 for block in blocks)
    behind = 1 if name == "llama" else MOST_UNREAD + 1  # a state reads again what it went back over
    assert max(block.unread for block in blocks) == behind


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("name", ["llama", "lfm2"])
def test_an_answer_may_end_at_any_place_of_a_block(
    speculate: Speculate, family: Family, blocks: list[Block], name: str, place: int
) -> None:
    model = family(name)
    tokens = solo(model, PROMPT, 20, GREEDY)
    speculate(Guesses({"r0": tokens}, 1.0, whole=True), 6)
    stopped = Answer(model, GenerationRequest("r0", PROMPT, 20), {tokens[place]})
    assert stopped.tokens == tokens[: place + 1]
    assert stopped.finish.reason is FinishReason.STOP
    [block] = blocks
    assert (block.drafted, block.gained) == (6, place + 1)
    assert block.unread == 1 or name == "lfm2"  # what lies beyond the end is taken back

    cut = Answer(model, GenerationRequest("r0", PROMPT, place + 1))
    assert cut.tokens == tokens[: place + 1]
    assert cut.finish.reason is FinishReason.LENGTH


@pytest.mark.parametrize("name", ["llama", "lfm2"])
@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"stop": True},
        {"eos": True},
        {"eos": True, "min_tokens": 9},
        {"logprobs": 3},
        {"logprobs": 2, "stop": True, "sampling": SamplingParams(temperature=1.0, seed=5)},
        {"sampling": SamplingParams(frequency_penalty=0.8, repetition_penalty=1.3)},
        {"sampling": SamplingParams(logit_bias=((40, 5.0), (41, 4.0)))},
    ],
    ids=str,
)
def test_an_answer_that_ends_inside_a_block_ends_where_it_would_without(
    speculate: Speculate,
    family: Family,
    name: str,
    wish: dict[str, Any],
) -> None:
    model = family(name)
    plain = Answer(model, GenerationRequest("r0", PROMPT, 30, wish.get("sampling", GREEDY)))
    eos = {plain.tokens[7]} if wish.get("eos") else set()
    text = plain.text
    stop = (text[len(text) // 2 : len(text) // 2 + 2],) if wish.get("stop") else ()
    request = replace(
        plain.request,
        stop=stop,
        min_tokens=wish.get("min_tokens", 0),
        logprobs=wish.get("logprobs"),
    )
    expected = Answer(model, request, eos)
    guesses = Guesses({"r0": plain.tokens}, 1.0, random.Random(11))
    speculate(guesses, 6)
    drafted = Answer(model, request, eos)
    assert guesses.accepted > 0
    assert drafted.tokens == expected.tokens
    assert drafted.text == expected.text
    assert drafted.finish.reason == expected.finish.reason
    assert drafted.finish.usage == expected.finish.usage
    assert [s.picked.token for s in drafted.scored] == [s.picked.token for s in expected.scored]
    for mine, its in zip(drafted.scored, expected.scored, strict=True):
        assert mine.picked.logprob == pytest.approx(its.picked.logprob, abs=1e-3)
        assert [top.token for top in mine.top] == [top.token for top in its.top]


@pytest.mark.parametrize("inside", [False, True], ids=["at its length", "inside a block"])
@pytest.mark.parametrize("name", ["llama", "qwen3_next", "gemma3_text"])
def test_the_next_turn_of_a_chat_reuses_what_drafts_were_checked_in(
    speculate: Speculate, family: Family, blocks: list[Block], name: str, inside: bool
) -> None:
    model, prompt = family(name), tuple(range(20, 60))
    first = solo(model, prompt, 20, GREEDY)
    ended = first[:10] if inside else first
    later = (*prompt, *ended, 5, 6, 7)
    known = {"r1": first, "r2": solo(model, later, 20, GREEDY)}
    speculate(Guesses(known, 1.0 if inside else 0.7, whole=inside), 6)
    stepped = Stepped(model)
    eos = stepped.loop._eos
    stepped.loop._eos = {*eos, ended[-1]} if inside else eos
    assert tuple(_finished(stepped, prompt).tokens) == ended
    assert inside is (blocks[-1].gained < blocks[-1].drafted)
    stepped.loop._eos = eos
    row = _finished(stepped, later)
    assert tuple(row.tokens) == known["r2"]
    assert row.cached >= len(prompt) - 1


def _finished(stepped: Stepped, prompt: tuple[int, ...]) -> Row:
    row = stepped.ask(prompt, 20)
    stepped.finish()
    return row
