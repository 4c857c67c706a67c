"""The live fold: every number worked out by hand from the burst's times."""

from __future__ import annotations

import pytest

from dspark_tui.batch.lanes import Span, SpanKind
from dspark_tui.batch.live import LiveState
from dspark_tui.batch.widths import WIDTH_SECONDS, WidthHistory, WidthSample
from dspark_tui.engines.engine_clock import EngineClock
from engine.events import Admitted, Event, Finished, FirstToken, Prefill, Queued, Step, Waiting
from engine.events import Warning as EngineWarning
from engine.state import FINISHED_KEPT
from engine.types import FinishReason
from tests.tui.burst import NOW, START, burst, snapshot


def folded(events: list[Event]) -> LiveState:
    state = LiveState()
    for event in events:
        state.apply(event)
    return state


def request(id: str, at: float, tokens: int = 0, end: float | None = None) -> list[Event]:
    """A request that starts at once and gains all its tokens in one step at its end."""
    events: list[Event] = [
        Queued(at, id, id, 10, 100, 1),
        Admitted(at, id, 0, 0.0, False, 0),
        FirstToken(at, id),
    ]
    if end is not None:
        events.append(Step(end, "decode", 1, {id: tokens}, 10.0))
        events.append(Finished(end, id, FinishReason.LENGTH, tokens, end - at))
    return events


def test_lanes_tell_when_each_request_waited_read_wrote_and_ended() -> None:
    lanes = {lane.number: lane for lane in folded(burst()).lanes}
    assert list(lanes) == [1, 2, 3, 4, 5, 6]
    assert lanes[1].completion_time == 14.0
    assert lanes[3].completion_time is None
    assert lanes[5].waited(NOW) == pytest.approx(2.0)
    assert lanes[6].waited(NOW) == pytest.approx(1.5)
    assert [lanes[n].ttft for n in (1, 4, 5)] == pytest.approx([0.5, 3.0, 2.5])
    assert lanes[6].ttft is None
    assert [n for n in lanes if lanes[n].mid_flight] == [4, 5]
    assert [lane.request.tokens for lane in lanes.values()] == [251, 105, 262, 151, 101, 0]


def test_a_lanes_rate_is_its_tokens_over_first_to_last_token() -> None:
    lanes = {lane.number: lane for lane in folded(burst()).lanes}
    assert lanes[2].rate == pytest.approx(104 / (6.65 - 0.5))
    assert lanes[6].rate is None


def test_the_aggregate_is_all_tokens_over_wall_time_never_a_sum_of_rates() -> None:
    total = folded(burst()).aggregate(NOW)
    assert total is not None
    assert (total.tokens, total.seconds) == (251 + 105 + 262 + 151 + 101, pytest.approx(14.5))
    assert total.rate == pytest.approx(60.0)


def test_a_finished_burst_ends_at_its_last_token_however_late_one_looks() -> None:
    state = folded([snapshot(), *request("a", START, 30, START + 3)])
    total = state.aggregate(START + 100)
    assert total is not None
    assert (total.tokens, total.seconds) == (30, pytest.approx(3.0))
    assert not state.active


def test_the_gap_between_two_bursts_counts_for_neither() -> None:
    events = [*request("a", START, 30, START + 3), *request("b", START + 60, 20, START + 62)]
    state = folded([snapshot(), *events])
    total = state.aggregate(START + 100)
    assert total is not None
    assert (total.tokens, total.seconds) == (20, pytest.approx(2.0))
    assert [lane.label for lane in state.lanes] == ["b"]


def test_rows_held_up_by_another_prompt_are_marked_and_the_prompt_is_named() -> None:
    state = folded(burst())
    stall = Span(SpanKind.STALL, START + 5.0, START + 6.0)
    stalled = {lane.number: lane.stalls for lane in state.lanes if lane.stalls}
    assert stalled == {1: (stall,), 2: (stall,), 3: (stall,)}
    assert [str(notice) for notice in state.notices] == ["r4 held up 3 rows for 1.0 s (prefill)"]


