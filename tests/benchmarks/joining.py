"""What a newcomer does to running streams.

Two 256-token streams run. First a 16-token request is sent 2 s later: when is it back? Then a
600-token prompt joins: what is the longest gap in the running streams, in decode steps?
"""

from __future__ import annotations

import asyncio
import json
from statistics import median

import httpx

from engine.proof.endpoint import Endpoint
from engine.proof.prompts import Prompts
from engine.proof.traffic import Ask, Record, timings
from tests.benchmarks.servers import embedded, ours, running
from tests.benchmarks.traffic import complete, endpoint, seconds

LONG_WORDS = 540
PROMPTS = Prompts()


def main() -> None:
    server = ours(embedded())
    with running(server) as url:
        asyncio.run(_short(url, server.model))
        asyncio.run(_long(url, server.model))


async def _start(server: Endpoint) -> list[asyncio.Task[Record]]:
    runs = [complete(server, Record(Ask(PROMPTS.short(), 256))) for _ in range(2)]
    tasks = [asyncio.create_task(run) for run in runs]
    await asyncio.sleep(2)
    return tasks


async def _short(url: str, model: str) -> None:
    async with endpoint(url, model) as server:
        streams = await _start(server)
        short = await complete(server, Record(Ask("Name three colours.", 16)))
        running_still = sum(not stream.done() for stream in streams)
        await asyncio.gather(*streams)
    print(
        f"16-token request: back after {seconds(short):.2f} s, "
        f"{running_still} of 2 streams still running"
    )


async def _long(url: str, model: str) -> None:
    async with endpoint(url, model) as server, httpx.AsyncClient(base_url=url, timeout=600) as http:
        slices = asyncio.create_task(_slices(http))
        streams = await _start(server)
        joiner = await complete(server, Record(Ask(PROMPTS.long(LONG_WORDS), 8)))
        runs = await asyncio.gather(*streams)
        longest_slice, tokens = await slices
    (joined,) = timings([joiner])
    step = median(gap for run in runs for gap in run.gaps)
    gap = max(run.longest_gap for run in runs)
    print(
        f"{tokens}-token prompt: first answer after {joined.ttft:.2f} s, "
        f"longest gap in a running stream {gap * 1000:.0f} ms; "
        f"a step is {step * 1000:.0f} ms, the longest slice {longest_slice:.0f} ms: "
        f"gap = slice + {(gap * 1000 - longest_slice) / (step * 1000):.1f} steps"
    )


async def _slices(http: httpx.AsyncClient) -> tuple[float, int]:
    """(the longest prefill slice of the long prompt in ms, its tokens), from the events."""
    longest, total = 0.0, 0
    async with http.stream("GET", "/engine/events") as response:
        async for line in response.aiter_lines():
            if not line.startswith("data:"):
                continue
            event = json.loads(line[5:])
            if event["event"] == "prefill" and event["total"] > 500:
                longest, total = max(longest, event["milliseconds"]), event["total"]
                if event["done"] == total:
                    break
    return longest, total
