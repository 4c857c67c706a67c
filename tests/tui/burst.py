"""A burst to draw and to check by hand: a broadcast, a long prompt that joins it, one that waits.

Times are seconds after START. Three requests start at 0 and read their prompts until 0.5. r4 joins
at 4.0 while they decode; its prompt holds them up from 5.0 to 6.0 and is read at 7.0. r2 ends at
6.7. r5 waits from 7.0 to 9.0 and writes from 9.5. r1 ends at 14.0. r6 is queued from 13.0 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.events import (
    Admitted,
    EngineStatus,
    Event,
    Finished,
    FirstToken,
    ModelInfo,
    Prefill,
    Queued,
    Snapshot,
    Step,
)
from engine.types import FinishReason

START = 1000.0
NOW = START + 14.5
STEP = 0.05
MODEL = ModelInfo("smollm2-135m", "llama", 135_000_000, 8192, "fp32", 540_000_000, 46_080)


def snapshot(slots: int = 8, time: float = START) -> Snapshot:
    """An idle engine that has loaded."""
    return Snapshot(time, 1_700_000_000.0, EngineStatus.OK, slots, 256, model=MODEL, pid=4711)


def burst() -> list[Event]:
    """Every event of it, a snapshot first, in the order an engine sends them."""
    lives = [
        *(Life(f"r{n}", source, 0.0, 0.0, 0.5, end) for n, source, end in BROADCAST),
        Life("r4", "4 long-context", 4.0, 4.0, 7.0, None, prompt=3912),
        Life("r5", "2 terse", 7.0, 9.0, 9.5, None),
        Life("r6", "1 control", 13.0, None, None, None),
    ]
    return [snapshot(), *events_of(lives, hold=(5.0, 6.0))]


def events_of(lives: list[Life], hold: tuple[float, float] = (0.0, 0.0)) -> list[Event]:
    """What an engine says of these requests up to NOW. hold: no step is made between these."""
    events: list[tuple[float, Event]] = []
    for life in lives:
        events += life.events(lives)
    counts = {life.id: 0 for life in lives}
    for n in range(int((NOW - START) / STEP) + 1):
        time = round(n * STEP, 3)
        rows = [life.id for life in lives if life.decodes(time)]
        if rows and not hold[0] < time < hold[1]:
            for row in rows:
                counts[row] += 1
            step = Step(START + time, "decode", len(rows), dict.fromkeys(rows, 1), STEP * 1000)
            events.append((time, step))
    for life in lives:
        if life.end is not None:
            finished = Finished(START + life.end, life.id, life.reason, counts[life.id], life.end)
            events.append((life.end, finished))
    return [event for _, event in sorted(events, key=lambda pair: pair[0])]


def lone_request(start: float, tokens: int, seconds: float) -> list[Event]:
    """A request that runs all alone from `start` to its end."""
    end = start + seconds
    step = Step(end, "decode", 1, {"alone": tokens}, seconds * 1000, tokens)
    return [
        Queued(start, "alone", "", 40, tokens, 1),
        Admitted(start, "alone", 0, 0.0, False, 0),
        FirstToken(start + seconds / tokens, "alone"),
        step,
        Finished(end, "alone", FinishReason.LENGTH, tokens, seconds),
    ]


BROADCAST = [(1, "1 control", 14.0), (2, "2 terse", 6.7), (3, "3 hot", None)]


@dataclass(slots=True)
class Life:
    """A request. Times are seconds after START, None for what has not happened by NOW."""

    id: str
    source: str
    queued: float
    admitted: float | None
    first: float | None
    end: float | None
    prompt: int = 40
    reason: FinishReason = FinishReason.STOP
    slot: int | None = None  # that of its number, unless it had to wait for another's

    def decodes(self, time: float) -> bool:
        return self.first is not None and self.first <= time and (self.end or 1e9) > time

    def events(self, others: list[Life]) -> list[tuple[float, Event]]:
        queued = Queued(START + self.queued, self.id, self.source, self.prompt, 512, 1)
        events: list[tuple[float, Event]] = [(self.queued, queued)]
        if self.admitted is not None:
            mid_flight = any(other.decodes(self.admitted) for other in others)
            slot = int(self.id[1:]) - 1 if self.slot is None else self.slot
            waited = self.admitted - self.queued
            admitted = Admitted(START + self.admitted, self.id, slot, waited, mid_flight, 0)
            events.append((self.admitted, admitted))
        if self.first is not None:
            read = Prefill(START + self.first, self.id, self.prompt, self.prompt, 10.0)
            events += [(self.first, read), (self.first, FirstToken(START + self.first, self.id))]
        return events
