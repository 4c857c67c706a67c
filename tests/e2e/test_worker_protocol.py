"""The whole way on a tiny model: HTTP client, worker process, engine, and back."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from engine.events import Phase
from engine.types import FinishReason
from tests.e2e.waiting import wait_until
from tests.e2e.workers import BUSY, RunningWorker, data_of
from tests.tiny import tiny_llama

CONTEXT = 100_000
"""Tokens: an unlimited request runs far longer than any test, so only a cancel can end it."""

CHAT = [{"role": "user", "content": "Tell me about slots."}]
SLOTS, QUEUE = 2, 2


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    folder = tmp_path_factory.mktemp("worker")
    model = tiny_llama(folder / "tiny", ends=False, max_position_embeddings=CONTEXT)
    options = ("--model", model, "--port", 0, "--max-batch", SLOTS, "--queue", QUEUE)
    with RunningWorker(*map(str, options), "--log", folder / "log") as running:
        yield running


@pytest.fixture(autouse=True)
def at_rest(worker: RunningWorker) -> None:
    wait_until(worker.idle, "earlier tests' requests have ended")


@pytest.fixture
def client(worker: RunningWorker) -> Iterator[openai.OpenAI]:
    with worker.openai() as client:
        yield client


def ask(client: openai.OpenAI, **options: Any) -> Any:
    options = {"model": "tiny", "messages": CHAT, "temperature": 0, "max_tokens": 24, **options}
    return client.chat.completions.create(**options)


def text_of(stream: Any) -> str:
    return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


@contextlib.contextmanager
def endless(worker: RunningWorker, **options: Any) -> Iterator[httpx.Response]:
    """A streamed answer that goes on until its client leaves."""
    body = {"messages": CHAT, "stream": True, "temperature": 0, **options}
    with (
        httpx.Client(base_url=worker.url, timeout=None) as http,
        http.stream("POST", "/v1/chat/completions", json=body) as response,
    ):
        yield response


def test_streamed_and_whole_answers_are_the_same_text(client: openai.OpenAI) -> None:
    whole = ask(client)
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert text_of(chunks) == whole.choices[0].message.content
    assert whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 24


def test_a_stop_string_ends_the_answer_before_itself(client: openai.OpenAI) -> None:
    text = ask(client).choices[0].message.content
    stop = text[10:14]
    expected = text[: text.index(stop)]
    whole = ask(client, stop=stop)
    stream = list(ask(client, stop=[stop], stream=True))
    assert whole.choices[0].message.content == text_of(stream) == expected
    assert whole.choices[0].finish_reason == stream[-1].choices[0].finish_reason == "stop"


def test_a_seed_reproduces_and_no_seed_varies(client: openai.OpenAI) -> None:
    def sample(**options: Any) -> str:
        return str(ask(client, temperature=1.5, **options).choices[0].message.content)

    assert sample(seed=5) == sample(seed=5)
    assert len({sample() for _ in range(3)}) > 1


def test_logit_bias_is_honoured(client: openai.OpenAI) -> None:
    answer = ask(client, logit_bias={"70": 100}, max_tokens=6).choices[0].message.content
    assert answer == answer[0] * 6


@pytest.mark.parametrize("token", ["100000000", "-5", "abc"])
def test_logit_bias_beyond_the_vocabulary_harms_nothing(client: openai.OpenAI, token: str) -> None:
    with pytest.raises(openai.BadRequestError, match="logit_bias"):
        ask(client, logit_bias={token: 1})
    assert ask(client).choices[0].finish_reason == "length"


def test_half_a_surrogate_pair_in_a_prompt_harms_nothing(worker: RunningWorker) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "\ud83d"}], "max_tokens": 2})
    headers = {"Content-Type": "application/json"}
    url = f"{worker.url}/v1/chat/completions"
    assert httpx.post(url, content=body, headers=headers, timeout=60).status_code == 200


def test_an_endless_wish_is_cut_to_the_context(worker: RunningWorker) -> None:
    with endless(worker, max_tokens=10**12) as response:
        request = worker.request(response.headers["x-request-id"])
    assert request.max_tokens == CONTEXT - request.prompt_tokens


def test_a_prompt_over_the_context_is_refused_beside_running_rows(
    worker: RunningWorker, client: openai.OpenAI
) -> None:
    alone = ask(client, max_tokens=200).choices[0].message.content
    answers: list[str] = []

    def follow() -> None:
        answers.append(text_of(ask(client, stream=True, max_tokens=200)))

    threads = [threading.Thread(target=follow) for _ in range(2)]
    for thread in threads:
        thread.start()
    too_long = [{"role": "user", "content": "ab " * CONTEXT}]
    with pytest.raises(openai.BadRequestError, match="maximum context length") as caught:
        ask(client, messages=too_long)
    for thread in threads:
        thread.join()
    assert caught.value.code == "context_length_exceeded"
    assert answers == [alone, alone]


def test_leaving_a_stream_frees_its_slot(worker: RunningWorker) -> None:
    with endless(worker) as response:
        id = response.headers["x-request-id"]
        frames = data_of(response)
        assert "role" in next(frames)
        next(frames)
        assert worker.request(id).phase in BUSY
    wait_until(worker.idle, "the slot is free again")
    assert worker.request(id).reason is FinishReason.CANCELLED


def test_leaving_before_a_whole_answer_frees_its_slot(worker: RunningWorker) -> None:
    body = json.dumps({"messages": CHAT, "temperature": 0}).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    url = httpx.URL(worker.url)
    with socket.create_connection((url.host, url.port or 0)) as leaving:
        leaving.sendall(head + body)
        wait_until(lambda: not worker.idle(), "it runs")
    wait_until(worker.idle, "the slot is free again")
    latest = worker.state().requests[-1]
    assert latest.reason is FinishReason.CANCELLED
    assert latest.tokens < latest.max_tokens


def test_a_queued_request_whose_client_leaves_is_never_read(worker: RunningWorker) -> None:
    with endless(worker) as first, endless(worker) as second:
        running = [data_of(first), data_of(second)]  # dropping one would close its stream
        assert all(next(frames) for frames in running)
        with endless(worker) as queued:
            id = queued.headers["x-request-id"]
            assert worker.request(id).phase is Phase.QUEUED
        wait_until(lambda: worker.request(id).phase is Phase.FINISHED, "it left the queue")
    gone = worker.request(id)
    assert gone.reason is FinishReason.CANCELLED
    assert (gone.admitted, gone.prefilled, gone.tokens) == (None, 0, 0)


def test_a_full_queue_refuses_with_a_time_to_return(
    worker: RunningWorker, client: openai.OpenAI
) -> None:
    with contextlib.ExitStack() as streams:
        for number in range(SLOTS + QUEUE):
            streams.enter_context(endless(worker))
            expected = max(0, number + 1 - SLOTS)
            wait_until(lambda n=expected: worker.waiting() == n, "the others have their slots")
        with pytest.raises(openai.RateLimitError, match="queue is full") as caught:
            ask(client)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        waiting = httpx.get(f"{worker.url}/health").json()
    assert (waiting["running"], waiting["queue"]) == (SLOTS, QUEUE)


def test_cancel_by_id_ends_a_running_stream(worker: RunningWorker) -> None:
    with endless(worker) as response:
        id = response.headers["x-request-id"]
        frames = data_of(response)
        next(frames)
        assert httpx.post(f"{worker.url}/engine/cancel/{id}").json()["cancelled"] is True
        *_, last = frames
    assert json.loads(last)["error"]["code"] == "cancelled"


def test_the_label_and_the_cost_of_a_request_show(worker: RunningWorker) -> None:
    body = {"messages": CHAT, "max_tokens": 3}
    url = f"{worker.url}/v1/chat/completions"
    answer = httpx.post(url, json=body, headers={"X-Dspark-Source": "pane 7"}, timeout=60).json()
    request = worker.request(answer["id"])
    assert request.source == "pane 7"
    assert request.tokens == answer["usage"]["completion_tokens"] == 3
    assert request.prompt_tokens == answer["usage"]["prompt_tokens"]
    timings = answer["timings"]
    assert 0 <= timings["queued_ms"] <= timings["first_token_ms"] <= timings["total_ms"]
