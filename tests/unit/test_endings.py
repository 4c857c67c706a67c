"""The tokens that end an answer, as a server's tokenizer tells them, and where it tells none."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from engine.proof.endings import end_tokens


def times_out(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("nothing came", request=request)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: httpx.Response(404, json={"error": "no such path"}),
        lambda _: httpx.Response(200, html="<html>Welcome</html>"),
        lambda _: httpx.Response(200, json=["tokens"]),
        times_out,
    ],
    ids=["not served", "a page", "another shape", "silence"],
)
async def test_a_server_that_does_not_tell_has_no_known_ends(
    answer: Callable[[httpx.Request], httpx.Response],
) -> None:
    async with httpx.AsyncClient(
        transport=httpx.MockTransport(answer), base_url="http://server"
    ) as http:
        assert await end_tokens(http, "model") == ()


async def test_only_what_is_one_token_ends_an_answer() -> None:
    ids = {"</s>": [2], "<|im_end|>": [7], "<eos>": [4, 5]}

    def tokenize(request: httpx.Request) -> httpx.Response:
        text = json.loads(request.content)["content"]
        return httpx.Response(200, json={"tokens": ids.get(text, [1, 2, 3])})

    async with httpx.AsyncClient(
        transport=httpx.MockTransport(tokenize), base_url="http://server"
    ) as http:
        assert await end_tokens(http, "model") == (2, 7)
