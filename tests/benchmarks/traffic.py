"""Requests of equal length for the benchmarks, timed by the bench's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from engine.proof.endpoint import Endpoint, Target
from engine.proof.prompts import Prompts
from engine.proof.traffic import Ask, Record, timings


@asynccontextmanager
async def endpoint(url: str, model: str) -> AsyncIterator[Endpoint]:
    """The server, warmed up."""
    server = Endpoint(Target(url, model=model, proxies=False))
    try:
        await server.prepare()
        yield server
    finally:
        await server.aclose()


async def complete(server: Endpoint, record: Record) -> Record:
    """Stream one answer to its end."""
    await server.ask(record)
    if record.timing is None:
        raise SystemExit(record.error or "an answer never ended")
    return record


async def together(url: str, model: str, count: int, tokens: int) -> list[Record]:
    """`count` requests with different prompts, fired at once."""
    prompts = Prompts()
    async with endpoint(url, model) as server:
        records = [Record(Ask(prompts.short(), tokens)) for _ in range(count)]
        return await asyncio.gather(*(complete(server, record) for record in records))


def seconds(record: Record) -> float:
    """From its sending to its end."""
    (timing,) = timings([record])
    return timing.seconds


def aggregate(records: Sequence[Record]) -> float:
    """All tokens over the time to the last completion."""
    ended = timings(records)
    span = max(timing.end for timing in ended) - min(timing.submit for timing in ended)
    return sum(timing.tokens for timing in ended) / span
