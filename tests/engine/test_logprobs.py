"""Log-probabilities: what they are of, which rows get them, and with which text they travel."""

from __future__ import annotations

import math
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.bus import Clock, EventBus
from engine.logprobs import Scores
from engine.loop import Loop
from engine.models.load import LoadedModel, load
from engine.types import (
    Delta,
    EngineSettings,
    Finish,
    FinishReason,
    GenerationRequest,
    Scored,
    TokenLogprob,
)
from tests.engine.conftest import Client, Harness, handed


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def scored(client: Client) -> list[Scored]:
    return [each for u in client.updates if isinstance(u, Delta) for each in u.scored]


def test_only_rows_that_asked_get_them_each_with_as_many_as_it_asked_for() -> None:
    logits = np.random.default_rng(5).standard_normal((4, 300)).astype(np.float32) * 3
    tokens = [3, 299, 0, 17]
    scores = Scores.of(mx.array(logits), mx.array(tokens), [None, 2, 0, 20])
    assert scores is not None
    nothing, two, none_but_its_own, twenty = scores.read(tokens)
    assert nothing is None
    for row, result, width in ((1, two, 2), (2, none_but_its_own, 0), (3, twenty, 20)):
        expected = log_softmax(logits[row])
        assert result is not None
        assert result.picked.token == tokens[row]
        assert result.picked.logprob == pytest.approx(expected[tokens[row]], abs=1e-5)
        best = np.argsort(-expected)[:width]
        assert [t.token for t in result.top] == list(best)
        assert [t.logprob for t in result.top] == pytest.approx(list(expected[best]), abs=1e-5)


def test_nothing_is_computed_when_nobody_asks() -> None:
    assert Scores.of(mx.zeros((2, 9)), mx.array([1, 2]), [None, None]) is None


def test_more_alternatives_than_words_are_all_words() -> None:
    scores = Scores.of(mx.zeros((1, 3)), mx.array([1]), [20])
    assert scores is not None
    (result,) = scores.read([1])
    assert result is not None
    assert sorted(t.token for t in result.top) == [0, 1, 2]


def test_a_forbidden_token_has_no_probability() -> None:
    scores = Scores.of(mx.array([[0.0, -math.inf]]), mx.array([1]), [0])
    assert scores is not None
    assert scores.read([1]) == [Scored(TokenLogprob(1, -math.inf))]


def test_greedy_tokens_head_their_lists_beside_rows_that_did_not_ask(harness: Harness) -> None:
    asking = harness.ask((5, 6, 7), 12, logprobs=3)
    plain = harness.ask((9, 8), 12)
    asking.wait()
    plain.wait()
    entries = scored(asking)
    assert len(entries) == 12
    assert all(entry.top[0] == entry.picked for entry in entries)
    assert all(len(entry.top) == 3 for entry in entries)
    assert scored(plain) == []


def test_penalties_show_and_temperature_does_not(harness: Harness) -> None:
    plain = harness.ask((5, 6, 7), 1, logprobs=1)
    hot = harness.ask((5, 6, 7), 1, logprobs=1, temperature=1.9, seed=4)
    plain.wait()
    hot.wait()
    (entry,) = scored(plain)
    assert scored(hot)[0].top[0].logprob == pytest.approx(entry.picked.logprob, abs=1e-5)
    banned = harness.ask((5, 6, 7), 1, logprobs=1, logit_bias=((entry.picked.token, -100.0),))
    banned.wait()
    assert scored(banned)[0].picked.token != entry.picked.token


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> LoadedModel:
    return load(tiny_folder, "tiny")


def beside(model: LoadedModel, neighbours: tuple[int, ...]) -> list[float]:
    """Log-probabilities of one row's tokens, beside three rows whose prompts repeat a token."""
    clock = Clock()
    loop = Loop(model, EngineSettings(4), EventBus(clock, 4, 10), clock, lambda _: None)
    client = Client(GenerationRequest("r", (5, 6, 7, 8), 12, logprobs=1))
    loop.enqueue(client.request, client, clock.now())
    for token in neighbours:
        request = GenerationRequest(f"n{token}", (token,) * 4, 12)
        loop.enqueue(request, lambda _: None, clock.now())
    while not loop.idle:
        loop.turn()
    return [entry.picked.logprob for entry in scored(client)]


def test_what_the_neighbours_say_never_matters_bit_for_bit(model: LoadedModel) -> None:
    first = beside(model, (9, 10, 11))
    assert len(first) == 12
    assert beside(model, (300, 42, 7)) == first


def test_a_characters_tokens_come_with_the_character(model: LoadedModel) -> None:
    tokens = model.tokenizer.encode("a漢字👩‍👩‍👧")
    client = handed(model, tokens)
    assert [entry.picked.token for entry in scored(client)] == tokens
    for update in client.updates:
        if isinstance(update, Delta):
            ids = [entry.picked.token for entry in update.scored]
            assert model.tokenizer.decode(ids) == update.text


def test_tokens_that_begin_in_a_stop_string_are_left_out(model: LoadedModel) -> None:
    before, after = model.tokenizer.encode("one "), model.tokenizer.encode("STOP and more")
    client = handed(model, [*before, *after], stop=("STOP",))
    assert client.text == "one "
    assert [entry.picked.token for entry in scored(client)] == before


def test_the_end_of_turn_is_no_entry_but_a_special_token_inside_is(model: LoadedModel) -> None:
    (eos,) = model.tokenizer.eos
    word = model.tokenizer.encode("word")
    ended = handed(model, [*word, eos])
    assert [entry.picked.token for entry in scored(ended)] == word
    ignored = handed(model, [*word, eos], min_tokens=len(word) + 1)
    assert [entry.picked.token for entry in scored(ignored)] == [*word, eos]
    assert isinstance(ignored.updates[-1], Finish)
    assert ignored.updates[-1].reason is FinishReason.LENGTH
