"""Requests of equal length for the benchmarks, timed by the bench's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from engine.proof.endpoint import Endpoint, Target, reached
from engine.proof.prompts import Prompts
from engine.proof.traffic import Ask, Record, timings


def endpoint(url: str, model: str) -> AbstractAsyncContextManager[Endpoint]:
    """The server, warmed up."""
    return reached(Target(url, model=model, proxies=False))


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
