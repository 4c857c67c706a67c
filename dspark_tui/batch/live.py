"""Fold the engine's events into what the batch panel shows. Pure: every number is recomputable.

`EngineState` keeps where each request is; on top of it this adds what only a viewer needs: the
current burst, stalls, the running width over time, and one line for each thing worth a warning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median

from msgspec import Struct

from dspark_tui.batch.judged import baseline, verdict
from dspark_tui.batch.lanes import Lane, Span, SpanKind, first_known
from dspark_tui.batch.tracks import Tracks
from dspark_tui.batch.widths import WidthHistory
from dspark_tui.text.counted import counted
from engine.events import (
    Capability,
    Event,
    Finished,
    Phase,
    Preempted,
    Queued,
    RequestState,
    Snapshot,
    Step,
    Waiting,
    Warning,
)
from engine.proof.shape import Solo
from engine.proof.verdict import Verdict
from engine.state import EngineState
from engine.types import FinishReason

STALL_FLOOR = 0.25
"""Seconds without a token below which nobody notices, whatever the model's speed."""
STALL_STEPS = 5
"""A gap of fewer median steps than this is jitter."""
RECENT_STEPS = 64
NOTICES_KEPT = 100
VIEW = "view"
"""The capability that says how much of the batch the events tell, where that isn't all of it."""


class Notice(Struct, frozen=True):
    """Something worth a look, with its cause and a number. requests: whom it is about."""

    time: float
    text: str
    requests: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([*self.requests, self.text])


