"""A recording's figures, recomputed from its events alone: one burst after the other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dspark_tui.lanes import Lane
from dspark_tui.live import Aggregate, LiveState
from engine.events import Event, Queued, Snapshot
from engine.proof.shape import Solo, Timing
from engine.proof.verdict import Verdict, judge_burst

AT_ONCE = 0.3
"""Seconds within which requests count as sent together."""

BASELINE_TOKENS = 32
"""Of an answer generated alone, below which its rate is no baseline."""


@dataclass(frozen=True, slots=True)
class BurstFigures:
    """Everything from the engine's waking to its being idle again, or to the recording's end.

    start, end: engine seconds. requests: all of them, those included whose lanes are forgotten.
    widest: rows that shared a step. verdict: None where nothing was sent together.
    """

    start: float
    end: float
    requests: int
    lanes: tuple[Lane, ...]
    aggregate: Aggregate | None
    widest: int
    verdict: Verdict | None


def burst_figures(events: Iterable[Event]) -> list[BurstFigures]:
    """The figures of each burst. One that ran alone is the baseline of those after it."""
    found: list[BurstFigures] = []
    alone: list[Timing] = []
    for state, now in _bursts(events):
        figures = _figures(state, now, Solo.of(alone) if alone else None)
        found.append(figures)
        alone += baseline(figures.lanes)
    return found


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


def _figures(state: LiveState, now: float, solo: Solo | None) -> BurstFigures:
    assert state.burst is not None
    start, lanes = state.burst.start, tuple(state.lanes)
    return BurstFigures(
        start=start,
        end=state.end(now),
        requests=state.burst.requests,
        lanes=lanes,
        aggregate=state.aggregate(now),
        widest=state.widths.peak(start),
        verdict=verdict(lanes, solo, state.engine.slots),
    )


def verdict(lanes: Iterable[Lane], solo: Solo | None, slots: int) -> Verdict | None:
    """What the lanes that were sent together say; None if there are fewer than two."""
    known = [lane for lane in lanes if timing(lane) is not None]
    start = min((lane.request.queued for lane in known), default=0.0)
    together = [lane for lane in known if lane.request.queued - start <= AT_ONCE]
    timings = [found for lane in together if (found := timing(lane)) is not None]
    return judge_burst(timings, solo, slots) if len(timings) >= 2 else None


def baseline(lanes: tuple[Lane, ...]) -> list[Timing]:
    """The timing of a request that ran all alone, if these lanes are one and it is long enough."""
    found = timing(lanes[0]) if len(lanes) == 1 else None
    return [found] if found is not None and found.tokens >= BASELINE_TOKENS else []


def timing(lane: Lane) -> Timing | None:
    """The lane as the verdict takes it; None before its first token."""
    r = lane.request
    if r.first_token is None or r.last_token is None or not r.tokens:
        return None
    return Timing(r.queued, r.first_token, r.last_token, r.tokens)
