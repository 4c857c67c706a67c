"""What clients may send, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from engine.models.errors import TemplateError
from engine.models.markup import Markup
from engine.server.errors import ApiError
from engine.server.translate import choices, prepared
from engine.server.wire import (
    ChatChunk,
    ChatRequest,
    ChunkChoice,
    ChunkDelta,
)
from engine.server.wire_counts import TimingsBody, UsageBody
from engine.types import ContextLengthError, GenerationRequest, SamplingParams, Timings, Usage
from tests.e2e.fake_engine import FakeGuide

CONTEXT = 100


class WordTokenizer:
    """One token a word; keeps what it was asked to put into the model's format."""

    vocab_size = 50
    markup = Markup()
    guide = FakeGuide()

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.unfinished = False

    def chat(
        self, messages: list[dict[str, Any]], *, unfinished: bool = False, **_: Any
    ) -> list[int]:
        self.messages, self.unfinished = messages, unfinished
        if any(m["content"] == "refuse me" for m in messages):
            raise TemplateError("Only user and assistant roles are supported!")
        return [1] * sum(len(m["content"].split()) for m in messages)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return [2] * len(text.split())

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        return "w " * len(ids)


@pytest.fixture
def tokenizer() -> WordTokenizer:
    return WordTokenizer()


def parse(**fields: Any) -> ChatRequest:
    fields.setdefault("messages", [{"role": "user", "content": "hello there"}])
    return ChatRequest.model_validate_json(json.dumps(fields))


def convert(tokenizer: WordTokenizer, **fields: Any) -> GenerationRequest:
    return prepared(parse(**fields), tokenizer, CONTEXT, "pane 1").request


def test_null_is_absent_in_every_optional_field(tokenizer: WordTokenizer) -> None:
    names = set(ChatRequest.model_fields) - {"messages", "seed"}
    nulls = convert(tokenizer, **dict.fromkeys(names), seed=7)
    plain = convert(tokenizer, seed=7)
    assert replace(nulls, id=plain.id) == plain


def test_defaults_use_the_whole_context_and_sample_as_the_protocol_says(
    tokenizer: WordTokenizer,
) -> None:
    request = convert(tokenizer)
    assert request.max_tokens == CONTEXT - 2
    assert request.sampling.temperature == 1.0
    assert request.sampling.top_p == 1.0
    assert request.sampling.top_k == 0
    assert request.source == "pane 1"
    assert request.id.startswith("chatcmpl-")