class Aggregate(Struct, frozen=True):
    """Tokens all requests of a burst generated, and the seconds from its first submission to its
    last token (or to now). Never a sum of rates."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens a second, 0 before any time has passed."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


class Burst(Struct):
    """Everything since the engine was last idle. Counts include requests already forgotten."""

    start: float
    requests: int = 0
    tokens: int = 0
    last_token: float | None = None


class LiveState:
    """The batch as a viewer sees it. Mutable; only `apply` and `claim` write.

    version: changes with every event, so that a viewer can tell whether there is anything new.
    solo: the quickest request that ran all alone on this engine.
    """

    def __init__(self, *, shared: bool = False) -> None:
        """shared: others may ask the engine too, so what nobody claims is foreign; in a recording
        nobody is told apart."""
        self.engine = EngineState()
        self.version = 0
        self._shared = shared
        self.burst: Burst | None = None
        self.solo: Solo | None = None
        self.widths = WidthHistory()
        self.notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        self._tracks = Tracks()
        self._step_seconds: deque[float] = deque(maxlen=RECENT_STEPS)

    def apply(self, event: Event) -> None:
        """Take one event into account, in the order the engine sent it."""
        self.version += 1
        match event:
            case Snapshot():
                self._restore(event)
            case Queued():
                self._submit(event)
            case Step():
                self._step(event)
            case Finished():
                self._finish(event)
            case Waiting() | Preempted():
                self.engine.apply(event)
                self._notice(event.time, f"waits: {event.why}", event.request)
            case Warning():
                self._notice(event.time, event.message, *filter(None, [event.request]))
            case _:
                self.engine.apply(event)

    def claim(self, requests: Iterable[str]) -> None:
        """They were sent from here, whether or not an event has told of them yet."""
        self._tracks.claim(requests)

    @property
    def strangers(self) -> set[str]:
        """The requests that nobody has claimed."""
        return set(self._tracks.strangers())

    @property
    def active(self) -> bool:
        """Is any request queued or running?"""
        return any(r.finished is None for r in self.engine.requests.values())

    @property
    def by_stopwatch(self) -> bool:
        """Are the events our own, made from what is seen of our requests to another server?"""
        return VIEW in self.engine.capabilities

    @property
    def refusals(self) -> list[Capability]:
        """What was asked of the engine and is not done."""
        return [c for c in self.engine.capabilities.values() if c.refused]

    @property
    def lanes(self) -> list[Lane]:
        """The current burst's requests in order of submission; the oldest of many are forgotten."""
        if self.burst is None:
            return []
        lanes = (self._lane(r) for r in self.engine.requests.values())
        burst = [lane for lane in lanes if lane.request.queued >= self.burst.start]
        return sorted(burst, key=lambda lane: lane.number)

    @property
    def occupancy(self) -> list[Lane | None]:
        """Who holds each slot."""
        slots: list[Lane | None] = [None] * self.engine.slots
        for lane in self.lanes:
            slot = lane.request.slot
            if lane.running and slot is not None and slot < len(slots):
                slots[slot] = lane
        return slots

    @property
    def queue(self) -> list[Lane]:
        """Who waits for a slot, next first."""
        return [lane for lane in self.lanes if lane.request.phase is Phase.QUEUED]

    def end(self, now: float) -> float:
        """Where the current burst ends: now while it runs, else when its last request left."""
        if self.active:
            return now
        return max((first_known(lane.request.finished, now) for lane in self.lanes), default=now)

    def aggregate(self, now: float) -> Aggregate | None:
        """The current burst's tokens over its wall time; None before its first token."""
        burst = self.burst
        if burst is None or burst.last_token is None:
            return None
        end = now if self.active else burst.last_token
        return Aggregate(burst.tokens, end - burst.start)

    @property
    def verdict(self) -> Verdict | None:
        """What the current burst shows; None while there is too little of it."""
        return verdict(self.lanes, self.solo, self.engine.slots or None)

    def name(self, request: str) -> str:
        """How a line of text calls a request: "r4", the number its lane carries."""
        return f"r{self._tracks[request].number}" if request in self._tracks else request

    def _lane(self, request: RequestState) -> Lane:
        track = self._tracks[request.request]
        foreign = self._shared and not self.by_stopwatch and not track.ours
        return Lane(track.number, request, tuple(track.stalls), self.by_stopwatch, foreign)

    def _notice(self, time: float, text: str, *requests: str) -> None:
        """Put a notice first; one that says the same of another request joins the latest."""
        names = tuple(self.name(request) for request in requests)
        if requests and self.notices and self.notices[0].text == text:
            names = tuple(dict.fromkeys(self.notices.popleft().requests + names))
        self.notices.appendleft(Notice(time, text, names))

    def _submit(self, event: Queued) -> None:
        if self.burst is None or not self.active:
            self.burst = Burst(event.time)
            kept = [notice for notice in self.notices if not notice.requests]  # others are history
            self.notices = deque(kept, NOTICES_KEPT)
        self.burst.requests += 1
        self._tracks.begin(event.request)
        self.engine.apply(event)

    def _step(self, event: Step) -> None:
        each = event.milliseconds / 1000 / max(1, event.steps)
        self._mark_stalls(event, event.time - each * (event.steps - 1))
        self._step_seconds.append(each)
        self.widths.record(event.time - each * event.steps, event.width)
        known = [n for request, n in event.tokens.items() if request in self.engine.requests]
        if self.burst is not None and known:
            self.burst.tokens += sum(known)
            self.burst.last_token = event.time
        self.engine.apply(event)

    def _mark_stalls(self, event: Step, first_token: float) -> None:
        """Find rows that had no token for long before this step while another prompt was read."""
        usual = median(self._step_seconds) if self._step_seconds else 0.0
        limit = max(STALL_FLOOR, STALL_STEPS * usual)
        held: dict[str, list[Span]] = {}
        for request in event.tokens:
            state = self.engine.requests.get(request)
            if state is None or state.last_token is None:
                continue
            gap = Span(SpanKind.STALL, state.last_token, first_token)
            cause = self._reading_during(gap, request) if gap.end - gap.start > limit else None
            if cause is not None:
                self._tracks[request].stalls.append(gap)
                held.setdefault(cause, []).append(gap)
        for cause, gaps in held.items():
            seconds = max(gap.end - gap.start for gap in gaps)
            held_up = counted(len(gaps), "row")
            self._notice(event.time, f"held up {held_up} for {seconds:.1f} s (prefill)", cause)

    def _reading_during(self, gap: Span, stalled: str) -> str | None:
        """The other request whose prefill overlaps the gap, the longest prompt if several do."""
        readers = [
            r
            for r in self.engine.requests.values()
            if r.request != stalled
            and r.admitted is not None
            and r.admitted < gap.end
            and first_known(r.first_token, r.finished, gap.end) > gap.start
        ]
        longest = max(readers, key=lambda r: r.prompt_tokens, default=None)
        return None if longest is None else longest.request

    def _finish(self, event: Finished) -> None:
        before = self.engine.requests.get(event.request)
        if before is not None and self.burst is not None:
            self.burst.tokens += event.tokens - before.tokens
        self.engine.apply(event)
        if self.burst is not None and self.burst.requests == 1:
            self.solo = baseline(self.lanes, self.solo)
        requests = self.engine.requests
        self._tracks.keep(requests)
        if not any(r.phase is Phase.DECODE for r in requests.values()):
            self.widths.record(event.time, 0)
        if event.error:
            how = "failed" if event.reason is FinishReason.ERROR else "ended"
            self._notice(event.time, f"{how}: {event.error}", event.request)

    def _restore(self, snapshot: Snapshot) -> None:
        """Start over from a snapshot; stalls before it are known only if we saw them ourselves."""
        if self.engine.pid not in (0, snapshot.pid):
            self._notice(snapshot.time, "the engine was restarted")
            self._tracks.clear()
            self.solo = None
        self.engine.apply(snapshot)
        requests = sorted(snapshot.requests, key=lambda r: r.queued)
        for request in requests:
            if request.request not in self._tracks:
                self._tracks.begin(request.request)
        self._tracks.keep({request.request for request in requests})
        self.burst = _latest_burst(requests)
        self.widths = WidthHistory.of(requests)


def _latest_burst(requests: list[RequestState]) -> Burst | None:
    """The burst the last of these belongs to. requests: in order of submission."""
    burst: Burst | None = None
    busy_until = float("-inf")
    for r in requests:
        if burst is None or r.queued >= busy_until:
            burst = Burst(r.queued)
        busy_until = max(busy_until, first_known(r.finished, float("inf")))
        burst.requests += 1
        burst.tokens += r.tokens
        if r.last_token is not None:
            burst.last_token = max(first_known(burst.last_token, r.last_token), r.last_token)
    return burst
