"""Log-probabilities of a prompt's own tokens: the model's own, whatever is shared or cut."""

from __future__ import annotations

from pathlib import Path
from random import Random

import mlx.core as mx
import numpy as np
import pytest

from engine.models.load import LoadedModel, load
from engine.prompt_scores import AT_ONCE
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.types import Finish, FinishReason, GenerationRequest, Scored, ScoredPrompt, Update
from tests.engine.stepped import Stepped
from tests.schedules import solo
from tests.tiny_families import tiny_family

PROMPT = tuple(Random(3).choices(range(3, 320), k=41))
SLICE = 8


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> LoadedModel:
    return load(tiny_folder, "tiny")


class Asked:
    """A row that wants its prompt's log-probabilities, and what it was sent."""

    def __init__(
        self,
        stepped: Stepped,
        id: str,
        prompt: tuple[int, ...],
        max_tokens: int = 4,
        width: int = 2,
    ) -> None:
        self.updates: list[Update] = []
        request = GenerationRequest(id, prompt, max_tokens, logprobs=width, prompt_logprobs=width)
        self.row: Row = stepped.loop.enqueue(request, self.updates.append, 0.0)

    @property
    def scored(self) -> list[Scored]:
        """Of the one update that has them, which comes before everything else."""
        first = self.updates[0]
        assert isinstance(first, ScoredPrompt)
        assert not any(isinstance(update, ScoredPrompt) for update in self.updates[1:])
        return list(first.scored)


def alone(model: LoadedModel, prompt: tuple[int, ...]) -> np.ndarray:
    """Log-probabilities [tokens - 1, vocabulary] of what follows each token, by one forward."""
    logits = np.array(model.model(mx.array([prompt]))[0, :-1].astype(mx.float32), dtype=np.float64)
    highest = logits.max(axis=-1, keepdims=True)
    whole = np.log(np.exp(logits - highest).sum(axis=-1, keepdims=True))
    return np.asarray(logits - highest - whole)


def check(
    model: LoadedModel, prompt: tuple[int, ...], scored: list[Scored], width: int = 2
) -> None:
    expected = alone(model, prompt)
    assert [each.picked.token for each in scored] == list(prompt[1:])
    for place, each in enumerate(scored):
        assert each.picked.logprob == pytest.approx(expected[place, prompt[place + 1]], abs=1e-4)
        assert [top.token for top in each.top] == list(np.argsort(-expected[place])[:width])


@pytest.mark.parametrize("width", [0, 1, 5])
def test_they_are_those_of_one_forward_alone(model: LoadedModel, width: int) -> None:
    stepped = Stepped(model)
    asked = Asked(stepped, "a", PROMPT, width=width)
    stepped.finish()
    check(model, PROMPT, asked.scored, width)
    assert tuple(asked.row.tokens) == solo(model, PROMPT, 4, asked.row.request.sampling)


def test_slices_make_no_difference_nor_do_neighbours(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: SLICE)
    stepped = Stepped(model)
    runs = stepped.ask((9, 8, 7), 60)
    stepped.turn(3)
    asked = [Asked(stepped, f"a{n}", PROMPT[n:]) for n in (0, 35, 38)]
    joins = stepped.ask(PROMPT[5:25], 12)
    stepped.finish()
    for one in asked:
        check(model, one.row.request.prompt, one.scored)
    for row in (runs, joins):
        request = row.request
        assert tuple(row.tokens) == solo(
            model, request.prompt, request.max_tokens, request.sampling
        )


def test_nothing_that_is_known_is_skipped(model: LoadedModel) -> None:
    stepped = Stepped(model)
    stepped.ask(PROMPT)
    stepped.finish()
    before = stepped.read
    asked = Asked(stepped, "a", PROMPT)
    stepped.finish()
    assert stepped.read - before == len(PROMPT) - 1
    assert asked.row.cached == 0
    check(model, PROMPT, asked.scored)
    after = stepped.ask(PROMPT)
    stepped.finish()
    assert after.cached == len(PROMPT) - 1


