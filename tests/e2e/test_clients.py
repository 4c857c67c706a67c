"""Clients as they are, against a real worker over a tiny model: only the text doesn't matter."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any, Literal

import anthropic
import openai
import pytest
from pydantic import BaseModel

from tests.e2e.workers import RunningWorker
from tests.tiny import tiny_llama

CHAT = [{"role": "user", "content": "Is it raining in Oslo?"}]
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Oslo", "Rome"]},
        "days": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "forecast", "parameters": PARAMETERS}}


class Weather(BaseModel):
    city: Literal["Oslo", "Rome"]
    raining: bool


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    folder = tiny_llama(tmp_path_factory.mktemp("tiny"), max_position_embeddings=4096)
    with RunningWorker("--model", folder, "--port", "0", "--max-batch", "4") as running:
        assert running.url
        yield running


@pytest.fixture(scope="module")
def client(worker: RunningWorker) -> Iterator[openai.OpenAI]:
    with worker.openai() as client:
        yield client


def test_openai_chat_whole_and_streamed(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "any", "messages": CHAT, "temperature": 0, "max_tokens": 12}
    whole = client.chat.completions.create(**asked)
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options=options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_openai_logprobs_and_choices(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="any", messages=CHAT, max_tokens=5, n=2, logprobs=True, top_logprobs=3
    )
    for choice in answer.choices:
        tokens = choice.logprobs.content
        assert len(tokens) in range(1, 6)
        assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in tokens)


def test_openai_tools_there_and_back(client: openai.OpenAI) -> None:
    named = {"type": "function", "function": {"name": "forecast"}}
    asked: dict[str, Any] = {"model": "any", "messages": CHAT, "max_tokens": 400, "seed": 1}
    asked["tools"] = [TOOL]
    answer = client.chat.completions.create(**asked, tool_choice=named)
    assert answer.choices[0].finish_reason == "tool_calls"
    message = answer.choices[0].message
    (call,) = message.tool_calls
    arguments = json.loads(call.function.arguments)
    assert arguments["city"] in ("Oslo", "Rome")
    with client.chat.completions.stream(**asked, tool_choice="required") as stream:
        streamed = stream.get_final_completion().choices[0].message
    assert json.loads(streamed.tool_calls[0].function.arguments)["days"] <= 9
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    turns = [*CHAT, message.model_dump(exclude_none=True), result]
    last = client.chat.completions.create(**{**asked, "messages": turns, "max_tokens": 3})
    assert last.usage.completion_tokens <= 3


def test_openai_parses_what_keeps_to_a_schema(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "any", "messages": CHAT, "max_tokens": 400, "seed": 1}
    answer = client.chat.completions.parse(**asked, response_format=Weather)
    assert isinstance(answer.choices[0].message.parsed, Weather)


def test_openai_responses(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "any", "input": "Is it raining?", "max_output_tokens": 9}
    first, second, *_, last = client.responses.create(**asked, stream=True)
    assert [first.type, second.type] == ["response.created", "response.in_progress"]
    assert last.type in ("response.completed", "response.incomplete")
    assert last.response.usage.output_tokens <= 9


def test_openai_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="any", prompt=["A request", "waits"], max_tokens=4, temperature=0, echo=True
    )
    assert [choice.text[:5] for choice in answer.choices] == ["A req", "waits"]
    scored = client.completions.create(model="any", prompt=[5, 6], max_tokens=4, logprobs=2)
    assert len(scored.choices[0].logprobs.tokens) in range(1, 5)


def test_openai_scores_texts(client: openai.OpenAI) -> None:
    """As evaluations do: what a continuation adds to a text's log-probability."""
    asked: dict[str, Any] = {"model": "any", "temperature": 0, "echo": True, "logprobs": 1}
    texts = [[5, 6, 7, 8], [5, 6, 7, 8, 9], [5, 6, 7, 8, 9]]
    short, whole, again = client.completions.create(**asked, prompt=texts, max_tokens=0).choices
    assert short.logprobs.token_logprobs[0] is None
    assert short.logprobs.token_logprobs[1:] == pytest.approx(
        whole.logprobs.token_logprobs[1:4], abs=1e-4
    )
    assert again.logprobs.tokens == whole.logprobs.tokens
    assert again.logprobs.token_logprobs[1:] == pytest.approx(
        whole.logprobs.token_logprobs[1:], abs=1e-4
    )
    (more,) = client.completions.create(**asked, prompt=texts[1], max_tokens=1).choices
    assert len(more.logprobs.tokens) == 6
    assert more.logprobs.token_logprobs[1:-1] == pytest.approx(
        whole.logprobs.token_logprobs[1:], abs=1e-4
    )


def test_anthropic_streams_thinks_and_calls(worker: RunningWorker) -> None:
    tool = {"name": "forecast", "input_schema": PARAMETERS}
    asked: dict[str, Any] = {"model": "claude-any", "max_tokens": 400, "messages": CHAT}
    with anthropic.Anthropic(base_url=worker.url, api_key="none", max_retries=0) as client:
        counted = client.messages.count_tokens(model="claude-any", messages=CHAT)
        whole = client.messages.create(**{**asked, "max_tokens": 5})
        with client.messages.stream(
            **asked, tools=[tool], tool_choice={"type": "tool", "name": "forecast"}
        ) as stream:
            final = stream.get_final_message()
    used = whole.usage
    assert counted.input_tokens == used.input_tokens + (used.cache_read_input_tokens or 0)
    assert whole.stop_reason in ("max_tokens", "end_turn")
    assert final.stop_reason == "tool_use"
    assert final.content[0].input["city"] in ("Oslo", "Rome")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_curl_sees_frame_after_frame(worker: RunningWorker) -> None:
    body = {"messages": CHAT, "stream": True, "max_tokens": 5, "ignore_eos": True}
    shown = subprocess.run(
        [
            *("curl", "--no-buffer", "--silent", "--show-error", "--max-time", "60"),
            *("-H", "Content-Type: application/json", "-d", json.dumps(body)),
            f"{worker.url}/v1/chat/completions/?from=curl",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    frames = shown.stdout.split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    assert json.loads(frames[0].removeprefix("data: "))["choices"][0]["delta"]["role"]


def test_a_form_leaves_the_neighbours_alone(client: openai.OpenAI, worker: RunningWorker) -> None:
    """While one row keeps to a schema, others are admitted and end as ever."""
    plain: dict[str, Any] = {"model": "any", "messages": CHAT, "temperature": 0, "max_tokens": 20}
    alone = client.chat.completions.create(**plain).choices[0].message.content
    formed = client.chat.completions.create(
        model="any",
        messages=CHAT,
        max_tokens=300,
        stream=True,
        response_format={"type": "json_object"},
    )
    next(iter(formed))
    assert client.chat.completions.create(**plain).choices[0].message.content == alone
    formed.close()
