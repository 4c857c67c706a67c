"""Lanes as cells: what each column shows, at any scale."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dspark_tui.batch.cell import Cell
from dspark_tui.batch.lanes import Axis, Lane, Span, SpanKind, lane_cells
from engine.events import Phase, RequestState
from engine.types import FinishReason

SIGNS = {
    Cell.EMPTY: " ",
    Cell.QUEUED: ".",
    Cell.PREFILL: "-",
    Cell.DECODE: "=",
    Cell.STALL: "~",
    Cell.RUNNING: ">",
    Cell.DONE: "v",
    Cell.LENGTH: "|",
    Cell.STOPPED: "x",
    Cell.FAILED: "!",
}


def drawn(lane: Lane, axis: Axis, now: float) -> str:
    return "".join(SIGNS[cell] for cell in lane_cells(lane, axis, now))


def state(phase: Phase, **times: float | FinishReason | None) -> RequestState:
    return RequestState("id", "1", phase, 10, 100, queued=2.0, **times)  # type: ignore[arg-type]


AXIS = Axis(start=0.0, seconds=10, columns=20, tick=5)  # half a second each
ENDED = {"admitted": 3.0, "first_token": 4.0, "finished": 8.2}


@pytest.mark.parametrize(
    ("reason", "sign"),
    [
        (FinishReason.STOP, "v"),
        (FinishReason.LENGTH, "|"),
        (FinishReason.CANCELLED, "x"),
        (FinishReason.ERROR, "!"),
    ],
)
def test_a_life_is_drawn_from_queue_to_its_end_and_says_why_it_ended(
    reason: FinishReason, sign: str
) -> None:
    lane = Lane(1, state(Phase.FINISHED, reason=reason, **ENDED))
    assert drawn(lane, AXIS, 10.0) == f"    ..--========{sign}   "


def test_what_still_runs_reaches_now() -> None:
    decoding = Lane(1, state(Phase.DECODE, admitted=3.0, first_token=4.0))
    assert drawn(decoding, AXIS, 6.0) == "    ..--====>       "
    reading = Lane(1, state(Phase.PREFILL, admitted=3.0))
    assert drawn(reading, AXIS, 6.0) == "    ..-------       "
    queued = Lane(1, state(Phase.QUEUED))
    assert drawn(queued, AXIS, 6.0) == "    .........       "


def test_cancelled_in_the_queue_shows_no_work() -> None:
    lane = Lane(1, state(Phase.FINISHED, finished=4.0, reason=FinishReason.CANCELLED))
    assert drawn(lane, AXIS, 9.0) == "    ....x           "
    assert lane.waited(9.0) == 2.0


def test_a_stall_shows_even_when_it_is_shorter_than_a_column() -> None:
    stall = Span(SpanKind.STALL, 5.05, 5.1)
    lane = Lane(1, state(Phase.DECODE, admitted=2.0, first_token=2.0), (stall,))
    assert drawn(lane, AXIS, 8.0) == "    ======~=====>   "


def test_times_outside_the_axis_stay_on_it() -> None:
    lane = Lane(1, state(Phase.FINISHED, reason=FinishReason.STOP, **ENDED))
    assert drawn(lane, Axis(9.0, 5, 5, 1), 20.0)[0] == "v"
    assert drawn(lane, Axis(0.0, 2, 4, 1), 20.0)[-1] == "v"


@pytest.mark.parametrize("span", [0.0, 0.3, 1, 4.99, 14.75, 61, 599, 4000, 90_000])
@pytest.mark.parametrize("columns", [1, 7, 30, 66, 120])
def test_an_axis_has_room_for_its_span_and_for_each_label(span: float, columns: int) -> None:
    axis = Axis.fit(100.0, 100.0 + span, columns)
    assert axis.seconds >= span
    assert 2 * axis.seconds % axis.tick == 0
    starts = [column for column, _ in axis.ticks]
    if axis.tick < 3600:
        assert all(b - a >= 6 for a, b in pairwise(starts))
    assert starts[0] == 0


def test_labels_are_whole_seconds_then_minutes() -> None:
    assert [label for _, label in Axis.fit(0, 9, 70).ticks][:3] == ["0 s", "1", "2"]
    assert [label for _, label in Axis.fit(0, 200, 40).ticks] == ["0 s", "1:00", "2:00", "3:00"]
