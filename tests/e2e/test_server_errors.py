"""Every refusal: the right status, always the same error object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from engine.events import Progress
from engine.server.guard import AccessPolicy
from engine.types import ContextLengthError, EngineUnavailableError, QueueFullError
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import FakeEngine
from tests.e2e.responses import error_of

CHAT = [{"role": "user", "content": "say hello"}]
URL = "/v1/chat/completions"


@pytest.fixture
def http(server: ThreadedServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


@pytest.mark.parametrize(
    ("content", "kind", "word"),
    [
        (b"", "application/json", "JSON object"),
        (b"{", "application/json", "valid JSON"),
        (b"[]", "application/json", "JSON object"),
        (b"\xff\xfe{}", "application/json", "body"),
        (b"[" * 100_000, "application/json", "body"),
        (b'{"messages": []}', "application/x-www-form-urlencoded", "Content-Type"),
    ],
)
def test_a_body_that_is_no_json_object(
    http: httpx.Client, content: bytes, kind: str, word: str
) -> None:
    response = http.post(URL, content=content, headers={"Content-Type": kind})
    error = error_of(response, 400)
    assert word in error["message"]
    assert error["code"] in ("invalid_json", None)


def test_endless_nesting_is_invalid_json(http: httpx.Client) -> None:
    response = http.post(URL, content=b"[" * 200_000, headers={"Content-Type": "application/json"})
    assert error_of(response, 400)["code"] == "invalid_json"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "messages"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages"),
        ({"messages": [{"role": role, "content": ""} for role in ("system", "user")]}, "messages"),
        ({"messages": [{"role": "system", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "\ud800"}]}]}, "messages[0].content"),
        ({"messages": CHAT, "temperature": 9}, "temperature"),
        ({"messages": CHAT, "max_tokens": 0}, "max_tokens"),
        ({"messages": CHAT, "max_tokens": -1}, "max_tokens"),
        ({"messages": CHAT, "stop": [5]}, "stop[0]"),
        ({"messages": CHAT, "n": 0}, "n"),
        ({"messages": CHAT, "stream": "yes"}, "stream"),
        ({"messages": CHAT, "stream": 1}, "stream"),
        (
            {"messages": CHAT, "stream_options": {"include_usage": "no"}},
            "stream_options.include_usage",
        ),
        ({"messages": CHAT, "max_tokens": "5"}, "max_tokens"),
        ({"messages": CHAT, "max_tokens": True}, "max_tokens"),
        ({"messages": CHAT, "temperature": "1"}, "temperature"),
        ({"messages": CHAT, "logit_bias": {"1": "5"}}, "logit_bias.1"),
        ({"messages": CHAT, "top_logprobs": 3}, "top_logprobs"),
        ({"messages": CHAT, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"messages": CHAT, "logit_bias": {"100000000": 1}}, "logit_bias"),
        ({"messages": CHAT, "logit_bias": {"-5": 1}}, "logit_bias"),
        ({"messages": CHAT, "logit_bias": {"abc": 1}}, "logit_bias"),
    ],
)
def test_bad_input_names_its_field(http: httpx.Client, fields: Any, param: str) -> None:
    content = json.dumps(fields).encode()
    headers = {"Content-Type": "application/json"}
    error = error_of(http.post(URL, content=content, headers=headers), 400)
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert http.post(URL, json={"messages": CHAT}).status_code == 200


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        (
            "/v1/responses",
            {"input": "x", "previous_response_id": "resp_1"},
            "previous_response_id: can't be used here; leave it out.",
        ),
        ("/v1/responses", {"input": []}, "input: has too few entries: at least 1 needed."),
        ("/v1/responses", {"input": "x", "background": True}, "background: has to be false."),
        (
            URL,
            {"messages": CHAT, "response_format": {"type": None}},
            "response_format: the type null can't be used here; there are 'text', ",
        ),
        (
            "/v1/messages",
            {"max_tokens": 3, "messages": CHAT, "tool_choice": {"type": True}},
            "tool_choice: the type true can't be used here; there are 'auto', ",
        ),
        (
            URL,
            {"messages": CHAT, "tool_choice": True},
            "tool_choice: has to be 'none', 'auto' or 'required'.",
        ),
        ("/v1/completions", {"prompt": ["a", None]}, "prompt[1]: has to be a text."),
        (
            "/v1/responses",
            {"input": [{"type": "image"}]},
            "input[0]: the type 'image' can't be used here; there are 'message', ",
        ),
        (
            "/v1/messages",
            {"max_tokens": 3, "messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "messages[0].content[0]: the type 'image' can't be used here; there are 'text', ",
        ),
        ("/v1/messages", {"messages": CHAT}, "max_tokens: is missing."),
        (URL, {"messages": CHAT, "max_tokens": "5"}, "max_tokens: has to be a whole number."),
        (URL, {"messages": CHAT, "temperature": 9}, "temperature: has to be at most 2.0."),
        ("/detokenize", {"tokens": ["7"]}, "tokens[0]: has to be a whole number."),
    ],
)
def test_bad_input_is_refused_in_plain_words(
    http: httpx.Client, path: str, fields: Any, message: str
) -> None:
    response = http.post(path, json=fields)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(message)


def test_numbers_and_nulls_as_clients_write_them_are_welcome(http: httpx.Client) -> None:
    fields = {"temperature": 1, "max_tokens": 4, "stop": None, "stream": None, "store": True}
    for more in (fields, {"stream_options": {}, "logit_bias": {"7": 1}, "xtc_probability": 0}):
        assert http.post(URL, json={"messages": CHAT, **more}).status_code == 200
    stored = {"input": "x", "store": True, "previous_response_id": None}
    response = http.post("/v1/responses", json=stored)
    assert (response.status_code, response.json()["store"]) == (200, False)


def test_a_template_error_is_the_clients(http: httpx.Client) -> None:
    body = {"messages": [{"role": "system", "content": "#template"}]}
    assert error_of(http.post(URL, json=body), 400)["message"] == "System role not supported"


def test_a_fault_of_ours_is_a_500_without_its_insides(http: httpx.Client) -> None:
    response = http.post(URL, json={"messages": [{"role": "user", "content": "#bug"}]})
    assert "ZeroDivision" not in error_of(response, 500)["message"]


def test_a_long_prompt(http: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "word " * 65}]}
    error = error_of(http.post(URL, json=body), 400)
    assert error["code"] == "context_length_exceeded"
    assert "maximum context length is 64 tokens" in error["message"]


def test_unknown_places(http: httpx.Client) -> None:
    assert error_of(http.get("/v1/nothing"), 404)["code"] == "unknown_path"
    error_of(http.get(URL), 405)
    batches = http.post("/v1/messages/batches", json={})
    assert (batches.status_code, batches.json()["type"]) == (404, "error")
    assert batches.json()["error"]["type"] == "not_found_error"
    assert error_of(http.get("/v1/models/other"), 404)["code"] == "model_not_found"
    assert error_of(http.post("/engine/cancel/none"), 404)["code"] == "unknown_request"


def test_refusals_of_the_engine_reach_the_openai_package_as_its_exceptions(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    expected = {
        QueueFullError("the queue is full", retry_after=7): openai.RateLimitError,
        ContextLengthError("maximum context length is 64"): openai.BadRequestError,
        EngineUnavailableError("stopped"): openai.InternalServerError,
    }
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    for refusal, exception in expected.items():
        engine.refusal = refusal
        for stream in (False, True):
            with pytest.raises(exception, match=str(refusal)):
                client.chat.completions.create(model="m", messages=CHAT, stream=stream)
    client.close()


def test_a_full_queue_says_when_to_come_back(http: httpx.Client, engine: FakeEngine) -> None:
    engine.refusal = QueueFullError("the queue is full", retry_after=7)
    response = http.post(URL, json={"messages": CHAT})
    assert error_of(response, 429)["type"] == "rate_limit_error"
    assert response.headers["retry-after"] == "7"


def test_while_loading_and_after_it_failed() -> None:
    engine = FakeEngine()
    engine.progress(Progress("fetch", "weights", 3, 10, "bytes"))
    with ThreadedServer(engine, AccessPolicy()) as server:
        loading = httpx.post(server.url + URL, json={"messages": CHAT})
        assert error_of(loading, 503)["code"] == "loading"
        assert int(loading.headers["retry-after"]) > 0
        engine.fail("the disk is full")
        failed = httpx.post(server.url + URL, json={"messages": CHAT})
        assert "the disk is full" in error_of(failed, 503)["message"]
        assert "retry-after" not in failed.headers


def test_a_body_far_over_the_limit_is_refused_while_it_is_sent(http: httpx.Client) -> None:
    error_of(http.post(URL, content=b" " * (17 * 1024 * 1024)), 413)
