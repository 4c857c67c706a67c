"""Events of requests to a server that publishes none: what was seen from here, and no more."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from dspark_tui.batch.lanes import SpanKind
from dspark_tui.batch.live import VIEW, LiveState
from dspark_tui.engines.chat_updates import Accepted, ChatUpdate, Ended, Text
from dspark_tui.engines.client_errors import ClientError
from dspark_tui.engines.stopwatch import Stopwatch
from engine.events import Capability, Event, Finished, FirstToken, Queued, Step
from engine.types import FinishReason


async def answer(*updates: ChatUpdate | ClientError) -> AsyncGenerator[ChatUpdate, None]:
    for update in updates:
        if isinstance(update, ClientError):
            raise update
        yield update


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def stopwatch(events: list[Event]) -> Stopwatch:
    return Stopwatch(events.append)


def finished(events: list[Event]) -> Finished:
    (found,) = (event for event in events if isinstance(event, Finished))
    return found


async def test_a_request_is_sent_writes_and_ends_with_the_server_s_count(
    stopwatch: Stopwatch, events: list[Event]
) -> None:
    updates = answer(Accepted("theirs"), Text("a"), Text("b"), Ended("length", 7))
    seen = [update async for update in stopwatch.timed(updates, "2 hot", 50)]
    queued = events[0]
    assert isinstance(queued, Queued)
    assert (queued.source, queued.max_tokens) == ("2 hot", 50)
    assert seen == [Accepted(queued.request), Text("a"), Text("b"), Ended("length", 7)]
    assert [type(event) for event in events] == [Queued, FirstToken, Step, Step, Finished]
    assert (finished(events).reason, finished(events).tokens) == (FinishReason.LENGTH, 7)


async def test_without_a_count_the_pieces_count_and_a_foreign_reason_is_an_end(
    stopwatch: Stopwatch, events: list[Event]
) -> None:
    updates = answer(Text("a"), Text("b"), Ended("content_filter", None))
    _ = [update async for update in stopwatch.timed(updates, "", 50)]
    assert (finished(events).reason, finished(events).tokens) == (FinishReason.STOP, 2)


async def test_a_failure_is_the_request_s_error_and_still_raised(
    stopwatch: Stopwatch, events: list[Event]
) -> None:
    with pytest.raises(ClientError, match="went away"):
        async for _ in stopwatch.timed(answer(Text("a"), ClientError("it went away")), "", 50):
            pass
    assert (finished(events).reason, finished(events).error) == (FinishReason.ERROR, "it went away")


async def test_an_answer_left_alone_was_cancelled_and_its_connection_is_closed(
    stopwatch: Stopwatch, events: list[Event]
) -> None:
    updates = answer(Text("a"), Text("b"))
    timed = stopwatch.timed(updates, "", 50)
    assert isinstance(await anext(timed), Accepted)
    await anext(timed)
    await timed.aclose()
    assert finished(events).reason is FinishReason.CANCELLED
    with pytest.raises(StopAsyncIteration):
        await anext(updates)


async def test_a_lane_by_stopwatch_tells_neither_queue_nor_prefill(
    stopwatch: Stopwatch, events: list[Event]
) -> None:
    first = stopwatch.timed(answer(Text("a"), Ended("stop", 1)), "1", 50)
    second = stopwatch.timed(answer(Text("a"), Ended("stop", 1)), "2", 50)
    for timed in (first, second):
        await anext(timed)
        await anext(timed)
    assert [event.width for event in events if isinstance(event, Step)] == [1, 2]
    await first.aclose()
    state = LiveState()
    state.apply(Capability(0.0, VIEW, "the batch", "our own requests", "no events"))
    for event in events:
        state.apply(event)
    lane = state.lanes[0]
    assert [span.kind for span in lane.spans(1e12)] == [SpanKind.SENT, SpanKind.DECODE]
    assert lane.waited(0.0) is None
