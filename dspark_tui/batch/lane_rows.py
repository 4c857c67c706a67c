"""The requests of the live view as a table for other programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from dspark_tui.batch.lanes import Lane
from engine.events import Phase

COLUMNS = (
    "request", "source", "state", "prompt_tokens", "cached_tokens", "tokens",
    "start", "end", "waited", "prefill", "ttft", "total", "reason",
)  # fmt: skip
"""start, end: UTC. waited, prefill, ttft, total: seconds."""


def lane_rows(lanes: Iterable[Lane], now: float, wall: float) -> Iterator[tuple[object, ...]]:
    """A row for each request, whoever asked; None for what is not known, or not yet.

    now: the engine's clock. wall: Unix time at that moment.
    """
    for lane in lanes:
        request = lane.request
        unseen = lane.by_stopwatch and request.phase is Phase.QUEUED
        yield (
            request.request,
            request.source,
            "sent" if unseen else str(lane.ending or request.phase),
            None if lane.by_stopwatch else request.prompt_tokens,
            None if lane.by_stopwatch else request.cached_tokens,
            request.tokens,
            _moment(request.queued, now, wall),
            _moment(request.finished, now, wall),
            _seconds(lane.waited(now)),
            _seconds(_since(request.admitted, request.first_token)),
            _seconds(lane.ttft),
            _seconds(lane.completion_time),
            None if request.reason is None else request.reason.value,
        )


def _since(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start


def _seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _moment(time: float | None, now: float, wall: float) -> str | None:
    if time is None:
        return None
    return datetime.fromtimestamp(wall + time - now, UTC).isoformat(timespec="milliseconds")
