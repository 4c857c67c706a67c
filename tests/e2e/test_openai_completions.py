"""Raw prompts: all shapes of them, and what comes back."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from engine.server.scores import legacy_logprobs
from engine.types import FinishReason, Scored, TokenLogprob
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import INFO, FakeEngine
from tests.e2e.responses import error_of

TEXT = "Hello wörld 👩‍👩‍👧"


def post(server: ThreadedServer, path: str = "/v1/completions", **body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, trust_env=False)


@pytest.mark.parametrize(
    ("prompt", "rows"),
    [
        ("one three", [(0, 3, 5)]),
        (["one", "three"], [(0, 3), (0, 5)]),
        ([7, 8], [(7, 8)]),
        ([[7, 8], [9]], [(7, 8), (9,)]),
        (["one", [9]], [(0, 3), (9,)]),
    ],
)
def test_every_shape_of_prompt_makes_rows(
    server: ThreadedServer, engine: FakeEngine, prompt: Any, rows: list[tuple[int, ...]]
) -> None:
    answer = post(server, prompt=prompt).json()
    assert [request.prompt for request in engine.requests] == rows
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(rows)))
    assert {choice["text"] for choice in answer["choices"]} == {TEXT}
    assert answer["object"] == "text_completion"
    assert answer["usage"]["prompt_tokens"] == 5 * len(rows)
    assert answer["usage"]["completion_tokens"] == 3 * len(rows)


def test_n_counts_a_prompt_once_and_numbers_choices_prompt_by_prompt(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    answer = post(server, prompt=["one", "three"], n=2, seed=1).json()
    assert [r.prompt[-1] for r in engine.requests] == [3, 3, 5, 5]
    assert [r.sampling.seed for r in engine.requests] == [1, 2, 1, 2]
    assert len({r.id for r in engine.requests}) == 4
    assert answer["usage"]["prompt_tokens"] == 10
    assert answer["usage"]["completion_tokens"] == 12


@pytest.mark.parametrize(("asked", "given"), [(None, 16), (5, 5), (10**12, INFO.context - 2)])
def test_max_tokens(
    server: ThreadedServer, engine: FakeEngine, asked: int | None, given: int
) -> None:
    post(server, prompt="one", max_tokens=asked)
    assert engine.requests[0].max_tokens == given


def test_an_echo_comes_before_the_text_streamed_and_whole(server: ThreadedServer) -> None:
    assert post(server, prompt="one", echo=True).json()["choices"][0]["text"] == f"one{TEXT}"
    ids = post(server, prompt=[3], echo=True).json()["choices"][0]["text"]
    assert ids == f"xxx{TEXT}"
    frames = post(server, prompt="one", echo=True, stream=True).text.split("\n\n")[:-2]
    texts = [json.loads(f.removeprefix("data: "))["choices"][0]["text"] for f in frames]
    assert "".join(texts) == f"one{TEXT}"


def test_logprobs_in_the_old_shape(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.pieces = ("x1", "x2")
    engine.scored = (Scored(TokenLogprob(7, -0.5), (TokenLogprob(8, -0.25),)),)
    answer = post(server, prompt="one", logprobs=1).json()
    expected = {
        "tokens": ["t7", "t7"],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{"t8": -0.25, "t7": -0.5}] * 2,
        "text_offset": [0, 2],
    }
    assert answer["choices"][0]["logprobs"] == expected
    assert engine.requests[0].logprobs == 1
    frames = post(server, prompt="one", logprobs=1, stream=True).text.split("\n\n")[:-2]
    pieces = [json.loads(f.removeprefix("data: "))["choices"][0]["logprobs"] for f in frames]
    assert [piece["text_offset"] for piece in pieces if piece] == [[0], [2]]
    assert post(server, prompt="one").json()["choices"][0]["logprobs"] is None


def test_an_echoed_prompt_has_logprobs_too_but_for_its_first_token(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.pieces = ("t2",)
    engine.scored = (Scored(TokenLogprob(2, -0.5), (TokenLogprob(8, -0.25),)),)
    expected = {
        "tokens": ["t0", "t2", "t2"],
        "token_logprobs": [None, -0.5, -0.5],
        "top_logprobs": [None, {"t8": -0.25, "t2": -0.5}, {"t8": -0.25, "t2": -0.5}],
        "text_offset": [0, 0, 2],
    }
    body: dict[str, Any] = {"prompt": ["t2"] * 2, "echo": True, "logprobs": 1}
    for choice in post(server, **body).json()["choices"]:
        assert (choice["text"], choice["logprobs"]) == ("t2t2", expected)
    assert [r.prompt_logprobs for r in engine.requests] == [1, 1]
    frames = post(server, prompt="t2", echo=True, logprobs=1, stream=True).text.split("\n\n")[:-2]
    choices = [json.loads(f.removeprefix("data: "))["choices"][0] for f in frames]
    assert [c["text"] for c in choices] == ["t2", "t2", ""]
    assert choices[0]["logprobs"]["token_logprobs"] == [None, -0.5]
    post(server, prompt="t2", logprobs=1)
    post(server, prompt="t2", echo=True)
    assert [r.prompt_logprobs for r in engine.requests[-2:]] == [None, None]


def test_the_end_of_turn_is_the_last_of_the_tokens(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    """Clients that score a text take off what follows it, which may be just that."""
    engine.pieces, engine.end = (), Scored(TokenLogprob(7, -0.125))
    engine.scored = (Scored(TokenLogprob(3, -0.5)),)
    (choice,) = post(server, prompt="one", echo=True, logprobs=0).json()["choices"]
    assert choice["logprobs"]["tokens"] == ["t0", "t3", "t7"]
    assert choice["logprobs"]["token_logprobs"] == [None, -0.5, -0.125]
    assert choice["logprobs"]["text_offset"][-1] == len("one")


def test_no_token_may_be_asked_for(server: ThreadedServer, engine: FakeEngine) -> None:
    post(server, prompt="one", max_tokens=0)
    longest = [1] * INFO.context
    assert post(server, prompt=longest, max_tokens=0).status_code == 200
    assert [request.max_tokens for request in engine.requests] == [0, 0]
    assert post(server, prompt=longest, max_tokens=1).status_code == 400


@pytest.mark.parametrize(
    ("tokens", "text", "offsets"),
    [
        ((0, 1, 2), "Hi you", [0, 0, 2]),  # a beginning that the tokenizer added
        ((3, 2), "Hi you", [0, 2]),  # its first word's space is not in the text
        ((0, 1), "<s>Hi", [0, 3]),
        ((4, 5, 1), "öHi", [0, 0, 1]),  # pieces of one character
        ((1, 6, 1), "Hi?Hi", [0, 2, 2]),  # a token that is not in the text
    ],
)
def test_offsets_are_those_of_the_echoed_text(
    tokens: tuple[int, ...], text: str, offsets: list[int]
) -> None:
    words = (b"", b"Hi", b" you", b" Hi", b"\xc3", b"\xb6", b"no")

    class Spelled:
        def spell(self, token: int) -> tuple[str, bytes | None]:
            return ("<s>", None) if token == 0 else ("?", words[token])

    scored = [None] * len(tokens)
    assert legacy_logprobs(tokens, scored, text, 0, Spelled()).text_offset == offsets


def test_parts_of_characters_are_told_apart_by_their_bytes() -> None:
    """All of them look like one replacement character, and the likelier would hide."""

    class Spelled:
        def spell(self, token: int) -> tuple[str, bytes | None]:
            return "\ufffd", bytes([token])

    scored = Scored(TokenLogprob(0xE6, -3.0), (TokenLogprob(0xE5, -0.25),))
    body = legacy_logprobs([0xE6], [scored], "", 0, Spelled())
    assert body.tokens == ["bytes:\\xe6"]
    assert body.top_logprobs == [{"bytes:\\xe5": -0.25, "bytes:\\xe6": -3.0}]


def test_the_openai_package_reads_both(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.reason = FinishReason.LENGTH
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        whole = client.completions.create(model="any", prompt=["one", "three"])
        stream = client.completions.create(
            model="any", prompt="one", stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
    assert [(c.text, c.finish_reason) for c in whole.choices] == [(TEXT, "length")] * 2
    assert "".join(c.choices[0].text for c in chunks if c.choices) == TEXT
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 8
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": [100]}, "prompt"),
        ({"prompt": ["one"] * 129}, "prompt"),
        ({"prompt": "one", "max_tokens": -1}, "max_tokens"),
        ({"prompt": "one", "best_of": 3}, "best_of"),
        ({"prompt": "one", "suffix": "end"}, "suffix"),
        ({"prompt": "word " * 100}, "prompt"),
    ],
)
def test_what_can_t_be_done_is_refused_by_name(
    server: ThreadedServer, engine: FakeEngine, fields: dict[str, Any], param: str
) -> None:
    assert error_of(post(server, **fields), 400)["param"] == param
    assert not engine.requests


@pytest.mark.parametrize("prompt", [[-1], [[3], [-1]], [None], [1.5], {"a": 1}])
def test_a_prompt_of_no_known_shape_is_refused(server: ThreadedServer, prompt: Any) -> None:
    assert error_of(post(server, prompt=prompt), 400)["param"].startswith("prompt")


def test_the_failure_of_one_row_ends_the_answer(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.reason, engine.error = FinishReason.ERROR, "the row broke"
    assert error_of(post(server, prompt=["one", "two"]), 500)["message"] == "the row broke"
    last = post(server, prompt="one", stream=True).text.split("\n\n")[-2]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "generation_failed"
