"""The live view's requests as a table for other programs."""

from __future__ import annotations

from dspark_tui.batch.lane_rows import COLUMNS, lane_rows
from dspark_tui.batch.lanes import Lane
from engine.events import Phase, RequestState
from engine.types import FinishReason

QUEUED = RequestState("id", "1", Phase.QUEUED, 10, 100, queued=2.0)
ENDED = RequestState(
    *("id", "1", Phase.FINISHED, 10, 100),
    queued=2.0,
    admitted=3.0,
    first_token=4.0,
    finished=8.2,
    reason=FinishReason.CANCELLED,
)


def test_a_row_has_every_time_that_is_known_and_no_other() -> None:
    lanes = [Lane(1, ENDED), Lane(2, QUEUED), Lane(3, QUEUED, by_stopwatch=True)]
    first, queued, elsewhere = (
        dict(zip(COLUMNS, row, strict=True)) for row in lane_rows(lanes, 9.5, 1_000_000.0)
    )
    times = [first[name] for name in ("waited", "prefill", "ttft", "total")]
    assert times == [1.0, 1.0, 2.0, 6.2]
    assert first["start"] == "1970-01-12T13:46:32.500+00:00"
    assert first["end"] == "1970-01-12T13:46:38.700+00:00"
    assert (first["state"], first["reason"]) == ("stopped", "cancelled")
    assert (queued["state"], queued["waited"]) == ("queued", 7.5)
    assert (elsewhere["state"], elsewhere["waited"]) == ("sent", None)
    for row in (queued, elsewhere):
        assert {row[name] for name in ("end", "prefill", "ttft", "total", "reason")} == {None}
    assert (queued["prompt_tokens"], elsewhere["prompt_tokens"]) == (10, None)
