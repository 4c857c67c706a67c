"""Shapes of chat answers, streamed and whole."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from engine.types import FinishReason, Scored, TokenLogprob
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import FakeEngine
from tests.e2e.waiting import DEADLINE, wait_until

CHAT = [{"role": "user", "content": "say hello"}]
TEXT = "Hello wörld 👩‍👩‍👧"


@pytest.fixture
def http(server: ThreadedServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def frames(http: httpx.Client, **fields: Any) -> list[str]:
    """The data of every frame of a streamed answer."""
    body = {"messages": CHAT, "stream": True, **fields}
    response = http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    parts = response.text.split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") and "\n" not in part for part in parts)
    return [part.removeprefix("data: ") for part in parts]


def test_a_stream_says_the_role_once_then_text_then_why_it_ended(http: httpx.Client) -> None:
    *chunks, done = frames(http)
    assert done == "[DONE]"
    first, *middle, last = [json.loads(chunk) for chunk in chunks]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [c["choices"][0]["delta"] for c in middle] == [
        {"content": "Hel"},
        {"content": "lo "},
        {"content": "wörld 👩‍👩‍👧"},
    ]
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]


def test_all_chunks_of_a_stream_carry_one_identity(http: httpx.Client) -> None:
    chunks = [json.loads(data) for data in frames(http)[:-1]]
    identities = {(c["id"], c["object"], c["created"], c["model"]) for c in chunks}
    assert len(identities) == 1
    id, kind, _, model = identities.pop()
    assert id.startswith("chatcmpl-")
    assert (kind, model) == ("chat.completion.chunk", "fake-1")
    assert all(c["choices"][0]["finish_reason"] is None for c in chunks[:-1])


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
def test_no_usage_unless_asked(http: httpx.Client, options: Any) -> None:
    assert not any("usage" in data for data in frames(http, stream_options=options))


def test_usage_comes_in_a_chunk_of_its_own_before_the_end(http: httpx.Client) -> None:
    *_, usage, done = frames(http, stream_options={"include_usage": True})
    chunk = json.loads(usage)
    assert done == "[DONE]"
    assert chunk["object"] == "chat.completion.chunk"
    assert chunk["choices"] == []
    assert chunk["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert chunk["timings"] == {"queued_ms": 10.0, "first_token_ms": 20.0, "total_ms": 250.0}


def test_a_whole_answer(http: httpx.Client) -> None:
    response = http.post("/v1/chat/completions", json={"messages": CHAT})
    answer = response.json()
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"] == answer["id"]
    assert answer["object"] == "chat.completion"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": TEXT},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"]["total_tokens"] == 8
    assert answer["timings"]["total_ms"] == 250.0


def test_the_openai_package_reads_both(client: openai.OpenAI, engine: FakeEngine) -> None:
    engine.reason = FinishReason.LENGTH
    whole = client.chat.completions.create(model="any", messages=CHAT, stop="END", seed=3)
    assert whole.choices[0].message.content == TEXT
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.prompt_tokens_details.cached_tokens == 2
    stream = client.chat.completions.create(
        model="any", messages=CHAT, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
    assert chunks[-1].usage.completion_tokens == 3
    assert [request.stop for request in engine.requests] == [("END",), ()]
    assert engine.requests[0].sampling.seed == 3


def test_the_source_label_reaches_the_engine(http: httpx.Client, engine: FakeEngine) -> None:
    for label in ("pane 2", "Überblick", "", "x" * 500, "a\tb"):
        headers = {"X-Dspark-Source": label.encode()}
        http.post("/v1/chat/completions", json={"messages": CHAT}, headers=headers)
    sources = [request.source for request in engine.requests]
    assert sources == ["pane 2", "Überblick", "python-httpx", "x" * 64, "ab"]


@pytest.mark.parametrize(
    ("agent", "source"),
    [
        ("OpenAI/Python 2.8.1", "openai-python"),
        ("AsyncOpenAI/JS 5.2.0", "asyncopenai-js"),
        ("curl/8.5.0", "curl"),
        ("Zed", "zed"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "mozilla"),
        ("", ""),
        ("(nothing)", ""),
    ],
)
def test_who_gives_no_label_is_called_by_its_program(
    http: httpx.Client, engine: FakeEngine, agent: str, source: str
) -> None:
    http.post("/v1/chat/completions", json={"messages": CHAT}, headers={"User-Agent": agent})
    assert [request.source for request in engine.requests] == [source]


def test_a_failed_row_is_an_error_not_an_answer(client: openai.OpenAI, engine: FakeEngine) -> None:
    engine.reason, engine.error = FinishReason.ERROR, "the row broke"
    with pytest.raises(openai.InternalServerError, match="the row broke"):
        client.chat.completions.create(model="any", messages=CHAT)
    with pytest.raises(openai.APIError, match="the row broke"):
        list(client.chat.completions.create(model="any", messages=CHAT, stream=True))


def test_no_done_follows_an_error_in_a_stream(http: httpx.Client, engine: FakeEngine) -> None:
    engine.reason, engine.error = FinishReason.ERROR, "the row broke"
    *chunks, last = frames(http, stream_options={"include_usage": True})
    assert json.loads(last) == {
        "error": {
            "message": "the row broke",
            "type": "server_error",
            "param": None,
            "code": "generation_failed",
        }
    }
    assert len(chunks) == 1 + len(engine.pieces)


def test_a_whole_answer_cancelled_by_id_is_not_retried(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.held = True
    with httpx.Client(base_url=server.url) as http:
        body = {"messages": CHAT, "stream": True}
        with http.stream("POST", "/v1/chat/completions", json=body) as stream:
            id = stream.headers["x-request-id"]
            cancelled = httpx.post(f"{server.url}/engine/cancel/{id}")
            lines = [line for line in stream.iter_lines() if line]
    assert cancelled.json() == {"id": id, "cancelled": True}
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "cancelled"
    assert httpx.post(f"{server.url}/engine/cancel/{id}").status_code == 404


def test_log_probabilities_in_the_protocols_shape(http: httpx.Client, engine: FakeEngine) -> None:
    """Minus infinity, which JSON can't say, is a very low number."""
    engine.pieces = ("x",)
    engine.scored = (Scored(TokenLogprob(7, -math.inf), (TokenLogprob(8, -0.25),)),)
    expected = {
        "content": [
            {
                "token": "t7",
                "logprob": -9999.0,
                "bytes": [116, 55],
                "top_logprobs": [{"token": "t8", "logprob": -0.25, "bytes": [116, 56]}],
            }
        ]
    }
    asked = {"logprobs": True, "top_logprobs": 1}
    whole = http.post("/v1/chat/completions", json={"messages": CHAT, **asked}).json()
    assert whole["choices"][0]["logprobs"] == expected
    _, piece, *_ = [json.loads(data) for data in frames(http, **asked)[:-1]]
    assert piece["choices"][0]["logprobs"] == expected


