"""What is kept of a request while it runs: by the engine's events, else by our own clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.run import Run
from dspark_tui.conversation.session import Conversation
from engine.events import Phase, RequestState

TOLD = RequestState(
    "r", "1", Phase.FINISHED, 12, 50, queued=95.25, admitted=95.5, slot=0, first_token=96.25,
    last_token=98.25, tokens=41, finished=98.5,
)  # fmt: skip


def run_of(*states: RequestState, batch_hidden: bool = False) -> Run:
    """Sent at 100 by our clock, which is five seconds before the engine's, and over at 104."""
    engine = SimpleNamespace(requests={state.request: state for state in states})
    link = SimpleNamespace(
        ready=asyncio.Event(),
        live=SimpleNamespace(engine=engine),
        clock=SimpleNamespace(now=lambda local: local - 5.0),
        batch_hidden=batch_hidden,
        told_of_end=AsyncMock(),
    )
    pane = Conversation(1, PaneParams())
    run = Run(pane, pane.begin("hello"), link)  # type: ignore[arg-type]
    run.request_id, run.tokens = "r", 40
    run._record = RequestRecord(1, sent=1000.0)
    run.sent, run.first, run.last, run._ended = 100.0, 101.5, 103.5, 104.0
    return run


async def test_events_tell_when_the_engine_had_it_and_all_times_from_then_on() -> None:
    record = run_of(TOLD).record()
    assert record.sent == 1000.25
    assert (record.waited, record.first, record.last, record.ended) == (0.25, 1.0, 3.0, 3.25)
    assert (record.tokens, record.rate) == (41, 20.0)


@pytest.mark.parametrize(
    ("state", "hidden", "counts"),
    [
        (TOLD, False, (12, 0)),
        (replace(TOLD, cached_tokens=7, finished=None), False, (12, 7)),
        (replace(TOLD, admitted=None), False, (12, None)),
        (TOLD, True, (None, None)),  # made from what is seen from here: it knows no counts
    ],
)
async def test_the_prompt_s_counts_are_those_the_events_tell(
    state: RequestState, hidden: bool, counts: tuple[int | None, int | None]
) -> None:
    record = run_of(state, batch_hidden=hidden).record()
    assert (record.prompt_tokens, record.cached_tokens) == counts


async def test_the_answer_s_own_counts_stay() -> None:
    run = run_of(TOLD)
    run._record = RequestRecord(1, sent=1000.0, prompt_tokens=11, cached_tokens=3)
    assert (run.record().prompt_tokens, run.record().cached_tokens) == (11, 3)


@pytest.mark.parametrize("states", [(), (replace(TOLD, finished=None),)])
async def test_what_no_event_tells_the_end_of_is_timed_from_here(
    states: tuple[RequestState, ...],
) -> None:
    record = run_of(*states).record()
    assert record.sent == 1000.0
    assert (record.waited, record.first, record.last, record.ended) == (None, 1.5, 3.5, 4.0)
    assert record.tokens == 40