def test_whole_numbers_serve_for_floats_and_unknown_fields_are_welcome(
    tokenizer: WordTokenizer,
) -> None:
    clients_send = {"store": True, "user": "me", "metadata": {"a": "b"}, "service_tier": "auto"}
    whole = {"temperature": 0, "top_p": 1, "min_p": 0, "xtc_probability": 0, "presence_penalty": 1}
    sampling = convert(tokenizer, **clients_send, **whole, parallel_tool_calls=True).sampling
    assert sampling == SamplingParams(presence_penalty=1.0, seed=sampling.seed)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 9}, 9),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5),
        ({"max_tokens": 10**12}, CONTEXT - 2),
    ],
)
def test_max_tokens(tokenizer: WordTokenizer, fields: dict[str, Any], expected: int) -> None:
    assert convert(tokenizer, **fields).max_tokens == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_completion_tokens", 0),
        ("temperature", -0.1),
        ("temperature", 2.5),
        ("temperature", "hot"),
        ("temperature", float("nan")),
        ("top_p", 1.5),
        ("top_k", -2),
        ("min_p", 2),
        ("seed", "abc"),
        ("seed", 1.5),
        ("stop", [1]),
        ("stop", {"a": 1}),
        ("stop", ["x"] * 33),
        ("stream", "perhaps"),
        ("messages", []),
        ("messages", "hi"),
        ("logit_bias", {"3": 1000}),
        ("logit_bias", {"3": float("inf")}),
        ("logit_bias", [3]),
        ("logit_bias", {str(token): 1 for token in range(301)}),
        ("n", 0),
        ("n", 129),
        ("n", "two"),
        ("logprobs", "some"),
        ("top_logprobs", 21),
        ("top_logprobs", -1),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -3),
        ("repetition_penalty", 0),
        ("repetition_context_size", 0),
        ("xtc_probability", 1.1),
        ("xtc_threshold", 0),
        ("xtc_threshold", 0.6),
    ],
)
def test_an_impossible_value_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        parse(**{field: value})
    assert caught.value.errors()[0]["loc"][0] == field


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (None, ()),
        ("END", ("END",)),
        ("", ()),
        (["a", "", "b"], ("a", "b")),
        ([], ()),
        ([" "], (" ",)),
    ],
)
def test_stop(tokenizer: WordTokenizer, stop: Any, expected: tuple[str, ...]) -> None:
    assert convert(tokenizer, stop=stop).stop == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
    ],
)
def test_content(tokenizer: WordTokenizer, content: Any, expected: str) -> None:
    chat = [{"role": "assistant", "content": content}, {"role": "user", "content": "go"}]
    convert(tokenizer, messages=chat)
    assert tokenizer.messages[0]["content"] == expected


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ({"type": "image_url", "image_url": {"url": "data:"}}, "image_url"),
        ({"type": "text", "text": 3}, "text"),
        ("bare", "type"),
    ],
)
def test_content_parts_that_are_no_text_are_refused(part: Any, word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        parse(messages=[{"role": "user", "content": [part]}])


def test_developer_speaks_as_system(tokenizer: WordTokenizer) -> None:
    convert(tokenizer, messages=[{"role": "developer", "content": "be brief"}])
    assert tokenizer.messages == [{"role": "system", "content": "be brief"}]


@pytest.mark.parametrize(("seed", "expected"), [(3, 3), (-1, 2**64 - 1), (2**80 + 5, 5)])
def test_any_whole_number_is_a_seed(tokenizer: WordTokenizer, seed: int, expected: int) -> None:
    assert convert(tokenizer, seed=seed).sampling.seed == expected


def test_without_a_seed_every_request_draws_its_own(tokenizer: WordTokenizer) -> None:
    assert len({convert(tokenizer).sampling.seed for _ in range(8)}) == 8


def test_top_p_zero_and_top_k_minus_one_keep_their_usual_meaning(tokenizer: WordTokenizer) -> None:
    sampling = convert(tokenizer, top_p=0, top_k=-1).sampling
    assert 0 < sampling.top_p < 1e-6
    assert sampling.top_k == 0


def test_logit_bias_reaches_the_request(tokenizer: WordTokenizer) -> None:
    assert convert(tokenizer, logit_bias={"3": -100, "49": 2.5}).sampling.logit_bias == (
        (3, -100.0),
        (49, 2.5),
    )


@pytest.mark.parametrize("token", ["100000000", "-5", "abc", "50", "", "1.0", "٣", "9" * 5000])
def test_logit_bias_outside_the_vocabulary_is_refused(tokenizer: WordTokenizer, token: str) -> None:
    with pytest.raises(ApiError) as caught:
        convert(tokenizer, logit_bias={token: 1})
    assert caught.value.status_code == 400
    assert caught.value.body.param == "logit_bias"
    assert len(caught.value.body.message) < 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_logprobs", 3),
        ("tool_choice", "required"),
        ("suffix", "x"),
        ("chat_template_kwargs", {"chat_template": "{{ messages }}"}),
        ("chat_template_kwargs", {"enable_thinking": True, "tokenize": True}),
        ("best_of", 2),
        ("stop_token_ids", [2]),
        ("prompt_logprobs", 1),
        ("typical_p", 0.9),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    tokenizer: WordTokenizer, field: str, value: Any
) -> None:
    with pytest.raises(ApiError) as caught:
        convert(tokenizer, **{field: value})
    assert caught.value.status_code == 400
    assert caught.value.body.param == field


