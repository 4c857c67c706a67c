"""Streaming requests timed by our own clock; nothing a server says about its speed is used."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field

import httpx

TOPICS = (
    "rainbows form",
    "volcanoes erupt",
    "glaciers move",
    "magnets attract iron",
    "tides rise and fall",
    "lightning strikes",
    "bees find flowers",
    "compilers work",
)


@dataclass
class Run:
    """One request. Times in seconds on one clock; tokens from the server's usage, which counts
    what it generated, not how fast."""

    prompt: str
    start: float = 0.0
    end: float = 0.0
    tokens: int = 0
    chunks: list[float] = field(default_factory=list)

    @property
    def longest_gap(self) -> float:
        pairs = zip(self.chunks, self.chunks[1:], strict=False)
        return max((later - earlier for earlier, later in pairs), default=0.0)


def prompts(count: int) -> list[str]:
    """Different prompts of nearly one length, whose answers run long."""
    return [f"Explain in detail how {TOPICS[n % len(TOPICS)]}." for n in range(count)]


async def complete(client: httpx.AsyncClient, model: str, run: Run, max_tokens: int) -> Run:
    """Stream one greedy answer to its end."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": run.prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    run.start = time.perf_counter()
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            raise SystemExit((await response.aread()).decode())
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                _take(run, json.loads(line[6:]))
    run.end = time.perf_counter()
    return run


def _take(run: Run, chunk: dict) -> None:
    if any(choice["delta"].get("content") for choice in chunk.get("choices", ())):
        run.chunks.append(time.perf_counter())
    if chunk.get("usage"):
        run.tokens = chunk["usage"]["completion_tokens"]


def client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(600))


async def together(url: str, model: str, count: int, max_tokens: int) -> list[Run]:
    """`count` requests fired at once."""
    async with client(url) as http:
        runs = [complete(http, model, Run(prompt), max_tokens) for prompt in prompts(count)]
        return await asyncio.gather(*runs)


def aggregate(runs: list[Run]) -> float:
    """All tokens over the time to the last completion."""
    return sum(run.tokens for run in runs) / (
        max(run.end for run in runs) - min(run.start for run in runs)
    )
