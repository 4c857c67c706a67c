"""How many rows shared each forward, over time. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import accumulate

from msgspec import Struct

from engine.events import RequestState

WIDTH_SECONDS = 20 * 60


class WidthSample(Struct, frozen=True):
    """From `time` on, this many rows shared each forward."""

    time: float
    width: int


class WidthHistory:
    """The running width as a step function of engine time, over the latest twenty minutes."""

    def __init__(self, samples: Iterable[WidthSample] = ()) -> None:
        self.samples = deque(samples)

    @classmethod
    def of(cls, requests: Iterable[RequestState]) -> WidthHistory:
        """What a viewer would have recorded, from when each request decoded."""
        decoded = [r for r in requests if r.first_token is not None]
        joined = [(r.first_token or 0.0, 1) for r in decoded]
        left = [(r.finished, -1) for r in decoded if r.finished is not None]
        changes = sorted(joined + left)
        widths = accumulate(change for _, change in changes)
        return cls(
            WidthSample(time, width) for (time, _), width in zip(changes, widths, strict=True)
        )

    def record(self, time: float, width: int) -> None:
        """Note the width from `time` on; a time before the latest change counts as that change."""
        samples = self.samples
        if samples and samples[-1].width == width:
            return
        samples.append(WidthSample(max(time, samples[-1].time) if samples else time, width))
        while len(samples) > 1 and samples[1].time < time - WIDTH_SECONDS:
            samples.popleft()

    def at(self, times: Iterable[float]) -> list[int]:
        """The width at each of these times, 0 before the first sample."""
        starts = [s.time for s in self.samples]
        widths = [0, *(s.width for s in self.samples)]
        return [widths[bisect_right(starts, time)] for time in times]

    def peak(self, start: float) -> int:
        """The largest width since `start`."""
        return max([s.width for s in self.samples if s.time >= start] + self.at([start]))

    def mean(self, start: float, end: float) -> float:
        """Rows per forward averaged over the time something decoded between `start` and `end`."""
        area = busy = 0.0
        ends = [*(s.time for s in self.samples), end][1:]
        for sample, until in zip(self.samples, ends, strict=True):
            seconds = min(until, end) - max(sample.time, start)
            if sample.width and seconds > 0:
                area += sample.width * seconds
                busy += seconds
        return area / busy if busy else 0.0
