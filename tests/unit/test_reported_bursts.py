"""Four requests as two people reported them, replayed: a queue called parallel, a real batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dspark_tui.batch.figures import BurstFigures, burst_figures
from engine.events import Admitted, Event, Finished, FirstToken, Queued, Step
from engine.proof.verdict import Name
from engine.types import FinishReason
from tests.tui.burst import START, lone_request, snapshot

TOKENS = 60
ALONE = 3.0


def replayed(begins: Sequence[float], ends: Sequence[float]) -> BurstFigures:
    """Requests sent at once, each writing evenly from begin to end; one ran alone before."""
    sent = START + 10
    timed: list[tuple[float, Event]] = []
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True), 1):
        id = f"r{number}"
        pace = (end - begin) / TOKENS
        timed += [
            (sent, Queued(sent, id, id, 20, TOKENS, number)),
            (sent + begin, Admitted(sent + begin, id, number - 1, begin, False, 0)),
            (sent + begin + pace, FirstToken(sent + begin + pace, id)),
            (sent + end, Finished(sent + end, id, FinishReason.LENGTH, TOKENS, end)),
        ]
        for token in range(1, TOKENS + 1):
            time = sent + begin + pace * token
            timed.append((time - 1e-6, Step(time - 1e-6, "decode", 1, {id: 1}, pace * 1000)))
    events = [event for _, event in sorted(timed, key=lambda pair: pair[0])]
    *_, figures = burst_figures([snapshot(), *lone_request(START, TOKENS, ALONE), *events])
    return figures


def test_ends_after_3_6_9_and_13_seconds_are_a_queue() -> None:
    figures = replayed([0, 3, 6, 9], [3, 6, 9, 13])
    assert figures.verdict is not None
    assert figures.verdict.name is Name.QUEUE
    assert figures.aggregate is not None
    assert figures.aggregate.rate == pytest.approx(4 * TOKENS / 13, rel=0.01)


def test_four_ends_after_4_9_seconds_are_a_batch() -> None:
    figures = replayed([0] * 4, [4.9] * 4)
    assert figures.verdict is not None
    assert figures.verdict.name is Name.BATCHED
    assert figures.verdict.shape is not None
    assert figures.verdict.shape.gain == pytest.approx(4 * ALONE / 4.9, rel=0.01)