def steady(gap: float, reader: bool, step: float = 0.05, steps: int = 1) -> LiveState:
    """One row that has written for a while, then nothing for `gap` seconds, then again."""
    events = [snapshot(), *request("a", START)]
    time = START
    for _ in range(20):
        time += step
        events.append(Step(time, "decode", 1, {"a": 1}, step * 1000))
    if reader:
        events.append(Queued(time, "b", "b", 4000, 100, 1))
        events.append(Admitted(time, "b", 1, 0.0, True, 0))
        events.append(Prefill(time + gap, "b", 4000, 4000, gap * 1000))
    length = step * steps
    resumed = time + gap + length - step
    events.append(Step(resumed, "decode", 1, {"a": steps}, length * 1000, steps))
    return folded(events)


@pytest.mark.parametrize(
    ("gap", "reader", "step", "steps", "stalls"),
    [
        (1.0, True, 0.05, 1, 1),
        (1.0, False, 0.05, 1, 0),  # merely slow: nobody else was reading a prompt
        (0.24, True, 0.05, 1, 0),  # too short to notice
        (0.9, True, 0.2, 1, 0),  # five steps of this model take longer
        (0.05, True, 0.05, 20, 0),  # twenty steps merged into one event are no gap
        (1.0, True, 0.05, 20, 1),
    ],
)
def test_only_a_long_gap_during_anothers_prefill_is_a_stall(
    gap: float, reader: bool, step: float, steps: int, stalls: int
) -> None:
    lane = steady(gap, reader, step, steps).lanes[0]
    assert len(lane.stalls) == stalls
    if stalls:
        assert lane.stalls[0].end - lane.stalls[0].start == pytest.approx(gap)


def test_the_running_width_is_a_step_function_of_time() -> None:
    widths = folded(burst()).widths
    at = [START + second for second in (0.2, 1.0, 6.8, 8.0, 12.0, 14.2)]
    assert widths.at(at) == [0, 3, 2, 3, 4, 3]
    assert widths.peak(START) == 4
    plain = WidthHistory([WidthSample(0, 2), WidthSample(4, 0), WidthSample(6, 4)])
    assert plain.mean(0, 8) == pytest.approx((2 * 4 + 4 * 2) / 6)
    assert plain.mean(3, 7) == pytest.approx((2 * 1 + 4 * 1) / 2)
    assert WidthHistory().mean(0, 1) == 0


def test_the_width_returns_to_zero_with_the_last_row() -> None:
    state = folded([snapshot(), *request("a", START, 30, START + 3)])
    assert state.widths.at([START + 2.995, START + 3.1]) == [1, 0]


def test_slots_and_queue_come_from_the_events() -> None:
    state = folded(burst())
    assert [lane and lane.number for lane in state.occupancy] == [None, None, 3, 4, 5] + [None] * 3
    assert [lane.number for lane in state.queue] == [6]


def test_a_snapshot_restores_what_the_events_had_told() -> None:
    told = folded(burst())
    restored = folded([told.engine.snapshot(NOW, 0.0)])
    assert [lane.request for lane in restored.lanes] == [lane.request for lane in told.lanes]
    assert restored.aggregate(NOW) == told.aggregate(NOW)
    times = [START + second / 2 for second in range(1, 29)]
    assert restored.widths.at(times) == told.widths.at(times)


def test_a_reconnect_keeps_names_and_the_stalls_seen_before() -> None:
    state = folded(burst())
    before = [(lane.number, lane.stalls) for lane in state.lanes]
    state.apply(state.engine.snapshot(NOW, 0.0))
    assert [(lane.number, lane.stalls) for lane in state.lanes] == before
    assert len(state.notices) == 1


def test_another_process_behind_the_socket_is_called_a_restart() -> None:
    state = folded(burst())
    other = LiveState()
    other.engine.pid = 1
    state.apply(other.engine.snapshot(NOW, 0.0))
    assert str(state.notices[0]) == "the engine was restarted"
    assert (state.lanes, state.aggregate(NOW), state.active) == ([], None, False)


def test_memory_is_bounded_and_forgotten_requests_still_count() -> None:
    state = folded([snapshot(), *request("long", START)])
    for n in range(300):
        for event in request(f"q{n}", START + n, 10, START + n + 1):
            state.apply(event)
    assert len(state.lanes) == FINISHED_KEPT + 1
    total = state.aggregate(START + 300)
    assert total is not None
    assert total.tokens == 3000
    assert state.burst is not None
    assert state.burst.requests == 301
    widths = WidthHistory()
    for second in range(2 * WIDTH_SECONDS):
        widths.record(second, second % 7)
    assert len(widths.samples) <= WIDTH_SECONDS + 2
    assert widths.at([2 * WIDTH_SECONDS]) == [(2 * WIDTH_SECONDS - 1) % 7]


