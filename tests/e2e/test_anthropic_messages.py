"""Anthropic's protocol: turns of all kinds, the events in their order, errors of its own shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from engine.types import FinishReason
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import FakeEngine

TOOL = {"name": "look", "input_schema": {"type": "object"}}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "sky"}}</tool_call>'
HELLO = [{"role": "user", "content": "say hello"}]
BLOCK = ["content_block_start", "content_block_delta", "content_block_stop"]


def post(server: ThreadedServer, path: str = "/v1/messages", **body: Any) -> httpx.Response:
    body = {"model": "claude-x", "max_tokens": 20, "messages": HELLO, **body}
    return httpx.post(f"{server.url}{path}", json=body, trust_env=False)


def events(server: ThreadedServer, **body: Any) -> list[dict[str, Any]]:
    frames = post(server, "/v1/messages?beta=true", stream=True, **body).text.split("\n\n")
    assert frames.pop() == ""
    read = []
    for text in frames:
        name, data = text.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        read.append(event)
    return read


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


def test_a_whole_message(server: ThreadedServer, engine: FakeEngine) -> None:
    answer = post(server, stop_sequences=["END"], temperature=0.5, system="Be brief.").json()
    assert answer["id"].startswith("msg_")
    assert answer["content"] == [{"type": "text", "text": "Hello wörld 👩‍👩‍👧"}]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    assert answer["usage"] == {
        "input_tokens": 3,
        "output_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
    }
    (request,) = engine.requests
    assert (request.stop, request.max_tokens) == (("END",), 20)
    assert request.sampling.temperature == 0.5


def test_the_full_order_of_events(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces = ("<think>hm</think>", "I look.", CALL)
    read = events(server, tools=[TOOL])
    thinking = [*BLOCK[:2], "content_block_delta", BLOCK[2]]
    types = [event["type"] for event in read]
    assert types == [
        *("message_start", "ping"),
        *(*thinking, *BLOCK, *BLOCK),
        *("message_delta", "message_stop"),
    ]
    assert [e["index"] for e in read if "index" in e] == [0] * 4 + [1] * 3 + [2] * 3
    starts = [e["content_block"] for e in read if e["type"] == "content_block_start"]
    assert [start["type"] for start in starts] == ["thinking", "text", "tool_use"]
    assert starts[2]["input"] == {}
    deltas = [e["delta"] for e in read if e["type"] == "content_block_delta"]
    assert deltas[:3] == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": ""},
        {"type": "text_delta", "text": "I look."},
    ]
    assert json.loads(deltas[3]["partial_json"]) == {"at": "sky"}
    assert read[0]["message"]["content"] == []
    assert read[0]["message"]["usage"]["input_tokens"] > 2
    assert read[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert read[-2]["usage"]["output_tokens"] == 3


@pytest.mark.parametrize(
    ("reason", "stop", "expected"),
    [
        (FinishReason.LENGTH, None, ("max_tokens", None)),
        (FinishReason.STOP, "END", ("stop_sequence", "END")),
        (FinishReason.STOP, None, ("end_turn", None)),
    ],
)
def test_why_it_ended(
    server: ThreadedServer,
    engine: FakeEngine,
    reason: FinishReason,
    stop: str | None,
    expected: tuple[str, str | None],
) -> None:
    engine.reason, engine.stop = reason, stop
    answer = post(server).json()
    assert (answer["stop_reason"], answer["stop_sequence"]) == expected


def test_turns_of_all_kinds_become_messages(server: ThreadedServer, engine: FakeEngine) -> None:
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "sky"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "and now?"},
                {"type": "tool_result", "tool_use_id": "t1", "content": [TEXT_PART]},
            ],
        },
    ]
    post(server, messages=turns, system=[{"type": "text", "text": "Be brief."}])
    assert engine.model is not None
    messages, more = engine.model.tokenizer.asked
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "user"]
    assert messages[2]["content"].startswith("I look.\n<tool_call>")
    assert "blue" in messages[3]["content"]
    assert messages[4]["content"] == "and now?"
    assert not more["unfinished"]


TEXT_PART = {"type": "text", "text": "blue"}


def test_an_assistants_turn_at_the_end_is_continued(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    post(server, messages=[*HELLO, {"role": "assistant", "content": "Hel"}])
    assert engine.model is not None
    assert engine.model.tokenizer.asked[1]["unfinished"]


def test_thinking_is_a_wish_to_the_template(server: ThreadedServer, engine: FakeEngine) -> None:
    assert engine.model is not None
    for asked, expected in (("enabled", True), ("disabled", False)):
        post(server, thinking={"type": asked, "budget_tokens": 1024})
        assert engine.model.tokenizer.asked[1]["options"] == {"enable_thinking": expected}


def test_tokens_are_counted_as_the_chat_counts_them(server: ThreadedServer) -> None:
    plain = post(server, "/v1/messages/count_tokens").json()
    assert plain == {"input_tokens": 2}
    with_tools = post(server, "/v1/messages/count_tokens", tools=[TOOL]).json()
    assert with_tools["input_tokens"] > 2


def test_the_anthropic_package_reads_both(client: anthropic.Anthropic, engine: FakeEngine) -> None:
    engine.pieces = ("<think>hm</think>", "I look.", CALL)
    asked: dict[str, Any] = {"model": "claude-x", "max_tokens": 20, "messages": HELLO}
    whole = client.messages.create(**asked, tools=[TOOL], tool_choice={"type": "auto"})
    with client.messages.stream(**asked, tools=[TOOL]) as stream:
        final = stream.get_final_message()
    for message in (whole, final):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert message.content[2].input == {"at": "sky"}
        assert message.stop_reason == "tool_use"
    assert client.messages.count_tokens(model="x", messages=HELLO).input_tokens == 2


def test_a_call_can_be_demanded(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces = ('{"name": "look", "arguments": {"at": 1}}',)
    for choice in ({"type": "any"}, {"type": "tool", "name": "look"}):
        answer = post(server, tools=[TOOL], tool_choice=choice).json()
        assert answer["content"][0]["input"] == {"at": 1}
        assert answer["stop_reason"] == "tool_use"
    assert all(request.form for request in engine.requests)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "image"),
        ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, "tools"),
        ({"temperature": -1}, "temperature"),
        ({"messages": [{"role": "user", "content": "word " * 100}]}, "prompt is too long"),
    ],
)
def test_refusals_have_the_protocols_own_shape(
    server: ThreadedServer, fields: dict[str, Any], word: str
) -> None:
    answer = post(server, **fields)
    assert answer.status_code == 400
    assert set(answer.json()) == {"type", "error"}
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert word in answer.json()["error"]["message"]


def test_a_failure_in_a_stream_is_an_error_event(
    server: ThreadedServer, engine: FakeEngine, client: anthropic.Anthropic
) -> None:
    engine.reason, engine.error = FinishReason.ERROR, "the row broke"
    last = events(server)[-1]
    assert last == {"type": "error", "error": {"type": "api_error", "message": "the row broke"}}
    with pytest.raises(anthropic.InternalServerError):
        client.messages.create(model="claude-x", max_tokens=5, messages=HELLO)
    engine.model = None
    with pytest.raises(anthropic.APIStatusError) as refusal:
        client.messages.create(model="claude-x", max_tokens=5, messages=HELLO)
    assert refusal.value.status_code == 503