def test_penalties_and_xtc_reach_the_request(tokenizer: WordTokenizer) -> None:
    sampling = convert(
        tokenizer,
        presence_penalty=0.5,
        frequency_penalty=-1,
        repetition_penalty=1.1,
        repetition_context_size=64,
        xtc_probability=0.4,
        xtc_threshold=0.2,
        seed=3,
    ).sampling
    assert sampling == SamplingParams(
        temperature=1.0,
        presence_penalty=0.5,
        frequency_penalty=-1,
        repetition_penalty=1.1,
        repetition_context=64,
        xtc_probability=0.4,
        xtc_threshold=0.2,
        seed=3,
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_logprobs(tokenizer: WordTokenizer, fields: dict[str, Any], expected: int | None) -> None:
    assert convert(tokenizer, **fields).logprobs == expected


def test_several_answers_are_requests_that_differ_in_id_and_seed(tokenizer: WordTokenizer) -> None:
    request = convert(tokenizer, seed=2**64 - 2)
    assert choices(request, 1) == [request]
    four = choices(request, 4)
    assert four[0] == request
    assert [each.sampling.seed for each in four] == [2**64 - 2, 2**64 - 1, 0, 1]
    assert len({each.id for each in four}) == 4
    assert {replace(each, id="", sampling=SamplingParams()) for each in four} == {
        replace(request, id="", sampling=SamplingParams())
    }


def test_usage_of_several_answers_counts_their_prompt_once() -> None:
    body = UsageBody.of([Usage(7, 3, 2), Usage(7, 5, 6)])
    assert (body.prompt_tokens, body.completion_tokens, body.total_tokens) == (7, 8, 15)
    assert body.prompt_tokens_details.cached_tokens == 2


def test_times_of_several_answers_are_from_the_first_to_the_last() -> None:
    body = TimingsBody.of([Timings(None, None, 0.5), Timings(0.2, 0.3, 0.9), Timings(0.1, 0.4, 1)])
    assert (body.queued_ms, body.first_token_ms, body.total_ms) == (100, 300, 1000)
    never = TimingsBody.of([Timings(None, None, 0.5)])
    assert (never.queued_ms, never.first_token_ms) == (None, None)


def test_an_answer_can_be_kept_from_ending_early(tokenizer: WordTokenizer) -> None:
    assert convert(tokenizer, max_tokens=9).min_tokens == 0
    assert convert(tokenizer, max_tokens=9, min_tokens=4).min_tokens == 4
    assert convert(tokenizer, max_tokens=9, ignore_eos=True).min_tokens == 9
    assert convert(tokenizer, max_tokens=9, ignore_eos=False).min_tokens == 0


def test_options_set_to_their_neutral_value_ask_for_nothing(tokenizer: WordTokenizer) -> None:
    convert(
        tokenizer,
        best_of=1,
        typical_p=1.0,
        stop_token_ids=[],
        tools=[],
        tool_choice="auto",
        response_format={"type": "text"},
    )


BEGUN = [{"role": "user", "content": "count"}, {"role": "assistant", "content": "one two"}]


def test_an_answer_is_continued_when_the_client_says_so(tokenizer: WordTokenizer) -> None:
    convert(tokenizer, messages=BEGUN)
    assert not tokenizer.unfinished
    convert(tokenizer, messages=BEGUN, continue_final_message=True, add_generation_prompt=False)
    assert tokenizer.unfinished


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"continue_final_message": True}, "continue_final_message"),
        (
            {"messages": BEGUN, "continue_final_message": True, "add_generation_prompt": True},
            "add_generation_prompt",
        ),
        ({"messages": BEGUN, "add_generation_prompt": False}, "add_generation_prompt"),
    ],
)
def test_a_continuation_that_makes_no_sense_is_refused(
    tokenizer: WordTokenizer, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        convert(tokenizer, **fields)
    assert refusal.value.body.param == param


def test_a_prompt_that_leaves_no_room_is_refused(tokenizer: WordTokenizer) -> None:
    long = [{"role": "user", "content": "word " * CONTEXT}]
    with pytest.raises(ContextLengthError, match=f"maximum context length is {CONTEXT} tokens"):
        convert(tokenizer, messages=long)


def test_one_token_of_room_is_enough(tokenizer: WordTokenizer) -> None:
    almost = [{"role": "user", "content": "word " * (CONTEXT - 1)}]
    assert convert(tokenizer, messages=almost, max_tokens=50).max_tokens == 1


def test_a_prompt_without_tokens_is_refused(tokenizer: WordTokenizer) -> None:
    with pytest.raises(ApiError, match="empty prompt"):
        convert(tokenizer, messages=[{"role": "user", "content": " "}])


def test_a_template_that_refuses_is_the_clients_to_fix(tokenizer: WordTokenizer) -> None:
    with pytest.raises(ApiError, match="Only user and assistant roles") as caught:
        convert(tokenizer, messages=[{"role": "system", "content": "refuse me"}])
    assert caught.value.status_code == 400


def test_a_chunk_keeps_a_null_finish_reason_and_leaves_out_what_it_lacks() -> None:
    choice = ChunkChoice(delta=ChunkDelta(content="a"))
    chunk = ChatChunk(id="chatcmpl-1", created=1, model="m", choices=[choice])
    assert json.loads(chunk.model_dump_json()) == {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}
        ],
    }