def test_the_count_at_the_end_corrects_the_count_on_the_way() -> None:
    state = folded([snapshot(), *request("a", START)])
    state.apply(Step(START + 1, "decode", 1, {"a": 7}, 10.0))
    state.apply(Finished(START + 2, "a", FinishReason.STOP, 8, 2.0))
    total = state.aggregate(START + 9)
    assert total is not None
    assert (total.tokens, total.seconds) == (8, pytest.approx(1.0))


def test_events_about_unknown_requests_change_nothing() -> None:
    state = folded([snapshot()])
    state.apply(Step(START, "decode", 1, {"ghost": 5}, 10.0))
    state.apply(Finished(START, "ghost", FinishReason.STOP, 5, 1.0))
    state.apply(FirstToken(START, "ghost"))
    assert (state.lanes, state.aggregate(START)) == ([], None)


def test_notices_are_the_latest_first_and_one_cause_is_one_line() -> None:
    state = folded([snapshot(), *request("a", START), *request("b", START), *request("c", START)])
    for n in range(2):
        state.apply(EngineWarning(START + n, "memory", f"warning {n}"))
    state.apply(Waiting(START + 5, "c", "kv budget"))
    for id in ("a", "b"):
        state.apply(Finished(START + 6, id, FinishReason.ERROR, 0, 1.0, "worker died"))
    lines = [str(notice) for notice in state.notices]
    assert lines == ["r1 r2 failed: worker died", "r3 waits: kv budget", "warning 1", "warning 0"]


def test_what_is_said_of_requests_goes_with_their_burst() -> None:
    state = folded([snapshot(), *request("a", START)])
    state.apply(EngineWarning(START, "memory", "little memory"))
    state.apply(Finished(START + 6, "a", FinishReason.ERROR, 0, 1.0, "too long"))
    assert [str(notice) for notice in state.notices] == ["r1 failed: too long", "little memory"]
    for event in request("b", START + 9):
        state.apply(event)
    assert [str(notice) for notice in state.notices] == ["little memory"]


def test_a_server_that_is_stopped_ends_requests_and_fails_none() -> None:
    state = LiveState()
    why = "the engine is stopping"
    for event in [
        snapshot(),
        Queued(START, "a", "a", 1, 1, 1),
        Finished(START + 1, "a", FinishReason.CANCELLED, 0, 1.0, why),
    ]:
        state.apply(event)
    assert [str(notice) for notice in state.notices] == [f"r1 ended: {why}"]


def foreign(state: LiveState) -> list[str]:
    return [lane.label for lane in state.lanes if lane.foreign]


def test_what_nobody_claims_is_foreign_however_early_or_late_a_claim_comes() -> None:
    state = LiveState(shared=True)
    state.claim(["early"])
    for event in [
        snapshot(),
        *(e for id in ("early", "late", "other") for e in request(id, START)),
    ]:
        state.apply(event)
    assert foreign(state) == ["late", "other"]
    state.claim(["late"])
    assert foreign(state) == ["other"]
    assert state.strangers == {"other"}
    state.apply(state.engine.snapshot(NOW, 0.0))
    assert foreign(state) == ["other"]


def test_a_claim_is_forgotten_with_its_request() -> None:
    state = LiveState(shared=True)
    for n in range(3 * FINISHED_KEPT):
        state.claim([f"q{n}"])
        for event in request(f"q{n}", START + n, 10, START + n + 1):
            state.apply(event)
    assert foreign(state) == []
    state.apply(Queued(START + 500, "q0", "the same id again", 1, 1, 1))
    assert foreign(state) == ["the same id again"]


def test_where_nobody_is_told_apart_nothing_is_foreign() -> None:
    assert foreign(folded(burst())) == []


def test_the_clock_trusts_the_least_delayed_event() -> None:
    clock = EngineClock()
    assert clock.now(50.0) == 0.0
    clock.observe(snapshot(time=100.0), 10.0)
    clock.observe(FirstToken(101.0, "a"), 10.5)  # arrived half a second sooner than the snapshot
    clock.observe(FirstToken(102.0, "a"), 14.0)  # late
    assert clock.now(15.0) == pytest.approx(105.5)
    clock.observe(snapshot(time=3.0), 20.0)
    assert clock.now(21.0) == pytest.approx(4.0)
