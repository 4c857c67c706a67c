"""A recorded run of a real engine: the file alone gives the figures its clients were told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dspark_tui.batch.figures import burst_figures
from dspark_tui.batch.live import LiveState
from engine.events import Finished
from engine.proof.recording import Recorder, RecordingError, read
from engine.server.recording import recorded
from tests.engine.conftest import Harness


def test_the_file_gives_every_request_s_times_and_their_aggregate(
    start: Callable[..., Harness], tmp_path: Path
) -> None:
    harness = start(max_batch=2)
    path = tmp_path / "run.jsonl"
    with recorded(harness.engine, path):
        with harness.held():
            clients = [harness.ask(max_tokens=20 + 10 * n) for n in range(4)]
        finished = [client.wait() for client in clients]
        harness.wait_until(lambda: len(harness.of(Finished)) == 4)
    (figures,) = burst_figures(read(path).events)
    assert (figures.requests, figures.widest) == (4, 2)
    for lane, finish in zip(figures.lanes, finished, strict=True):
        assert lane.request.tokens == finish.usage.completion_tokens
        assert lane.request.reason is finish.reason
        assert lane.completion_time == pytest.approx(finish.timings.finished)
        assert lane.ttft == pytest.approx(finish.timings.first_token)
        assert lane.waited(0.0) == pytest.approx(finish.timings.admitted)
    tokens = sum(finish.usage.completion_tokens for finish in finished)
    last = max(lane.request.last_token or 0.0 for lane in figures.lanes)
    assert figures.aggregate is not None
    assert figures.aggregate.rate == pytest.approx(tokens / (last - figures.start))


def test_folding_the_file_is_folding_the_live_events(harness: Harness, tmp_path: Path) -> None:
    live = LiveState()
    before = harness.engine.snapshot()
    clients = [harness.ask(max_tokens=40, temperature=0.8, seed=n) for n in range(3)]
    for client in clients:
        client.wait()
    harness.wait_until(lambda: len(harness.of(Finished)) == 3)
    path = tmp_path / "run.jsonl"
    with Recorder(path) as recorder:
        for event in (before, *harness.events):
            live.apply(event)
            recorder.write(event)
    again = LiveState()
    for event in read(path).events:
        again.apply(event)
    assert again.lanes == live.lanes
    assert again.aggregate(0.0) == live.aggregate(0.0)
    assert again.widths.samples == live.widths.samples
    assert again.engine == live.engine


def test_without_a_file_nothing_is_recorded(harness: Harness, tmp_path: Path) -> None:
    with recorded(harness.engine, None):
        harness.ask(max_tokens=2).wait()
    with pytest.raises(RecordingError), recorded(harness.engine, tmp_path):
        pytest.fail("a folder is no file")
