"""Log-probabilities, several answers and neighbours with other sampling, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.chat.chat_completion_token_logprob import ChatCompletionTokenLogprob

from engine.engine import Engine
from engine.events import Admitted, Finished, FirstToken, Phase
from engine.models.load import load
from engine.server.guard import AccessPolicy
from engine.types import EngineSettings
from tests.e2e.conftest import ThreadedServer
from tests.e2e.waiting import wait_until
from tests.tiny import tiny_llama

CHAT: Any = [{"role": "user", "content": "Tell me about slots and panes."}]


@pytest.fixture(scope="module")
def real_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tiny_llama(tmp_path_factory.mktemp("model"), ends=False)
    engine = Engine(lambda report: load(folder, "tiny", "auto", report), EngineSettings(4))
    engine.start()
    wait_until(lambda: engine.model, "the model is loaded")
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def client(real_engine: Engine) -> Iterator[openai.OpenAI]:
    with (
        ThreadedServer(real_engine, AccessPolicy()) as server,  # type: ignore[arg-type]
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):
        yield client


def whole(client: openai.OpenAI, **fields: Any) -> ChatCompletion:
    return client.chat.completions.create(
        **{"model": "tiny", "messages": CHAT, "max_tokens": 20, "temperature": 0.0} | fields
    )


def streamed(
    client: openai.OpenAI, **fields: Any
) -> tuple[dict[int, str], dict[int, list[ChatCompletionTokenLogprob]]]:
    """Text and log-probabilities by choice."""
    texts: dict[int, str] = {}
    entries: dict[int, list[ChatCompletionTokenLogprob]] = {}
    for chunk in whole(client, stream=True, **fields):
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            if choice.logprobs:
                entries.setdefault(choice.index, []).extend(choice.logprobs.content)
    return texts, entries


@contextmanager
def together(engine: Engine, requests: int) -> Iterator[None]:
    """What is asked inside starts only at its end, once so many wait."""

    def waiting() -> int:
        return sum(request.phase is Phase.QUEUED for request in engine.snapshot().requests)

    engine.pause(True)
    try:
        yield
        wait_until(lambda: waiting() == requests, f"{requests} requests wait")
    finally:
        engine.pause(False)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.3, "seed": 5}])
def test_log_probabilities_are_the_same_streamed_and_whole(
    client: openai.OpenAI, sampling: dict[str, Any]
) -> None:
    answer = whole(client, logprobs=True, top_logprobs=3, **sampling).choices[0]
    texts, entries = streamed(client, logprobs=True, top_logprobs=3, **sampling)
    assert answer.logprobs
    content = answer.logprobs.content
    assert content
    assert texts[0] == answer.message.content
    assert [e.token for e in entries[0]] == [e.token for e in content]
    assert [e.logprob for e in entries[0]] == pytest.approx([e.logprob for e in content], abs=1e-4)
    assert len(content) == 20
    for entry in content:
        likeliest = [other.logprob for other in entry.top_logprobs]
        assert len(likeliest) == 3
        assert likeliest == sorted(likeliest, reverse=True)
        assert entry.logprob <= likeliest[0]
    text = b"".join(bytes(entry.bytes or ()) for entry in content).decode("utf-8", "replace")
    assert text == answer.message.content


def test_no_log_probabilities_unless_asked_and_no_alternatives_unless_counted(
    client: openai.OpenAI,
) -> None:
    assert whole(client).choices[0].logprobs is None
    bare = whole(client, logprobs=True).choices[0].logprobs
    assert bare
    assert all(entry.top_logprobs == [] for entry in bare.content or ())


def test_several_answers_are_those_of_neighbouring_seeds(client: openai.OpenAI) -> None:
    sampling = {"temperature": 1.2, "max_tokens": 12}
    answer = whole(client, n=3, seed=40, **sampling)
    alone = [whole(client, seed=40 + index, **sampling) for index in range(3)]
    texts = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert texts == [each.choices[0].message.content for each in alone]
    assert len(set(texts)) == 3
    assert answer.usage.prompt_tokens == alone[0].usage.prompt_tokens
    assert answer.usage.completion_tokens == 36
    by_choice, _ = streamed(client, n=3, seed=40, **sampling)
    assert [by_choice[index] for index in range(3)] == texts


def test_more_answers_than_slots_all_come(client: openai.OpenAI) -> None:
    answer = whole(client, n=9, temperature=1.0, max_tokens=5)
    assert answer.usage.completion_tokens == 45
    assert all(choice.finish_reason == "length" for choice in answer.choices)


def test_equal_prompts_without_a_seed_are_answered_differently(client: openai.OpenAI) -> None:
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(whole, client, temperature=1.0) for _ in range(4)]
    assert len({each.result().choices[0].message.content for each in asked}) > 1


def test_a_penalised_or_sampled_neighbour_changes_nothing_and_shares_the_time(
    client: openai.OpenAI, real_engine: Engine
) -> None:
    """One row with a penalty, one hot, one plain: all run at once, the plain one as if alone."""
    alone = whole(client, max_tokens=120).choices[0].message.content
    subscription = real_engine.subscribe(lambda: None)
    subscription.drain()  # the snapshot
    extra = {"extra_body": {"repetition_penalty": 1.4}}
    with ThreadPoolExecutor(3) as pool, together(real_engine, 3):
        plain = pool.submit(whole, client, max_tokens=120)
        others = [
            pool.submit(whole, client, max_tokens=120, **extra),
            pool.submit(whole, client, max_tokens=120, temperature=1.2, seed=3),
        ]
    assert plain.result().choices[0].message.content == alone
    assert alone not in [other.result().choices[0].message.content for other in others]
    events = [e for e in subscription.drain() if isinstance(e, FirstToken | Finished)]
    subscription.close()
    first_end = next(i for i, event in enumerate(events) if isinstance(event, Finished))
    assert sum(isinstance(event, FirstToken) for event in events[:first_end]) == 3


def test_several_answers_read_their_prompt_once(client: openai.OpenAI, real_engine: Engine) -> None:
    subscription = real_engine.subscribe(lambda: None)
    subscription.drain()  # the snapshot
    unheard = [{"role": "user", "content": "Which of you has never been asked this?"}]
    answer = whole(client, n=4, max_tokens=2, messages=unheard)
    admitted = [event for event in subscription.drain() if isinstance(event, Admitted)]
    subscription.close()
    length = answer.usage.prompt_tokens
    fewest, *copied = sorted(event.cached_tokens for event in admitted)
    assert copied == [length - 1] * 3
    assert fewest < length // 2  # what any chat begins with may be known
    assert answer.usage.prompt_tokens_details.cached_tokens == fewest


def test_impossible_biases_are_refused_and_the_engine_goes_on(client: openai.OpenAI) -> None:
    for token in ("100000000", "-5", "abc"):
        with pytest.raises(openai.BadRequestError, match="logit_bias"):
            whole(client, logit_bias={token: 1})
    with pytest.raises(openai.BadRequestError, match="logit_bias"):
        whole(client, logit_bias={str(token): 1 for token in range(301)})
    assert whole(client, logit_bias={"7": 100}, max_tokens=3).usage.completion_tokens == 3
