"""The shape of a burst: whose spans overlap, who was done when, what was gained. Arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

AT_ONCE = 0.1
"""Text that takes less of a request's time than this share came in one piece, and its first token
says nothing about when the work began."""
ASSUMED_SPAN = 0.8
"""Share of the solo time such a request is taken to have been worked on before it ended."""
TOUCH = 0.1
"""Spans that overlap by less than this share of a span follow each other; jitter does that."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One request by one clock, in seconds. end: its last token so far. tokens: at least 1."""

    submit: float
    first: float
    end: float
    tokens: int

    @property
    def seconds(self) -> float:
        return self.end - self.submit

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.first - self.submit

    def reached(self, tokens: int) -> float:
        """When it had this many tokens, at a steady pace from its first to its last."""
        if self.tokens < 2:
            return self.end
        return self.first + (self.end - self.first) * (tokens - 1) / (self.tokens - 1)


@dataclass(frozen=True, slots=True)
class Solo:
    """The baseline: what one request takes alone. jitter: how far repeats of it differed."""

    ttft: float
    seconds: float
    tokens: int
    jitter: float = 0.0

    @classmethod
    def of(cls, runs: Sequence[Timing]) -> Solo:
        """The middle one of at least one run."""
        middle = sorted(runs, key=lambda run: run.seconds / run.tokens)[(len(runs) - 1) // 2]
        times = [run.seconds for run in runs]
        return cls(middle.ttft, middle.seconds, middle.tokens, max(times) - min(times))

    @property
    def rate(self) -> float:
        """Tokens a second, the wait for the first one included."""
        return self.tokens / self.seconds

    @property
    def step(self) -> float:
        """Seconds for each token after the first."""
        return (self.seconds - self.ttft) / max(1, self.tokens - 1)

    def seconds_for(self, tokens: int) -> float:
        """How long this many tokens take alone."""
        return self.ttft + self.step * (tokens - 1)


@dataclass(frozen=True, slots=True)
class Span:
    """While a request was being answered."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Shape:
    """The figures a burst is judged by.

    tokens: the first so many of every request are compared, the fewest any produced. spread: of the
    ends, 0 a cluster and 1 a staircase. overlap: share of the time at least two answers grew, of
    the time any did. waves: how many requests ran in each group whose spans follow another's.
    wave_spread: the largest spread within a wave. seconds: first submission to last end. aggregate:
    all tokens over that time. gain: how much sooner all were at `tokens` than one after the other,
    None without a baseline; for equal lengths the aggregate over the solo rate.
    """

    requests: int
    tokens: int
    spread: float
    overlap: float
    waves: tuple[int, ...]
    wave_spread: float
    seconds: float
    aggregate: float
    gain: float | None

    @classmethod
    def of(cls, timings: Sequence[Timing], solo: Solo | None = None) -> Shape:
        """timings: at least one, submitted together."""
        tokens = min(timing.tokens for timing in timings)
        start = min(timing.submit for timing in timings)
        spans = _spans(timings, tokens, solo)
        waves = _waves(spans)
        times = [timing.reached(tokens) - timing.submit for timing in timings]
        reached = max(timing.reached(tokens) for timing in timings) - start
        seconds = max(timing.end for timing in timings) - start
        aggregate = sum(timing.tokens for timing in timings) / seconds if seconds else 0.0
        return cls(
            requests=len(timings),
            tokens=tokens,
            spread=spread(times),
            overlap=_overlap(spans),
            waves=tuple(len(wave) for wave in waves),
            wave_spread=_wave_spread(waves, start),
            seconds=seconds,
            aggregate=aggregate,
            gain=len(timings) * solo.seconds_for(tokens) / reached if solo and reached else None,
        )


def spread(times: Sequence[float]) -> float:
    """How far apart requests were done: 0 all at once, 1 an even staircase from the first on."""
    last = max(times)
    if len(times) < 2 or last <= 0:
        return 0.0
    return (last - min(times)) / last / ((len(times) - 1) / len(times))


def _spans(timings: Sequence[Timing], tokens: int, solo: Solo | None) -> list[Span]:
    """First token to the last compared one; where text came in one piece, as the baseline says."""
    seen = [Span(timing.first, timing.reached(tokens)) for timing in timings]
    shares = [
        (span.end - span.start) / max(span.end - timing.submit, 1e-9)
        for span, timing in zip(seen, timings, strict=True)
    ]
    if median(shares) >= AT_ONCE:
        return seen
    quickest = min(span.end - timing.submit for span, timing in zip(seen, timings, strict=True))
    alone = solo.seconds_for(tokens) if solo else quickest
    return [Span(span.end - ASSUMED_SPAN * alone, span.end) for span in seen]


def _waves(spans: Sequence[Span]) -> list[list[Span]]:
    """Groups in order of time; one starts when somebody of the group before has ended."""
    touch = TOUCH * median(span.end - span.start for span in spans)
    waves: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if waves and span.start < min(other.end for other in waves[-1]) - touch:
            waves[-1].append(span)
        else:
            waves.append([span])
    return waves


def _wave_spread(waves: Sequence[Sequence[Span]], start: float) -> float:
    """The largest spread of ends within a wave, each measured from the end of the wave before."""
    starts = [start, *(max(span.end for span in wave) for wave in waves)]
    return max(
        spread([span.end - begin for span in wave])
        for begin, wave in zip(starts, waves, strict=False)
    )


def _overlap(spans: Sequence[Span]) -> float:
    changes = sorted([(span.start, 1) for span in spans] + [(span.end, -1) for span in spans])
    width, shared, busy = 0, 0.0, 0.0
    for (time, change), (until, _) in pairwise(changes):
        width += change
        shared += (until - time) * (width >= 2)
        busy += (until - time) * (width >= 1)
    return shared / busy if busy else 0.0
