"""One 600-token prompt to eight panes at once beside one request of it, and a second turn.

What counts is the work of reading: the engine's own milliseconds, in which a slice that served
several requests is counted once.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from engine.proof.prompts import Prompts
from tests.benchmarks.servers import embedded, ours, running

WORDS = 500
PANES = 8
PAIRS = 3
PROMPTS = Prompts()


@dataclass(slots=True)
class Work:
    """slices: milliseconds of each slice read, by when it was. cached: tokens of each request that
    were not read for its sake."""

    slices: dict[float, float] = field(default_factory=dict)
    cached: list[int] = field(default_factory=list)
    prompt: int = 0

    @property
    def milliseconds(self) -> float:
        return sum(self.slices.values())

    def add(self, event: dict[str, Any]) -> None:
        if event["event"] == "admitted":
            self.cached.append(event["cached_tokens"])
        elif event["event"] == "prefill":
            self.slices[event["time"]] = event["milliseconds"]
            self.prompt = event["total"]


def main() -> None:
    with running(ours(embedded(), PANES)) as url:
        asyncio.run(_compare(url))


async def _compare(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:
        await _read(http, PROMPTS.long(WORDS), 1)  # a warm-up that counts for nothing
        for _ in range(PAIRS):
            one = await _read(http, PROMPTS.long(WORDS), 1)
            prompt = PROMPTS.long(WORDS)
            eight = await _read(http, prompt, PANES)
            again = await _read(http, prompt, 1, "Go on.", "And then?")
            ratio = eight.milliseconds / one.milliseconds
            print(
                f"{one.prompt} tokens: one request {one.milliseconds:.0f} ms of reading, "
                f"{PANES} panes {eight.milliseconds:.0f} ms = {ratio:.2f}×, of each "
                f"{sorted(eight.cached)} tokens copied; next turn {again.milliseconds:.0f} ms, "
                f"{again.cached[0]} of {again.prompt} tokens copied"
            )


async def _read(http: httpx.AsyncClient, prompt: str, panes: int, *turns: str) -> Work:
    """Ask, and fold the events until all have ended."""
    work, ended = Work(), 0
    async with http.stream("GET", "/engine/events") as response:
        asks = asyncio.create_task(_ask(http, prompt, panes, turns))
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                event = json.loads(line[5:])
                work.add(event)
                ended += event["event"] == "finished"
            if ended == panes:
                break
        await asks
    return work


async def _ask(http: httpx.AsyncClient, prompt: str, panes: int, turns: tuple[str, ...]) -> None:
    roles = ("assistant", "user")
    messages = [{"role": "user", "content": prompt}]
    messages += [{"role": roles[n % 2], "content": text} for n, text in enumerate(turns)]
    body = {"messages": messages, "max_tokens": 8, "temperature": 1.0}
    answers = await asyncio.gather(
        *(http.post("/v1/chat/completions", json=body) for _ in range(panes))
    )
    for answer in answers:
        answer.raise_for_status()