def test_cancelling_an_answer_ends_all_its_choices(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.held = True
    body = {"messages": CHAT, "stream": True, "n": 3}
    with (
        httpx.Client(base_url=server.url) as http,
        http.stream("POST", "/v1/chat/completions", json=body) as stream,
    ):
        httpx.post(f"{server.url}/engine/cancel/{stream.headers['x-request-id']}")
        lines = [line for line in stream.iter_lines() if line]
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "cancelled"
    assert engine.cancelled == [request.id for request in engine.requests]
    assert len(engine.cancelled) == 3


def test_when_not_all_choices_fit_the_queue_none_runs(
    http: httpx.Client, engine: FakeEngine
) -> None:
    engine.held, engine.room = True, 2
    refused = http.post("/v1/chat/completions", json={"messages": CHAT, "n": 3})
    assert refused.status_code == 429
    assert engine.cancelled == [request.id for request in engine.requests]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("n", [1, 3])
def test_a_client_that_leaves_cancels_its_request(
    server: ThreadedServer, engine: FakeEngine, stream: bool, n: int
) -> None:
    engine.held = True
    body = json.dumps({"messages": CHAT, "stream": stream, "n": n}).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(head + body)
        wait_until(lambda: len(engine.requests) == n, "the request is in the engine")
        assert engine.cancelled == []
    ids = [request.id for request in engine.requests]
    wait_until(lambda: engine.cancelled == ids, "the engine was told to cancel")


@pytest.mark.parametrize(("stream", "sign"), [(True, b"still here"), (False, b"102 Processing")])
def test_a_client_that_has_said_all_gets_its_answer(
    server: ThreadedServer, engine: FakeEngine, stream: bool, sign: bytes
) -> None:
    """Its sending half is closed; that it reads on, only writing tells."""
    engine.held = True
    body = json.dumps({"messages": CHAT, "stream": stream}).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port or 0), timeout=DEADLINE) as raw:
        raw.sendall(head + body)
        wait_until(lambda: engine.requests, "the request is in the engine")
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        while answer.count(sign) < 3:
            answer += raw.recv(4096)
        engine.answer(engine.requests[0].id)
        answer += b"".join(iter(lambda: raw.recv(4096), b""))
    assert b"HTTP/1.1 200" in answer
    assert "wörld".encode() in answer
    assert engine.cancelled == []


def test_a_finished_request_is_not_cancelled(http: httpx.Client, engine: FakeEngine) -> None:
    frames(http)
    http.post("/v1/chat/completions", json={"messages": CHAT})
    assert len(engine.requests) == 2
    assert engine.cancelled == []
