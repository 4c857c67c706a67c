"""Bodies that are JSON and yet no text, or nested as no person would: never a failure of ours."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import ThreadedServer
from tests.e2e.responses import error_of

HALF = "\ud800"
CHAT = {"messages": [{"role": "user", "content": "x"}]}
MESSAGES = {"max_tokens": 3, **CHAT}


def post(server: ThreadedServer, path: str, body: Any) -> httpx.Response:
    content = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    return httpx.post(f"{server.url}{path}", content=content, headers=headers)


def tool(value: Any) -> dict[str, Any]:
    return {"function": {"name": "look", "parameters": {"enum": [value]}}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": "x", "metadata": {HALF: [HALF]}}),
        ("/v1/responses", {"input": "x", "instructions": HALF}),
        ("/v1/completions", {"prompt": f"a {HALF}", "echo": True}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": HALF}]}),
        ("/v1/chat/completions", {**CHAT, "tools": [tool(HALF)]}),
        ("/v1/chat/completions", {**CHAT, "chat_template_kwargs": {HALF: HALF}}),
        ("/v1/messages", {**MESSAGES, "system": HALF}),
        ("/tokenize", {"content": HALF}),
    ],
)
def test_half_a_character_is_replaced(
    server: ThreadedServer, path: str, body: dict[str, Any]
) -> None:
    assert post(server, path, body).status_code == 200


@pytest.mark.parametrize("depth", [99, 300, 900])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_what_nobody_nests_like_that_is_refused(
    server: ThreadedServer, path: str, depth: int
) -> None:
    deep: Any = "x"
    for _ in range(depth):
        deep = [deep]
    flat = {"type": "function", "name": "look", "parameters": {"enum": deep}}
    body = (
        {"input": "x", "tools": [flat]} if "responses" in path else {**CHAT, "tools": [tool(deep)]}
    )
    assert error_of(post(server, path, body), 400)["code"] == "invalid_json"
