"""`/tokenize` and `/detokenize`, in both dialects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.models.tokenizer import Tokenizer
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import INFO, FakeEngine, FakeModel

TEXT = "Grüße, 世界! 👩‍👩‍👧\n\tend"


def post(server: ThreadedServer, path: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, trust_env=False)


def test_a_text_in_llama_cpp_s_words(server: ThreadedServer) -> None:
    answer = post(server, "/tokenize", content="one three").json()
    assert answer["tokens"] == [3, 5]
    assert post(server, "/tokenize", content="one", add_special=True).json()["tokens"] == [0, 3]
    pieces = post(server, "/tokenize", content="one", with_pieces=True).json()["tokens"]
    assert pieces == [{"id": 3, "piece": "t3"}]
    assert post(server, "/tokenize", content="", with_pieces=True).json()["tokens"] == []


def test_a_text_in_vllm_s_words(server: ThreadedServer) -> None:
    answer = post(server, "/tokenize", model="any", prompt="one three").json()
    assert answer["tokens"] == [0, 3, 5]
    assert (answer["count"], answer["max_model_len"]) == (3, INFO.context)
    assert answer["token_strs"] is None
    body = {"prompt": "one", "add_special_tokens": False, "return_token_strs": True}
    assert post(server, "/tokenize", **body).json()["token_strs"] == ["t3"]


def test_messages_are_counted_as_the_chat_counts_them(server: ThreadedServer) -> None:
    messages = [{"role": "user", "content": "one two three"}]
    count = post(server, "/tokenize", messages=messages).json()["count"]
    chat = post(server, "/v1/chat/completions", messages=messages).json()
    assert count == 3
    assert chat["usage"]["prompt_tokens"]


def test_ids_become_text_again(server: ThreadedServer) -> None:
    answer = post(server, "/detokenize", model="any", tokens=[2, 0, 1]).json()
    assert answer == {"content": "xx  x", "prompt": "xx  x"}
    assert post(server, "/detokenize", tokens=[]).json()["prompt"] == ""


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, None),
        ("/tokenize", {"content": 3}, "content"),
        ("/tokenize", {"messages": [{"role": "user"}]}, "messages[0].content"),
        ("/tokenize", {"messages": [{"role": "user", "content": "#template"}]}, "messages"),
        ("/detokenize", {"tokens": [1, 100]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/detokenize", {}, "tokens"),
    ],
)
def test_what_can_t_be_done_is_refused_by_name(
    server: ThreadedServer, path: str, body: dict[str, Any], param: str | None
) -> None:
    answer = post(server, path, **body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_it_waits_for_the_model(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.model = None
    answer = post(server, "/tokenize", content="x")
    assert answer.status_code == 503


@pytest.mark.model
def test_the_embedded_model_s_tokens_come_back_as_the_same_text(
    server: ThreadedServer, engine: FakeEngine, embedded_model: Path
) -> None:
    config = json.loads((embedded_model / "config.json").read_text())
    engine.model = FakeModel(Tokenizer.load(embedded_model, config))  # type: ignore[arg-type]
    tokens = post(server, "/tokenize", content=TEXT).json()["tokens"]
    assert post(server, "/detokenize", tokens=tokens).json()["content"] == TEXT
    named = post(server, "/tokenize", content=TEXT, with_pieces=True).json()["tokens"]
    pieces = [token["piece"] for token in named]
    raw = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in pieces)
    assert raw.decode() == TEXT
    assert any(isinstance(piece, list) for piece in pieces)
    special = post(server, "/tokenize", content="<|im_end|>").json()["tokens"]
    assert len(special) == 1
    assert post(server, "/detokenize", tokens=special).json()["content"] == "<|im_end|>"
