"""The Responses protocol: inputs of all kinds, and the events in their order."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from engine.server.responses_input import chat_of
from engine.server.wire_responses import ResponsesRequest
from engine.types import FinishReason
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import FakeEngine
from tests.e2e.responses import error_of

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "sky"}}</tool_call>'
BEGINNING = ["response.created", "response.in_progress"]
MESSAGE = [
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]
THOUGHTS = [
    "response.output_item.added",
    "response.reasoning_text.delta",
    "response.reasoning_text.done",
    "response.output_item.done",
]
FUNCTION = [
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
]


def post(server: ThreadedServer, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/responses", json=body, trust_env=False)


def events(server: ThreadedServer, **body: Any) -> list[dict[str, Any]]:
    """A stream's events; each frame's name is its event's type, and they are numbered."""
    frames = post(server, stream=True, **body).text.split("\n\n")
    assert frames.pop() == ""
    read = []
    for number, text in enumerate(frames):
        name, data = text.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == number
        read.append(event)
    return read


def once(types: list[str]) -> list[str]:
    """Types in their order, repeated deltas as one."""
    return [t for i, t in enumerate(types) if i == 0 or t != types[i - 1]]


def test_a_whole_response(server: ThreadedServer, engine: FakeEngine) -> None:
    answer = post(server, input="say hello", max_output_tokens=7).json()
    assert answer["id"].startswith("resp_")
    assert (answer["object"], answer["status"], answer["error"]) == ("response", "completed", None)
    (item,) = answer["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"][0]["text"] == "Hello wörld 👩‍👩‍👧"
    assert answer["usage"]["input_tokens_details"] == {"cached_tokens": 2}
    assert answer["usage"]["total_tokens"] == 8
    assert answer["store"] is False
    assert engine.requests[0].max_tokens == 7


def test_thoughts_text_and_calls_are_items_in_their_order(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.pieces = ("<think>hm", " hm</think>", "I ", "look.", CALL)
    read = events(server, input="go", tools=[TOOL])
    types = once([event["type"] for event in read])
    assert types == [*BEGINNING, *THOUGHTS, *MESSAGE, *FUNCTION, "response.completed"]
    indices = [event["output_index"] for event in read if "output_index" in event]
    assert indices == sorted(indices)
    assert set(indices) == {0, 1, 2}
    added = {e["output_index"]: e["item"] for e in read if e["type"].endswith("item.added")}
    done = {e["output_index"]: e["item"] for e in read if e["type"].endswith("item.done")}
    assert all(item["status"] == "in_progress" for item in added.values())
    assert all(item["id"] == done[index]["id"] for index, item in added.items())
    assert added[2]["arguments"] == ""
    assert json.loads(done[2]["arguments"]) == {"at": "sky"}
    assert list(done.values()) == read[-1]["response"]["output"]
    assert post(server, input="go", tools=[TOOL]).json()["output"][1]["content"][0]["text"] == (
        "I look."
    )


def test_a_budget_that_ends_leaves_an_incomplete_response(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.reason = FinishReason.LENGTH
    last = events(server, input="go")[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][0]["status"] == "incomplete"


def test_a_failure_is_the_last_event(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.reason, engine.error = FinishReason.ERROR, "the row broke"
    last = events(server, input="go")[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": "generation_failed", "message": "the row broke"}
    error_of(post(server, input="go"), 500)


def test_earlier_turns_become_messages() -> None:
    """What one answer was made of is one message."""
    turns = [
        {"role": "user", "content": [{"type": "input_text", "text": "one"}]},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}], "id": "r"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "blue"},
    ]
    body = ResponsesRequest.model_validate({"input": turns, "instructions": "Be brief."})
    messages = [m.model_dump(exclude_none=True) for m in chat_of(body).messages]
    function = {"name": "look", "arguments": "{}"}
    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {
            "role": "assistant",
            "content": "a",
            "reasoning_content": "hm",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "blue", "tool_call_id": "c"},
    ]


def test_a_format_and_a_demanded_call_are_kept_to(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    wanted = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    assert post(server, input="go", text=wanted).json()["text"]["format"]["schema"] == schema
    post(server, input="go", tools=[TOOL], tool_choice={"type": "function", "name": "look"})
    forms = [request.form for request in engine.requests]
    assert json.loads(forms[0].grammar) == schema
    assert '"look"' in forms[1].grammar


def test_the_openai_package_reads_both(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces = ("<think>hm</think>", "Hi", " you", CALL)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        whole = client.responses.create(model="any", input="go", tools=[TOOL])
        with client.responses.stream(model="any", input="go", tools=[TOOL]) as stream:
            for _ in stream:
                pass
            final = stream.get_final_response()
    for response in (whole, final):
        assert response.output_text == "Hi you"
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": "go", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": "go", "background": True}, "background"),
        ({"input": "go", "tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": "go", "temperature": 9}, "temperature"),
        ({"input": "go", "n": 2}, "n"),
        ({"input": "word " * 100}, "messages"),
    ],
)
def test_what_can_t_be_done_is_refused_by_name(
    server: ThreadedServer, engine: FakeEngine, fields: dict[str, Any], param: str
) -> None:
    assert error_of(post(server, **fields), 400)["param"] == param
    assert not engine.requests


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "x"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]},
        {"role": "user"},
        3,
    ],
)
def test_an_item_that_can_t_be_read_is_refused(server: ThreadedServer, item: Any) -> None:
    assert error_of(post(server, input=[item]), 400)["param"].startswith("input")
