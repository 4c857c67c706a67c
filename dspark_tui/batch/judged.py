"""What the lanes of a burst say about the engine, by the function that judges a bench. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dspark_tui.batch.lanes import Lane
from engine.proof.shape import Solo, Timing
from engine.proof.verdict import ENOUGH_TOKENS, Verdict, judge_burst
from engine.types import FinishReason

AT_ONCE = 0.3
"""Seconds within which requests count as sent together."""


def verdict(lanes: Iterable[Lane], solo: Solo | None, slots: int | None) -> Verdict | None:
    """On the latest lanes that were sent together; None before each of them has enough tokens.

    slots: None where the server doesn't say.
    """
    groups = [group for group in _sent_together(lanes) if len(group) >= 2]
    if not groups:
        return None
    heard = [lane for lane in groups[-1] if not _broken_off(lane)]
    if any(r.finished is None and r.tokens < ENOUGH_TOKENS for r in (h.request for h in heard)):
        return None
    timings = [found for lane in heard if (found := timing(lane)) is not None]
    return judge_burst(timings, solo, slots) if len(timings) >= 2 else None


def baseline(lanes: Sequence[Lane], known: Solo | None) -> Solo | None:
    """The baseline after a burst: its one request if that ran alone for long enough and was the
    quickest yet. The quickest, for a gain must not look better because a prompt was long."""
    found = timing(lanes[0]) if len(lanes) == 1 else None
    if found is None or found.tokens < ENOUGH_TOKENS or found.seconds <= 0:
        return known
    solo = Solo.of([found])
    return solo if known is None or solo.rate > known.rate else known


def timing(lane: Lane) -> Timing | None:
    """The lane as the verdict takes it; None before its first token."""
    r = lane.request
    if r.first_token is None or r.last_token is None or not r.tokens:
        return None
    return Timing(r.queued, r.first_token, r.last_token, r.tokens)


def _sent_together(lanes: Iterable[Lane]) -> list[list[Lane]]:
    groups: list[list[Lane]] = []
    for lane in sorted(lanes, key=lambda lane: lane.request.queued):
        if groups and lane.request.queued - groups[-1][0].request.queued <= AT_ONCE:
            groups[-1].append(lane)
        else:
            groups.append([lane])
    return groups


def _broken_off(lane: Lane) -> bool:
    """Did it end before it had enough to say?"""
    early = lane.request.tokens < ENOUGH_TOKENS
    return early and lane.request.reason in (FinishReason.CANCELLED, FinishReason.ERROR)