def test_equal_prompts_are_read_once_for_all_who_asked(model: LoadedModel) -> None:
    stepped = Stepped(model)
    asked = [Asked(stepped, f"a{n}", PROMPT, width=n) for n in range(3)]
    stepped.finish()
    assert stepped.read == len(PROMPT) - 1
    assert [one.row.cached for one in asked] == [0, len(PROMPT) - 1, len(PROMPT) - 1]
    for width, one in enumerate(asked):
        check(model, PROMPT, one.scored, width)


def test_a_newcomer_may_share_what_is_read_for_the_scores(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: SLICE)
    stepped = Stepped(model, prefix_cache=0)
    asked = Asked(stepped, "a", PROMPT)
    other = (*PROMPT[:30], 4, 4, 4)
    shares = stepped.ask(other)
    stepped.turn()
    late = Asked(stepped, "late", PROMPT)
    stepped.finish()
    assert shares.cached == 30
    assert tuple(shares.tokens) == solo(model, other, 6, shares.request.sampling)
    check(model, PROMPT, asked.scored)
    check(model, PROMPT, late.scored)


def test_a_row_put_back_has_them_once(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: SLICE)
    stepped = Stepped(model)
    asked = [Asked(stepped, "decoding", PROMPT[:3], 9), Asked(stepped, "reading", PROMPT)]
    stepped.turn(3)
    assert [bool(one.updates) for one in asked] == [True, False]
    for one in asked:
        stepped.loop._settle()
        stepped.loop._put_back(one.row)
    stepped.finish()
    for one in asked:
        check(model, one.row.request.prompt, one.scored)
        request = one.row.request
        expected = solo(model, request.prompt, request.max_tokens, request.sampling)
        assert tuple(one.row.tokens) == expected


@pytest.mark.parametrize("prompt", [PROMPT, (7,)])
def test_no_token_may_be_wanted_at_all(model: LoadedModel, prompt: tuple[int, ...]) -> None:
    stepped = Stepped(model)
    runs = stepped.ask((9, 8, 7), 20)
    stepped.turn(3)
    asked = Asked(stepped, "a", prompt, max_tokens=0)
    stepped.finish()
    check(model, prompt, asked.scored)
    assert len(asked.updates) == 2
    end = asked.updates[-1]
    assert isinstance(end, Finish)
    assert (end.reason, end.usage.completion_tokens) == (FinishReason.LENGTH, 0)
    assert stepped.loop.running == 0
    assert tuple(runs.tokens) == solo(model, (9, 8, 7), 20, runs.request.sampling)


def test_a_cancelled_one_leaves_the_reading_to_the_others(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: SLICE)
    stepped = Stepped(model, prefix_cache=0)
    gone, stays = Asked(stepped, "gone", PROMPT), Asked(stepped, "stays", PROMPT)
    stepped.turn(2)
    stepped.loop.cancel("gone")
    stepped.finish()
    check(model, PROMPT, stays.scored)
    assert len(gone.updates) == 1


def test_the_logits_of_few_tokens_are_in_memory_at_once(model: LoadedModel) -> None:
    stepped = Stepped(model)
    stepped.loop._budget.tokens = lambda *_: 10_000  # type: ignore[method-assign]
    prompt = tuple(Random(4).choices(range(3, 320), k=2 * AT_ONCE + 50))
    widest = 0
    forward = type(stepped.loop._caches).forward

    def watched(plan: object, tokens: mx.array, cache: object) -> mx.array:
        nonlocal widest
        widest = max(widest, tokens.size)
        return forward(plan, tokens, cache)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(stepped.loop._caches), "forward", watched)
        asked = [Asked(stepped, "long", prompt), Asked(stepped, "short", PROMPT)]
        stepped.finish()
    assert widest == AT_ONCE
    for one in asked:
        check(model, one.row.request.prompt, one.scored)


@pytest.mark.parametrize("family", ["qwen3_next", "gemma3_text", "mamba", "llama4"])
def test_every_kind_of_row_has_them(tmp_path: Path, family: str) -> None:
    model = load(tiny_family(tmp_path, family), family)
    stepped = Stepped(model, slots=3)
    prompt = tuple(Random(5).choices(range(3, 60), k=19))
    asked = [
        Asked(stepped, "a", prompt),
        Asked(stepped, "b", prompt[4:]),
        Asked(stepped, "c", prompt),
    ]
    stepped.finish()
    for one in asked:
        check(model, one.row.request.prompt, one.scored)
