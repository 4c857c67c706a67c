"""A request's life as a lane, and lanes as cells on one shared time axis. Pure."""

from __future__ import annotations

from bisect import bisect_left
from enum import StrEnum
from math import ceil

from msgspec import Struct

from dspark_tui.batch.cell import Cell
from dspark_tui.batch.ending import Ending, ending_by
from dspark_tui.batch.rate import decode_rate
from engine.events import Phase, RequestState


class SpanKind(StrEnum):
    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    STALL = "stall"  # decoding, but held up by another request's prefill
    SENT = "sent"  # without a token so far, and whether queued or prefill can't be seen


class Span(Struct, frozen=True):
    """A stretch of a request's life, in engine seconds."""

    kind: SpanKind
    start: float
    end: float


class Lane(Struct, frozen=True):
    """One request on the time axis. number: 1, 2, … in order of submission.

    by_stopwatch: timed from outside, so it isn't known when it was admitted. foreign: sent by
    another client of the same engine.
    """

    number: int
    request: RequestState
    stalls: tuple[Span, ...] = ()
    by_stopwatch: bool = False
    foreign: bool = False

    @property
    def id(self) -> str:
        """The request's, for the engine."""
        return self.request.request

    @property
    def label(self) -> str:
        """Who asked, as the client named itself."""
        return self.request.source

    @property
    def running(self) -> bool:
        return self.request.phase in (Phase.PREFILL, Phase.DECODE)

    @property
    def ending(self) -> Ending | None:
        """As the engine tells it; None while it runs."""
        return None if self.request.reason is None else ending_by(self.request.reason)

    @property
    def mid_flight(self) -> bool:
        """Did it join while others were decoding?"""
        return self.request.mid_flight

    def waited(self, now: float) -> float | None:
        """Seconds in the queue, where that can be seen."""
        r = self.request
        if self.by_stopwatch:
            return None
        return first_known(r.admitted, r.finished, now) - r.queued

    @property
    def ttft(self) -> float | None:
        """Seconds from submission to the first token."""
        r = self.request
        return None if r.first_token is None else r.first_token - r.queued

    @property
    def completion_time(self) -> float | None:
        """Seconds from submission to the end."""
        r = self.request
        return None if r.finished is None else r.finished - r.queued

    @property
    def rate(self) -> float | None:
        """Tokens a second after the first one, stalls included."""
        r = self.request
        return decode_rate(r.tokens, r.first_token, r.last_token)

    def spans(self, now: float) -> list[Span]:
        """Queued, prefill, decode as far as they got, then the stalls that lie over them."""
        r = self.request
        end = first_known(r.finished, now)
        if self.by_stopwatch:
            sent = Span(SpanKind.SENT, r.queued, first_known(r.first_token, end))
            return [sent] if r.first_token is None else [sent, Span(SpanKind.DECODE, sent.end, end)]
        spans = [Span(SpanKind.QUEUED, r.queued, first_known(r.admitted, end))]
        if r.admitted is not None:
            spans.append(Span(SpanKind.PREFILL, r.admitted, first_known(r.first_token, end)))
        if r.first_token is not None:
            spans.append(Span(SpanKind.DECODE, r.first_token, end))
        return spans + list(self.stalls)


def first_known(*times: float | None) -> float:
    """The first time that is known."""
    return next(time for time in times if time is not None)


TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600)
"""Seconds between two labels of an axis."""
TICK_COLUMNS = 7


class Axis(Struct, frozen=True):
    """Columns of equal time from `start` on. tick: whole seconds between two labels."""

    start: float
    seconds: float
    columns: int
    tick: int

    @classmethod
    def fit(cls, start: float, end: float, columns: int) -> Axis:
        """The axis from `start` that has room for `end` at the finest labels that fit.

        It ends on half a tick, so a growing lane changes the scale only now and then.
        """
        columns = max(1, columns)
        most = max(1, columns // TICK_COLUMNS)
        span = max(0.0, end - start)
        tick = next((t for t in TICKS if ceil(span / t) <= most), TICKS[-1])
        return cls(start, max(1, ceil(2 * span / tick)) * tick / 2, columns, tick)

    def column(self, time: float) -> int:
        """The column `time` falls in, clamped to the axis."""
        return min(self.columns - 1, max(0, int((time - self.start) / self._each)))

    @property
    def middles(self) -> list[float]:
        """The time in the middle of each column."""
        return [self._middle(column) for column in range(self.columns)]

    def since(self, time: float) -> int:
        """The first column whose middle is not before `time`, or how many columns there are."""
        return bisect_left(range(self.columns), time, key=self._middle)

    @property
    def ticks(self) -> list[tuple[int, str]]:
        """Column and label of every tick that starts a column of its own."""
        steps = range(0, ceil(self.seconds), self.tick)
        return [(round(second / self._each), _tick_label(second)) for second in steps]

    def _middle(self, column: int) -> float:
        return self.start + (column + 0.5) * self._each

    @property
    def _each(self) -> float:
        return self.seconds / self.columns


def lane_cells(lane: Lane, axis: Axis, now: float) -> list[Cell]:
    """One cell for each column: what the lane did in the middle of it, then its marks.

    A stall and the end are always visible, however short.
    """
    cells = [Cell.EMPTY] * axis.columns
    spans = lane.spans(now)
    for span in spans:
        start, end = axis.since(span.start), axis.since(span.end)
        cells[start:end] = [Cell(span.kind)] * (end - start)
    for stall in lane.stalls:
        cells[axis.column(stall.start)] = Cell.STALL
    if lane.ending is not None and lane.request.finished is not None:
        cells[axis.column(lane.request.finished)] = lane.ending.cell
    elif lane.request.phase is Phase.DECODE:
        cells[axis.column(now)] = Cell.RUNNING
    else:
        cells[axis.column(now)] = Cell(spans[-1].kind)
    return cells


def _tick_label(second: int) -> str:
    minutes, seconds = divmod(second, 60)
    return f"{minutes}:{seconds:02}" if minutes else f"{seconds}" if second else "0 s"
