"""Which lanes the live verdict is about, and when there is one."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from dspark_tui.batch.judged import baseline, verdict
from dspark_tui.batch.lanes import Lane
from engine.events import Phase, RequestState
from engine.proof.shape import Solo
from engine.proof.verdict import Name, Verdict
from engine.types import FinishReason

SOLO = Solo(0.1, 2.0, 64)


def lane(
    queued: float = 0.0, first: float | None = 0.1, end: float | None = 2.0, tokens: int = 64
) -> Lane:
    """A request that ended, or waits if it has no first token."""
    state = RequestState("id", "", Phase.FINISHED, 10, 64, queued)
    if first is None:
        return Lane(1, replace(state, phase=Phase.QUEUED))
    reason = None if end is None else FinishReason.LENGTH
    last = first + 1 if end is None else end
    return Lane(
        1,
        replace(
            state, first_token=first, last_token=last, tokens=tokens, finished=end, reason=reason
        ),
    )


def judged(*lanes: Lane, solo: Solo | None = SOLO, slots: int = 8) -> Verdict | None:
    return verdict(lanes, solo, slots)


def test_requests_sent_together_are_judged_as_soon_as_each_has_enough_tokens() -> None:
    found = judged(lane(), lane(0.2), lane(0.29, end=None, tokens=40))
    assert found is not None
    assert found.name is Name.BATCHED
    assert judged(lane(), lane(), lane(end=None, tokens=31)) is None
    assert judged(lane(), lane(), lane(first=None, end=None)) is None


def test_one_request_or_several_at_different_times_are_no_burst() -> None:
    assert judged(lane()) is None
    assert judged(lane(), lane(0.31)) is None


def test_the_latest_burst_is_meant() -> None:
    early = [lane(), lane()]
    late = [lane(10.0 + n * 0.01, 10.1 + 2 * n, 12.0 + 2 * n) for n in range(4)]
    found = judged(*late, *early)
    assert found is not None
    assert found.name is Name.QUEUE


def test_more_requests_than_slots_are_groups() -> None:
    found = judged(lane(), lane(), lane(0.1, 2.1, 4.0), lane(0.1, 2.1, 4.0), slots=2)
    assert found is not None
    assert found.name is Name.GROUPS
    assert "slots: 2" in found.main.sentence


def test_who_was_stopped_early_does_not_count() -> None:
    stopped = lane(tokens=3)
    cancelled = replace(stopped.request, reason=FinishReason.CANCELLED)
    stopped = structs.replace(stopped, request=cancelled)
    found = judged(lane(), lane(), stopped)
    assert found is not None
    assert found.shape is not None
    assert found.shape.requests == 2
    assert judged(lane(), stopped) is None


def test_the_quickest_long_enough_request_alone_is_the_baseline() -> None:
    first = baseline([lane()], None)
    assert first is not None
    assert first.rate == 32.0
    assert baseline([lane(end=4.0)], first) is first
    quicker = baseline([lane(end=1.0)], first)
    assert quicker is not None
    assert quicker.rate == 64.0
    assert baseline([lane(tokens=31)], None) is None
    assert baseline([lane(), lane()], None) is None
    assert baseline([lane(first=None)], first) is first
