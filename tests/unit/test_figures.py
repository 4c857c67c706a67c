"""The figures of recorded bursts, worked out by hand from their events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspark_tui.batch.figures import burst_figures
from engine.events import Admitted, Event, Finished, FirstToken, Queued, Step
from engine.proof.verdict import Name
from engine.state import EngineState
from engine.types import FinishReason
from tests.tui.burst import START, burst, snapshot

STEP = 0.05


def together(start: float, ids: list[str], steps: int, shared: bool = True) -> list[Event]:
    """Requests sent at `start` that gain a token each step: all at once, or one after the other."""
    events: list[tuple[float, Event]] = []
    for order, id in enumerate(ids):
        begin = start if shared else start + order * steps * STEP
        end = begin + steps * STEP
        events += [
            (start, Queued(start, id, id, 10, steps, order + 1)),
            (begin, Admitted(begin, id, order if shared else 0, begin - start, False, 0)),
            (begin + STEP, FirstToken(begin + STEP, id)),
            (end + 1e-4, Finished(end, id, FinishReason.LENGTH, steps, end - start)),
        ]
        if not shared or order == 0:
            rows = dict.fromkeys(ids if shared else [id], 1)
            times = (begin + STEP * n for n in range(1, steps + 1))
            events += [(t + 1e-5, Step(t, "decode", len(rows), rows, STEP * 1000)) for t in times]
    return [event for _, event in sorted(events, key=lambda pair: pair[0])]


def moved(events: list[Event], seconds: float) -> list[Event]:
    return [replace(event, time=event.time + seconds) for event in events]


def test_a_burst_that_never_ended_is_counted_to_the_last_event() -> None:
    (figures,) = burst_figures(burst())
    assert figures.requests == len(figures.lanes) == 6
    assert (figures.start, figures.end) == (START, START + 14.5)
    assert figures.widest == 4
    assert figures.aggregate is not None
    assert figures.aggregate.tokens == 251 + 105 + 262 + 151 + 101
    assert figures.aggregate.rate == pytest.approx(60.0)


def test_each_burst_has_its_own_figures() -> None:
    alone, several = burst_figures(
        [snapshot(), *together(START, ["a"], 40), *together(START + 10, ["b", "c", "d"], 40)]
    )
    assert (alone.size, several.size) == ("1 request", "3 requests")
    assert (alone.requests, alone.widest, alone.verdict) == (1, 1, None)
    assert alone.aggregate is not None
    assert alone.aggregate.rate == pytest.approx(20)
    assert (several.requests, several.widest) == (3, 3)
    assert [lane.completion_time for lane in several.lanes] == pytest.approx([2.0] * 3)
    assert several.aggregate is not None
    assert several.aggregate.rate == pytest.approx(60)


def test_a_request_that_ran_alone_is_the_baseline_of_later_bursts() -> None:
    several = together(START + 10, ["b", "c", "d"], 40)
    (unknown,) = burst_figures([snapshot(), *several])
    assert unknown.verdict is not None
    assert "no baseline" in unknown.verdict.main.sentence
    *_, known = burst_figures([snapshot(), *together(START, ["a"], 40), *several])
    assert known.verdict is not None
    assert known.verdict.name is Name.BATCHED
    assert known.verdict.shape is not None
    assert known.verdict.shape.gain == pytest.approx(3.0)


def test_an_answer_too_short_is_no_baseline() -> None:
    *_, known = burst_figures(
        [snapshot(), *together(START, ["a"], 31), *together(START + 10, ["b", "c"], 40)]
    )
    assert known.verdict is not None
    assert known.verdict.shape is not None
    assert known.verdict.shape.gain is None


def test_one_after_the_other_is_called_a_queue() -> None:
    (figures,) = burst_figures([snapshot(), *together(START, ["a", "b", "c"], 40, shared=False)])
    assert [lane.completion_time for lane in figures.lanes] == pytest.approx([2.0, 4.0, 6.0])
    assert figures.verdict is not None
    assert figures.verdict.name is Name.QUEUE


def test_late_comers_are_not_judged_with_those_sent_together() -> None:
    events = [*together(START, ["a", "b"], 60), *together(START + 1, ["late"], 10)]
    (figures,) = burst_figures([snapshot(), *sorted(events, key=lambda event: event.time)])
    assert figures.requests == 3
    assert figures.verdict is not None
    assert figures.verdict.shape is not None
    assert figures.verdict.shape.requests == 2


def test_an_engine_that_was_restarted_does_not_take_its_burst_along() -> None:
    first, second = burst_figures([*burst(), snapshot(time=START + 20), *moved(burst(), 20)])
    assert first.requests == second.requests == 6
    assert second.start == first.start + 20


def test_a_snapshot_in_the_middle_of_a_burst_does_not_split_it() -> None:
    events = burst()
    state = EngineState()
    for event in events[:200]:
        state.apply(event)
    (figures,) = burst_figures(
        [*events[:200], state.snapshot(state.time, state.wall), *events[200:]]
    )
    (whole,) = burst_figures(events)
    assert figures.aggregate == whole.aggregate
    assert [lane.request for lane in figures.lanes] == [lane.request for lane in whole.lanes]


def test_where_nothing_was_sent_there_is_nothing() -> None:
    assert burst_figures([snapshot()]) == []
    (waiting,) = burst_figures([snapshot(), Queued(START, "a", "", 1, 1, 1)])
    assert (waiting.aggregate, waiting.verdict, waiting.widest) == (None, None, 0)
