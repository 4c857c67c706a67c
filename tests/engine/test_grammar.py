"""Answers kept to a form, each row to its own, beside rows without one."""

from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher

from engine.models.guide import FormError
from engine.types import FinishReason, Form, GenerationRequest, SamplingParams
from tests.engine.conftest import Client, Harness

SCHEMA = {
    "type": "object",
    "properties": {"size": {"enum": ["small", "large"]}, "count": {"type": "integer"}},
    "required": ["size", "count"],
    "additionalProperties": False,
}
GRAMMAR = LLMatcher.grammar_from_json_schema(SCHEMA)


def ask(harness: Harness, name: str, form: Form | None, seed: int = 0) -> Client:
    request = GenerationRequest(
        id=name,
        prompt=(5, 6, 7),
        max_tokens=120,
        sampling=SamplingParams(temperature=1.0, seed=seed),
        form=form,
    )
    client = Client(request)
    harness.engine.submit(request, client)
    return client


def test_random_weights_write_valid_json_and_stop(harness: Harness) -> None:
    clients = [ask(harness, f"r{seed}", Form(GRAMMAR), seed) for seed in range(6)]
    for client in clients:
        assert client.wait().reason in (FinishReason.STOP, FinishReason.LENGTH)
    whole = [c for c in clients if c.wait().reason is FinishReason.STOP]
    assert whole
    for client in whole:
        answer = json.loads(client.text)
        assert answer["size"] in ("small", "large")
        assert isinstance(answer["count"], int)


def test_a_row_without_a_form_writes_what_it_writes_alone(harness: Harness) -> None:
    alone = ask(harness, "alone", None, seed=4)
    alone.wait()
    formed = [ask(harness, f"f{seed}", Form(GRAMMAR), seed) for seed in range(3)]
    beside = ask(harness, "beside", None, seed=4)
    for client in formed:
        client.wait()
    beside.wait()
    assert beside.text == alone.text


def test_the_form_holds_from_the_token_it_waits_for(harness: Harness) -> None:
    """The forced token is likely enough by its bias that it soon comes by itself."""
    request = GenerationRequest(
        id="later",
        prompt=(5, 6, 7),
        max_tokens=200,
        sampling=SamplingParams(temperature=1.0, logit_bias=((70, 12.0),)),
        form=Form(LLMatcher.grammar_from_json_schema({"enum": ["yes", "no"]}), after=70),
    )
    client = Client(request)
    harness.engine.submit(request, client)
    assert client.wait().reason is FinishReason.STOP
    assert harness.engine.model is not None
    mark = harness.engine.model.tokenizer.decode([70])
    assert client.text.split(mark, 1)[1] in ('"yes"', '"no"')


def test_a_grammar_that_is_none_ends_its_row_alone(harness: Harness) -> None:
    beside = ask(harness, "beside", Form(GRAMMAR))
    broken = ask(harness, "broken", Form("start: nowhere"))
    finish = broken.wait()
    assert finish.reason is FinishReason.ERROR
    assert "format" in (finish.error or "")
    assert beside.wait().reason is not FinishReason.ERROR


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "http://elsewhere.example/a"}}},
        {"type": "string", "pattern": "("},
        {"type": "nothing"},
        {"enum": []},
    ],
)
def test_a_schema_nobody_can_keep_to_is_refused_before_anything_runs(
    harness: Harness, schema: dict[str, object]
) -> None:
    assert harness.engine.model is not None
    guide = harness.engine.model.tokenizer.guide
    with pytest.raises(FormError) as refusal:
        guide.json(schema)
    assert "\n" not in str(refusal.value)
    assert guide.json({"enum": ["yes"]})


def test_two_rows_of_one_form_are_apart(harness: Harness) -> None:
    assert harness.engine.model is not None
    guide = harness.engine.model.tokenizer.guide
    grammar = guide.json({"enum": ["a", "b"]})
    first, second = guide.matcher(grammar), guide.matcher(grammar)
    (quote,) = harness.engine.model.tokenizer.encode('"', special=False)
    first.consume_token(quote)
    assert first.compute_bitmask() != second.compute_bitmask()
