"""The embedded model through the real worker, asked by the openai package."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from engine.types import FinishReason
from tests.e2e.waiting import wait_until
from tests.e2e.workers import RunningWorker

pytestmark = pytest.mark.model

RAINBOW = [{"role": "user", "content": "Explain how rainbows form."}]
OPENING = "Rainbows are indeed a fascinating phenomenon in the realm of optics."


@pytest.fixture(scope="module")
def worker(
    embedded_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    """Started without --model: the embedded one is what people get by default."""
    log = tmp_path_factory.mktemp("worker") / "log"
    with RunningWorker("--port", "0", "--max-batch", "4", "--log", log) as running:
        yield running


@pytest.fixture
def client(worker: RunningWorker) -> Iterator[openai.OpenAI]:
    with worker.openai() as client:
        yield client


def ask(client: openai.OpenAI, **options: Any) -> Any:
    options = {"model": "smollm2", "messages": RAINBOW, "temperature": 0, **options}
    return client.chat.completions.create(**options)


def text_of(stream: Any) -> str:
    return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


def test_a_known_question_has_its_known_answer(client: openai.OpenAI) -> None:
    answer = ask(client, max_tokens=20)
    assert answer.choices[0].message.content.startswith(OPENING)
    assert answer.model == "smollm2-135m-instruct"
    assert [model.id for model in client.models.list()] == [answer.model]
    assert client.models.retrieve(answer.model).id == answer.model


def test_it_ends_its_own_turn(client: openai.OpenAI) -> None:
    chat = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
    chunks = list(ask(client, messages=chat, stream=True, stream_options={"include_usage": True}))
    assert "Paris" in text_of(chunks)
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert "<|im_end|>" not in text_of(chunks)


def test_a_stop_string_holds_in_streams_too(client: openai.OpenAI) -> None:
    whole = ask(client, stop="phenomenon", max_tokens=20)
    stream = list(ask(client, stop="phenomenon", max_tokens=20, stream=True))
    expected = OPENING.partition("phenomenon")[0]
    assert whole.choices[0].message.content == text_of(stream) == expected
    assert whole.choices[0].finish_reason == stream[-1].choices[0].finish_reason == "stop"


def test_answers_in_one_batch_are_the_answers_alone(
    worker: RunningWorker, client: openai.OpenAI
) -> None:
    questions = ["Name three colours.", "What do bees make?", "Why is the sky blue?"]
    chats = [[{"role": "user", "content": question}] for question in questions]
    alone = [text_of(ask(client, messages=c, max_tokens=16, stream=True)) for c in chats]
    together = [""] * len(chats)

    def follow(index: int) -> None:
        stream = ask(client, messages=chats[index], max_tokens=16, stream=True)
        together[index] = text_of(stream)

    threads = [threading.Thread(target=follow, args=(index,)) for index in range(len(chats))]
    with worker.together(len(chats)):
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
    latest = worker.state().requests[-len(chats) :]
    assert max(r.queued for r in latest) < min(r.finished or 0 for r in latest)


def test_a_closed_stream_stops_counting(worker: RunningWorker, client: openai.OpenAI) -> None:
    stream = ask(client, stream=True, logit_bias={"2": -100}, max_tokens=2000)
    next(iter(stream))
    stream.close()
    wait_until(worker.idle, "the slot is free again")
    latest = worker.state().requests[-1]
    assert latest.reason is FinishReason.CANCELLED
    assert latest.tokens < 2000
