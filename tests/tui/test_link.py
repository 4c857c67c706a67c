"""The link by itself: what it makes of events, without a server."""

from __future__ import annotations

import asyncio

import pytest

from dspark_tui.engines import link
from dspark_tui.engines.address import Address, Server
from dspark_tui.engines.link import EngineLink
from engine.events import Event, Finished, Queued
from engine.types import FinishReason
from tests.tui.burst import START, snapshot

DEADLINE = 60.0

QUEUED = Queued(START, "a", "1", 10, 20, 1)
FINISHED = Finished(START + 1, "a", FinishReason.STOP, 5, 1.0)


def told(*events: Event) -> EngineLink:
    """A link that has heard of those."""
    line = EngineLink(Server(Address.parse("http://127.0.0.1:1")))
    for event in (snapshot(), *events):
        line._observe(event)
    return line


@pytest.mark.parametrize("by_snapshot", [False, True])
async def test_who_waits_for_an_end_is_told_by_the_event_itself(
    by_snapshot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow subscriber gets a snapshot in its place."""
    monkeypatch.setattr(link, "END_EVENT_LIMIT", 3600.0)
    line = told(QUEUED)
    waiting = [asyncio.create_task(line.told_of_end("a")) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    after = told(QUEUED, FINISHED).live.engine.snapshot(START + 2, 0.0)
    line._observe(after if by_snapshot else FINISHED)
    await asyncio.wait_for(asyncio.gather(*waiting), DEADLINE)
    await asyncio.wait_for(line.told_of_end("a"), DEADLINE)


async def test_an_end_that_no_event_tells_of_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "END_EVENT_LIMIT", 0.01)
    line = told(QUEUED)
    await asyncio.wait_for(line.told_of_end("a"), DEADLINE)
    monkeypatch.setattr(link, "END_EVENT_LIMIT", 3600.0)
    await asyncio.wait_for(line.told_of_end("never heard of"), DEADLINE)


async def test_a_lost_engine_ends_the_waiting_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "END_EVENT_LIMIT", 3600.0)
    line = told(QUEUED)
    waiting = asyncio.create_task(line.told_of_end("a"))
    await asyncio.sleep(0)
    line._lost("it went away")
    await asyncio.wait_for(waiting, DEADLINE)
