"""A recording's figures, recomputed from its events alone: one burst after the other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from msgspec import Struct

from dspark_tui.batch.lanes import Lane
from dspark_tui.batch.live import Aggregate, LiveState
from dspark_tui.text.counted import counted
from engine.events import Event, Queued, Snapshot, Warning
from engine.proof.recording import CUT_OFF
from engine.proof.verdict import Verdict


class BurstFigures(Struct, frozen=True):
    """Everything from the engine's waking to its being idle again, or to the recording's end.

    start, end: engine seconds. requests: all of them, those included whose lanes are forgotten.
    widest: rows that shared a step. verdict: None where nothing was sent together. cut_off: the
    requests that the recording left without an end.
    """

    start: float
    end: float
    requests: int
    lanes: tuple[Lane, ...]
    aggregate: Aggregate | None
    widest: int
    verdict: Verdict | None
    cut_off: frozenset[str]

    @property
    def size(self) -> str:
        """How many requests, in words."""
        return counted(self.requests, "request")


def burst_figures(events: Iterable[Event]) -> list[BurstFigures]:
    """The figures of each burst. One that ran alone is the baseline of those after it."""
    told = tuple(events)
    warnings = (event for event in told if isinstance(event, Warning))
    cut_off = {w.request for w in warnings if w.code == CUT_OFF and w.request is not None}
    return [_figures(state, now, cut_off) for state, now in _bursts(told)]


def _bursts(events: Iterable[Event]) -> Iterator[tuple[LiveState, float]]:
    """The state at the end of each burst, and the time of the last event until then."""
    state, now = LiveState(), 0.0
    for event in events:
        if state.burst is not None and _ends_burst(event, state):
            yield state, now
        state.apply(event)
        now = max(now, event.time)
    if state.burst is not None:
        yield state, now


def _ends_burst(event: Event, state: LiveState) -> bool:
    """Does the event begin another burst, or a state that knows nothing of this one?"""
    match event:
        case Queued():
            return not state.active
        case Snapshot():
            known = {request.request for request in event.requests}
            return known.isdisjoint(lane.request.request for lane in state.lanes)
    return False


def _figures(state: LiveState, now: float, cut_off: Set[str]) -> BurstFigures:
    assert state.burst is not None
    start, lanes = state.burst.start, tuple(state.lanes)
    return BurstFigures(
        start=start,
        end=state.end(now),
        requests=state.burst.requests,
        lanes=lanes,
        aggregate=state.aggregate(now),
        widest=state.widths.peak(start),
        verdict=state.verdict,
        cut_off=frozenset(lane.id for lane in lanes if lane.id in cut_off),
    )
