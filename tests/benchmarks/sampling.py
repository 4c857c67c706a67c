"""Eight rows with penalties and log-probabilities beside eight plain rows, in turn on one server.

Every row of the first kind has all three penalties and five alternatives a token, so its answers
carry a lot more JSON too. The kinds alternate, so that drift hits both.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from statistics import median
from typing import Any

import httpx

from engine.proof.prompts import Prompts
from tests.benchmarks.servers import embedded, ours, running

ROWS = 8
TOKENS = int(os.environ.get("BENCH_TOKENS", "48"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))


PENALTIES = {"repetition_penalty": 1.1, "presence_penalty": 0.3, "frequency_penalty": 0.2}
LOGPROBS = {"logprobs": True, "top_logprobs": 5}
PLAIN = "plain"
KINDS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "penalties": PENALTIES,
    "logprobs": LOGPROBS,
    "penalties and logprobs": PENALTIES | LOGPROBS,
}
"""What the rows of a kind ask for beside the usual."""


def main() -> None:
    with running(ours(embedded(), ROWS)) as url:
        asyncio.run(_compare(url))


async def _compare(url: str) -> None:
    prompts = Prompts()
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:
        await _aggregate(http, {}, prompts)  # a warm-up that counts for nothing
        for _ in range(ROUNDS):
            for kind in KINDS:
                rates[kind].append(await _aggregate(http, KINDS[kind], prompts))
    print(f"{ROWS} rows of {TOKENS} tokens, greedy; median of {ROUNDS} rounds")
    for kind in KINDS:
        ratio = median(a / b for a, b in zip(rates[kind], rates[PLAIN], strict=True))
        print(f"  {kind:24} {median(rates[kind]):6.1f} tok/s   {ratio:.2f}× of plain")


async def _aggregate(http: httpx.AsyncClient, options: dict[str, Any], prompts: Prompts) -> float:
    """All rows' tokens over the time to the last end."""
    start = time.perf_counter()
    await asyncio.gather(*(_answer(http, options, prompts.short()) for _ in range(ROWS)))
    return ROWS * TOKENS / (time.perf_counter() - start)


async def _answer(http: httpx.AsyncClient, options: dict[str, Any], prompt: str) -> None:
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        **options,
    }
    async with http.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                json.loads(line[6:])
