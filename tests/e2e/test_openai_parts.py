"""Thoughts, tool calls and formats on their way through chat completions."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from engine.types import FinishReason
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import FakeEngine
from tests.e2e.responses import error_of

CHAT = [{"role": "user", "content": "say hello"}]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
CALL = ('<tool_call>{"name": "look", ', '"arguments": {"at": "sky"}}', "</tool_call>")


def post(server: ThreadedServer, **body: Any) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/chat/completions", json={"messages": CHAT, **body}, trust_env=False
    )


def choice(server: ThreadedServer, **body: Any) -> Any:
    return post(server, **body).json()["choices"][0]


def deltas(server: ThreadedServer, **body: Any) -> tuple[list[Any], str]:
    """The deltas of a stream between the first and the last, and why it ended."""
    frames = post(server, stream=True, **body).text.split("\n\n")[:-2]
    chunks = [json.loads(f.removeprefix("data: "))["choices"][0] for f in frames]
    return [chunk["delta"] for chunk in chunks[1:-1]], chunks[-1]["finish_reason"]


def test_thoughts_are_sent_apart(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces = ("<thi", "nk>hm", " hm</th", "ink>\n\nHi", ".")
    message = choice(server)["message"]
    assert message == {"role": "assistant", "content": "Hi.", "reasoning_content": "hm hm"}
    sent, reason = deltas(server)
    assert "".join(d.get("reasoning_content", "") for d in sent) == "hm hm"
    assert "".join(d.get("content", "") for d in sent) == "Hi."
    assert reason == "stop"


def test_thoughts_the_template_began_and_the_budget_ended(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.pieces, engine.reason = ("hm", " hm"), FinishReason.LENGTH
    began = [{"role": "user", "content": "say hello <think>"}]
    got = choice(server, messages=began)
    assert got["message"]["content"] == ""
    assert got["message"]["reasoning_content"] == "hm hm"
    assert got["finish_reason"] == "length"
    sent, _ = deltas(server, messages=began)
    assert sent == [{"reasoning_content": "hm"}, {"reasoning_content": " hm"}]


def test_a_call_in_a_whole_answer(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces = CALL
    got = choice(server, tools=TOOLS)
    (call,) = got["message"].pop("tool_calls")
    assert got["message"] == {"role": "assistant", "content": None}
    assert got["finish_reason"] == "tool_calls"
    assert call["id"].startswith("call_")
    assert call["type"] == "function"
    assert call["function"] == {"name": "look", "arguments": '{"at": "sky"}'}


def test_a_call_in_a_stream(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces = CALL * 2
    sent, reason = deltas(server, tools=TOOLS)
    calls = [call for delta in sent for call in delta["tool_calls"]]
    assert reason == "tool_calls"
    assert [call["index"] for call in calls] == [0, 0, 1, 1]
    assert calls[0]["function"] == {"name": "look", "arguments": ""}
    assert calls[1] == {"index": 0, "function": {"arguments": '{"at": "sky"}'}}
    assert calls[0]["id"] != calls[2]["id"]


def test_the_openai_package_puts_calls_together(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces = CALL
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
        client.chat.completions.stream(model="any", messages=CHAT, tools=TOOLS) as stream,
    ):
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.name == "look"
    assert json.loads(message.tool_calls[0].function.arguments) == {"at": "sky"}


def test_a_budget_that_ends_in_a_call(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces, engine.reason = CALL[:1], FinishReason.LENGTH
    got = choice(server, tools=TOOLS)
    assert got["finish_reason"] == "length"
    assert got["message"]["content"] == CALL[0]
    assert "tool_calls" not in got["message"]


def test_a_call_that_the_last_token_completes_keeps_its_arguments(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.pieces, engine.reason = CALL, FinishReason.LENGTH
    got = choice(server, tools=TOOLS)
    assert got["message"]["tool_calls"][0]["function"]["arguments"] == '{"at": "sky"}'
    sent, reason = deltas(server, tools=TOOLS)
    assert sent[-1]["tool_calls"][0]["function"] == {"arguments": '{"at": "sky"}'}
    assert got["finish_reason"] == reason == "length"


def test_tags_mean_nothing_to_a_client_without_tools(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.pieces = CALL
    assert choice(server)["message"]["content"] == "".join(CALL)
    assert choice(server, tools=TOOLS, tool_choice="none")["message"]["content"] == "".join(CALL)


@pytest.mark.parametrize(
    "tool_choice", ["required", {"type": "function", "function": {"name": "look"}}]
)
def test_a_call_can_be_demanded(
    server: ThreadedServer, engine: FakeEngine, tool_choice: Any
) -> None:
    engine.pieces = ('{"name": "look", "arguments": {"at": 1}}',)
    got = choice(server, tools=TOOLS, tool_choice=tool_choice)
    assert got["message"]["tool_calls"][0]["function"]["arguments"] == '{"at": 1}'
    assert got["finish_reason"] == "tool_calls"
    form = engine.requests[0].form
    assert form is not None
    assert '"look"' in form.grammar


def test_a_json_schema_is_the_form_of_the_answer(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    post(server, response_format=wanted)
    post(server, response_format={"type": "json_object"})
    post(server, response_format={"type": "text"})
    grammars = [request.form and json.loads(request.form.grammar) for request in engine.requests]
    assert grammars == [schema, {"type": "object"}, None]


def test_a_form_holds_after_the_thoughts(server: ThreadedServer, engine: FakeEngine) -> None:
    began = [{"role": "user", "content": "say <think>"}]
    post(server, messages=began, response_format={"type": "json_object"})
    form = engine.requests[0].form
    assert form is not None
    assert form.after is not None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.json_schema"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            "response_format",
        ),
        ({"response_format": {"type": "json_object"}, "tools": TOOLS}, "response_format"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"function": {"name": "hear"}}}, "tool_choice"),
    ],
)
def test_what_can_t_be_done_is_refused_by_name(
    server: ThreadedServer, engine: FakeEngine, fields: dict[str, Any], param: str
) -> None:
    assert error_of(post(server, **fields), 400)["param"] == param
    assert not engine.requests
